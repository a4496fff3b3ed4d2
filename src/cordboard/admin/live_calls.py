"""The rows of the live calls, from the events of the ledger and the state of the engine.

A row is made for all viewers at once. State, speaker and cost are read from the call itself; turns,
words, waits and tools are counted from the events, at a few microseconds each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
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
        """Version, call and context."""
        self._forgotten = 0
        """Version of the last ended call that `_gone` has dropped."""
        self.version = 0
        """Number of the last change of any row."""
        self.node = ""
        """Name of this node; empty if the engine is alone."""
        self._elsewhere: dict[str, str] = {}
        """Instances that have the shown calls of other engines."""
        self._others: dict[str, dict[str, dict[str, Any]]] = {}
        """Rows of the other engines, by instance and call."""
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

    def elsewhere(self, call_id: str) -> tuple[str, Mapping[str, Any]] | None:
        """Return the engine that has a call, and its row; None if it is not another one's."""
        instance, shown = self._elsewhere.get(call_id), self._shown.get(call_id)
        return None if instance is None or shown is None else (instance, shown.fields)

    def rows_elsewhere(self, rights: Rights) -> list[dict[str, Any]]:
        """Return the rows of the other engines' calls within a scope."""
        shown = {call_id: self._shown[call_id] for call_id in self._elsewhere}
        return [
            {"call_id": call_id, **each.fields}
            for call_id, each in shown.items()
            if rights.covers(each.context)
        ]

    def count_elsewhere(self, instance: str, rights: Rights) -> int:
        """Return the number of another engine's calls within a scope."""
        calls = [call_id for call_id, has in self._elsewhere.items() if has == instance]
        return sum(rights.covers(self._shown[call_id].context) for call_id in calls)

    def take_elsewhere(
        self,
        instance: str,
        rows: Mapping[str, Mapping[str, Any]],
        *,
        whole: bool = False,
        gone: Collection[str] = (),
    ) -> None:
        """Take the changed fields of another engine's calls; `whole`: it has no others."""
        version, kept = self.version + 1, self._others.setdefault(instance, {})
        ended = [each for each in kept if each not in rows and (whole or each in gone)]
        for call_id, row in rows.items():
            fields = {name: value for name, value in row.items() if name != "call_id"}
            kept[call_id] = {**kept.get(call_id, {}), **fields}
            if call_id not in self._facts:  # else it is ours: the other one may have it soon
                self._show(call_id, instance, kept[call_id], version)
        for call_id in ended:
            del kept[call_id]
            if self._elsewhere.get(call_id) == instance:
                del self._elsewhere[call_id]
                self._drop(call_id, version)

    def doubt(self, instance: str, since: str) -> None:
        """The calls of another engine may have changed `since` then: it does not answer."""
        rows = {
            call_id: {"unknown_since": since}
            for call_id, row in self._others.get(instance, {}).items()
            if row["unknown_since"] is None
        }
        self.take_elsewhere(instance, rows)

    def _show(self, call_id: str, instance: str, fields: dict[str, Any], version: int) -> None:
        """Show the row of another engine's call."""
        context, known = str(fields.get("context", "")), self._shown.get(call_id)
        if known is None or known.context != context:
            if known is not None:
                self._leave(call_id, known.context, version)
            changed = dict.fromkeys(fields, version)
            self._shown[call_id] = _Shown(context, fields, changed, version, ())
        else:
            before, changed = known.fields, known.changed
            known.changed = {
                name: changed[name] if name in before and before[name] == value else version
                for name, value in fields.items()
            }
            known.fields, known.version, known.moment = fields, version, ()
        self._elsewhere[call_id] = instance
        self.version = version

    def _drop(self, call_id: str, version: int) -> None:
        """Remove the row of a call that is over here; another engine may go on with it."""
        other = next((name for name, rows in self._others.items() if call_id in rows), "")
        self._leave(call_id, self._shown.pop(call_id).context, version)
        if other:
            self._show(call_id, other, self._others[other][call_id], version)
        self.version = version

    def _leave(self, call_id: str, context: str, version: int) -> None:
        """Note that a call has left the scope of those who see a context."""
        if len(self._gone) == MOST_GONE:
            self._forgotten = self._gone[0][0]
        self._gone.append((version, call_id, context))

    def _row(self, facts: CallFacts) -> dict[str, Any]:
        return facts.row() | {"node": self.node, "unknown_since": None}

    def facts(self, call_id: str) -> CallFacts | None:
        """Return the facts of a call; None if it is over."""
        return self._facts.get(call_id)

    def refresh(self, part: int = 0, parts: int = 1) -> None:
        """Compare the rows of one part of the calls with what they were. All at once would hold up
        the audio of the calls for some milliseconds."""
        version = self.version + 1
        for call_id, facts in [*self._facts.items()][part::parts]:
            moment, shown = facts.moment(), self._shown.get(call_id)
            context = facts.call.context_name
            if shown is None or shown.context != context:  # it has come here, into another one
                if shown is not None:
                    self._leave(call_id, shown.context, version)
                    self._elsewhere.pop(call_id, None)
                row = self._row(facts)
                changed = dict.fromkeys(row, version)
                self._shown[call_id] = _Shown(context, row, changed, version, moment)
                self.version = version
            elif moment != shown.moment:
                row, shown.moment = self._row(facts), moment
                # The followers of our own rows have none of a call that has come here.
                has_come = self._elsewhere.pop(call_id, None) is not None
                known = {} if has_come else shown.fields
                differs = [n for n, value in row.items() if n not in known or value != known[n]]
                if differs:
                    shown.changed.update(dict.fromkeys(differs, version))
                    shown.fields, shown.version = row, version
                    self.version = version
        for call_id in self._shown.keys() - self._facts.keys() - self._elsewhere.keys():
            self._drop(call_id, version)

    def changes(
        self, since: int, rights: Rights, *, own: bool = False
    ) -> tuple[list[dict[str, Any]], list[str]] | None:
        """Return the changed fields of the rows within a scope, and the ended calls, after a
        version; None if that was too long ago. Of version 0: everything. `own`: without the rows of
        other engines."""
        if since and since < self._forgotten:
            return None

        def sees(call_id: str) -> bool:
            shown = self._shown.get(call_id)
            hidden = own and call_id in self._elsewhere
            return shown is not None and rights.covers(shown.context) and not hidden

        rows = [
            {"call_id": call_id}
            | {name: shown.fields[name] for name, at in shown.changed.items() if at > since}
            for call_id, shown in self._shown.items()
            if shown.version > since and sees(call_id)
        ]
        gone = [
            call_id
            for version, call_id, context in self._gone
            # A call that went on here or in another engine has a row again.
            if version > since and rights.covers(context) and not sees(call_id)
        ]
        return rows, gone if since else []
