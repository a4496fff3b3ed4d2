"""Every error that Cordboard raises on purpose, in one tree.

Each says what happened in words an operator can act on. Code outside a task border catches the
narrowest class it can answer; a message never contains a secret.

    CordboardError
    ├── ConfigError            the file cannot be used (fatal at start; a reload keeps the old one)
    ├── ModelError             an offline model is missing, altered or will not load
    ├── ListenError            a port of ours cannot be opened, usually because it is in use
    ├── AudioFileError         a sound file cannot be read
    ├── MediaError             audio cannot flow
    ├── LineError              the telephone line refused an operation
    │   ├── LineGone           the caller's channel no longer exists
    │   ├── LineUnsupported    this kind of line cannot do that (a bare AudioSocket cannot transfer)
    │   └── TransferFailed     the transfer did not happen; the call goes on
    ├── AsteriskError          ARI cannot be reached or answered with an error
    ├── ToolError              a tool could not do its work; its text is fit to be spoken
    │   ├── ToolTimeout
    │   └── Unplaceable        an argument cannot stand where a request's template has it
    ├── HttpError              a web service cannot be reached, or its answer not be used
    │   ├── HttpUnavailable    it is down, or cannot be reached
    │   ├── HttpTimeout        it did not answer in time
    │   └── HttpAddressRefused it is, or sends us, where no request may go
    ├── SchemaRefused          a tool's parameter schema cannot be used; it is not offered
    ├── McpError               an MCP server cannot be reached, started or understood
    │   ├── McpCommandMissing  the server's program does not exist; trying again is no use
    │   ├── McpUnavailable     the server is down, or went down during the call
    │   ├── McpTimeout         the server is alive but did not answer in time
    │   ├── McpLoginFailed     a remote server or its token endpoint does not accept us
    │   └── McpAddressRefused  a remote server is, or sends us, where nothing must be sent
    ├── AgentError             an agent cannot start or go on
    │   ├── RecogniserError    it did not understand for technical reasons
    │   ├── VoiceError         it could not speak
    │   └── BrainError         it could not think
    ├── ChatRefused            a conversation in writing cannot begin, or not go on like that
    ├── EngineUnreachable      a command found no running engine to talk to
    ├── EngineRefused          the running engine answered a command with an error
    ├── NotThere               something was asked for by a name that nothing has
    ├── ExtraMissing           what was asked for needs an extra that is not installed
    └── KitError               the test kit (`cordboard_testkit`) cannot do its part
        ├── AsteriskMissing    no Asterisk on this machine to test with
        ├── CallRefused        the far side did not take the call
        ├── CallOver           the call ended while something was still expected of it
        └── MalformedPacket    SIP, SDP or RTP that does not parse
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


class CordboardError(Exception):
    """The root of the tree."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong in a configuration file."""

    message: str
    """What is wrong, and what was expected."""
    key: str = ""
    """The dotted key, e.g. `contexts.demo.provider`; empty when the file as a whole is meant."""
    file: str = ""
    line: int | None = None
    """1-based line in `file`, when the place is known."""
    fatal: bool = True
    """False: the engine can run without that part, and `/ready` says so."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part)

    def labelled(self) -> str:
        """The same, told apart from what keeps the engine from running."""
        return str(self) if self.fatal else f"warning: {self}"


class ConfigError(CordboardError):
    """The configuration cannot be used. `problems` lists every place at once."""

    def __init__(self, problems: list[ConfigProblem]) -> None:
        self.problems = problems
        super().__init__("\n".join(problem.labelled() for problem in problems))


class ModelError(CordboardError):
    """An offline model is missing, does not match its hash or will not load."""


class ListenError(CordboardError):
    """A port that others connect to cannot be opened."""


class AudioFileError(CordboardError):
    """A sound file is missing or is not 16 bit PCM WAV."""


class MediaError(CordboardError):
    """Audio cannot flow: the media connection never came, broke, or speaks a wrong format."""


class LineError(CordboardError):
    """The telephone line refused an operation."""


class LineGone(LineError):
    """The caller's channel no longer exists."""


class LineUnsupported(LineError):
    """This kind of line cannot do what was asked."""


class TransferFailed(LineError):
    """The transfer did not happen; the caller is still with the agent."""


class AsteriskError(CordboardError):
    """ARI cannot be reached, or answered with an error. `status` is the HTTP status, 0 if none."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class ToolError(CordboardError):
    """A tool could not do its work. The text is short and fit to be spoken to the caller."""


class ToolTimeout(ToolError):
    """A tool did not answer within its time."""


class Unplaceable(ToolError):
    """An argument that cannot stand where the template of a request has it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        """For the log and the model; it repeats no value."""
        super().__init__("Sorry, that is not possible.")


class HttpError(CordboardError):
    """A web service cannot be reached, or its answer cannot be used. The text follows "it ..."."""


class HttpUnavailable(HttpError):
    """The service is down, or cannot be reached."""


class HttpTimeout(HttpError):
    """The service did not answer in time."""


class HttpAddressRefused(HttpError):
    """The service is, or sends us, where our requests must not go."""


class SchemaRefused(CordboardError):
    """A tool's parameter schema cannot or must not be used, so the tool is not offered."""


class McpError(CordboardError):
    """An MCP server cannot be reached, started or understood."""


class McpCommandMissing(McpError):
    """A server's program or working directory does not exist; trying again is no use."""


class McpUnavailable(McpError):
    """The server is down, or went down while it was working on the call."""


class McpTimeout(McpError):
    """The server is alive but did not answer in time."""


class McpLoginFailed(McpError):
    """A remote server, or its token endpoint, does not accept our credentials."""


class McpAddressRefused(McpError):
    """A remote server is, or sends us, where our requests must not go."""


FailureKind: TypeAlias = Literal[
    "connect", "auth", "quota", "refused", "dropped", "stalled", "garbage", "internal"
]
"""Why an agent, or a part of one, cannot go on: it cannot be reached; it does not accept the key;
the account is used up or the service too busy; it does not accept what it is told (a model, a
voice, a tool); the connection broke and could not be mended; it fell silent; what it says makes no
sense; our own fault."""


class AgentError(CordboardError):
    """An agent cannot start or go on."""

    def __init__(self, message: str, kind: FailureKind = "internal") -> None:
        super().__init__(message)
        self.kind: FailureKind = kind


class ChatRefused(CordboardError):
    """A conversation in writing cannot begin, or cannot take a message now.

    `reason` is one of off, stopping, not_ready, unknown_context, unknown_session, bad_variable,
    busy, full, too_long.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class EngineUnreachable(CordboardError):
    """No running engine answers where the configuration says."""


class EngineRefused(CordboardError):
    """The running engine did not do what a command asked. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class NotThere(CordboardError):
    """Something was asked for by a name that nothing has."""


class ExtraMissing(CordboardError):
    """What was asked for needs an extra that is not installed."""


class KitError(CordboardError):
    """The test kit cannot do its part."""


class AsteriskMissing(KitError):
    """There is no Asterisk on this machine to test with."""


class CallRefused(KitError):
    """The far side did not take the call. `status` is the SIP status, 0 if none came."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class CallOver(KitError):
    """The call ended while something was still expected of it."""


class MalformedPacket(KitError):
    """SIP, SDP or RTP that does not parse."""


class RecogniserError(AgentError):
    """Speech recognition failed on an utterance."""


class VoiceError(AgentError):
    """Speech synthesis failed on a sentence."""


class BrainError(AgentError):
    """The text side of a pipeline, a language model say, gave no answer."""
