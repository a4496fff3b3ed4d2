"""One call in full, for a page that shows and plays it: made from its ledger alone.

All times are ms since the offer; `recording.began_ms` is the moment at which the sound begins. It
is the same reading of the ledger (`calls.history`) that transcripts, pictures and the index use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cordboard.audio.wav import stereo_in
from cordboard.calls.history import CallHistory, Recording, ToolUse, Turn, parse_lines
from cordboard.errors import AudioFileError, HistoryError
from cordboard.history.call_files import DAYS, LEDGERS, read_ledger, recording_path
from cordboard.history.ledger_rows import row_of
from cordboard.history.masking import mask
from cordboard.history.notes import NONE, Notes, read_notes
from cordboard.history.query import CallRow
from cordboard.privacy.sealed_file import PLAIN, Vault

if TYPE_CHECKING:
    from cordboard.calls.picture import Samples

Stages = Mapping[str, int]
"""ms by stage: `vad`, `endpoint`, `stt`, `brain`, `tts`, `wire`, and `total`. `vad` is a part of
`endpoint`; the others add up to `total`."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """The caller's words in one turn."""

    begin_ms: int | None
    end_ms: int
    text: str
    """The recogniser's text."""
    understood: str
    """The same with misheard names corrected."""
    confidence: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The agent's words in one turn."""

    begin_ms: int | None
    """First audible sample; None if it was never heard."""
    end_ms: int | None
    text: str
    heard: str
    """The part that the caller heard."""
    cut: bool
    """True if the caller interrupted it, or the call ended, before all of it was heard."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn; number 0 is the greeting."""

    number: int
    caller: Utterance | None
    waited: Stages
    """Empty for the greeting, and without an answer."""
    filler_first: bool
    """True if `waited` is the wait for a filler."""
    answer_ms: int | None
    """The wait for the answer itself."""
    agent: Answer | None
    tools: tuple[str, ...]
    """Ids of tool calls."""
    held: bool
    """True if the agent paused because of another voice."""


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One tool call."""

    id: str
    name: str
    """As the agent knows it."""
    server: str
    """MCP server; empty for other kinds."""
    turn: int
    begin_ms: int
    end_ms: int | None
    arguments: Mapping[str, Any]
    status: str
    spoken: str
    """The answer as a sentence."""
    filler: str
    sent: Mapping[str, Any]
    """The data that the agent received."""
    cut: tuple[str, ...]
    """Parts of the data that it did not receive."""
    attempts: int
    reason: str
    source: str
    parent: str
    late: str
    """The answer that came after the tool call had been given up."""
    late_told: bool | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that matters."""

    at_ms: int
    until_ms: int | None
    kind: str
    """`key`, `approval`, `overlap`, `silence`, `transfer`, `trouble`, `adopted`, `gap`, `muted`; of
    people who watched: `flag`, `listened`, `operator.say`, `operator.hint`, `operator.whisper`,
    `operator.takeover`, `operator.conference`, `operator.hangup`."""
    text: str


@dataclass(frozen=True, slots=True)
class UsedRecord:
    """Usage of one service, over the whole call."""

    provider: str
    model: str
    amounts: Mapping[str, float]
    cost: float | None
    currency: str


@dataclass(frozen=True, slots=True)
class RecordingRecord:
    """The sound of the call."""

    state: Literal["off", "declined", "there", "deleted"]
    """`off`: calls of this kind were not recorded; `declined`: the caller did not press the key of
    consent; `deleted`: it was recorded, and the file is gone, as after its `keep_days`."""
    file: str
    began_ms: int | None
    duration_ms: int | None
    muted: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call."""

    row: CallRow
    connected_ms: int | None
    turns: tuple[TurnRecord, ...]
    tools: tuple[ToolRecord, ...]
    marks: tuple[Mark, ...]
    """In the order of time."""
    used: tuple[UsedRecord, ...]
    troubles: tuple[str, ...]
    recording: RecordingRecord
    notes: Notes
    notes_revision: str
    """For `notes.write_notes`."""


@dataclass(frozen=True, slots=True)
class CallOnDisk:
    """The ledger of a call, its notes and its sound, as they were when they were read."""

    file: str
    """The ledger, relative to the directory of calls."""
    history: CallHistory
    notes: Notes
    notes_revision: str
    sound: Path | None
    """The recording; None if there is none. The last one, if there are several."""
    earlier_sounds: tuple[Path, ...] = ()
    """The recordings before it that are on this machine."""
    vault: Vault = PLAIN

    @classmethod
    def read(cls, directory: Path, file: str, vault: Vault = PLAIN) -> CallOnDisk:
        """Read a call, plain or encrypted. Blocks. Raises `HistoryError` if it is not a ledger, and
        `OSError`."""
        ledger = directory / file
        if not fnmatch(file, f"{DAYS}/*{LEDGERS}") or len(PurePath(file).parts) != 2:
            raise HistoryError(f"{file} is not the path of a ledger")
        content = read_ledger(ledger, vault)
        notes, revision = read_notes(ledger, vault)
        try:
            history = CallHistory.from_lines(parse_lines(content))
            row_of(file, history, notes)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise HistoryError(f"{file} is not the ledger of a call") from None
        sound = recording_of(ledger, history.recording)
        before = (recording_of(ledger, each) for each in history.recordings[:-1])
        earlier = tuple(each for each in before if each is not None)
        return cls(file, history, notes, revision, sound, earlier, vault)

    def record(self, *, personal: bool = True) -> CallRecord:
        """Return the call; without `personal`, numbers and words are left out."""
        history = self._shown(personal)
        return CallRecord(
            row=row_of(self.file, history, self.notes),
            connected_ms=history.connected_ms,
            turns=tuple(_turn(turn, history) for _, turn in sorted(history.turns.items())),
            tools=tuple(
                _tool(use, number)
                for number, turn in sorted(history.turns.items())
                for use in turn.tools
            ),
            marks=tuple(sorted(_marks(history), key=lambda mark: mark.at_ms)),
            used=_used(history),
            troubles=tuple(history.troubles),
            recording=_recording(history.recording, self.sound, declined=history.declined),
            notes=self.notes,
            notes_revision=self.notes_revision,
        )

    def picture(self, *, personal: bool = True, sound: bool = True) -> bytes:
        """Return the call as SVG: with the voices of the recording, if `sound` is allowed and
        there, or with blocks. Blocks, a second for an hour. Raises `AudioFileError`."""
        from cordboard.calls.picture import draw, who_spoke

        history = self._shown(personal)
        recorded = voices(self.sound, history.recording, self.vault) if sound else None
        caller, agent, offset_ms = recorded or (*who_spoke(history), 0.0)
        return draw(history, caller, agent, offset_ms).encode()

    def _shown(self, personal: bool) -> CallHistory:
        history = self.history if personal else deepcopy(self.history)
        if not personal:
            mask(history)
        return history


def voices(
    sound: Path | None, recording: Recording | None, vault: Vault = PLAIN
) -> tuple[Samples, Samples, float] | None:
    """Return the recorded voices at 8 kHz, and the call time at which they begin (ms); None without
    a recording. Blocks. Raises `AudioFileError`."""
    if sound is None or recording is None:
        return None
    try:
        content = vault.plain(sound.read_bytes())
    except OSError as error:
        raise AudioFileError(f"cannot read {sound}: {error}") from error
    caller, agent = (
        np.frombuffer(side, "<i2").astype(np.int16) for side in stereo_in(content, sound, 8000)
    )
    return caller, agent, float(recording.began_ms)


def refused_offer(row: CallRow) -> CallRecord:
    """Return what there is of an offer that was refused."""
    nothing = _recording(None, None, declined=False)
    return CallRecord(row, None, (), (), (), (), (), nothing, NONE, "")


def read_call(directory: Path, file: str, vault: Vault = PLAIN) -> CallRecord:
    """Return the call of a ledger, by its path relative to the directory of calls. Blocks. Raises
    `HistoryError` if it is not a ledger, and `OSError`."""
    return CallOnDisk.read(directory, file, vault).record()


def recording_of(ledger: Path, recording: Recording | None) -> Path | None:
    """Return the file of a recording; None if there is none."""
    path = recording_path(ledger, recording.path) if recording is not None else None
    return path if path is not None and path.is_file() else None


def _turn(turn: Turn, history: CallHistory) -> TurnRecord:
    caller = None
    if turn.last_speech_ms is not None:
        caller = Utterance(
            turn.speech_ms, turn.last_speech_ms, turn.heard, turn.understood, turn.confidence
        )
    agent = None
    if turn.answer or turn.answer_start_ms is not None:
        agent = Answer(
            turn.answer_start_ms,
            turn.answer_end_ms,
            " ".join(turn.answer),
            " ".join(filter(None, turn.said)),
            turn.cut,
        )
    begin, end = turn.answer_start_ms, turn.answer_end_ms
    return TurnRecord(
        number=turn.number,
        caller=caller,
        waited={name.removesuffix("_ms"): ms for name, ms in turn.latency.items()},
        filler_first=turn.filled,
        answer_ms=turn.answer_ms,
        agent=agent,
        tools=tuple(use.ask_id for use in turn.tools),
        held=begin is not None
        and any(begin <= each.held_ms <= (end or each.held_ms) for each in history.overlaps),
    )


def _tool(use: ToolUse, turn: int) -> ToolRecord:
    kind, _, rest = use.tool.partition(":")
    return ToolRecord(
        id=use.ask_id,
        name=use.name,
        server=rest.partition(":")[0] if kind == "mcp" else "",
        turn=turn,
        begin_ms=use.asked_ms,
        end_ms=use.answered_ms,
        arguments=use.arguments,
        status=use.status,
        spoken=use.message,
        filler=use.filler,
        sent=use.sent,
        cut=tuple(use.cut),
        attempts=use.tries,
        reason=use.reason,
        source=use.source,
        parent=use.parent,
        late=use.late,
        late_told=use.late_told,
    )


def _marks(history: CallHistory) -> Iterator[Mark]:
    for key in history.keys:
        yield Mark(key["at_ms"], None, "key", key["key"])
    for each in history.approvals:
        text = f"{each.question} {each.answer}" + (f" ({each.by})" if each.by else "")
        yield Mark(each.asked_ms, each.answered_ms, "approval", text)
    for overlap in history.overlaps:
        yield Mark(overlap.onset_ms, overlap.over_ms, "overlap", overlap.verdict)
    for silence in history.silences:
        text = ": ".join(filter(None, (silence.kind, silence.text)))
        yield Mark(silence.since_ms, silence.until_ms, "silence", text)
    for transfer in history.transfers:
        text = transfer["destination"] + ("" if transfer["ok"] else f": {transfer['error']}")
        yield Mark(transfer["at_ms"], None, "transfer", text)
    for trouble in history.failed_parts:
        yield Mark(trouble["at_ms"], None, "trouble", f"{trouble['where']}: {trouble['message']}")
    for act in history.watched:
        said = act.get("text", act.get("reason", ""))
        text = f"{act['who']}: {said}" if said else act["who"]
        if act["type"] == "call.listened":
            yield Mark(act["from_ms"], act["to_ms"], "listened", text)
        else:
            kind = "flag" if act["type"] == "call.flagged" else act["type"]
            yield Mark(act["at_ms"], None, kind, text)
    for line in history.adopted:
        began = line["at_ms"] - (line["silence_ms"] or 0)
        yield Mark(began, line["at_ms"], "adopted", f"the engine {line['engine']} was lost")
    for gap in history.gaps:
        yield Mark(gap.since_ms, gap.until_ms, "gap", f"{gap.lost} lines are missing")
    for begin, end in history.recording.muted if history.recording else ():
        yield Mark(begin, end, "muted", "")


def _used(history: CallHistory) -> tuple[UsedRecord, ...]:
    """Return the usage by service and currency. The cost is None if a part of it is unknown."""
    found: dict[tuple[str, str, str], UsedRecord] = {}
    for line in history.used:
        key = line["provider"], line["model"], line.get("currency", "")
        before = found.get(key, UsedRecord(key[0], key[1], {}, 0.0, key[2]))
        amounts = dict(before.amounts)
        for unit, amount in line["amounts"].items():
            amounts[unit] = amounts.get(unit, 0) + amount
        unknown = before.cost is None or line.get("cost") is None
        cost = None if unknown else round((before.cost or 0) + line["cost"], 6)
        found[key] = UsedRecord(key[0], key[1], amounts, cost, key[2])
    return tuple(found.values())


def _recording(
    recording: Recording | None, sound: Path | None, *, declined: bool
) -> RecordingRecord:
    if recording is None:
        return RecordingRecord("declined" if declined else "off", "", None, None, ())
    return RecordingRecord(
        "there" if sound is not None else "deleted",
        sound.name if sound is not None else "",
        recording.began_ms,
        recording.duration_ms,
        tuple(recording.muted),
    )
