"""A call that began in an engine that was lost, as its ledger tells it.

`CallSoFar.of` reads the lines; the parts of the call that goes on take from it what they continue:
turns, words, tools, costs, proofs, recording. What the lost engine had open is closed by further
lines (`closing`), so that every reader of the ledger understands the rest without knowing about the
loss. Pure; a call of an hour takes some 100 ms, so read it in a thread.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, TypeVar

import orjson

from cordboard.agent_api.agent import Said
from cordboard.calls import events
from cordboard.calls.events import EVENTS, LedgerEvent, event_of
from cordboard.calls.history import CallHistory, ToolUse, Turn
from cordboard.calls.ledger_file import encode_event
from cordboard.calls.offer import ResumedCall
from cordboard.config.conversation import Resume
from cordboard.tools.masking import CUT, MASK
from cordboard.tools.tool import Effects, ToolAsk, ToolSpec

UNKNOWN_SILENCE_MS = 3_000
"""Silence of the caller where it is unknown: an engine counts as lost after some 2 s."""
MS_PER_CHARACTER = 75
"""Speech of one character: a voice of some 150 words a minute. How much of a cut sentence was
heard can only be estimated, and rather too little than too much."""
MOST_QUOTED = 160
"""Characters of the caller's last words that are repeated to them."""
MOVED = "moved"
"""Outcome of a call that another engine goes on with, in the ledger of the engine that had it."""
ENGINE_LOST = "the engine was lost"
OUTCOME_UNKNOWN = "The engine was lost meanwhile. It is not known whether it was done."
REDACTED = re.compile(r"\[\w+\]")
"""Stands for what records may not have (`privacy.redact`)."""
ASK_THE_CALLER = frozenset(
    {"builtin:transfer", "builtin:take_message", "builtin:request_callback", "builtin:hangup_call"}
)
"""Tools whose unanswered calls leave no doubt: without the caller they do nothing, and the caller
is still there."""
_LONGEST_AT_MS = 2**53
_SEAT = re.compile(r"(\d{1,9}):")
_LOOK_UP = re.compile(r"(?:\d{1,9}:)?(pre\.\d+)")
"""Ids of the steps of `pre_call`."""

Kind = TypeVar("Kind", bound=LedgerEvent)


@dataclass(frozen=True, slots=True)
class EarlierRecording:
    """The recording of a call until this engine had it."""

    files: int = 0
    """Number of files: they may be on another machine."""
    allowed: bool = False
    """True if the call was being recorded, or the caller has heard the sentence of consent."""
    paused: bool = False
    """True if it was paused."""


NOT_RECORDED_YET = EarlierRecording()


@dataclass(frozen=True, slots=True)
class EarlierUse:
    """A tool call of the lost engine."""

    name: str
    origin: str
    arguments: Mapping[str, Any]
    """As they were recorded: secrets masked."""
    done: bool
    """True if it was answered; False: it is not known whether it was done."""
    told: bool
    """True if the caller has heard what the agent said after it."""
    message: str = ""
    """The answer."""


def whole_lines(lines: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the lines of a ledger as another engine may go on with them: up to its end, each that
    cannot be used replaced by a `ledger.gap`. None if they do not begin as a ledger does."""
    whole: list[bytes] = []
    last_ms = 0
    for line in lines:
        read = _read(line)
        if not whole and (read is None or read["type"] != events.Offered.type):
            return ()
        if read is None:
            line = encode_event(last_ms, events.Gap(1, last_ms))
        else:
            last_ms = max(last_ms, read["at_ms"])
        whole.append(line)
        if read is not None and read["type"] == events.Ended.type:
            break
    return tuple(whole)


@dataclass(frozen=True)
class CallSoFar:
    """A call until its engine was lost. Times are ms since the offer."""

    resumed: ResumedCall
    lines: tuple[bytes, ...]
    """All lines but the end, as they are to be copied."""
    known: tuple[tuple[int, LedgerEvent], ...]
    """Time and event of the lines whose type this version knows."""
    ended: events.Ended | None = None
    """Set if the engine was lost after the end of the call, before it had let go of the caller."""
    seen_ms: int = 0
    """Time of this reading by the wall clock; never before the last line."""
    lost_ms: int = 0
    """Time of the loss, estimated."""

    @classmethod
    def of(cls, resumed: ResumedCall, now: datetime.datetime) -> CallSoFar:
        """Read a call. `now`: wall clock, with its zone. Never raises: lines that cannot be used
        are left out."""
        lines = whole_lines(resumed.lines)
        found = [(line["at_ms"], event_of(line)) for line in map(_read, lines) if line is not None]
        known = [(at_ms, event) for at_ms, event in found if event is not None]
        ended = next((event for _, event in known if isinstance(event, events.Ended)), None)
        if ended is not None:
            lines, known = lines[:-1], known[:-1]
        last_ms = max((at_ms for at_ms, _ in known), default=0)
        begun = _begun(known)
        passed = round((now - begun).total_seconds() * 1000) if begun is not None else 0
        silence = resumed.silence_ms if resumed.silence_ms is not None else UNKNOWN_SILENCE_MS
        # The clocks of two machines differ: the call's time goes on, and never back.
        seen = max(passed, last_ms + (resumed.silence_ms or 0))
        lost = min(seen, max(last_ms, seen - silence))
        so_far = cls(resumed, lines, tuple(known), ended, seen, lost)
        for name in _FOR_THE_CALL:  # made here, in the reader's thread
            getattr(so_far, name)
        return so_far

    @property
    def is_unnoticed(self) -> bool:
        """True if the other engine hands the call over: the caller is to notice nothing."""
        return self.resumed.hand_over is not None

    @property
    def offered(self) -> events.Offered | None:
        """The first line; None if nothing is known of the call."""
        return next(iter(self.of_kind(events.Offered)), None)

    @property
    def started_at(self) -> datetime.datetime | None:
        """Wall-clock time of the offer; None if nothing is known of the call."""
        return _begun(self.known)

    @cached_property
    def history(self) -> CallHistory:
        """The history, with what was open closed."""
        closed = ((self.seen_ms, event) for event in self.closing)
        return CallHistory.from_lines(
            {"at_ms": at_ms, "type": event.type, **event.fields()}
            for at_ms, event in (*self.known, *closed)
        )

    # The conversation.

    @cached_property
    def has_begun(self) -> bool:
        """True if the caller has heard the agent, or the agent has heard the caller."""
        begins = (events.AudioStarted, events.SpeechBegan, events.TurnEnded)
        return any(isinstance(event, begins) for _, event in self.known)

    @cached_property
    def was_greeted(self) -> bool:
        """True if the first words were over: heard, or cut by the caller."""
        return any(
            isinstance(event, events.TurnEnded)
            or (isinstance(event, (events.AudioEnded, events.BargedIn)) and event.turn == 0)
            for _, event in self.known
        )

    @cached_property
    def caller_spoke(self) -> bool:
        """True if a word of the caller was understood, or they have pressed a key."""
        return any(
            isinstance(event, events.Key) or (isinstance(event, events.Heard) and event.text)
            for _, event in self.known
        )

    @cached_property
    def last_turn(self) -> int:
        """Number of the last turn."""
        return max((getattr(event, "turn", 0) for _, event in self.known), default=0)

    @cached_property
    def seat(self) -> int:
        """Number by which the ids of this engine's tool calls differ from all earlier ones."""
        asked = (_SEAT.match(event.ask_id) for event in self.of_kind(events.ToolCalled))
        return 1 + max((int(found[1]) for found in asked if found), default=0)

    @property
    def connected_ms(self) -> int | None:
        return self.history.connected_ms

    @cached_property
    def said(self) -> tuple[Said, ...]:
        """Return the conversation; of the agent's sentences only what was heard, as far as it is
        known, and no fillers."""
        fillers = self._fillers
        found: list[Said] = []
        for turn in self._turns:
            kept = " ".join(text for text in turn.said if text and text not in fillers)
            for said in (Said("caller", turn.understood), Said("agent", kept)):
                if not said.text:
                    continue
                if found and found[-1].who == said.who:
                    found[-1] = Said(said.who, f"{found[-1].text} {said.text}")
                else:
                    found.append(said)
        return tuple(found)

    def request(self) -> str:
        """Return the caller's last words if they have no answer, or not all of one was heard; to be
        repeated to them. Empty if there are none, or they may not be repeated."""
        last = next((turn for turn in reversed(self._turns) if turn.understood), None)
        if last is None or last.number < self.last_turn:
            return ""
        fillers = self._fillers
        answered = any(text and text not in fillers for text in last.said) and not last.cut
        text = " ".join(last.understood.split()).rstrip(" .,;:!?")
        if answered or REDACTED.search(text):
            return ""
        return text if len(text) <= MOST_QUOTED else f"{_whole_words(text, MOST_QUOTED)} …"

    def words(self, resume: Resume) -> str:
        """Return the sentence with which the call goes on."""
        if self.open_transfer is not None:
            return resume.phrase if self.open_transfer.step == "joined" else resume.transfer
        request = self.request()
        if request and "{request}" in resume.recall:
            return resume.recall.replace("{request}", request)
        return resume.phrase

    # Tools.

    @cached_property
    def uses(self) -> tuple[EarlierUse, ...]:
        """Return the tool calls that were not refused; steps of workflows are among them."""
        open_asks = {ask.ask_id for _, ask in self._open_asks()}
        late = {event.ask_id for event in self.of_kind(events.ToolLate)}
        found = []
        for turn in self._turns:
            for use in turn.tools:
                unknown = use.ask_id in open_asks or (
                    use.status in ("cancelled", "timeout") and use.ask_id not in late
                )
                if use.status == "refused" or _LOOK_UP.fullmatch(use.ask_id):
                    continue
                told = turn.number < self.last_turn or (turn.answer_end_ms is not None)
                found.append(
                    EarlierUse(
                        use.name,
                        use.tool,
                        use.arguments,
                        not unknown,
                        told and not turn.cut,
                        use.late or use.message,
                    )
                )
        return tuple(found)

    def note(self, specs: Iterable[ToolSpec]) -> str:
        """Return what the agent's model must know, for its instructions. `specs`: its tools."""
        harmful = {spec.name for spec in specs if spec.effects is Effects.DESTRUCTIVE}
        uses = [use for use in self.uses if use.name in harmful]
        unknown = [use for use in uses if not use.done and use.origin not in ASK_THE_CALLER]
        untold = [use for use in uses if use.done and not use.told]
        if self.is_unnoticed:
            lines = ["This conversation is under way: do not greet the caller again."]
        else:
            lines = [
                "The line to the caller dropped for a moment in this call. They have been told so; "
                "do not greet them again."
            ]
        if unknown:
            lines.append(
                "These tools were asked for before that, and it is not known whether they were "
                "done. Do not ask for them again unless the caller wants it:"
            )
            lines += [f"- {use.name} {_json(use.arguments)}" for use in unknown]
        if untold:
            lines.append("These tools were done before that, and the caller may not know it:")
            lines += [
                f"- {use.name} {_json(use.arguments)}: {_json(use.message)}" for use in untold
            ]
        return "\n".join(lines)

    def pre_call(self) -> Mapping[str, ToolUse]:
        """Return the answered look-ups before the call by their `ask_id`."""
        uses = (use for turn in self._turns for use in turn.tools)
        return {found[1]: use for use in uses if (found := _LOOK_UP.fullmatch(use.ask_id))}

    # What else goes on.

    @cached_property
    def cost(self) -> float | None:
        """Known cost so far."""
        costs = [event.cost for event in self.of_kind(events.AgentUsed) if event.cost is not None]
        return sum(costs) if costs else None

    @cached_property
    def proven(self) -> frozenset[str]:
        """Kinds of announcements that the caller has heard to their end."""
        found: set[str] = set()
        for _, event in self.known:
            if isinstance(event, events.AnnouncementHeard):
                found.add(event.kind)
            elif isinstance(event, events.AnnouncementUnheard):
                found.discard(event.kind)
        return frozenset(found)

    @cached_property
    def recording(self) -> EarlierRecording:
        runs = paused = came = void = False
        for _, event in self.known:
            match event:
                case events.Adopted():
                    came = True
                case events.RecordingStarted():
                    runs, paused, came = True, False, False
                case events.RecordingStopped():
                    # One that follows `call.adopted` closes the file of the engine before: the
                    # engine after it was lost, too, before it had a file of its own.
                    runs, came = runs and came, False
                case events.RecordingPaused():
                    paused = True
                case events.RecordingResumed():
                    paused = False
                case events.AnnouncementUnheard(kind="consent", reason="machine"):
                    void = True
                case events.AnnouncementHeard(kind="consent"):
                    void = False
        files = len(self.of_kind(events.RecordingStarted))
        allowed = (runs and not void) or "consent" in self.proven
        return EarlierRecording(files, allowed, runs and paused)

    @cached_property
    def open_transfer(self) -> events.TransferStep | None:
        """The last step of a transfer that was under way; None if there was none. With `joined`,
        caller and human have talked since, and have parted."""
        found: events.TransferStep | None = None
        for _, event in self.known:
            if isinstance(event, events.TransferStep):
                found = event if event.step not in ("over", "back") else None
            elif isinstance(event, events.Transferred):
                found = None
        return found

    @cached_property
    def closing(self) -> tuple[LedgerEvent, ...]:
        """The events that close what the lost engine had open."""
        closed: list[LedgerEvent] = [*self._cuts()]
        if (began := self._open(events.HoldBegan, events.HoldEnded)) is not None:
            closed.append(events.HoldEnded(max(0, self.lost_ms - began)))
        if (began := self._open(events.MusicBegan, events.MusicEnded)) is not None:
            closed.append(events.MusicEnded(max(0, self.lost_ms - began)))
        conferences = self.of_kind(events.ConferenceStep)
        if conferences and conferences[-1].step != "over":
            closed.append(events.ConferenceStep(conferences[-1].destination, "over", ENGINE_LOST))
        if (step := self.open_transfer) is not None:
            done = step.step == "joined"
            outcome, error = ("accepted", "") if done else ("failed", ENGINE_LOST)
            closed.append(events.TransferStep(step.destination, "over", ENGINE_LOST))
            closed.append(events.Transferred(step.destination, done, error, outcome))
        closed += [
            events.ToolAnswered(
                ask.ask_id,
                ask.name,
                "cancelled",
                OUTCOME_UNKNOWN,
                max(0, self.lost_ms - at_ms),
                tries=0,
            )
            for at_ms, ask in self._open_asks()
        ]
        if (began := self._open(events.RecordingStarted, events.RecordingStopped)) is not None:
            closed.append(events.RecordingStopped(max(0, self.lost_ms - began), 0))
        return tuple(closed)

    def of_kind(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of one kind."""
        return [event for _, event in self.known if isinstance(event, kind)]

    # Inside.

    @cached_property
    def _turns(self) -> list[Turn]:
        return [turn for _, turn in sorted(self.history.turns.items())]

    @cached_property
    def _fillers(self) -> set[str]:
        bridges = {each.text for each in self.of_kind(events.Silence) if each.kind != "reprompt"}
        return bridges | {each.text for each in self.of_kind(events.ToolFiller)}

    def _open(self, begin: type[LedgerEvent], end: type[LedgerEvent]) -> int | None:
        """Return the time of the last `begin` without an `end`."""
        found: int | None = None
        for at_ms, event in self.known:
            if isinstance(event, begin):
                found = at_ms
            elif isinstance(event, end):
                found = None
        return found

    def _open_asks(self) -> list[tuple[int, events.ToolCalled]]:
        asked: dict[str, tuple[int, events.ToolCalled]] = {}
        for at_ms, event in self.known:
            if isinstance(event, events.ToolCalled):
                asked[event.ask_id] = at_ms, event
            elif isinstance(event, events.ToolAnswered):
                asked.pop(event.ask_id, None)
        return list(asked.values())

    def _cuts(self) -> list[events.CutOff]:
        """Return what was heard of the answers that were being spoken, or were about to be."""
        texts: dict[int, list[str]] = {}
        began: dict[int, int] = {}
        for at_ms, event in self.known:
            match event:
                case events.Answering(turn=turn, text=text):
                    texts.setdefault(turn, []).append(text)
                case events.AudioStarted(turn=turn):
                    began.setdefault(turn, at_ms)
                case (
                    events.AudioEnded(turn=turn)
                    | events.BargedIn(turn=turn)
                    | events.CutOff(turn=turn)
                ):
                    texts.pop(turn, None)
                    began.pop(turn, None)
        cuts = []
        for turn, said in texts.items():
            heard_ms = self.lost_ms - began[turn] if turn in began else 0
            heard = _whole_words(" ".join(said), heard_ms // MS_PER_CHARACTER)
            cuts.append(events.CutOff(turn, heard, heard_ms))
        return cuts


class EarlierUses:
    """The tool calls of the lost engine that must not be done twice.

    The same call of a tool with effects is refused at first, so that the agent tells the caller.
    When the agent asks for it again after a turn of the caller, the desk has the caller confirm it.
    """

    def __init__(self, uses: Sequence[EarlierUse] = ()) -> None:
        self._uses = [use for use in uses if use.done or use.origin not in ASK_THE_CALLER]
        self._told: list[tuple[EarlierUse, int]] = []
        """Refused before, in this turn."""

    def like(self, ask: ToolAsk, spec: ToolSpec) -> EarlierUse | None:
        """Return the earlier call that this one would repeat."""
        if spec.effects is not Effects.DESTRUCTIVE:
            return None
        found = (
            use
            for use in self._uses
            if use.name == ask.name and _same(use.arguments, ask.arguments)
        )
        return next(found, None)

    def may_be_confirmed(self, use: EarlierUse, turn: int) -> bool:
        """Note that it is asked for. True if the caller has had a turn since it was refused."""
        told_in = next((at for each, at in self._told if each is use), None)
        if told_in is None:
            self._told.append((use, turn))
        return told_in is not None and turn > told_in

    def confirmed(self, ask: ToolAsk) -> None:
        """Note that the caller wants it."""
        self._uses = [
            use
            for use in self._uses
            if use.name != ask.name or not _same(use.arguments, ask.arguments)
        ]


def refusal(use: EarlierUse) -> str:
    """Return why the repeated call is refused, for the agent."""
    if not use.done:
        return (
            f"{use.name} with these arguments was asked for before the line dropped, and it is not "
            "known whether it was done. Tell the caller so, and ask for it again only if they say "
            "that it shall be done."
        )
    return (
        f"{use.name} with these arguments was done before the line dropped. It answered: "
        f"{use.message} Tell the caller so, and ask for it again only if they want it once more."
    )


def uses_by_name(so_far: CallSoFar) -> Counter[str]:
    """Return the number of runs of each tool."""
    return Counter(use.name for use in so_far.uses)


def _same(recorded: Any, asked: Any) -> bool:
    """True if a recorded value may be this one: what was masked in it may be anything."""
    if isinstance(recorded, str):
        hidden = MASK in recorded or recorded.endswith(CUT) or REDACTED.search(recorded)
        return bool(hidden) or recorded == asked
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        return recorded.keys() == asked.keys() and all(
            _same(value, asked[name]) for name, value in recorded.items()
        )
    if isinstance(recorded, list) and isinstance(asked, list):
        return len(recorded) == len(asked) and all(map(_same, recorded, asked))
    return bool(recorded == asked)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:2_000]


def _whole_words(text: str, most: int) -> str:
    """Return the beginning of a text, at most so many characters, without half a word."""
    if len(text) <= most:
        return text
    return text[: max(0, most) + 1].rpartition(" ")[0]


def _begun(known: Sequence[tuple[int, LedgerEvent]]) -> datetime.datetime | None:
    offered = next((event for _, event in known if isinstance(event, events.Offered)), None)
    if offered is None:
        return None
    try:
        begun = datetime.datetime.fromisoformat(offered.started_at)
    except ValueError:
        return None
    return begun if begun.tzinfo is not None else None


_FOR_THE_CALL: Final = (
    "has_begun", "was_greeted", "caller_spoke", "last_turn", "seat", "said", "uses", "cost",
    "proven", "recording", "open_transfer",
)  # fmt: skip
_KINDS: Final[Mapping[str, type[LedgerEvent]]] = {kind.type: kind for kind in EVENTS}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "list": (list,),
    "dict": (dict,),
}


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a line of a ledger; None if it cannot be used. A type that this version does not know
    can."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not (isinstance(found, dict) and isinstance(found.get("type"), str)):
        return None
    at_ms = found.get("at_ms")
    if isinstance(at_ms, bool) or not isinstance(at_ms, int) or not 0 <= at_ms < _LONGEST_AT_MS:
        return None
    return found if _fits(found) else None


def _fits(line: Mapping[str, Any]) -> bool:
    """True if the fields of a line have the types of its event."""
    kind = _KINDS.get(line["type"])
    if kind is None:
        return True
    event = event_of(line)
    return event is not None and all(
        _is_of(str(each.type), getattr(event, each.name))
        for each in fields(kind)  # type: ignore[arg-type]
    )


def _is_of(annotation: str, value: object) -> bool:
    name, _, rest = annotation.partition(" | ")
    if value is None:
        return rest == "None"
    return isinstance(value, _TYPES[name.partition("[")[0]])
