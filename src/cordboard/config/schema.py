"""The schema of `ai-agent.yaml`. The configuration reference in the docs is generated from here.

Every key has a sensible default, so that a file with one context runs offline. Unknown keys are
refused. Times are integers in ms and end in `_ms`. Reading and error messages: `config.load`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator

from cordboard.config.alarms import AlarmEmail, Alarms
from cordboard.config.call_phases import PostCallRetries, PostCallStep, PreCallStep, saved_names
from cordboard.config.call_variables import CALL_VARIABLES
from cordboard.config.chosen import Chosen, ChosenTransport
from cordboard.config.conversation import (
    BargeIn,
    Conference,
    Listening,
    Recording,
    Resume,
    Silence,
    TurnTaking,
)
from cordboard.config.key_menu import KeyMenu
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
    checked_path,
)
from cordboard.config.peers import THIS_MACHINE, Host, Peer, network_of
from cordboard.config.prices import Prices
from cordboard.config.providers import PipelineProvider
from cordboard.config.remote_url import is_loopback
from cordboard.config.rules import Rules
from cordboard.config.secrets import secrets_in
from cordboard.config.section import Section
from cordboard.config.sections.admin import Admin
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.firewall import Firewall
from cordboard.config.sections.outbound import Outbound
from cordboard.config.sections.parts import PartSection
from cordboard.config.sections.privacy import Privacy
from cordboard.config.templates import prompt_names
from cordboard.config.tools.entry import BUILTIN_TOOLS, BuiltinTool, ToolEntry, TransferDestination
from cordboard.config.tools.messages import CallbackSettings, MessageSettings


class Chat(Section):
    """Written conversations with the contexts (`POST /chat`); they need `admin.token`."""

    enabled: bool = Field(True, description="Whether written conversations are accepted.")
    max_sessions: int = Field(
        50, ge=1, le=10_000, description="Conversations at the same time; further ones are refused."
    )
    idle_ms: int = Field(
        900_000, ge=1_000, description="Idle time after which a conversation is ended."
    )
    max_message_chars: int = Field(
        4_000, ge=1, le=100_000, description="Characters of the longest accepted message."
    )
    turn_timeout_ms: int = Field(
        120_000,
        ge=1_000,
        description="Timeout of the answer to one message, tools included; waiting for a yes or "
        "no does not count.",
    )


class Budget(Section):
    """Limits that end a call politely, with the reason `budget`."""

    max_cost_per_call: float | None = Field(
        None,
        gt=0,
        description="In the currency of `prices`; what has no price there is not counted. Left "
        "out: no limit.",
    )
    max_minutes: float | None = Field(
        None, gt=0, le=1_440, description="Minutes a call may take. Left out: no limit."
    )
    goodbye: str = Field(
        "I am sorry, I have to end our call here. Please call again. Goodbye.",
        min_length=1,
        description="Sentence spoken before the call is ended.",
    )

    @property
    def limits(self) -> bool:
        """True if the budget has a limit."""
        return self.max_cost_per_call is not None or self.max_minutes is not None


class Health(Section):
    """The HTTP port of the engine: /live, /ready, /health, /metrics."""

    host: Host = Field(
        "127.0.0.1",
        description="Address to bind to. Off loopback, everything but `/live` needs `admin.token`.",
    )
    port: Port = Field(15000, description="TCP port; 0 = any free one.")
    allowed_hosts: tuple[HostName, ...] = Field(
        (),
        description="Names, without port, that the `Host` header of requests may have, such as a "
        "Kubernetes service or a proxy. IP addresses, `localhost` and `host` are always allowed; "
        "any other name is refused with 421.",
    )


class Reload(Section):
    """Reloading of a changed file while calls continue."""

    watch: bool = Field(
        True, description="Reload a changed file automatically; else by `POST /reload` or SIGHUP."
    )
    mcp: Literal["idle", "live"] = Field(
        "idle",
        description="Restart of changed MCP servers: `idle` = once no call is active; `live` = at "
        "once, beside the old ones, which serve their calls to the end.",
    )


class Tracing(Section):
    """OpenTelemetry spans of calls, turns and tool calls. Needs the extra `tracing`."""

    otlp_endpoint: str | None = Field(
        None,
        pattern=URL,
        description="OTLP-over-HTTP address for spans, such as http://127.0.0.1:4318 "
        "(`/v1/traces` is added). Left out: no spans are made.",
    )
    service_name: str = Field("cordboard", description="Name of this engine in the traces.")


MEDIA_CODECS: Mapping[str, tuple[str, ...]] = {
    "websocket": ("ulaw", "alaw", "slin", "slin16"),
    "audiosocket": ("slin", "slin16"),
    "rtp": ("ulaw", "alaw", "slin", "g722"),
}
"""Codecs that each `asterisk.media` can carry both ways, by Asterisk's names (telephony.asterisk; a
test holds the two together)."""


class Asterisk(Section):
    """Control of Asterisk through ARI. Left out: no ARI."""

    url: str = Field(
        "http://127.0.0.1:8088",
        pattern=URL,
        description="Base URL of Asterisk's HTTP server, without /ari.",
    )
    username: str = Field("cordboard", description="ARI user (ari.conf).")
    password: SecretStr = Field(description='ARI password, usually "${ASTERISK_ARI_PASSWORD}".')
    app: str = Field("cordboard", pattern=APP, description="Stasis application name.")
    media: Annotated[str, ChosenTransport()] = Field(
        "audiosocket", description="Transport of the audio."
    )
    codec: Literal["auto", "ulaw", "alaw", "slin", "slin16", "g722"] = Field(
        "auto",
        description="Codec between Asterisk and the engine. `auto`: the agent's favourite "
        "among those of the transport ("
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
    """The TCP port to which Asterisk connects with the audio of a call. It is open only when calls
    can use it: with `asterisk.media: audiosocket`, or with `audiosocket.context`."""

    host: Host = Field("127.0.0.1", description="Address to bind to.")
    port: Port = Field(8090, description="TCP port; 0 = any free one.")
    advertise_host: str = Field("127.0.0.1", description="Address to which Asterisk connects.")
    allow_from: tuple[Peer, ...] | None = Field(
        None,
        min_length=1,
        description="Addresses, networks (10.0.0.0/24) and host names that may connect; all others "
        "are closed before a byte is read. Default: the host of `asterisk.url`, and this machine "
        "when `advertise_host` is on loopback; without `asterisk`, this machine.",
    )
    context: Name | None = Field(
        None,
        json_schema_extra={"reference": "contexts"},
        description="Context of calls that come by the bare AudioSocket() application. Left out: "
        "such calls are refused.",
    )
    max_calls: int | None = Field(
        None,
        ge=1,
        description="Highest number of these calls at the same time. Default: a tenth of "
        "`calls.max_calls`; without `asterisk`, all of it.",
    )
    calls_per_minute: int = Field(
        60, ge=1, description="Highest number of these calls that may begin within any 60 s."
    )
    max_minutes_per_day: float | None = Field(
        None,
        gt=0,
        description="Total minutes of these calls on one day, by the local date; after that no "
        "more are taken. Counted from the start of the engine. Left out: no limit.",
    )
    max_cost_per_day: float | None = Field(
        None,
        gt=0,
        description="Total cost of these calls on one day, in the currency of `prices`; services "
        "without a price there are not counted. Left out: no limit.",
    )
    connect_timeout_ms: int = Field(
        5_000, ge=100, description="Timeout for Asterisk's media connection."
    )

    def peers(self, asterisk: Asterisk | None) -> tuple[str, ...]:
        """Return the entries of `allow_from`, or their default."""
        if self.allow_from is not None:
            return self.allow_from
        if asterisk is None:
            return (THIS_MACHINE,)
        here = (THIS_MACHINE,) if is_loopback(self.advertise_host) else ()
        return (urlsplit(asterisk.url).hostname or THIS_MACHINE, *here)

    def share(self, max_calls: int, *, has_ari: bool) -> int:
        """Return the limit of calls without ARI; only a share if there are calls by ARI."""
        if self.max_calls is not None:
            return self.max_calls
        return max(1, max_calls // 10) if has_ari else max_calls


class Rtp(Section):
    """The UDP ports to which Asterisk sends the audio of a call, with `asterisk.media: rtp`."""

    host: Host = Field("127.0.0.1", description="Address to bind to.")
    advertise_host: str = Field("127.0.0.1", description="Address to which Asterisk sends.")
    first_port: Port = Field(0, description="First port of the range; 0 = any free ports.")
    last_port: Port = Field(0, description="Last port of the range.")

    @model_validator(mode="after")
    def _a_range(self) -> Rtp:
        if (self.first_port == 0) != (self.last_port == 0) or self.last_port < self.first_port:
            raise ValueError("first_port and last_port make a range, or both are 0")
        return self


class Context(Section):
    """A persona: its prompt, provider, tools and rules."""

    prompt: str = Field(
        "",
        json_schema_extra={"placeholders": dict(CALL_VARIABLES)},
        description="System prompt; may use {call variables}.",
    )
    greeting: str = Field(
        "",
        json_schema_extra={"placeholders": dict(CALL_VARIABLES)},
        description="First sentence of the agent; may use {call variables}.",
    )
    disclosure: str = Field(
        "",
        json_schema_extra={"placeholders": dict(CALL_VARIABLES)},
        description="First words of every call and written conversation, before consent and "
        'greeting, such as "I am an automated assistant." The ledger says whether the caller has '
        "heard them to their end.",
    )
    purpose: str = Field(
        "",
        max_length=500,
        json_schema_extra={"placeholders": dict(CALL_VARIABLES)},
        description='Why this context calls people, such as "It is about your repair." Said to a '
        "call-screening service after `outbound.introduction`, unless the request of the call says "
        "another purpose.",
    )
    provider: Name | None = Field(
        None,
        json_schema_extra={"reference": "providers", "inherits": "default_provider"},
        description="Name under `providers`. Default: `default_provider`.",
    )
    fallback: tuple[Name, ...] = Field(
        (),
        max_length=5,
        json_schema_extra={"reference": "providers"},
        description="Providers that take over, one after the other, when the context's own fails; "
        "with the conversation so far.",
    )
    fallback_phrase: str = Field(
        "One moment please.",
        description="Spoken when one of them takes over while the caller waits for an answer, and "
        "when the caller has not been greeted after 4 s.",
    )
    on_failure: Name | None = Field(
        None,
        json_schema_extra={"reference": "destinations"},
        description="Destination of `tools.transfer` for the caller when no agent is left. Left "
        "out: an apology, and the call ends.",
    )
    resume: Resume = Field(
        Resume(), description="Sentences after the loss of the engine that had the call."
    )
    budget: Budget = Field(Budget(), description="Limits of one call's cost and duration.")
    tools: tuple[ToolOrGroup, ...] = Field(
        (),
        json_schema_extra={"reference": "tools"},
        description="Exposed names of the tools that may be seen and run; `server.*` = all tools "
        "that this MCP server offers when a call begins; `mcp:server:tool` = one of them, by the "
        "name that the server gives it.",
    )
    variables: tuple[VariableName, ...] = Field(
        (), description="Channel variables that prompt, greeting and tools may use."
    )
    pre_call: tuple[PreCallStep, ...] = Field(
        (),
        max_length=20,
        description="Tools that run when a call comes in, side by side; prompt and greeting may "
        "use their results.",
    )
    pre_call_timeout_ms: int = Field(
        2_500,
        ge=50,
        le=30_000,
        description="Longest wait of the greeting for them. Later results are left out.",
    )
    post_call: tuple[PostCallStep, ...] = Field(
        (),
        max_length=20,
        description="Tools that run after a call, until they have succeeded.",
    )
    rules: Rules | None = Field(None, description="The dialogue of brain `rules`.")
    keys: KeyMenu | None = Field(None, description="Keys that callers may press beside speech.")
    turn_taking: TurnTaking = Field(
        TurnTaking(), description="End of the caller's turn, and interruptions."
    )
    barge_in: BargeIn = Field(
        "on",
        description="Whether the caller may interrupt the agent: `on`, `off`, or "
        "`greeting_protected` (not in the greeting).",
    )
    silence: Silence = Field(Silence(), description="Sentences for silence.")
    recording: Recording = Field(Recording(), description="Recording of the calls' audio.")
    listening: Listening = Field(
        Listening(), description="Listening to live calls by the admin port."
    )
    conference: Conference = Field(
        Conference(), description="Operators who join live calls by a phone."
    )
    max_duration_ms: int = Field(
        3_600_000, ge=1_000, description="A call is ended politely after this time."
    )

    @cached_property
    def uses_pre_call(self) -> bool:
        """True if prompt, greeting or rules use a result of `pre_call`."""
        saved = saved_names(self.pre_call)
        if not saved:
            return False
        names = [*prompt_names(self.prompt, saved), *prompt_names(self.greeting, saved)]
        if any(name[0] in saved for name in names):
            return True
        try:
            if self.rules is not None:
                self.rules.check_placeholders(self.variables)
        except ValueError:  # they are valid with the saved names only
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


class CallIndex(Section):
    """The index of all calls, made from the ledgers: for `cordboard history` and the admin port."""

    enabled: bool | None = Field(
        None,
        description="Keep it up to date while the engine runs. Left out: if `admin.ui.enabled` is "
        "on, whose call history needs it. `cordboard history` brings it up to date by itself.",
    )
    database: SecretStr = Field(
        SecretStr(""),
        description="`postgresql://user:password@host/database`, with the extra `postgres`; "
        "empty: SQLite, in the folder `history` of `calls.directory`.",
    )

    @field_validator("database")
    @classmethod
    def _of_postgresql(cls, database: SecretStr) -> SecretStr:
        url = database.get_secret_value()
        if url and not re.fullmatch(r"postgresql://[^/\s]+/[^/\s]+", url):
            raise ValueError("expected postgresql://user:password@host/database, or nothing")
        return database


class Calls(Section):
    """Rules for all calls."""

    directory: Path = Field(Path("var/calls"), description="Folder of the call ledgers.")
    keep_days: int = Field(
        0,
        ge=0,
        description="Days until a call is deleted: ledger, notes and recording; 0: never. "
        "`recording.keep_days` may delete the recording earlier.",
    )
    index: CallIndex = Field(CallIndex(), description="The index of all calls.")
    shutdown_grace_ms: int = Field(
        10_000, ge=0, description="Time that live calls have to end after SIGTERM."
    )
    post_call: PostCallRetries = Field(
        PostCallRetries(), description="Retries of a failed `post_call` step."
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
        return checked_path(directory)


AGENTS = Chosen("agent", (PipelineProvider,), about="A selectable agent; `type` is its kind.")
Provider: TypeAlias = Annotated[PartSection, AGENTS]
"""One provider; `type` is its kind."""


def _local_agent() -> dict[str, Provider]:
    return {"local": PipelineProvider(type="pipeline")}


class Config(Section):
    """The whole file."""

    default_context: Name | None = Field(
        None,
        json_schema_extra={"reference": "contexts"},
        description="Context of calls that name none. Default: the first in the file.",
    )
    default_provider: Name = Field(
        "local",
        json_schema_extra={"reference": "providers"},
        description="Provider of contexts that name none, under `providers`. "
        "Default: `local` if it is there, else the first.",
    )
    health: Health = Field(Health(), description="The HTTP port of the engine.")
    admin: Admin = Field(Admin(), description="Access to administration.")
    reload: Reload = Field(Reload(), description="Reloading of a changed file.")
    tracing: Tracing = Field(Tracing(), description="OpenTelemetry spans.")
    asterisk: Asterisk | None = Field(
        None, description="Control of Asterisk through ARI. Left out: no ARI."
    )
    audiosocket: AudioSocket = Field(AudioSocket(), description="The port for the audio of calls.")
    rtp: Rtp = Field(Rtp(), description="The ports for the audio of calls by RTP.")
    providers: dict[Name, Provider] = Field(
        default_factory=_local_agent,
        description="The selectable agents. Default: `local`, the offline agent.",
    )
    prices: Prices = Field(Prices(), description="Prices of services; empty: costs are unknown.")
    contexts: dict[Name, Context] = Field(min_length=1, description="The personas by name.")
    routes: dict[str, Name] = Field(
        default_factory=dict,
        json_schema_extra={"reference": "contexts"},
        description="Dialled number → context, when no variable names one.",
    )
    tools: dict[ToolName, ToolEntry] = Field(
        default_factory=dict, description="Tools of every kind, by their exposed names."
    )
    mcp: Mcp = Field(Mcp(), description="The MCP servers.")
    calls: Calls = Field(Calls(), description="Rules for all calls.")
    privacy: Privacy = Field(Privacy(), description="Personal data in what the engine writes.")
    outbound: Outbound = Field(Outbound(), description="Calls that the engine places.")
    chat: Chat = Field(Chat(), description="Written conversations.")
    firewall: Firewall = Field(
        Firewall(),
        description="Rules for callers, tools, transfers and numbers, outside the model.",
    )
    alarms: Alarms = Field(
        Alarms(), description="Conditions that are watched, and the ways of notices."
    )
    cluster: Cluster | None = Field(
        None, description="Several engines that know of each other. Left out: this one is alone."
    )
    _from_environment: frozenset[str] = PrivateAttr(frozenset())

    @property
    def secrets(self) -> frozenset[str]:
        """The values that are masked in tools' answers (`cordboard.config.secrets`)."""
        return self._from_environment.union(secrets_in(self)) - {""}

    def keep_secret(self, values: Iterable[str]) -> None:
        """Mask these values too; the configuration itself does not show their source."""
        self._from_environment = frozenset(values)

    @model_validator(mode="after")
    def _keys_are_apart(self) -> Config:
        keys, calls = self.privacy.encryption.keys_directory, self.calls.directory
        if self.privacy.encryption.enabled and keys.absolute().is_relative_to(calls.absolute()):
            raise ValueError(
                "privacy.encryption.keys_directory: expected a folder outside of calls.directory, "
                "so that backups of the calls do not have their keys"
            )
        return self

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
    def keeps_index(self) -> bool:
        """True if the engine keeps the index of calls up to date."""
        enabled = self.calls.index.enabled
        return self.admin.ui.enabled if enabled is None else enabled

    @property
    def destinations(self) -> Mapping[str, TransferDestination]:
        """The only places to which a call can be transferred."""
        transfer = self.tools.get("transfer")
        return transfer.destinations if isinstance(transfer, BuiltinTool) else {}

    @property
    def message(self) -> MessageSettings | None:
        """Settings of messages; None if callers can leave none."""
        tool = self.tools.get("take_message")
        return tool.message if isinstance(tool, BuiltinTool) else None

    @property
    def email(self) -> AlarmEmail | None:
        """Settings of the tool `send_email`; None if it is not offered."""
        tool = self.tools.get("send_email")
        return tool.email if isinstance(tool, BuiltinTool) else None

    @property
    def callback(self) -> CallbackSettings | None:
        """Settings of call-backs; None if callers cannot ask for one."""
        tool = self.tools.get("request_callback")
        return tool.callback if isinstance(tool, BuiltinTool) else None


def chain_of(config: Config, context: Context) -> tuple[str, ...]:
    """Return the providers of a context in the order in which they are tried, each once."""
    names: Iterable[str] = (context.provider or config.default_provider, *context.fallback)
    return tuple(dict.fromkeys(names))


def providers_in_use(config: Config) -> tuple[str, ...]:
    """Return the providers that some context may use, in the order of the file."""
    used = {name for context in config.contexts.values() for name in chain_of(config, context)}
    used.add(config.default_provider)
    return tuple(name for name in config.providers if name in used)
