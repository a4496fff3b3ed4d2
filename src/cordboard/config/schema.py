"""What `ai-agent.yaml` may say. The configuration reference in the docs is generated from here.

Every key has a sensible default, so that a file with one context runs offline. Unknown keys are
refused. Times are integers in ms and end in `_ms`. Reading and error messages: `config.load`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator

from cordboard.config.budget import Budget
from cordboard.config.call_phases import PostCallRetries, PostCallStep, PreCallStep, saved_names
from cordboard.config.chat import Chat
from cordboard.config.conversation import BargeIn, Recording, Silence, TurnTaking
from cordboard.config.mcp import Mcp
from cordboard.config.patterns import (
    APP,
    URL,
    HostName,
    Name,
    Port,
    ToolName,
    ToolOrGroup,
    VariableName,
)
from cordboard.config.peers import THIS_MACHINE, Peer, network_of
from cordboard.config.prices import Prices
from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.providers.provider import Provider
from cordboard.config.remote_url import is_loopback
from cordboard.config.rules import Rules
from cordboard.config.secrets import secrets_in
from cordboard.config.section import Section
from cordboard.config.templates import prompt_names
from cordboard.config.tools.entry import BUILTIN_TOOLS, BuiltinTool, ToolEntry, TransferDestination


class Health(Section):
    """The HTTP port of the engine: /live, /ready, /health, /metrics."""

    host: str = Field(
        "127.0.0.1",
        description="Address to bind to. Off loopback, everything but `/live` needs `admin.token`.",
    )
    port: Port = Field(15000, description="TCP port; 0 = any free one.")
    allowed_hosts: tuple[HostName, ...] = Field(
        (),
        description="Names, without port, by which requests may ask for this port in their `Host` "
        "header, such as a Kubernetes service or a proxy. IP addresses, `localhost` and `host` "
        "need no mention; any other name is refused with 421.",
    )


class Admin(Section):
    """Who may change what runs, by HTTP or the command line, and see what it does."""

    token: SecretStr | None = Field(
        None,
        description='Bearer token, usually "${CORDBOARD_TOKEN}", of requests that change something '
        "or ask for details, and off loopback of all but `/live`. "
        "Left out: such requests are refused.",
    )


class Reload(Section):
    """How a changed file comes into force while calls go on."""

    watch: bool = Field(
        True, description="Take a changed file by itself; else by `POST /reload` or SIGHUP."
    )
    mcp: Literal["idle", "live"] = Field(
        "idle",
        description="When changed MCP servers are restarted: `idle` = when no call is active; "
        "`live` = at once, beside the old ones, which serve their calls to the end.",
    )


class Tracing(Section):
    """OpenTelemetry spans of calls, turns and tool calls. Needs the extra `tracing`."""

    otlp_endpoint: str | None = Field(
        None,
        pattern=URL,
        description="Where spans are sent by OTLP over HTTP, such as http://127.0.0.1:4318 "
        "(`/v1/traces` is added). Left out: none are made.",
    )
    service_name: str = Field("cordboard", description="Name of this engine in the traces.")


MEDIA_CODECS: Mapping[str, tuple[str, ...]] = {
    "websocket": ("ulaw", "alaw", "slin", "slin16"),
    "audiosocket": ("slin", "slin16"),
    "rtp": ("ulaw", "alaw", "slin", "g722"),
}
"""What each `asterisk.media` can carry both ways, by Asterisk's names (telephony.asterisk; a test
holds the two together)."""


class Asterisk(Section):
    """How to control Asterisk through ARI. Left out: no ARI."""

    url: str = Field(
        "http://127.0.0.1:8088",
        pattern=URL,
        description="Base URL of Asterisk's HTTP server, without /ari.",
    )
    username: str = Field("cordboard", description="ARI user (ari.conf).")
    password: SecretStr = Field(description='ARI password, usually "${ASTERISK_ARI_PASSWORD}".')
    app: str = Field("cordboard", pattern=APP, description="Stasis application name.")
    media: Literal["websocket", "audiosocket", "rtp"] = Field(
        "audiosocket", description="Transport of the audio."
    )
    codec: Literal["auto", "ulaw", "alaw", "slin", "slin16", "g722"] = Field(
        "auto",
        description="Coding of the audio between Asterisk and the engine. `auto`: what the agent "
        "likes best among what the transport can carry ("
        + "; ".join(f"`{media}`: {', '.join(names)}" for media, names in MEDIA_CODECS.items())
        + ").",
    )
    reconnect_max_ms: int = Field(
        10_000, ge=100, description="Longest pause between attempts to reach a lost Asterisk."
    )

    @field_validator("url")
    @classmethod
    def _names_a_host(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            network_of(parts.hostname or "")
            parts.port  # noqa: B018 - raises
        except ValueError:  # without the URL: it may be from the environment
            raise ValueError(
                "expected a URL with an address or a host name, such as http://10.0.0.5:8088"
            ) from None
        return url


class AudioSocket(Section):
    """The TCP port to which Asterisk connects with the sound of a call. It is open only when calls
    can come by it: with `asterisk.media: audiosocket`, or with `audiosocket.context`."""

    host: str = Field("127.0.0.1", description="Address to bind to.")
    port: Port = Field(8090, description="TCP port; 0 = any free one.")
    advertise_host: str = Field(
        "127.0.0.1", description="Address that Asterisk is told to connect to."
    )
    allow_from: tuple[Peer, ...] | None = Field(
        None,
        min_length=1,
        description="Addresses, networks (10.0.0.0/24) and host names that may connect; all others "
        "are closed before a byte is read. Default: the host of `asterisk.url`, and this machine "
        "when `advertise_host` is on loopback; without `asterisk`, this machine.",
    )
    context: Name | None = Field(
        None,
        description="Context of calls that come by the bare AudioSocket() application. Left out: "
        "there are none.",
    )
    max_calls: int | None = Field(
        None,
        ge=1,
        description="How many of these calls may live at the same time. Default: a tenth of "
        "`calls.max_calls`; without `asterisk`, all of it.",
    )
    calls_per_minute: int = Field(
        60, ge=1, description="How many of these calls may begin within any 60 s."
    )
    max_minutes_per_day: float | None = Field(
        None,
        gt=0,
        description="Minutes that these calls may last together on one day, by the local date; "
        "after that no more are taken. Counted from the start of the engine. Left out: no limit.",
    )
    max_cost_per_day: float | None = Field(
        None,
        gt=0,
        description="What they may cost together on one day, in the currency of `prices`; what has "
        "no price there is not counted. Left out: no limit.",
    )
    connect_timeout_ms: int = Field(
        5_000, ge=100, description="How long to wait for Asterisk's media connection."
    )

    def peers(self, asterisk: Asterisk | None) -> tuple[str, ...]:
        """The entries of `allow_from`, or what stands for them."""
        if self.allow_from is not None:
            return self.allow_from
        if asterisk is None:
            return (THIS_MACHINE,)
        here = (THIS_MACHINE,) if is_loopback(self.advertise_host) else ()
        return (urlsplit(asterisk.url).hostname or THIS_MACHINE, *here)

    def share(self, asterisk: Asterisk | None, max_calls: int) -> int:
        """How many calls without ARI may live beside those of Asterisk."""
        if self.max_calls is not None:
            return self.max_calls
        return max_calls if asterisk is None else max(1, max_calls // 10)


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


class Context(Section):
    """A persona: who answers, and what it may do."""

    prompt: str = Field("", description="System prompt; may use {call variables}.")
    greeting: str = Field("", description="What is said first; may use {call variables}.")
    provider: Name | None = Field(
        None, description="Name under `providers`. Default: `default_provider`."
    )
    fallback: tuple[Name, ...] = Field(
        (),
        max_length=5,
        description="Providers that take over, one after the other, when the context's own cannot "
        "go on; with the conversation so far.",
    )
    fallback_phrase: str = Field(
        "One moment please.",
        description="Said when one of them takes over while the caller waits for an answer, and "
        "when nobody has greeted the caller after 4 s.",
    )
    on_failure: Name | None = Field(
        None,
        description="Where the caller is passed on when no agent is left: a destination of "
        "`tools.transfer`. Left out: they are told, and the call ends.",
    )
    budget: Budget = Field(Budget(), description="How much one call may cost, and how long it is.")
    tools: tuple[ToolOrGroup, ...] = Field(
        (),
        description="Exposed names of the tools that may be seen and run; `server.*` = all that "
        "this MCP server offers when a call begins.",
    )
    variables: tuple[VariableName, ...] = Field(
        (), description="Channel variables that prompt, greeting and tools may use."
    )
    pre_call: tuple[PreCallStep, ...] = Field(
        (),
        max_length=20,
        description="Tools that are run when a call comes in, side by side; their results may "
        "stand in prompt and greeting.",
    )
    pre_call_timeout_ms: int = Field(
        2_500,
        ge=50,
        le=30_000,
        description="How long the greeting waits for them, at most. What comes later is left out.",
    )
    post_call: tuple[PostCallStep, ...] = Field(
        (),
        max_length=20,
        description="Tools that are run when a call is over, until they have worked.",
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

    @cached_property
    def uses_pre_call(self) -> bool:
        """Whether prompt, greeting or rules have a place for a result of `pre_call`."""
        saved = saved_names(self.pre_call)
        if not saved:
            return False
        names = [*prompt_names(self.prompt, saved), *prompt_names(self.greeting, saved)]
        if any(name[0] in saved for name in names):
            return True
        try:
            if self.rules is not None:
                self.rules.check_placeholders(self.variables)
        except ValueError:  # they are right with the saved names only
            return True
        return False

    @field_validator("barge_in", mode="before")
    @classmethod
    def _yes_and_no(cls, value: object) -> object:
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _rules_fill_their_placeholders(self) -> Context:
        if self.rules is not None:
            self.rules.check_placeholders((*self.variables, *saved_names(self.pre_call)))
        return self


MOST_PATH = 1_000
"""Characters of a path: each part of it is looked at in turn."""


class Calls(Section):
    """Rules for all calls."""

    directory: Path = Field(Path("var/calls"), description="Where call ledgers are written.")
    shutdown_grace_ms: int = Field(
        10_000, ge=0, description="How long live calls may go on after SIGTERM."
    )
    post_call: PostCallRetries = Field(
        PostCallRetries(), description="How long a `post_call` step that fails is tried again."
    )
    max_calls: int = Field(
        100,
        ge=1,
        description="Calls at the same time. A further caller is given back to the dialplan with "
        "CORDBOARD_STATUS=busy.",
    )

    @field_validator("directory")
    @classmethod
    def _a_path(cls, directory: Path) -> Path:
        if "\0" in str(directory) or len(str(directory)) > MOST_PATH:
            raise ValueError(f"expected a path of at most {MOST_PATH} characters, without NUL")
        return directory


def _local_agent() -> dict[str, Provider]:
    return {"local": PipelineProvider(type="pipeline")}


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
    admin: Admin = Field(Admin(), description="Who may change what runs.")
    reload: Reload = Field(Reload(), description="How a changed file comes into force.")
    tracing: Tracing = Field(Tracing(), description="OpenTelemetry spans.")
    asterisk: Asterisk | None = Field(
        None, description="Control of Asterisk through ARI. Left out: no ARI."
    )
    audiosocket: AudioSocket = Field(AudioSocket(), description="The port for the sound of calls.")
    rtp: Rtp = Field(Rtp(), description="The ports for the sound of calls by RTP.")
    providers: dict[Name, Provider] = Field(
        default_factory=_local_agent,
        description="The agents to choose from. Default: `local`, the offline agent.",
    )
    prices: Prices = Field(Prices(), description="What services cost; empty: costs are not known.")
    contexts: dict[Name, Context] = Field(min_length=1, description="The personas by name.")
    routes: dict[str, Name] = Field(
        default_factory=dict, description="Dialled number → context, when no variable names one."
    )
    tools: dict[ToolName, ToolEntry] = Field(
        default_factory=dict, description="Tools of every kind, by their exposed names."
    )
    mcp: Mcp = Field(Mcp(), description="The MCP servers.")
    calls: Calls = Field(Calls(), description="Rules for all calls.")
    chat: Chat = Field(Chat(), description="Conversations in writing.")
    _from_environment: frozenset[str] = PrivateAttr(frozenset())

    @property
    def secrets(self) -> frozenset[str]:
        """The values that are masked in what tools answer (`cordboard.config.secrets`)."""
        return self._from_environment.union(secrets_in(self)) - {""}

    def keep_secret(self, values: Iterable[str]) -> None:
        """Mask these too: of where they came from, the configuration itself shows nothing."""
        self._from_environment = frozenset(values)

    @field_validator("tools", mode="before")
    @classmethod
    def _builtin_goes_without_saying(cls, tools: object) -> object:
        if not isinstance(tools, dict):
            return tools
        return {
            name: {"kind": "builtin"} | (entry or {})
            if name in BUILTIN_TOOLS and isinstance(entry, dict | None)
            else entry
            for name, entry in tools.items()
        }

    @property
    def destinations(self) -> Mapping[str, TransferDestination]:
        """The only places a call can be transferred to."""
        transfer = self.tools.get("transfer")
        return transfer.destinations if isinstance(transfer, BuiltinTool) else {}
