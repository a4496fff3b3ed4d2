"""The history of a call, derived only from its ledger: transcript, turns, tools.

`read` reads the file of a finished or a running call (an incomplete last line after a crash is
dropped), `CallHistory.from_lines` reads lines as they come. The demo, `cordboard call`, the picture
and the tests all use it.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from cordboard.calls.ledger_file import REFUSED_OFFERS
from cordboard.privacy.sealed_file import PLAIN, Vault

LedgerLine = Mapping[str, Any]


_CUTS = ("agent.interrupted", "agent.cut_off")
"""Events after which the rest of an answer was not heard."""


@dataclass(slots=True)
class ToolUse:
    """One tool call. Times are ms since the offer."""

    ask_id: str
    name: str
    arguments: Mapping[str, Any]
    asked_ms: int
    status: str = "unanswered"
    message: str = ""
    answered_ms: int | None = None
    filler: str = ""
    tool: str = ""
    """Internal id, such as `mcp:crm:find`."""
    tries: int = 1
    sent: Mapping[str, Any] = field(default_factory=dict)
    """The data that the agent received."""
    cut: list[str] = field(default_factory=list)
    """Parts of the data that it did not receive."""
    parent: str = ""
    """Id of the workflow's tool call, if this is a step of a workflow."""
    reason: str = ""
    """Reason of a refusal."""
    source: str = "run"
    """The origin of the answer: `run`, `cache`, `joined` or `late`."""
    late: str = ""
    """The late answer, after the tool call had been given up."""
    late_told: bool | None = None
    """True if the caller heard the late answer; None if there is none."""


@dataclass(slots=True)
class Approval:
    """A request for the caller's approval. Times are ms since the offer."""

    question: str
    answer: str
    """`yes`, `no` or `none`."""
    by: str
    """`voice` or `key`; empty without an answer."""
    asked_ms: int
    answered_ms: int


@dataclass(slots=True)
class Overlap:
    """A voice over the agent's, and its outcome. Times are ms since the offer."""

    onset_ms: int
    """First sample of the voice."""
    held_ms: int
    """Time when the agent fell silent."""
    over_ms: int | None = None
    """Time when it continued or was interrupted; None while that is undecided."""
    verdict: str = ""
    """`interruption`, or why it continued: `backchannel`, `noise`, `echo`, `key`, `undecided`."""


@dataclass(slots=True)
class Gap:
    """Missing lines. Times are ms since the offer."""

    lost: int
    since_ms: int
    until_ms: int


@dataclass(slots=True)
class Recording:
    """The recording of a call. Times are ms since the offer."""

    path: str
    """Relative to `calls.directory`."""
    began_ms: int
    """The file begins at this moment."""
    duration_ms: int | None = None
    """None while it goes on, and after the engine was killed."""
    muted: list[tuple[int, int | None]] = field(default_factory=list)
    """Pauses: from, to; None if it was not resumed."""


@dataclass(slots=True)
class Silence:
    """A silence that was too long. Times are ms since the offer."""

    kind: str
    """`filler`, `reprompt`, `goodbye` or `stalled`."""
    since_ms: int
    until_ms: int
    text: str = ""


@dataclass(slots=True)
class Turn:
    """One caller turn and its answer; number 0 is the greeting. Times are ms since the offer."""

    number: int
    speech_ms: int | None = None
    """First speech sample of the caller."""
    last_speech_ms: int | None = None
    endpoint_ms: int | None = None
    heard: str = ""
    """The recogniser's text."""
    understood: str = ""
    """The recogniser's text with misheard names corrected."""
    confidence: float = 0.0
    answer: list[str] = field(default_factory=list)
    """The sentences that the agent was about to speak."""
    said: list[str] = field(default_factory=list)
    """The agent's sentences; only the heard part of a sentence that was cut."""
    spoke_ms: int | None = None
    """Time when the agent was about to speak its last sentence."""
    answer_start_ms: int | None = None
    """First audible sample on the wire, of a filler if there was one."""
    answer_end_ms: int | None = None
    """Time when the caller had heard the whole answer, or it was cut."""
    interrupted: str | None = None
    """The heard part of the answer, if the caller interrupted it."""
    cut: bool = False
    """True if the caller interrupted the answer, or the call ended, before all of it was heard."""
    tools: list[ToolUse] = field(default_factory=list)
    latency: Mapping[str, int] = field(default_factory=dict)
    """`vad_ms`, `endpoint_ms`, `stt_ms`, `brain_ms`, `tts_ms`, `wire_ms`, `total_ms`."""
    filled: bool = False
    """True if a filler was heard first: `latency` is the filler's; `answer_ms` is the answer's."""
    answer_ms: int | None = None
    """Time from the caller's last sample to the answer's first; fillers do not count."""


@dataclass(slots=True)
class CallHistory:
    """One call."""

    call_id: str = ""
    started_at: str = ""
    source: str = ""
    caller_number: str = ""
    caller_name: str = ""
    called_number: str = ""
    external_id: str = ""
    config: str = ""
    """Version of the configuration; empty if it is not known."""
    direction: str = "in"
    """`out` for a call that the engine placed."""
    test: bool = False
    """True if a person made it to try the agent."""
    context: str = ""
    provider: str = ""
    connected_ms: int | None = None
    adopted: list[LedgerLine] = field(default_factory=list)
    """The `call.adopted` lines: engines that were lost."""
    turns: dict[int, Turn] = field(default_factory=dict)
    overlaps: list[Overlap] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    failed_parts: list[LedgerLine] = field(default_factory=list)
    """The `call.trouble` lines."""
    keys: list[LedgerLine] = field(default_factory=list)
    """The `caller.key` lines."""
    used: list[LedgerLine] = field(default_factory=list)
    """The `agent.used` lines."""
    recording: Recording | None = None
    """The last one; None if there is none."""
    recordings: list[Recording] = field(default_factory=list)
    """All of them: one, unless another engine went on with the call, or only messages were
    recorded."""
    declined: bool = False
    """True if the caller was not recorded, because the key of consent was not pressed."""
    gaps: list[Gap] = field(default_factory=list)
    """Gaps in the ledger; empty if it is complete."""
    transfers: list[LedgerLine] = field(default_factory=list)
    watched: list[LedgerLine] = field(default_factory=list)
    """The acts of people who watched: `operator.…`, `call.flagged` and `call.listened` lines."""
    outcome: str = ""
    """Empty while the call runs, and after its engine was killed until the next one starts."""
    reason: str = ""
    ended_ms: int | None = None
    cost: float | None = None
    """None if no cost is known."""
    currency: str = ""

    @classmethod
    def from_lines(cls, lines: Iterable[LedgerLine]) -> CallHistory:
        """Build from ledger lines in their order. Unknown types are ignored."""
        reader = _Reader()
        for line in lines:
            reader.take(line)
        return reader.history

    @property
    def caller_turns(self) -> list[Turn]:
        """The turns in which the caller spoke, in order.

        Excludes the greeting, and the agent's sentences after a long silence.
        """
        return [turn for _, turn in sorted(self.turns.items()) if turn.endpoint_ms is not None]

    @property
    def tools(self) -> list[ToolUse]:
        """All tool calls, in order."""
        return [use for _, turn in sorted(self.turns.items()) for use in turn.tools]

    @property
    def answer_owed(self) -> bool:
        """True if the caller's last turn has no answer yet: only a filler was heard, or a tool is
        running and the agent has said nothing since. A sentence beside a tool may be a question to
        the caller, so nothing is owed after it."""
        turns = self.caller_turns
        if not turns or self.outcome:
            return False
        turn = turns[-1]
        asked = [use.asked_ms for use in turn.tools if use.status == "unanswered"]
        if any(turn.spoke_ms is None or turn.spoke_ms <= at for at in asked):
            return True
        return turn.filled and turn.answer_ms is None

    def transcript(self) -> list[tuple[str, str]]:
        """Return (`caller` | `agent`, text) in order; of an answer that was cut only the
        heard part."""
        spoken = [
            line
            for _, turn in sorted(self.turns.items())
            for line in (("caller", turn.understood), ("agent", " ".join(filter(None, turn.said))))
        ]
        return [(who, text) for who, text in spoken if text]


def read(path: Path, vault: Vault = PLAIN) -> CallHistory:
    """Return the history in a ledger file, which `vault` can decrypt. Raises `OSError` if it cannot
    be read."""
    return CallHistory.from_lines(read_lines(path, vault))


def ledgers(directory: Path) -> list[Path]:
    """Return all ledgers in a directory of calls, by day and name."""
    found = directory.glob("????-??-??/*.jsonl")
    return sorted(path for path in found if path.name != REFUSED_OFFERS)


def find(directory: Path, call_id: str) -> Path | None:
    """Return the ledger of a call in a directory of calls; the last one if several share an id."""
    numbered = re.compile(re.escape(call_id) + r"(?:-(\d+))?\.jsonl")
    found = [
        (path.parent.name, int(match[1] or 1), path)
        for path in directory.glob(f"????-??-??/{glob.escape(call_id)}*.jsonl")
        if (match := numbered.fullmatch(path.name))
    ]
    return max(found)[2] if found else None


def read_lines(path: Path, vault: Vault = PLAIN) -> list[LedgerLine]:
    """Return the lines of a ledger file; a half-written line is dropped. Raises `OSError`."""
    return parse_lines(vault.plain(path.read_bytes()))


def parse_lines(content: bytes) -> list[LedgerLine]:
    """Return the lines in the content of a ledger file.

    In files of earlier versions several calls of a day may share one: the result is the lines of
    the last one.
    """
    lines: list[LedgerLine] = []
    for raw in content.splitlines():
        try:
            line = orjson.loads(raw)
        except orjson.JSONDecodeError:
            continue
        if line["type"] == "call.offered":
            lines.clear()
        lines.append(line)
    return lines


class _Reader:
    """Processes the lines of one ledger."""

    def __init__(self) -> None:
        self.history = CallHistory()
        self._speech_ms: int | None = None
        self._uses: dict[str, ToolUse] = {}
        self._kept: dict[int, int] = {}
        """Number of entries of each turn's `said` that are settled by an interruption."""
        self._sounding: set[int] = set()
        """Turns whose answer is being heard."""
        self._in_silence = ""
        """The sentence that the engine is about to speak in a silence."""
        self._beside: int | None = None
        """The turn in which that sentence is spoken, though it is not part of the turn's answer."""

    def take(self, line: LedgerLine) -> None:
        kind = line["type"]
        if kind.startswith("tool."):
            self._tool(kind, line)
        elif kind in ("agent.held", "agent.resumed", "call.silence"):
            self._manners(kind, line)
        elif kind in ("agent.used", "caller.key"):
            (self.history.used if kind == "agent.used" else self.history.keys).append(line)
        elif kind.startswith("operator.") or kind in ("call.flagged", "call.listened"):
            self.history.watched.append(line)
        elif kind.startswith("recording."):
            self._record(kind, line)
        elif kind.startswith(("caller.", "agent.", "turn.")):
            self._talk(kind, line)
        else:
            self._call(kind, line)

    def _call(self, kind: str, line: LedgerLine) -> None:
        history = self.history
        if kind == "call.offered":
            for name in ("call_id", "started_at", "source", "caller_number", "called_number"):
                setattr(history, name, line[name])
            history.caller_name = line.get("caller_name", "")
            history.external_id = line.get("external_id", "")
            history.config = line.get("config", "")
            history.direction = line.get("direction", "in")
            history.test = line.get("test", False) is True
        elif kind == "call.bound":
            history.context, history.provider = line["context"], line["provider"]
            history.troubles += line["problems"]
        elif kind == "call.connected":
            if history.connected_ms is None:  # again after `call.adopted`
                history.connected_ms = line["at_ms"]
        elif kind == "call.adopted":
            history.adopted.append(line)
        elif kind == "call.trouble":
            history.troubles.append(f"{line['where']}: {line['message']}")
            history.failed_parts.append(line)
        elif kind == "ledger.gap":
            history.gaps.append(Gap(line["lost"], line["since_ms"], line["at_ms"]))
        elif kind == "line.transfer":
            history.transfers.append(line)
        elif kind == "call.ended":
            history.outcome, history.reason = line["outcome"], line["reason"]
            history.ended_ms = line["at_ms"]
            history.cost, history.currency = line.get("cost"), line.get("currency", "")

    def _record(self, kind: str, line: LedgerLine) -> None:
        at, recording = line["at_ms"], self.history.recording
        if kind == "recording.declined":
            self.history.declined = True
        elif kind == "recording.started":
            self.history.recording = Recording(line["path"], at)
            self.history.recordings.append(self.history.recording)
        elif recording is None:
            return
        elif kind == "recording.paused":
            recording.muted.append((at, None))
        elif kind == "recording.resumed" and recording.muted:
            recording.muted[-1] = (recording.muted[-1][0], at)
        elif kind == "recording.stopped":
            recording.duration_ms = line["duration_ms"]

    def _talk(self, kind: str, line: LedgerLine) -> None:
        if kind == "caller.started":
            self._speech_ms = line["speech_ms"]
            return
        if "turn" not in line:
            return
        turn, at = self._turn(line["turn"]), line["at_ms"]
        if kind == "caller.stopped":
            turn.speech_ms, self._speech_ms = self._speech_ms, None
            turn.last_speech_ms, turn.endpoint_ms = line["last_speech_ms"], at
        elif kind == "caller.text" and line.get("said_by"):  # of another party: no turn of theirs
            turn.speech_ms = turn.last_speech_ms = turn.endpoint_ms = None
        elif kind == "caller.text":
            turn.heard, turn.confidence = line["text"], line["confidence"]
            turn.understood = line.get("understood") or line["text"]
        elif kind == "agent.text":
            said, self._in_silence = self._in_silence, ""
            self._beside = turn.number if said and said == line["text"] else None
            turn.answer.append(line["text"])
            turn.spoke_ms = at
            turn.said.append(line["text"])
        elif kind in ("agent.audio_started", "agent.audio_ended", *_CUTS):
            self._sound(kind, turn, line)
        elif kind == "turn.latency":
            turn.filled = line.get("filler", False)
            turn.latency = {
                name: line[name] for name in line if name.endswith("_ms") and name != "at_ms"
            }
            turn.answer_ms = None if turn.filled else line["total_ms"]
        elif kind == "turn.answered":
            turn.answer_ms = line["answer_ms"]

    def _sound(self, kind: str, turn: Turn, line: LedgerLine) -> None:
        at = line["at_ms"]
        if kind == "agent.audio_started":
            if turn.answer_start_ms is None:
                turn.answer_start_ms = at
            elif turn.number == self._beside:
                return  # a continuer or a re-prompt after an interrupted answer
            self._sounding.add(turn.number)
            return
        if turn.number in self._sounding:  # a re-prompt long after an answer is not part of it
            turn.answer_end_ms = at
        self._sounding.discard(turn.number)
        if kind in _CUTS:
            turn.cut = True
            turn.said[self._kept.get(turn.number, 0) :] = [line["heard"]]
            self._kept[turn.number] = len(turn.said)
        if kind == "agent.interrupted":
            turn.interrupted = line["heard"]
            self._overlap_over(at, "interruption")

    def _manners(self, kind: str, line: LedgerLine) -> None:
        """Record overlaps and silences."""
        at, history = line["at_ms"], self.history
        if kind == "agent.held":
            history.overlaps.append(Overlap(line["onset_ms"], at))
        elif kind == "agent.resumed":
            self._overlap_over(at, line["why"])
        else:
            silence = Silence(line["kind"], at - line["silent_ms"], at, line["text"])
            history.silences.append(silence)
            if line["kind"] != "filler":
                self._in_silence = line["text"]

    def _overlap_over(self, at: int, verdict: str) -> None:
        overlaps = self.history.overlaps
        if overlaps and not overlaps[-1].verdict:
            overlaps[-1].over_ms, overlaps[-1].verdict = at, verdict

    def _tool(self, kind: str, line: LedgerLine) -> None:
        if kind == "tool.approval":
            at = line["at_ms"]
            began = at - line["took_ms"]
            approval = Approval(line["question"], line["answer"], line["by"], began, at)
            self.history.approvals.append(approval)
            return
        ask_id = line["ask_id"]
        if kind == "tool.asked":
            use = ToolUse(ask_id, line["name"], line["arguments"], line["at_ms"])
            use.parent, use.tool = line.get("parent", ""), line.get("tool", "")
            self._uses[ask_id] = use
            self._turn(line["turn"]).tools.append(use)
        elif ask_id in self._uses:
            use = self._uses[ask_id]
            if kind == "tool.filler":
                use.filler = line["text"]
            elif kind == "tool.answered":
                use.status, use.message = line["status"], line["message"]
                use.answered_ms = line["at_ms"]
                use.reason, use.source = line.get("reason", ""), line.get("source", "run")
                use.tries, use.sent = line.get("tries", 1), line.get("sent", {})
                use.cut = line.get("cut", [])
            elif kind == "tool.late":
                use.late, use.late_told = line["message"], line["told"]

    def _turn(self, number: int) -> Turn:
        return self.history.turns.setdefault(number, Turn(number))
