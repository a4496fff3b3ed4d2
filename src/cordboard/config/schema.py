"""What `ai-agent.yaml` may say. The configuration reference in the docs is generated from here.

Every key has a sensible default, so that a file with one context runs offline. Unknown keys are
refused. Times are integers in ms and end in `_ms`. Reading and error messages: `config.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from cordboard.config.conversation import KEY_OR_NONE, BargeIn, Recording, Silence, TurnTaking
from cordboard.config.rules import Rules, Template
from cordboard.config.section import Section

_NAME = r"^[a-z][a-z0-9_-]{0,62}$"
_SERVER_ID = r"^[a-z][a-z0-9_]{0,40}$"
_TOOL_NAME = r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$"
_VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,79}$"
_URL = r"^https?://[^\s/@?#]+(/[^\s?#]*)?$"
_APP = r"^[A-Za-z0-9_.-]+$"
_EXTENSION = r"^[A-Za-z0-9_*#+.-]{1,79}$"
_DIALPLAN_CONTEXT = r"^[A-Za-z0-9_.-]{1,79}$"

PATTERNS_IN_WORDS = {
    _NAME: "a name (lower-case letters, digits, - and _, a letter first, at most 63)",
    _SERVER_ID: "an identifier (lower-case letters, digits and _, a letter first, at most 41)",
    _TOOL_NAME: "a tool name (letters, digits and _, no digit first, at most 64)",
    _VARIABLE_NAME: "a variable name (letters, digits and _, no digit first, at most 80)",
    _URL: "a URL such as http://127.0.0.1:8088, without user, password or query",
    _APP: "an application name (letters, digits, and . - _)",
    _EXTENSION: "an extension or queue (letters, digits, and * # + . - _, at most 79)",
    KEY_OR_NONE: "a key (0 to 9, * or #) or nothing",
    _DIALPLAN_CONTEXT: "a dialplan context (letters, digits, and . - _, at most 79)",
}
"""How error messages and the reference say what a pattern means."""

Name = Annotated[str, Field(pattern=_NAME)]
"""A name that operators choose: context, provider, destination."""
ServerId = Annotated[str, Field(pattern=_SERVER_ID)]
"""An MCP server's id; part of the exposed tool names, hence no hyphen."""
ToolName = Annotated[str, Field(pattern=_TOOL_NAME)]
"""An exposed tool name, safe for every provider."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP port; 0 lets the system choose one."""
VariableName = Annotated[str, Field(pattern=_VARIABLE_NAME)]


class Health(Section):
    """The HTTP port of the engine: /live, /ready, /health, /metrics."""

    host: str = Field("127.0.0.1", description="Address to bind to.")
    port: Port = Field(15000, description="TCP port; 0 = any free one.")


class Asterisk(Section):
    """How to control Asterisk through ARI. Left out: no ARI."""

    url: str = Field(
        "http://127.0.0.1:8088",
        pattern=_URL,
        description="Base URL of Asterisk's HTTP server, without /ari.",
    )
    username: str = Field("cordboard", description="ARI user (ari.conf).")
    password: SecretStr = Field(description='ARI password, usually "${ASTERISK_ARI_PASSWORD}".')
    app: str = Field("cordboard", pattern=_APP, description="Stasis application name.")
    media: Literal["websocket", "audiosocket", "rtp"] = Field(
        "audiosocket", description="Transport of the audio."
    )
    codec: Literal["auto", "ulaw", "alaw", "slin", "slin16", "g722"] = Field(
        "auto",
        description="Coding of the audio between Asterisk and the engine. `auto`: what the agent "
        "likes best among what the transport can carry (`websocket`: ulaw, alaw, slin, slin16; "
        "`audiosocket`: slin, slin16; `rtp`: ulaw, alaw, slin, g722).",
    )
    reconnect_max_ms: int = Field(
        10_000, ge=100, description="Longest pause between attempts to reach a lost Asterisk."
    )


class AudioSocket(Section):
    """The TCP port to which Asterisk connects with the sound of a call."""

    host: str = Field("127.0.0.1", description="Address to bind to.")
    port: Port = Field(8090, description="TCP port; 0 = any free one.")
    advertise_host: str = Field(
        "127.0.0.1", description="Address that Asterisk is told to connect to."
    )
    context: Name | None = Field(
        None,
        description="Context of calls that come by the bare AudioSocket() application. "
        "Default: `default_context`.",
    )
    connect_timeout_ms: int = Field(
        5_000, ge=100, description="How long to wait for Asterisk's media connection."
    )


class Rtp(Section):
    """The UDP ports to which Asterisk sends the sound of a call, with `asterisk.media: rtp`."""

    host: str = Field("127.0.0.1", description="Address to bind to.")
    advertise_host: str = Field(
        "127.0.0.1", description="Address that Asterisk is told to send to."
    )
    first_port: Port = Field(0, description="First port of the range; 0 = any free ports.")
    last_port: Port = Field(0, description="Last port of the range.")

    @model_validator(mode="after")
    def _a_range(self) -> Rtp:
        if (self.first_port == 0) != (self.last_port == 0) or self.last_port < self.first_port:
            raise ValueError("first_port and last_port make a range, or both are 0")
        return self


class PipelineProvider(Section):
    """An agent made of a recogniser, a brain and a voice."""

    type: Literal["pipeline"] = Field(description="The kind of provider.")
    stt: Literal["whisper"] = Field("whisper", description="Recogniser.")
    brain: Literal["rules"] = Field("rules", description="Text side.")
    tts: Literal["hibari"] = Field("hibari", description="Voice.")


Provider = PipelineProvider
"""Becomes a union discriminated by `type` as providers are added."""


class Context(Section):
    """A persona: who answers, and what it may do."""

    prompt: str = Field("", description="System prompt; may use {call variables}.")
    greeting: str = Field("", description="What is said first; may use {call variables}.")
    provider: Name | None = Field(
        None, description="Name under `providers`. Default: `default_provider`."
    )
    tools: tuple[ToolName, ...] = Field(
        (), description="Exposed names of the tools that may be seen and run."
    )
    variables: tuple[VariableName, ...] = Field(
        (), description="Channel variables that prompt, greeting and tools may use."
    )
    rules: Rules | None = Field(None, description="The dialogue of brain `rules`.")
    turn_taking: TurnTaking = Field(
        TurnTaking(), description="When the caller's turn is taken to be over."
    )
    barge_in: BargeIn = Field(
        "on",
        description="Whether the caller may interrupt the agent: `on`, `off`, or "
        "`greeting_protected` (not in the greeting).",
    )
    silence: Silence = Field(Silence(), description="What is said when nobody speaks.")
    recording: Recording = Field(Recording(), description="Whether the sound of calls is kept.")
    max_duration_ms: int = Field(
        3_600_000, ge=1_000, description="A call is ended politely after this time."
    )

    @field_validator("barge_in", mode="before")
    @classmethod
    def _yes_and_no(cls, value: object) -> object:
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _rules_fill_their_placeholders(self) -> Context:
        if self.rules is not None:
            self.rules.check_placeholders(self.variables)
        return self


class TransferDestination(Section):
    """One place to which the agent may pass the caller on."""

    type: Literal["extension", "queue", "dialplan"] = Field(
        "extension", description="What `target` names."
    )
    target: str = Field(pattern=_EXTENSION, description="Extension or queue.")
    context: str = Field("default", pattern=_DIALPLAN_CONTEXT, description="Dialplan context.")
    priority: int = Field(1, ge=1, description="Dialplan priority.")
    description: str = Field("", description="What the agent is told about it.")


class TransferTool(Section):
    """The built-in `transfer`."""

    destinations: dict[Name, TransferDestination] = Field(
        default_factory=dict, description="The only places a call can be transferred to."
    )


class Tools(Section):
    """Settings of the built-in tools."""

    transfer: TransferTool = Field(TransferTool(), description="The built-in `transfer`.")


class McpRestart(Section):
    """What happens when an MCP server dies."""

    enabled: bool = Field(True, description="Whether to start it again.")
    max_restarts: int = Field(5, ge=0, description="Restarts before the server stays down.")
    backoff_ms: int = Field(1_000, ge=10, description="First pause; doubles with each failure.")


class McpDefaults(Section):
    """Rules for every tool of a server, unless the tool says otherwise."""

    timeout_ms: int = Field(
        10_000, ge=50, le=600_000, description="How long a tool may take to answer."
    )
    slow_response_threshold_ms: int = Field(
        0, ge=0, description="After this time the caller is told to wait; 0 = never."
    )
    slow_response_message: str = Field(
        "One moment, please.", description="What the caller is told then."
    )


class McpTool(Section):
    """One tool of a server: offered at all, under which name, spoken how."""

    name: str = Field(description="The tool's name as the server gives it.")
    expose_as: ToolName | None = Field(None, description="Default: mcp_{server}_{tool}.")
    description: str | None = Field(None, description="Replaces the server's description.")
    speech_field: str | None = Field(
        None, description="The field of the result that is spoken; dots lead further in."
    )
    speech_template: Template | None = Field(
        None, description="What is spoken, with {fields} of the result."
    )
    timeout_ms: int | None = Field(
        None, ge=50, le=600_000, description="Default: the server's `defaults`."
    )
    slow_response_threshold_ms: int | None = Field(
        None, ge=0, description="Default: the server's `defaults`."
    )
    slow_response_message: str | None = Field(None, description="Default: the server's `defaults`.")


class McpServer(Section):
    """One MCP server, a supervised subprocess."""

    transport: Literal["stdio"] = Field("stdio", description="How to talk to it.")
    command: tuple[str, ...] = Field(min_length=1, description="Program and its arguments.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables it gets on top; never logged."
    )
    cwd: Path | None = Field(None, description="Working directory. Default: the engine's.")
    enabled: bool = Field(True, description="Whether to start it.")
    start_timeout_ms: int = Field(
        15_000, ge=100, description="How long it may take to list its tools."
    )
    stop_grace_ms: int = Field(
        2_000,
        ge=0,
        le=60_000,
        description="How long it may take to end: half after its input closes, half after SIGTERM.",
    )
    restart: McpRestart = Field(McpRestart(), description="What happens when it dies.")
    defaults: McpDefaults = Field(McpDefaults(), description="Rules for each of its tools.")
    tools: tuple[McpTool, ...] = Field((), description="Empty = all tools of the server.")


class Mcp(Section):
    """The MCP servers."""

    enabled: bool = Field(True, description="False: no server is started.")
    servers: dict[ServerId, McpServer] = Field(
        default_factory=dict, description="The servers by name."
    )


class Calls(Section):
    """Rules for all calls."""

    directory: Path = Field(Path("var/calls"), description="Where call ledgers are written.")
    shutdown_grace_ms: int = Field(
        10_000, ge=0, description="How long live calls may go on after SIGTERM."
    )
    max_calls: int = Field(
        100,
        ge=1,
        description="Calls at the same time. A further caller is given back to the dialplan with "
        "CORDBOARD_STATUS=busy.",
    )


class Config(Section):
    """The whole file."""

    default_context: Name | None = Field(
        None, description="Context of calls that name none. Default: the first in the file."
    )
    default_provider: Name = Field(
        "local",
        description="Provider of contexts that name none, under `providers`. "
        "Default: `local` if it is there, else the first.",
    )
    health: Health = Field(Health(), description="The HTTP port of the engine.")
    asterisk: Asterisk | None = Field(
        None, description="Control of Asterisk through ARI. Left out: no ARI."
    )
    audiosocket: AudioSocket = Field(AudioSocket(), description="The port for the sound of calls.")
    rtp: Rtp = Field(Rtp(), description="The ports for the sound of calls by RTP.")
    providers: dict[Name, Provider] = Field(
        default_factory=lambda: {"local": PipelineProvider(type="pipeline")},
        description="The agents to choose from. Default: `local`, the offline agent.",
    )
    contexts: dict[Name, Context] = Field(min_length=1, description="The personas by name.")
    routes: dict[str, Name] = Field(
        default_factory=dict, description="Dialled number → context, when no variable names one."
    )
    tools: Tools = Field(Tools(), description="Settings of the built-in tools.")
    mcp: Mcp = Field(Mcp(), description="The MCP servers.")
    calls: Calls = Field(Calls(), description="Rules for all calls.")
