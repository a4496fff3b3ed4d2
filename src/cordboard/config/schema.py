"""What `ai-agent.yaml` may say. The configuration reference in the docs is generated from here.

Every key has a sensible default, so that a file with one context runs offline. Unknown keys are
refused. Times are integers in ms and end in `_ms`. Reading and error messages: `config.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from cordboard.config.rules import Rules

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
"""A name that operators choose: context, provider, destination."""
ServerId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
"""An MCP server's id; part of the exposed tool names, hence no hyphen."""
ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]
"""An exposed tool name, safe for every provider."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP port; 0 lets the system choose one."""
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,79}$")]


class Section(BaseModel):
    """The base of every section: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Health(Section):
    """The HTTP port of the engine: /live, /ready, /health, /metrics."""

    host: str = Field("127.0.0.1", description="Address to bind to.")
    port: Port = Field(15000, description="TCP port; 0 = any free one.")


class Asterisk(Section):
    """How to control Asterisk through ARI. Left out: no ARI."""

    url: str = Field(
        "http://127.0.0.1:8088",
        pattern=r"^https?://[^\s/]+(/[^\s]*)?$",
        description="Base URL of Asterisk's HTTP server, without /ari.",
    )
    username: str = Field("cordboard", description="ARI user (ari.conf).")
    password: SecretStr = Field(description='ARI password, usually "${ASTERISK_ARI_PASSWORD}".')
    app: str = Field(
        "cordboard", pattern=r"^[A-Za-z0-9_.-]+$", description="Stasis application name."
    )
    media: Literal["audiosocket"] = Field("audiosocket", description="Transport of the audio.")
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
        None, description="Context of calls that come by the bare AudioSocket() application."
    )
    connect_timeout_ms: int = Field(
        5_000, ge=100, description="How long to wait for Asterisk's media connection."
    )


class PipelineProvider(Section):
    """An agent made of a recogniser, a brain and a voice."""

    type: Literal["pipeline"]
    stt: Literal["whisper"] = Field("whisper", description="Recogniser.")
    brain: Literal["rules"] = Field("rules", description="Text side.")
    tts: Literal["hibari"] = Field("hibari", description="Voice.")
    endpoint_silence_ms: int = Field(
        450, ge=150, le=3_000, description="Silence after speech that ends the caller's turn."
    )
    barge_in: bool = Field(True, description="Whether the caller may interrupt the agent.")


Provider = PipelineProvider
"""Becomes a union discriminated by `type` as providers are added."""


class Context(Section):
    """A persona: who answers, and what it may do."""

    prompt: str = Field("", description="System prompt; may use call variables.")
    greeting: str = Field("", description="What is said first; may use call variables.")
    provider: Name | None = Field(None, description="Name under `providers`.")
    tools: tuple[ToolName, ...] = Field(
        (), description="Exposed names of the tools that may be seen and run."
    )
    variables: tuple[VariableName, ...] = Field(
        (), description="Channel variables that prompt, greeting and tools may use."
    )
    rules: Rules | None = Field(None, description="The dialogue of brain `rules`.")
    max_duration_ms: int = Field(
        3_600_000, ge=1_000, description="A call is ended politely after this time."
    )


class TransferDestination(Section):
    """One place to which the agent may pass the caller on."""

    type: Literal["extension", "queue", "dialplan"] = "extension"
    target: str = Field(pattern=r"^[A-Za-z0-9_*#+.-]{1,79}$", description="Extension or queue.")
    context: str = Field(
        "default", pattern=r"^[A-Za-z0-9_.-]{1,79}$", description="Dialplan context."
    )
    priority: int = Field(1, ge=1)
    description: str = Field("", description="What the agent is told about it.")


class TransferTool(Section):
    """The built-in `transfer`."""

    destinations: dict[Name, TransferDestination] = Field(default_factory=dict)


class Tools(Section):
    """Settings of the built-in tools."""

    transfer: TransferTool = TransferTool()


class McpRestart(Section):
    """What happens when an MCP server dies."""

    enabled: bool = True
    max_restarts: int = Field(5, ge=0, description="Restarts before the server stays down.")
    backoff_ms: int = Field(1_000, ge=10, description="First pause; doubles with each failure.")


class McpDefaults(Section):
    """Rules for every tool of a server, unless the tool says otherwise."""

    timeout_ms: int = Field(10_000, ge=50, le=600_000)
    slow_response_threshold_ms: int = Field(0, ge=0, description="0 = no filler.")
    slow_response_message: str = "One moment, please."


class McpTool(Section):
    """One tool of a server: offered at all, under which name, spoken how."""

    name: str = Field(description="The tool's name as the server gives it.")
    expose_as: ToolName | None = Field(None, description="Default: mcp_{server}_{tool}.")
    description: str | None = Field(None, description="Replaces the server's description.")
    speech_field: str | None = None
    speech_template: str | None = None
    timeout_ms: int | None = Field(None, ge=50, le=600_000)
    slow_response_threshold_ms: int | None = Field(None, ge=0)
    slow_response_message: str | None = None


class McpServer(Section):
    """One MCP server, a supervised subprocess."""

    transport: Literal["stdio"] = "stdio"
    command: tuple[str, ...] = Field(min_length=1, description="Program and its arguments.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment it gets on top.")
    cwd: Path | None = Field(None, description="Working directory; default: the engine's.")
    enabled: bool = True
    start_timeout_ms: int = Field(15_000, ge=100)
    restart: McpRestart = McpRestart()
    defaults: McpDefaults = McpDefaults()
    tools: tuple[McpTool, ...] = Field((), description="Empty = all tools of the server.")


class Mcp(Section):
    """The MCP servers."""

    enabled: bool = True
    servers: dict[ServerId, McpServer] = Field(default_factory=dict)


class Calls(Section):
    """Rules for all calls."""

    directory: Path = Field(Path("var/calls"), description="Where call ledgers are written.")
    shutdown_grace_ms: int = Field(
        10_000, ge=0, description="How long live calls may go on after SIGTERM."
    )


class Config(Section):
    """The whole file."""

    default_context: Name | None = Field(
        None, description="Context of calls that name none. Default: the only one, if there is one."
    )
    default_provider: Name = "local"
    health: Health = Health()
    asterisk: Asterisk | None = None
    audiosocket: AudioSocket = AudioSocket()
    providers: dict[Name, Provider] = Field(
        default_factory=lambda: {"local": PipelineProvider(type="pipeline")}
    )
    contexts: dict[Name, Context] = Field(min_length=1)
    routes: dict[str, Name] = Field(
        default_factory=dict, description="Dialled number → context, when no variable names one."
    )
    tools: Tools = Tools()
    mcp: Mcp = Mcp()
    calls: Calls = Calls()
