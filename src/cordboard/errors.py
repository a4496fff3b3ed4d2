"""Every error that Cordboard raises on purpose, in one tree.

Each error says what happened in words an operator can act on. Code outside a task border catches
the narrowest class it can handle; a message never contains a secret.

    CordboardError
    ├── ConfigError            the file cannot be used (fatal at start; a reload keeps the old one)
    ├── EditRefused            an edit of the configuration's text is impossible
    ├── PublishRefused         the configuration's file cannot be written
    ├── DraftRefused           a draft of the configuration cannot be saved
    ├── VersionsUnusable       versions of the configuration cannot be kept or read
    ├── StoredSecretsUnusable  stored secrets cannot be written or read
    ├── ModelError             an offline model is missing, altered or will not load
    ├── ListenError            a port of ours cannot be opened, usually because it is in use
    ├── AudioFileError         a sound file cannot be read
    ├── MediaError             audio cannot flow
    ├── LineError              the telephone line refused an operation
    │   ├── LineGone           the caller's channel no longer exists
    │   ├── LineUnsupported    this kind of line cannot do that (a bare AudioSocket cannot transfer)
    │   └── TransferFailed     the transfer did not happen; the call continues
    │       └── PartyUnreachable   the other party's phone is not connected
    ├── AsteriskError          ARI cannot be reached or answered with an error
    ├── ToolError              a tool could not do its work; its text is fit to be spoken
    │   ├── ToolTimeout
    │   └── Unplaceable        an argument is not allowed at its place in a request's template
    ├── HttpError              a web service cannot be reached, or its answer not be used
    │   ├── HttpUnavailable    it is down, or cannot be reached
    │   ├── HttpTimeout        it did not answer in time
    │   └── HttpAddressRefused it is, or redirects us, where no request may go
    ├── SchemaRefused          a tool's parameter schema cannot be used; it is not offered
    ├── McpError               an MCP server cannot be reached, started or understood
    │   ├── McpCommandMissing  the server's program does not exist; retrying is useless
    │   ├── McpUnavailable     the server is down, or went down during the call
    │   ├── McpTimeout         the server is alive but did not answer in time
    │   ├── McpRefused         the server answered the request with an error of the protocol
    │   ├── McpLoginFailed     a remote server or its token endpoint does not accept us
    │   └── McpAddressRefused  a remote server is, or redirects us, where no request may go
    ├── AgentError             an agent cannot start or continue
    │   ├── RecogniserError    the recogniser failed for technical reasons
    │   ├── VoiceError         the voice could not speak
    │   └── BrainError         the brain gave no answer
    ├── ChatRefused            a written conversation cannot begin or continue
    ├── EngineUnreachable      a command found no running engine to talk to
    ├── EngineRefused          the running engine answered a command with an error
    ├── HistoryError           the history of calls cannot be read, or a query of it is wrong
    │   ├── IndexUnavailable   the index cannot be read or written now
    │   │   └── IndexDamaged   it must be made anew from the ledgers
    │   ├── ErasureIncomplete  an erasure left something, or could not look at some calls
    │   └── KeyUnusable        an encrypted call cannot be decrypted (also an `OSError`)
    │       └── KeyMissing     its key is not there: it was erased, or its folder is another one
    ├── NotThere               there is nothing with the requested name
    ├── AccountRefused         an act on accounts is impossible: a taken name, a weak password
    ├── RequestRefused         a request to the admin port is refused, with a status and a code
    ├── StoreUnavailable       a database or file of the admin port cannot be read or written
    ├── ExtraMissing           a requested feature needs an extra that is not installed
    ├── ClusterError           the cluster's bus, or a message on it, cannot be used
    │   ├── BusAway            it does not answer; whether it has stored a message is unknown
    │   ├── RevisionLost       an entry is not as it was when the writer read it
    │   └── WireUnreadable     a message is not of a version or form that this engine reads
    └── KitError               the test kit (`cordboard_testkit`) cannot do its part
        ├── AsteriskMissing    no Asterisk on this machine to test with
        ├── CallRefused        the far side did not take the call
        ├── CallOver           the call ended before an expected event
        └── MalformedPacket    SIP, SDP or RTP that does not parse
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


class CordboardError(Exception):
    """The root of the tree."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem in a configuration file."""

    message: str
    """The problem, and what was expected."""
    key: str = ""
    """The dotted key, e.g. `contexts.demo.provider`; empty for a problem of the whole file."""
    file: str = ""
    line: int | None = None
    """1-based line in `file`, if the place is known."""
    fatal: bool = True
    """False: the engine can run without that part, and `/ready` says so."""
    column: int | None = None
    """1-based column, if the place is known."""
    end_line: int | None = None
    end_column: int | None = None
    """Column behind the last character to mark, in `end_line`."""
    from_outside: bool = field(default=False, compare=False)
    """True if the value is from the environment or another file. Secrets are masked in the message,
    but it may quote a part of one."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part)

    def labelled(self) -> str:
        """Return the problem as text, marked as a warning if it is not fatal."""
        return str(self) if self.fatal else f"warning: {self}"


class ConfigError(CordboardError):
    """The configuration cannot be used. `problems` lists every place at once; those of names and of
    sections that do not fit together only if they were `checked`, because the rest could be read.
    """

    def __init__(self, problems: list[ConfigProblem], *, checked: bool = False) -> None:
        self.problems = problems
        self.checked = checked
        super().__init__("\n".join(problem.labelled() for problem in problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """Have copies and pickles keep the problems."""
        return type(self), (self.problems,), {"checked": self.checked}


class NeedsPublish(ConfigError):
    """A draft differs in what only someone who may publish may try."""


class EditRefused(CordboardError):
    """An edit of the configuration's text is impossible; the text has not changed."""


class PublishRefused(CordboardError):
    """The configuration's file cannot be written; it is unchanged."""


class DraftRefused(CordboardError):
    """A draft of the configuration cannot be saved: its id, its size, or the number of drafts."""


class VersionsUnusable(CordboardError):
    """Versions of the configuration cannot be kept or read."""


class StoredSecretsUnusable(CordboardError):
    """Stored secrets cannot be written or read."""


class ModelError(CordboardError):
    """An offline model is missing, does not match its hash or will not load."""


class ListenError(CordboardError):
    """A port that clients connect to cannot be opened."""


class AudioFileError(CordboardError):
    """A sound file is missing or is not 16 bit PCM WAV."""


class MediaError(CordboardError):
    """Audio cannot flow: the media connection never came, broke, or speaks a wrong format."""


class LineError(CordboardError):
    """The telephone line refused an operation."""


class LineGone(LineError):
    """The caller's channel no longer exists."""


class CallerStays(LineError):
    """The engine that was about to hand a call over keeps it: the caller has not been moved."""


class CallerEngaged(LineError):
    """The caller talks with another person, and must not be taken from them."""


class LineUnsupported(LineError):
    """This kind of line does not support the requested operation."""


class TransferFailed(LineError):
    """The transfer did not happen; the caller is still with the agent."""


class CallerNotVerified(TransferFailed):
    """The destination needs a proof of who the caller is, and they gave none. `by_operator`: a
    person would have to confirm them."""

    def __init__(self, message: str, *, by_operator: bool) -> None:
        self.by_operator = by_operator
        super().__init__(message)


class PartyUnreachable(TransferFailed):
    """The other party's phone is not connected."""


class AsteriskError(CordboardError):
    """ARI cannot be reached, or answered with an error. `status` is the HTTP status, 0 if none."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class ToolError(CordboardError):
    """A tool could not do its work. The text is short and fit to be spoken to the caller."""


class ToolTimeout(ToolError):
    """A tool did not answer within its timeout."""


class Unplaceable(ToolError):
    """An argument is not allowed at its place in the template of a request."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        """For the log and the model; it does not repeat the value."""
        super().__init__("Sorry, that is not possible.")


class HttpError(CordboardError):
    """A web service cannot be reached, or its answer cannot be used. The text follows "it ..."."""


class HttpUnavailable(HttpError):
    """The service is down, or cannot be reached."""


class HttpTimeout(HttpError):
    """The service did not answer in time."""


class HttpAddressRefused(HttpError):
    """The service is, or redirects us, where our requests must not go."""


class SchemaRefused(CordboardError):
    """A tool's parameter schema cannot or must not be used, so the tool is not offered."""


class ProviderBusy(CordboardError):
    """A check or sample of a provider cannot begin now; it may later."""


class TrialRefused(CordboardError):
    """A tool is not tried: it has other effects than the operator has agreed to."""


class ToolExampleRefused(CordboardError):
    """An example of a tool's arguments cannot be saved; nothing has changed."""


class LockChanged(CordboardError):
    """The accepted tools of a server are no longer those that the acceptance is based on."""


class McpError(CordboardError):
    """An MCP server cannot be reached, started or understood."""


class McpCommandMissing(McpError):
    """A server's program or working directory does not exist; retrying is useless."""


class McpUnavailable(McpError):
    """The server is down, or went down while it was working on the call."""


class McpTimeout(McpError):
    """The server is alive but did not answer in time."""


class McpRefused(McpError):
    """The server answered the request with a JSON-RPC error; the text has its code and words."""


class McpLoginFailed(McpError):
    """A remote server, or its token endpoint, does not accept our credentials."""


class McpAddressRefused(McpError):
    """A remote server is, or redirects us, where our requests must not go."""


FailureKind: TypeAlias = Literal[
    "connect", "auth", "quota", "refused", "dropped", "stalled", "garbage", "internal"
]
"""Reasons why an agent, or a part of one, cannot continue:

- `connect`: it cannot be reached
- `auth`: it does not accept the key
- `quota`: the account is used up, or the service is too busy
- `refused`: it does not accept its settings (a model, a voice, a tool)
- `dropped`: the connection broke and could not be restored
- `stalled`: it fell silent
- `garbage`: its answers cannot be understood
- `internal`: our own fault
"""


class AgentError(CordboardError):
    """An agent cannot start or continue."""

    def __init__(self, message: str, kind: FailureKind = "internal") -> None:
        super().__init__(message)
        self.kind: FailureKind = kind


class ChatRefused(CordboardError):
    """A written conversation cannot begin, or cannot accept a message now.

    `reason` is one of off, stopping, not_ready, unknown_context, unknown_model, unknown_session,
    bad_variable, busy, full, too_long.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class OutboundRefused(CordboardError):
    """An outbound call is not placed. `reason` is `off`, `unknown_context`, `bad_request`,
    `not_allowed`, `not_now` (hours or caps of the firewall), `do_not_call`, `busy`, `no_line`,
    `no_list` (the do-not-call list cannot be read) or `no_store` (the call cannot be written).
    `of_number`: it concerns this number alone, and other numbers may be called now."""

    def __init__(self, reason: str, text: str, *, of_number: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.of_number = of_number


class CampaignRefused(CordboardError):
    """An act on a campaign is not possible; the text says why. `field` names the part of the order
    that is wrong, as the admin port calls it (`name`, `csv`, ...); else it is empty."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


class EngineUnreachable(CordboardError):
    """No running engine answers at the configured address."""


class EngineRefused(CordboardError):
    """The running engine refused a command. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class HistoryError(CordboardError):
    """The history of calls cannot be read or written, or a query of it is wrong."""


class IndexUnavailable(HistoryError):
    """The index of calls cannot be read or written now."""


class IndexDamaged(IndexUnavailable):
    """The index of calls is damaged; it can be made anew from the ledgers."""


class ErasureIncomplete(HistoryError):
    """Not all that an erasure is about was erased, or looked at; the text says what is missing."""


class KeyUnusable(HistoryError, OSError):
    """A call is encrypted, and its key was erased or cannot be decrypted (`privacy.encryption`).

    An `OSError`, too: what cannot be decrypted is as unreadable as a bad disk.
    """


class KeyMissing(KeyUnusable):
    """The key of a call is not there: it was erased, or its folder is not the right one."""


class NotThere(CordboardError):
    """There is nothing with the requested name."""


class AccountRefused(CordboardError):
    """An act on users, sessions or keys is not possible; the text says why."""


class RequestRefused(CordboardError):
    """A request to the admin port is refused. `code` is a stable word for programs, `headers` are
    those of the answer, `at` the places of the faults in a request or configuration, `more` further
    fields of the answer's `error`."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        at: Sequence[Mapping[str, object]] = (),
        more: Mapping[str, object] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.more = dict(more or {})
        self.headers = dict(headers or {})
        self.at = tuple(at)
        super().__init__(message)


class StoreUnavailable(CordboardError):
    """The accounts or the audit cannot be read or written, for example because the disk is full."""


class ExtraMissing(CordboardError):
    """A requested feature needs an extra that is not installed."""


class ClusterError(CordboardError):
    """The bus of the cluster, or a message on it, cannot be used."""


class BusAway(ClusterError):
    """The bus does not answer. It may have stored what was sent: read before sending again."""


class NodeGone(ClusterError):
    """Another engine of the cluster does not answer, or no longer."""


class RevisionLost(ClusterError):
    """An entry on the bus is not as it was when the writer read it; nothing was written."""


class WireUnreadable(ClusterError):
    """A message on the bus is not of a version or form that this engine reads."""


class WireTooNew(WireUnreadable):
    """A message of a cluster has a later version than this engine reads."""


class KitError(CordboardError):
    """The test kit cannot do its part."""


class AsteriskMissing(KitError):
    """There is no Asterisk on this machine to test with."""


class CallRefused(KitError):
    """The far side did not accept the call. `status` is the SIP status, 0 if none came."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class CallOver(KitError):
    """The call ended before an expected event."""


class MalformedPacket(KitError):
    """SIP, SDP or RTP that does not parse."""


class RecogniserError(AgentError):
    """Speech recognition failed on an utterance."""


class VoiceError(AgentError):
    """Speech synthesis failed on a sentence."""


class BrainError(AgentError):
    """The text side of a pipeline, for example a language model, gave no answer."""
