"""`rules:` of a context: the dialogue of the offline brain, as sentence templates.

`intents` describe the wishes of callers and their words, `lists` the values of the blanks in those
words. Each intent defines what to ask, to confirm, to run and to answer. Everything has a default;
`rules: {}` is an agent that can say goodbye, repeat, help, transfer and admit that it did not
understand. Behaviour: docs/offline-agent.md. Sentence language: `config.sentences`.

Checked while reading: every sentence, every `{list}`, every placeholder of every text. Names other
than an intent's slots must be call variables; `Rules.check_placeholders` receives those that the
context declares. The existence of tools is not checked here: `Rules.tools` lists their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import time
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from cordboard.config.call_variables import CALL_VARIABLES
from cordboard.config.hours import TimeOfDay
from cordboard.config.plugins import Reading
from cordboard.config.sentences import Effort, Wording, read_sentence

SlotKind = Literal[
    "list", "icao", "letters", "code", "number", "digits", "date", "time", "name", "text"
]
BUILT_IN_LISTS: tuple[SlotKind, ...] = (
    "icao",
    "letters",
    "code",
    "number",
    "digits",
    "date",
    "time",
    "name",
    "text",
)
"""Lists usable in sentences as `{number}` and so on without being declared."""
Failure = Literal["error", "timeout", "refused", "cancelled"]

_DAY = re.compile(r"(mon|tues|wednes|thurs|fri|satur|sun)day|\d{4}-\d{2}-\d{2}")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*(?:\.\w+)*)\}")


def placeholders(template: str) -> tuple[str, ...]:
    """Return the names in braces in a spoken text, with their dotted paths."""
    return tuple(_PLACEHOLDER.findall(template))


def _check_template(text: str) -> str:
    if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise ValueError(f"{text!r}: stray brace; a placeholder is {{name}} or {{name.part}}")
    return text


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _named_or_plain(value: object) -> object:
    """Turn `[a, b]` into values that are spoken as they are written."""
    if isinstance(value, (list, tuple)):
        return {str(item): (str(item),) for item in value}
    if isinstance(value, dict):
        return {key: _one_or_many(said) for key, said in value.items()}
    return value


Template = Annotated[str, AfterValidator(_check_template)]
"""A spoken text, with `{placeholders}`."""
Texts = Annotated[tuple[Template, ...], BeforeValidator(_one_or_many)]
"""One text, or several that are used one after the other."""
Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
Tool = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WordList(_Part):
    """Allowed values in a blank of a sentence."""

    type: SlotKind = Field(default="list", description="`list`, or a kind of spoken value.")
    values: Annotated[dict[str, tuple[str, ...]], BeforeValidator(_named_or_plain)] = Field(
        default_factory=dict,
        description="`list`: value → its spoken forms; the agent uses the first.",
    )
    spelled: bool = Field(
        default=False, description="`list`: values may also be spelled, KJFK or kilo..."
    )
    others: bool = Field(
        default=False,
        description="`list`: spelled values that are not listed are accepted.",
    )
    confusable: tuple[str, ...] = Field(
        default=(),
        description="`list`: names that are not in it but sound like one that is; when one of"
        " them was heard, the agent asks before it accepts the other.",
    )
    minimum: int | None = Field(default=None, description="`number`: smallest value.")
    maximum: int | None = Field(default=None, description="`number`: greatest value.")
    length: int | None = Field(
        default=None,
        ge=1,
        le=40,
        description="`digits`, `letters`, `code` (letters and figures): their number.",
    )
    earliest: TimeOfDay | None = Field(
        default=None,
        description="`time`: the earliest possible, as 17:00. With it `seven` is 19:00.",
    )
    latest: TimeOfDay | None = Field(
        default=None, description="`time`: the latest possible, as 22:30."
    )

    @model_validator(mode="after")
    def _check(self) -> WordList:
        if self.type == "list" and not self.values:
            raise ValueError("values: a list needs at least one value")
        if self.type != "list" and (self.values or self.spelled or self.others or self.confusable):
            raise ValueError(
                f"values, spelled, others and confusable mean nothing for type {self.type!r}"
            )
        if self.type != "time" and (self.earliest or self.latest):
            raise ValueError(f"earliest and latest mean nothing for type {self.type!r}")
        empty = [value for value, said in self.values.items() if not all(s.strip() for s in said)]
        if empty:
            raise ValueError(f"values.{empty[0]}: a way to say it is empty")
        return self

    @property
    def hours(self) -> tuple[time, time]:
        """Earliest and latest value of a `time`; the whole day by default."""
        first, last = self.earliest or "00:00", self.latest or "23:59"
        return time.fromisoformat(first), time.fromisoformat(last)


class Slot(_Part):
    """A value that an intent needs."""

    list: Identifier | None = Field(
        default=None, description="Its list; default: as in the sentences."
    )
    ask: Texts = Field(
        default=(), description="The question; a second one is asked the second time."
    )
    unknown: Template | None = Field(
        default=None, description="Spoken when the value is not in the list."
    )
    required: bool = Field(default=True, description="Whether to ask for it.")
    default: str | None = Field(default=None, description="Value of a slot that is not required.")
    retries: int = Field(
        default=2, ge=0, le=10, description="Further questions before the way out."
    )


class Intent(_Part):
    """One wish of callers."""

    enabled: bool = Field(default=True, description="false switches a built-in intent off.")
    title: str = Field(default="", description="Its name in `Did you mean ...?`.")
    example: str = Field(default="", description="An example of how to ask for it.")
    sentences: tuple[str, ...] = Field(default=(), description="Templates of callers' words.")
    keywords: tuple[str, ...] = Field(
        default=(),
        description="Templates of words without {lists} that suggest the intent wherever they"
        " stand in a caller's words.",
    )
    harmless: bool | None = Field(
        default=None,
        description="Whether running it needlessly costs the caller only time; it then runs"
        " without a question when no sentence fits. Default: true if its tool only reads. Never"
        " with `confirm`, `transfer` or `hang_up`.",
    )
    slots: dict[Identifier, Slot] = Field(default_factory=dict)
    confirm: Template | None = Field(
        default=None, description="A yes/no question asked before acting."
    )
    before: Template | None = Field(default=None, description="Spoken before the tool runs.")
    tool: Tool | None = Field(default=None, description="Exposed name of the tool to run.")
    arguments: dict[str, Any] | None = Field(
        default=None,
        description="Its arguments with {slots}; default: each slot under its own name.",
    )
    say: Template | None = Field(
        default=None,
        description="The answer; with a tool, when it succeeded (default: its {message}).",
    )
    answers: dict[Identifier, dict[str, Template]] = Field(
        default_factory=dict,
        description="Slot → value → the answer for that value, in place of `say`. Values of a"
        " `date` are weekdays (`sunday`) and days (`2026-12-24`).",
    )
    failures: dict[Failure, Template] = Field(
        default_factory=dict, description="Answers when the tool ended otherwise, by its status."
    )
    transfer: Template | None = Field(
        default=None, description="Destination to pass the caller on to."
    )
    more: Template | None = Field(
        default=None, description="Asked afterwards, e.g. `Anything else?`."
    )
    hang_up: bool = Field(default=False, description="End the call after the answer.")

    @model_validator(mode="after")
    def _check(self) -> Intent:
        if self.tool and self.transfer:
            raise ValueError("tool and transfer: only one of the two")
        if self.arguments is not None and not self.tool:
            raise ValueError("arguments: there is no tool")
        if self.answers and self.say is None and self.tool is None:
            raise ValueError("answers: `say` is missing, the answer for all other values")
        for key, text in _texts_in(self.arguments or {}, "arguments"):
            try:
                _check_template(text)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from None
        return self


class WayOut(_Part):
    """The end of a dialogue in which the caller was repeatedly not understood."""

    say: Template = "I am sorry, I could not understand you. Please call again. Goodbye."
    transfer: str | None = Field(default=None, description="Destination to pass the caller on to.")
    hang_up: bool = Field(
        default=True,
        description="End the call, when not passed on. Where the context has `transfer`, its"
        " destinations are offered instead.",
    )


class Fallback(_Part):
    """Sentences for words that were not understood."""

    reprompts: Texts = Field(
        default=(
            "I did not get that.",
            "I still did not get that. You can say, for example: {examples}",
        ),
        description="First, second, ... time in a row; {examples} are those of the intents.",
    )
    silence: Texts = Field(default=(), description="The same after silence; default: reprompts.")
    way_out: WayOut = WayOut()


class Phrases(_Part):
    """The agent's own sentences; each may be replaced."""

    ask: Template = "What is the {slot}?"
    unknown: Template = "I do not know that {slot}."
    did_you_mean: Template = "Did you mean {first}?"
    which_one: Template = "Did you mean {first} or {second}?"
    yes_or_no: Template = "Please say yes or no."
    what_instead: Template = "All right. What should I change?"
    cancelled: Template = "All right, never mind. Is there anything else I can do?"
    help: Template = "You can say, for example: {examples}"
    no_help: Template = "Just tell me what you need."
    unable: Template = "I am sorry, I cannot do that."
    farewell: Template = "Goodbye."
    welcome: Template = "You are welcome."
    how_can_i_help: Template = "How can I help you?"
    tool_failed: Template = "I am sorry, that did not work."
    transferring: Template = "I am putting you through to {destination}."
    offer_transfer: Template = "Shall I put you through to {destinations}?"
    ask_destination: Template = "Where may I put you through to? I can offer {destinations}."
    press: Template = "Press {key} for {destination}."
    or_: Template = Field(default="or", alias="or")


_PHRASE_NAMES: Mapping[str, frozenset[str]] = {
    "ask": frozenset({"slot"}),
    "unknown": frozenset({"slot"}),
    "did_you_mean": frozenset({"first"}),
    "which_one": frozenset({"first", "second"}),
    "help": frozenset({"examples"}),
    "transferring": frozenset({"destination"}),
    "ask_destination": frozenset({"destinations"}),
    "offer_transfer": frozenset({"destinations"}),
    "press": frozenset({"key", "destination"}),
}


class Rules(_Part):
    """The dialogue of one context."""

    lists: dict[Identifier, WordList] = Field(
        default_factory=dict, description="Allowed values of the {blanks} of sentences."
    )
    words: dict[Identifier, str] = Field(
        default_factory=dict, description="Named pieces of sentences, used as <name>."
    )
    intents: dict[Identifier, Intent] = Field(
        default_factory=dict,
        description="Wishes of callers. yes, no, repeat, help, cancel, goodbye and transfer are"
        " built in and may be changed.",
    )
    fallback: Fallback = Fallback()
    phrases: Phrases = Phrases()
    _filled: dict[str, dict[str, str]] = PrivateAttr(default_factory=dict)
    """Intent → slot → list, as in the sentences."""

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Rules:
        effort = Reading.of(info).effort
        for name, intent in self.intents.items():
            filled = self._filled[name] = {}
            for number, text in enumerate(intent.sentences):
                key = f"intents.{name}.sentences[{number}]"
                for wording in self._wordings(text, key, effort):
                    self._check_lists(wording, text, key)
                    for position in wording:
                        if position.list:
                            filled.setdefault(position.slot, position.list)
            self._check_keywords(name, intent, effort)
            for slot, list_name in self.slots_of(name).items():
                if not list_name or list_name not in self._known_lists:
                    raise ValueError(
                        f"intents.{name}.slots.{slot}: no list {list_name or slot!r};"
                        f" known: {', '.join(sorted(self._known_lists))}"
                    )
                spec = intent.slots.get(slot)
                if spec is not None and spec.required and spec.default is not None:
                    raise ValueError(
                        f"intents.{name}.slots.{slot}.default: the slot is required;"
                        " say required: false"
                    )
            self._check_answers(name, intent)
        return self

    def _check_answers(self, name: str, intent: Intent) -> None:
        for slot, answers in intent.answers.items():
            at = f"intents.{name}.answers.{slot}"
            kind = self.slots_of(name).get(slot)
            if kind is None:
                known = ", ".join(sorted(self.slots_of(name))) or "none"
                raise ValueError(f"{at}: no such slot; known: {known}")
            spec = self.lists.get(kind)
            if spec is not None and spec.type == "list":
                allowed = {value.lower() for value in spec.values}
                wrong = [value for value in answers if value.lower() not in allowed]
            else:
                dated = kind == "date" or (spec is not None and spec.type == "date")
                wrong = [value for value in answers if dated and not _DAY.fullmatch(value.lower())]
            if wrong:
                raise ValueError(f"{at}.{wrong[0]}: not a value of {kind!r}")

    def _check_keywords(self, name: str, intent: Intent, effort: Effort) -> None:
        for number, text in enumerate(intent.keywords):
            at = f"intents.{name}.keywords[{number}]"
            if any(p.list for w in self._wordings(text, at, effort) for p in w):
                raise ValueError(f"{at}: {text!r}: keywords have no {{lists}}")

    def _check_lists(self, wording: Wording, text: str, key: str) -> None:
        seen: set[str] = set()
        for position in wording:
            if not position.list:
                continue
            if position.list not in self._known_lists:
                known = ", ".join(sorted(self._known_lists))
                raise ValueError(
                    f"{key}: sentence {text!r}: no list {position.list!r}; known: {known}"
                )
            if position.slot in seen:
                raise ValueError(
                    f"{key}: sentence {text!r}: slot {position.slot!r} twice;"
                    " use {list:name} to tell them apart"
                )
            seen.add(position.slot)

    @cached_property
    def _known_lists(self) -> frozenset[str]:
        return frozenset(self.lists) | frozenset(BUILT_IN_LISTS)

    def _wordings(self, text: str, key: str, effort: Effort) -> tuple[Wording, ...]:
        """Return the wordings of a sentence of these rules; an error is prefixed with `key`."""
        try:
            return read_sentence(text, self.words, effort=effort)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None

    def slots_of(self, intent_name: str) -> dict[str, str]:
        """Return the slots of an intent → the name of their list, from sentences and `slots`."""
        intent = self.intents[intent_name]
        found = dict(self._filled[intent_name])
        for name, slot in intent.slots.items():
            found[name] = slot.list or found.get(name) or (name if self._is_list(name) else "")
        return found

    def _is_list(self, name: str) -> bool:
        return name in self._known_lists

    def tools(self) -> dict[str, str]:
        """Return exposed names of the rules' tools → the key that names them first."""
        named: dict[str, str] = {}
        for name, intent in self.intents.items():
            if not intent.enabled:
                continue
            if intent.tool:
                named.setdefault(intent.tool, f"intents.{name}.tool")
            if intent.transfer:
                named.setdefault("transfer", f"intents.{name}.transfer")
            if intent.hang_up:
                named.setdefault("hangup_call", f"intents.{name}.hang_up")
        if self.fallback.way_out.transfer:
            named.setdefault("transfer", "fallback.way_out.transfer")
        return named

    def destinations(self) -> dict[str, str]:
        """Return transfer destinations named in the rules → the key that names them first."""
        named: dict[str, str] = {}
        for name, intent in self.intents.items():
            if intent.enabled and intent.transfer and not placeholders(intent.transfer):
                named.setdefault(intent.transfer, f"intents.{name}.transfer")
        if self.fallback.way_out.transfer:
            named.setdefault(self.fallback.way_out.transfer, "fallback.way_out.transfer")
        return named

    def useless(self) -> Iterator[tuple[str, str]]:
        """Yield parts that can have no effect: key and reason."""
        used = {kind for name in self.intents for kind in self.slots_of(name).values()}
        for name in self.lists:
            if name not in used:
                reason = f"no sentence uses this list; write {{{name}}} or {{{name}:slot}}"
                yield f"lists.{name}", reason
        for name, intent in self.intents.items():
            acts = bool(intent.tool or intent.transfer) and intent.harmless is not True
            asks = intent.title or intent.confirm or self.slots_of(name)
            if intent.keywords and acts and not asks:
                reason = "without a `title` the agent cannot ask whether this is meant"
                yield f"intents.{name}.keywords", reason

    def check_placeholders(self, variables: Iterable[str] = ()) -> None:
        """Raise ValueError for the first placeholder without a value, naming its key.

        `variables` are the channel variables that the context declares.
        """
        known = frozenset(CALL_VARIABLES) | frozenset(variables)
        for key, text, more, optional in self._spoken():
            for placeholder in placeholders(text):
                head, _, rest = placeholder.partition(".")
                if head in optional:
                    raise ValueError(
                        f"rules.{key}: {{{placeholder}}} may be unfilled;"
                        " make the slot required or give it a default"
                    )
                if head in more or (head in known and not rest):
                    continue
                raise ValueError(
                    f"rules.{key}: unknown placeholder {{{placeholder}}};"
                    f" known here: {', '.join(sorted(known | more))}"
                )

    def _spoken(self) -> Iterator[tuple[str, str, frozenset[str], frozenset[str]]]:
        """Yield every text: key, text, known names besides variables, names possibly unfilled."""
        for key, text in _texts_in(self.phrases.model_dump(by_alias=True), "phrases"):
            yield key, text, _PHRASE_NAMES.get(key.split(".")[1], frozenset()), frozenset()
        fallback = self.fallback.model_dump(include={"reprompts", "silence", "way_out"})
        for key, text in _texts_in(fallback, "fallback"):
            yield key, text, frozenset({"examples"}), frozenset()
        for name, intent in self.intents.items():
            yield from self._spoken_by(name, intent)

    def _spoken_by(
        self, name: str, intent: Intent
    ) -> Iterator[tuple[str, str, frozenset[str], frozenset[str]]]:
        slots = frozenset(self.slots_of(name))
        unsure = frozenset(
            slot for slot, s in intent.slots.items() if not s.required and s.default is None
        )
        answer = slots | ({"message", "data"} if intent.tool or intent.transfer else frozenset())
        base = f"intents.{name}"
        for field, known in (("confirm", slots), ("before", slots), ("say", answer)):
            text = getattr(intent, field)
            if text is not None:
                yield f"{base}.{field}", text, known, unsure
        for slot, answers in intent.answers.items():
            for value, text in answers.items():
                yield f"{base}.answers.{slot}.{value}", text, answer, unsure - {slot}
        for status, text in intent.failures.items():
            yield f"{base}.failures.{status}", text, answer, unsure
        for field in ("transfer", "more"):
            text = getattr(intent, field)
            if text is not None:
                yield f"{base}.{field}", text, slots, unsure
        for key, text in _texts_in(intent.arguments or {}, f"{base}.arguments"):
            yield key, text, slots, frozenset()
        for slot, spec in intent.slots.items():
            for text in (*spec.ask, *((spec.unknown,) if spec.unknown else ())):
                yield f"{base}.slots.{slot}", text, frozenset(), frozenset()


def _texts_in(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield every string inside a structure, with its dotted key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts_in(item, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _texts_in(item, f"{key}[{number}]")
