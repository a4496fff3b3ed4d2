"""The rows of the live calls, from the events of the ledger and the state of the engine.

A row is made for all viewers at once. State, speaker and cost are read from the call itself; turns,
words, waits and tools are counted from the events, at a few microseconds each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from cordboard.accounts.rights import Rights
from cordboard.api.answers import to_json
from cordboard.calls import events
from cordboard.calls.call import Call, CallState
from cordboard.calls.events import LedgerEvent
from cordboard.calls.floor import Owed
from cordboard.calls.ledger_file import encode_event
from cordboard.history.masking import masked

MOST_TEXT = 160
"""Characters of the last words."""
MOST_GONE = 1_000
"""Ended calls whose ends are kept for viewers; one who missed more gets all rows again."""
QUEUE_STEP_MS = 500
"""Milliseconds to which the waiting sound is rounded up: else rows would change all the time."""
_HUMAN_STEPS = ("briefing", "introducing", "joined")
"""Steps of a transfer in which the human is on the line."""
_PERSONAL: Mapping[str, frozenset[str]] = {
    "caller.text": frozenset({"text", "understood"}),
    "caller.key": frozenset({"key"}),
    "agent.text": frozenset({"text"}),
    "agent.interrupted": frozenset({"heard"}),
    "agent.cut_off": frozenset({"heard"}),
    "call.silence": frozenset({"text"}),
    "call.offered": frozenset({"caller_name", "caller_number"}),
    "tool.asked": frozenset({"arguments"}),
    "tool.filler": frozenset({"text"}),
    "tool.approval": frozenset({"question"}),
    "tool.answered": frozenset({"message", "cut", "sent"}),
    "tool.late": frozenset({"message"}),
    "call.trouble": frozenset({"message"}),
    "transfer.step": frozenset({"detail"}),
    "line.transfer": frozenset({"error"}),
    "line.keys": frozenset({"keys"}),
    "operator.say": frozenset({"text"}),
    "operator.hint": frozenset({"text"}),
    "operator.whisper": frozenset({"text"}),
    "conference.step": frozenset({"detail"}),
    "operator.hangup": frozenset({"reason"}),
    "call.flagged": frozenset({"text"}),
    "announcement.heard": frozenset({"text"}),
    "message.taken": frozenset({"text", "about"}),
    "callback.requested": frozenset({"number", "about"}),
}
"""Fields of events that have numbers, or words of the caller, the agent or a tool."""


def without_personal(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ledger's line without words, and with its number masked."""
    hidden = _PERSONAL.get(str(line.get("type")), frozenset())
    shown = {name: type(value)() if name in hidden else value for name, value in line.items()}
    if "caller_number" in hidden:
        shown["caller_number"] = masked(str(line.get("caller_number", "")))
    return shown


@dataclass(slots=True, eq=False)
class CallFacts:
    """The facts of one call, counted from its events so far."""

    call: Call
    events: int = 0
    """Events so far: the number of the last one."""
    last_ms: int = 0
    turn: int = 0
    last: dict[str, Any] | None = None
    waiting_since_ms: int | None = None
    waits: list[int] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)
    """Names of the tools that run, by `ask_id`."""
    tools: int = 0
    tools_failed: int = 0
    human: str = ""
    operator: str = ""
    held: bool = False
    troubles: int = 0
    config: str = ""
    over: bool = False
    followers: int = 0
    tail: deque[tuple[int, bytes, bytes]] = field(default_factory=lambda: deque(maxlen=256))
    """Number and line of the last events while a viewer follows; the second line is masked."""

    def take(self, at_ms: int, event: LedgerEvent) -> None:
        """Count an event."""
        self.events += 1
        self.last_ms = at_ms
        match event:
            case events.Offered(config=config):
                self.config = config
            case events.TurnEnded(turn=turn, last_speech_ms=since):
                self.turn, self.waiting_since_ms = turn, since
            case events.Heard(text=text, understood=understood):
                self._said("caller", understood or text, at_ms)
            case events.Answering(text=text):
                self._said("agent", text, at_ms)
            case events.AudioStarted() | events.SpeechBegan():
                self.waiting_since_ms, self.held = None, False
            case events.Held():
                self.held = True
            case events.Resumed() | events.BargedIn():
                self.held = False
            case events.Latency(total_ms=total, filler=False):
                self.waits.append(total)
            case events.Answered(answer_ms=answer):
                self.waits.append(answer)
            case _:
                self._take_rest(event)

    def _take_rest(self, event: LedgerEvent) -> None:
        """Count the events that are not about words and turns."""
        match event:
            case events.ToolCalled(ask_id=ask_id, name=name):
                self.running[ask_id] = name
                self.tools += 1
            case events.ToolAnswered(ask_id=ask_id, status=status):
                self.running.pop(ask_id, None)
                self.tools_failed += status in ("error", "timeout")
            case events.Trouble():
                self.troubles += 1
            case events.TransferStep(destination=destination, step=step):
                self.human = destination if step in _HUMAN_STEPS else ""
            case events.ConferenceStep(destination=destination, step=step):
                self.operator = destination if step == "joined" else ""

    def _said(self, who: str, text: str, at_ms: int) -> None:
        if text:
            self.last = {"who": who, "text": text[:MOST_TEXT], "at_ms": at_ms}

    def row(self) -> dict[str, Any]:
        """Return the row for those who may see what is personal."""
        call, waits = self.call, self.waits
        offer = call.offer
        latency = None
        if waits:
            latency = {"last_ms": waits[-1], "p50_ms": median_low(waits), "worst_ms": max(waits)}
        cost = None
        if call.cost is not None:
            cost = {"amount": f"{call.cost:.6f}", "currency": call.currency}
        return {
            "started_at": call.started_at.isoformat(timespec="milliseconds"),
            "source": offer.source,
            "direction": "in" if offer.outbound is None else "out",
            "context": call.context_name,
            "provider": call.provider_name,
            "config": self.config,
            "caller_number": offer.caller_number,
            "caller_name": offer.caller_name,
            "called_number": offer.called_number,
            "state": self._state(),
            "speaking": _speaking(call),
            "turn": self.turn,
            "last": self.last,
            "waiting_since_ms": self.waiting_since_ms,
            "latency": latency,
            "tools": {
                "running": [*self.running.values()],
                "calls": self.tools,
                "failed": self.tools_failed,
            },
            "cost": cost,
            "recording": call.recording,
            "troubles": self.troubles,
            "transport": offer.transport or offer.source,
            "test": offer.test is not None,
            "queued_ms": _queued_ms(call),
            "watched": self.followers,
            "listened": call.operator.listened,
            "human": self.human,
            "operator": self.operator,
        }

    def moment(self) -> tuple[Any, ...]:
        """Return what the row depends on: while it is the same, so is the row."""
        call = self.call
        return (
            self.events,
            self._state(),
            _speaking(call),
            call.cost,
            call.provider_name,
            call.recording,
            _queued_ms(call),
            self.followers,
            call.operator.listened,
        )

    def _state(self) -> str:
        call = self.call
        conversation = call.conversation
        if call.state is not CallState.TALKING or conversation is None:
            return str(call.state)
        if conversation.floor.caller_holds:
            return "on_hold"
        if self.held:
            return "held"
        if conversation.playout.speaking:
            return "speaking" if self.turn else "greeting"
        if self.running:
            return "tool"
        return "thinking" if conversation.floor.owed is Owed.ANSWER else "listening"


def _speaking(call: Call) -> str:
    conversation = call.conversation
    if conversation is None:
        return "nobody"
    if conversation.floor.caller_speaks:
        return "caller"
    return "agent" if conversation.playout.speaking else "nobody"


def _queued_ms(call: Call) -> int:
    conversation = call.conversation
    queued = conversation.playout.queued_ms if conversation is not None else 0
    return -(-queued // QUEUE_STEP_MS) * QUEUE_STEP_MS


def mask_row(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a row for those who may not see what is personal."""
    shown = dict(fields)
    if "caller_number" in shown:
        shown["caller_number"] = masked(shown["caller_number"])
    if "caller_name" in shown:
        shown["caller_name"] = ""
    if shown.get("last") is not None:
        shown["last"] = shown["last"] | {"text": ""}
    return shown


@dataclass(slots=True, eq=False)
class _Shown:
    """A row as the viewers have it, with the version of each field's last change."""

    context: str
    fields: dict[str, Any]
    changed: dict[str, int]
    version: int
    moment: tuple[Any, ...]


class LiveCalls:
    """All live calls of one engine."""

    def __init__(self, calls: Callable[[], Mapping[str, Call]]) -> None:
        self._calls = calls
        self._facts: dict[str, CallFacts] = {}
        self._shown: dict[str, _Shown] = {}
        self._gone: deque[tuple[int, str, str]] = deque(maxlen=MOST_GONE)
        self._forgotten = 0
        """Version of the last ended call that `_gone` has dropped."""
        self.version = 0
        """Number of the last change of any row."""
        self.on_event: Callable[[str], None] = lambda _: None
        """Called with the id of a followed call that has a new event."""

    def take(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        """Count a ledger's event. Written conversations and tries are left out: they are no
        calls."""
        facts = self._facts.get(call_id)
        if facts is None:
            call = self._calls().get(call_id)
            if call is None or not isinstance(event, events.Offered):
                return
            facts = self._facts[call_id] = CallFacts(call)
        facts.take(at_ms, event)
        facts.over = isinstance(event, events.Ended)
        if facts.followers:
            line = encode_event(at_ms, event)[:-1]
            hidden = {"at_ms": at_ms, "type": event.type, **event.fields()}
            facts.tail.append((facts.events, line, to_json(without_personal(hidden))))
            self.on_event(call_id)
        if facts.over:
            del self._facts[call_id]

    def facts(self, call_id: str) -> CallFacts | None:
        """Return the facts of a call; None if it is over."""
        return self._facts.get(call_id)

    def refresh(self, part: int = 0, parts: int = 1) -> bool:
        """Compare the rows of one part of the calls with what they were. True if any differs. All
        at once would hold up the audio of the calls for some milliseconds."""
        version = self.version + 1
        for call_id, facts in [*self._facts.items()][part::parts]:
            moment, shown = facts.moment(), self._shown.get(call_id)
            if shown is None:
                row = facts.row()
                changed = dict.fromkeys(row, version)
                context = facts.call.context_name
                self._shown[call_id] = _Shown(context, row, changed, version, moment)
                self.version = version
            elif moment != shown.moment:
                row, shown.moment = facts.row(), moment
                differs = [name for name, value in row.items() if value != shown.fields[name]]
                if differs:
                    shown.changed.update(dict.fromkeys(differs, version))
                    shown.fields, shown.version = row, version
                    self.version = version
        for call_id in self._shown.keys() - self._facts.keys():
            if len(self._gone) == MOST_GONE:
                self._forgotten = self._gone[0][0]
            self._gone.append((version, call_id, self._shown.pop(call_id).context))
            self.version = version
        return self.version == version

    def changes(self, since: int, rights: Rights) -> tuple[list[dict[str, Any]], list[str]] | None:
        """Return the changed fields of the rows within a scope, and the ended calls, after a
        version; None if that was too long ago. Of version 0: everything."""
        if since and since < self._forgotten:
            return None
        rows = [
            {"call_id": call_id}
            | {name: shown.fields[name] for name, at in shown.changed.items() if at > since}
            for call_id, shown in self._shown.items()
            if shown.version > since and rights.covers(shown.context)
        ]
        gone = [
            call_id
            for version, call_id, context in self._gone
            if version > since and rights.covers(context)
        ]
        return rows, gone if since else []
