"""`firewall:`: the telephone policy outside the model: tools, transfers, keys, calls in and out.

    firewall:
      country: "NO"
      deny: ["+4781*"]
      outgoing: {per_caller: {calls_per_day: 5}}
      incoming: {block: ["+4722999999"], per_caller: {calls_per_hour: 10}}
      trunks: {PJSIP/acme: {outgoing: {live_calls: 5, cost_per_day: 50}}}
      tariffs: [{trunks: [PJSIP/acme], per_minute: 0.02, step_ms: 60000}]
      trusted_tools: [find_customer]
      tools:
        refund: {step_up: pin, arguments: {account: {from: [pre_call.customer.account]}}}
      pin: {from: variables.CUSTOMER_PIN}

`cordboard.firewall` decides by it; docs/firewall.md explains the decisions.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from cordboard.config.hours import Day, TimeOfDay, known_zone
from cordboard.config.patterns import (
    COUNTRY,
    NUMBER_PATTERN,
    PLACE,
    SENT_KEYS,
    Name,
    ToolName,
)
from cordboard.config.section import Section
from cordboard.config.trunks import TrunkName

NumberClass: TypeAlias = Literal[
    "fixed", "mobile", "toll_free", "shared_cost", "premium", "voip", "personal", "pager",
    "company", "voicemail", "satellite", "short_code", "emergency", "unknown",
]  # fmt: skip
StepUp: TypeAlias = Literal["none", "pin", "callback", "operator"]
Tainted: TypeAlias = Literal["allow", "confirm", "refuse"]
Attestation: TypeAlias = Literal["A", "B", "C"]
Country = Annotated[str, Field(pattern=COUNTRY)]
"""ISO 3166 code, two capital letters."""
NumberPattern = Annotated[str, Field(pattern=NUMBER_PATTERN)]
"""A number in the international form, or the beginning of numbers with `*` behind it."""
Place = Annotated[str, Field(pattern=PLACE)]
"""A value that a call knows, such as `caller_number` or `tools.find_customer.phone`."""


class OpenHours(Section):
    """One stretch of time on some days of the week, in `firewall.zone`."""

    days: tuple[Day, ...] = Field(
        ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
        min_length=1,
        description="Days of the week.",
    )
    from_: TimeOfDay = Field("00:00", alias="from", description="Beginning.")
    to: TimeOfDay = Field("23:59", description="End, on the same day; after `from`. Included.")

    @model_validator(mode="after")
    def _in_order(self) -> OpenHours:
        if self.to <= self.from_:
            raise ValueError("to: expected a time after `from`")
        return self


class Caps(Section):
    """Upper limits; what is left out has no limit."""

    live_calls: int | None = Field(
        None, ge=1, description="Calls at the same time. Left out: no limit."
    )
    calls_per_minute: int | None = Field(
        None, ge=1, description="Calls within any minute. Left out: no limit."
    )
    calls_per_hour: int | None = Field(
        None, ge=1, description="Calls within any hour (velocity). Left out: no limit."
    )
    calls_per_day: int | None = Field(
        None, ge=1, description="Calls of a day, by the date in `zone`. Left out: no limit."
    )
    minutes_per_day: float | None = Field(
        None, gt=0, description="Minutes of a day's calls. Left out: no limit."
    )
    cost_per_day: float | None = Field(
        None,
        gt=0,
        description="Cost of a day's calls, in the currency of `prices`: of the services, by "
        "`prices`, and of the trunk, by `tariffs`. Left out: no limit.",
    )


class Outgoing(Section):
    """Caps and hours of what leaves: transfers, and calls that the engine makes."""

    hours: tuple[OpenHours, ...] = Field(
        (), max_length=20, description="Times in which it is allowed. Empty: always."
    )
    per_caller: Caps = Field(Caps(), description="Caps of one caller's transfers and calls.")
    per_context: Caps = Field(Caps(), description="Caps of one context's.")
    per_trunk: Caps = Field(
        Caps(), description="Caps of each trunk's, where `trunks` has none for it."
    )
    total: Caps = Field(Caps(), description="Caps of all together.")


class Trunk(Section):
    """Caps of one trunk. What is left out is that of `per_trunk`."""

    incoming: Caps = Field(Caps(), description="Calls that come by it.")
    outgoing: Caps = Field(Caps(), description="Calls and transfers that leave by it.")


class Tariff(Section):
    """The price of some calls on their trunk."""

    direction: Literal["in", "out"] = Field("out", description="Calls that come, or that leave.")
    trunks: tuple[TrunkName, ...] = Field((), description="Trunks. Empty: any.")
    classes: tuple[NumberClass, ...] = Field(
        (), description="Classes of the number on the other side. Empty: any."
    )
    countries: tuple[Country, ...] = Field((), description="Its countries. Empty: any.")
    connection: float = Field(0, ge=0, description="Price of an answered call, once.")
    per_minute: float = Field(0, ge=0, description="Price of a minute, from the answer.")
    step_ms: int = Field(
        1_000, ge=100, le=3_600_000, description="Each begun step of this length is paid in full."
    )


class UsedUp(Section):
    """The treatment of live calls when a cap of a day's minutes or cost is used up."""

    warn_at_percent: int = Field(
        100, ge=50, le=100, description="Share of the cap at which the warning is spoken."
    )
    warning: str = Field("", max_length=300, description="Sentence for the caller. Empty: none.")
    end_after_ms: int | None = Field(
        None,
        ge=0,
        le=3_600_000,
        description="Time from the moment when the cap is used up to the end of the call. Left "
        "out: calls go on, and only new ones are refused.",
    )
    goodbye: str = Field(
        "I am sorry, I have to end our call here. Goodbye.",
        max_length=300,
        description="Spoken before the end.",
    )


class SentKeys(Section):
    """Keys that are sent to the far side (`send_digits`)."""

    longest: int = Field(64, ge=1, le=64, description="Most keys of one sending.")
    codes: tuple[Annotated[str, Field(pattern=SENT_KEYS)], ...] = Field(
        (),
        description="Sequences that may be sent although `*` or `#` is in front of digits, as in "
        "codes of telephone systems; each one exactly.",
    )


class Incoming(Section):
    """Callers that are taken, and how often."""

    block: tuple[NumberPattern, ...] = Field((), description="Callers that are refused.")
    allow: tuple[NumberPattern, ...] = Field(
        (),
        description="Callers to whom no other rule of this section applies, but caps of trunks.",
    )
    only_allowed: bool = Field(False, description="Refuse all callers that are not in `allow`.")
    anonymous: bool = Field(True, description="Take callers without a readable number.")
    attestation: Attestation | None = Field(
        None,
        description="Least STIR/SHAKEN attestation of the caller's number, from the channel "
        "variable `CORDBOARD_ATTESTATION` (A, B or C), which the dialplan sets. Left out: any.",
    )
    per_caller: Caps = Field(
        Caps(),
        description="Caps of one caller. Callers without a number share those of an hour and a "
        "day; `live_calls` and `calls_per_minute` do not hold for them.",
    )
    per_context: Caps = Field(Caps(), description="Caps of one context.")
    per_trunk: Caps = Field(
        Caps(), description="Caps of each trunk, where `trunks` has none for it."
    )
    total: Caps = Field(Caps(), description="Caps of all callers together.")
    capped: Literal["busy", "unavailable", "announcement"] = Field(
        "busy",
        description="`CORDBOARD_STATUS` with which a caller beyond a cap goes back to the "
        "dialplan, unanswered: `busy`, `unavailable`, or `announcement`, for a dialplan that plays "
        "one (docs/load.md).",
    )
    wordless_after_ms: int | None = Field(
        None,
        ge=10_000,
        description="A call in which the caller has said no word that was understood and pressed "
        "no key by then is ended politely. Needs a provider that reports the caller's words. Left "
        "out: only `silence` of the context ends calls.",
    )


class GuardedAct(Section):
    """Rules of one tool or destination."""

    step_up: StepUp = Field(
        "none",
        description="Proof of who the caller is, once in a call: `pin` = the caller enters it with "
        "the keys; `callback` = the engine calls the number that is known of them, and they enter "
        "there the code that they hear here; `operator` = a person confirms it on the admin page.",
    )
    tainted: Tainted = Field(
        "confirm",
        description="When the agent has read words of others (docs/firewall.md): `confirm` = the "
        "engine asks the caller for a yes; `refuse`; `allow`.",
    )
    hours: tuple[OpenHours, ...] = Field(
        (), max_length=20, description="Times in which it is allowed. Empty: always."
    )


class GuardedArgument(Section):
    """Rules of one argument of a tool."""

    from_: tuple[Place, ...] = Field(
        (),
        alias="from",
        max_length=20,
        description="Places of which one must hold this very value: `caller_number`, "
        "`called_number`, `variables.NAME`, `pre_call.NAME.field`, `tools.TOOL.field`. Empty: any "
        "value.",
    )
    number: bool = Field(
        False, description="It is a telephone number, and must be one that may be called."
    )


class GuardedTool(GuardedAct):
    """Rules of one tool, beside those of `tools`."""

    arguments: dict[Annotated[str, Field(max_length=200)], GuardedArgument] = Field(
        default_factory=dict, description="Rules by the name of the argument."
    )


def _kept_place(place: str) -> str:
    """Check that it is a place that nothing said in the conversation can change."""
    if not place.startswith(("variables.", "pre_call.")):
        raise ValueError("expected variables.NAME or pre_call.NAME.field")
    return place


class Pin(Section):
    """The proof of `step_up: pin`. It is collected as secret keys and kept for the call only."""

    from_: Annotated[str, Field(pattern=PLACE)] = Field(
        alias="from",
        description="Place of the right PIN: `variables.NAME`, or `pre_call.NAME.field`.",
    )
    digits: int = Field(4, ge=4, le=12, description="Digits of a PIN.")
    tries: int = Field(3, ge=1, le=5, description="Tries in one call.")
    prompt: str = Field(
        "Please enter your PIN with the keys of your telephone.",
        min_length=1,
        max_length=300,
        description="Sentence spoken before each try.",
    )

    @field_validator("from_")
    @classmethod
    def _not_of_the_conversation(cls, place: str) -> str:
        return _kept_place(place)


class Callback(Section):
    """The proof of `step_up: callback`. A new code for each call, told to the caller alone. The
    number is reached by `outbound.endpoint`; `outbound.enabled` must be on."""

    from_: Annotated[str, Field(pattern=PLACE)] = Field(
        alias="from",
        description="Place of the number that is known of the caller: `variables.NAME`, or "
        "`pre_call.NAME.field`.",
    )
    digits: int = Field(4, ge=3, le=8, description="Digits of a code.")
    calls: int = Field(2, ge=1, le=3, description="Calls to that number in one call.")
    ring_ms: int = Field(25_000, ge=5_000, le=60_000, description="Longest time that it rings.")
    told: str = Field(
        "I am calling the number that we have for you now. Please answer it, and enter {code} "
        "there. I will wait here.",
        max_length=300,
        description="Sentence with the `{code}` for the caller, who then waits with music.",
    )
    prompt: str = Field(
        "Hello. Please enter the code that you were told in your other call, with the keys of "
        "this telephone. If you have not called us, just hang up.",
        min_length=1,
        max_length=300,
        description="Sentence at the number that is called.",
    )

    @field_validator("from_")
    @classmethod
    def _not_of_the_conversation(cls, place: str) -> str:
        return _kept_place(place)

    @field_validator("told")
    @classmethod
    def _tells_the_code(cls, told: str) -> str:
        if told.count("{code}") != 1:
            raise ValueError("expected a sentence with {code} once")
        return told


class Firewall(Section):
    """The telephone firewall: rules that no model can be talked out of."""

    country: Country | None = Field(
        None,
        description="Home country, such as NO: numbers without a country code are its numbers. "
        "Left out: only international numbers can be read.",
    )
    zone: str = Field(
        "",
        description="Time zone of the hours and of the day of all caps, such as Europe/Oslo. Left "
        "out: that of the engine's machine.",
    )
    classes: tuple[NumberClass, ...] = Field(
        ("fixed", "mobile", "toll_free", "voip", "company"),
        description="Classes of numbers that may be called or transferred to.",
    )
    countries: tuple[Country, ...] | None = Field(
        None,
        description="Countries that may be called or transferred to. Left out: any for configured "
        "destinations, the home country for all other numbers.",
    )
    allow: tuple[NumberPattern, ...] = Field(
        (), description="Numbers that are allowed whatever their class or country."
    )
    deny: tuple[NumberPattern, ...] = Field((), description="Numbers that are always refused.")
    outgoing: Outgoing = Field(Outgoing(), description="Transfers and calls that the engine makes.")
    send_digits: SentKeys = Field(SentKeys(), description="Keys sent to the far side.")
    incoming: Incoming = Field(Incoming(), description="Callers.")
    trunks: dict[TrunkName, Trunk] = Field(
        default_factory=dict,
        max_length=200,
        description="Caps by trunk: technology and endpoint in Asterisk, such as `PJSIP/acme`.",
    )
    tariffs: tuple[Tariff, ...] = Field(
        (),
        max_length=500,
        description="Prices of the trunks; the first one that fits a call counts. With any for "
        "calls that leave, a number without a price is refused.",
    )
    used_up: UsedUp = Field(UsedUp(), description="Live calls, when a day's cap is used up.")
    trusted_tools: tuple[ToolName, ...] = Field(
        (),
        json_schema_extra={"reference": "tools"},
        description="Tools whose descriptions and results do not taint a call.",
    )
    tools: dict[ToolName, GuardedTool] = Field(
        default_factory=dict, description="Rules of privileged tools, by their exposed names."
    )
    destinations: dict[Name, GuardedAct] = Field(
        default_factory=dict, description="Rules of destinations of `tools.transfer`."
    )
    pin: Pin | None = Field(None, description="The caller's PIN, for `step_up: pin`.")
    callback: Callback | None = Field(
        None, description="The call to the caller's known number, for `step_up: callback`."
    )

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, zone: str) -> str:
        return zone and known_zone(zone)

    @property
    def has_caps(self) -> bool:
        """True if some cap has a value."""
        sections = (self.incoming, self.outgoing)
        caps = [
            caps
            for each in sections
            for caps in (each.per_caller, each.per_context, each.per_trunk, each.total)
        ]
        caps += [caps for each in self.trunks.values() for caps in (each.incoming, each.outgoing)]
        return any(each != Caps() for each in caps)

    @property
    def places(self) -> frozenset[str]:
        """All places that some rule names."""
        arguments = (rules.arguments.values() for rules in self.tools.values())
        named = {place for each in arguments for argument in each for place in argument.from_}
        proofs = {each.from_ for each in (self.pin, self.callback) if each is not None}
        return frozenset(named | proofs)
