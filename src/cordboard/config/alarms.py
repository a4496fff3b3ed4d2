"""`alarms:`: conditions over calls and the engine's state, and notices when they hold.

    alarms:
      rules:
        slow: {measure: wait, above: 1500, over_minutes: 15, at_least: 20}
        crm: {measure: tool_failure_share, of: crm_find, above: 0.05, over_minutes: 60}
        atis: {server: aviation_atis, after_minutes: 2}
        quiet: {measure: calls, below: 1, over_minutes: 240, hours: {from: "09:00", to: "18:00"}}
      email: {server: smtp.example.org, sender: cordboard@example.org, to: [ops@example.org]}

The measures are those of `cordboard.history.series`; a test holds the two together.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, SecretStr, field_validator, model_validator

from cordboard.config.call_phases import PostCallStep
from cordboard.config.hours import ZonedHours
from cordboard.config.patterns import HostName, Name, Port, ServerId
from cordboard.config.remote_url import is_loopback
from cordboard.config.section import Section
from cordboard.config.templates import JsonTemplateValue

ALARM = "alarm"
ALARM_FACTS = {
    "name": "Name of the rule.",
    "state": "`firing`, `over`, or `test`.",
    "text": "The fact in words.",
    "value": "The measured value; nothing for a state.",
    "limit": "The rule's `above` or `below`; nothing for a state.",
    "context": "The rule's context, or nothing.",
    "since": "Time when it began to fire, in ISO 8601.",
    "calls": "Ids of calls behind it, a list of at most 50.",
    "note": "The rule's note.",
}
"""Names of {alarm.NAME} in the arguments of `tool`."""

Measured: TypeAlias = Literal[
    "calls",
    "outcomes",
    "refused",
    "containment",
    "abandonment",
    "transfers",
    "turns",
    "interruptions",
    "pauses",
    "silences",
    "troubles",
    "tools",
    "tool_failures",
    "tool_failure_share",
    "cost",
    "cost_per_contained",
    "wait",
    "answer_wait",
    "tool_time",
    "duration",
    "disk_free",
]
Component: TypeAlias = Literal[
    "agents", "ari", "calls", "history", "ledger", "mcp", "media", "plugins", "recordings"
]
DISK = "disk_free"
"""The measure that is not of calls: free space of the disk of `calls.directory`, in percent."""


class AlarmRule(Section):
    """One condition: `measure` with `above` or `below`, a `component` that is not ready, or a
    `server` that is down."""

    measure: Measured | None = Field(
        None,
        description="A measure of calls that have ended (docs/insights-and-alarms.md), or "
        "`disk_free`: free space in percent, of the disk of `calls.directory`.",
    )
    component: Component | None = Field(
        None, description="A part of the engine, as on `/ready`, that must be ready."
    )
    server: ServerId | None = Field(None, description="An MCP server that must be ready.")
    percentile: Literal["p50", "p95", "p99"] = Field(
        "p95", description="Of `wait`, `answer_wait`, `tool_time` and `duration`."
    )
    of: str = Field(
        "",
        max_length=100,
        description="A tool, destination, part, outcome, reason, or stage of `wait`, by the "
        "measure. Left out: all; of `wait`: `total`.",
    )
    context: Name | None = Field(None, description="Calls of this context only. Left out: all.")
    above: float | None = Field(None, description="It fires when the value is greater.")
    below: float | None = Field(None, description="It fires when the value is smaller.")
    over_minutes: int = Field(
        15, ge=1, le=1_440, description="Age of the calls that count: they ended within it."
    )
    today: bool = Field(False, description="Calls since midnight count, instead.")
    at_least: int = Field(
        1,
        ge=1,
        description="With fewer calls, turns or tool calls than this, a share or percentile is not "
        "judged.",
    )
    hours: ZonedHours | None = Field(
        None,
        description="Judge it only when all of `over_minutes` is in these hours. Left out: always.",
    )
    after_minutes: float = Field(
        0, ge=0, le=1_440, description="The condition must hold so long before it fires."
    )
    clear_minutes: float = Field(
        5, ge=0, le=1_440, description="It must have passed so long before the alarm is over."
    )
    note: str = Field("", max_length=500, description="Words for the notices, such as what to do.")

    @model_validator(mode="after")
    def _one_condition(self) -> AlarmRule:
        kinds = [name for name in ("measure", "component", "server") if getattr(self, name)]
        if len(kinds) != 1:
            raise ValueError("expected one of `measure`, `component` and `server`")
        limits = (self.above is not None) + (self.below is not None)
        if limits != (self.measure is not None):
            raise ValueError("expected `above` or `below` with a `measure`, and neither without")
        if self.measure in (None, DISK):
            given = {"of", "context", "over_minutes", "today", "percentile", "at_least"}
            if found := sorted(given & self.model_fields_set):
                raise ValueError(f"{found[0]}: expected only with a measure of calls")
        return self

    @property
    def is_of_calls(self) -> bool:
        """True if it needs the index of calls."""
        return self.measure not in (None, DISK)


class AlarmTool(PostCallStep):
    """A tool that runs when an alarm begins and when it is over; failures are retried as those of
    `post_call` steps."""

    arguments: JsonTemplateValue = Field(
        default_factory=dict, description="Its arguments, with {alarm.NAME}."
    )


class AlarmEmail(Section):
    """E-mail by an SMTP server."""

    server: HostName = Field(description="Name or address of the SMTP server.")
    port: Port = Field(587, description="Its TCP port.")
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`tls`: encrypted from the first byte (port 465); `none`: only on this "
        "machine, or without a password.",
    )
    user: str = Field("", description="Name to sign in with. Left out: without signing in.")
    password: SecretStr | None = Field(
        None, description='Its password, usually "${SMTP_PASSWORD}".'
    )
    sender: str = Field(description="Address in `From`.")
    to: tuple[str, ...] = Field(min_length=1, max_length=20, description="Addresses.")

    @field_validator("sender", "to")
    @classmethod
    def _addresses(cls, value: Any) -> Any:
        for each in (value,) if isinstance(value, str) else value:
            name, at, host = each.rpartition("@")
            if not (name and at and host) or not each.isascii() or not each.isprintable():
                raise ValueError("expected an e-mail address such as ops@example.org")
            if any(character in each for character in ' <>,;:"'):
                raise ValueError("expected an e-mail address alone, without a name")
        return value

    @model_validator(mode="after")
    def _passwords_travel_encrypted(self) -> AlarmEmail:
        if self.security == "none" and self.password and not is_loopback(self.server):
            raise ValueError("password: it would cross the network unencrypted; expected "
                             "`security: starttls` or `tls`")  # fmt: skip
        if (self.password is None) != (not self.user):
            raise ValueError("expected `user` and `password`, or neither")
        return self


class Alarms(Section):
    """Conditions that are watched, and the ways of notices."""

    rules: dict[Name, AlarmRule] = Field(
        default_factory=dict, max_length=200, description="The conditions by name."
    )
    tool: AlarmTool | None = Field(
        None,
        description="A tool that runs when an alarm begins and when it is over; usually an HTTP "
        "tool with `sign_with`.",
    )
    email: AlarmEmail | None = Field(None, description="E-mail when an alarm begins and is over.")
    remind_minutes: int | None = Field(
        None,
        ge=5,
        description="Tell again so often while an alarm fires and is not acknowledged. Left out: "
        "once.",
    )
