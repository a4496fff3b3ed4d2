"""A picture of a call (SVG): both voices over time, turns, tool calls, and the causes of waits.

    caller  ▁▃▇▅▂______________▂▅▇▃▁
    tools            [get_atis 4 ms]
    agent   ____________▂▅▇▇▅▃▁______
            each wait drawn between the two voices, and below them, stage by stage, to scale;
            where the agent paused for another voice, and the cause that was decided on;
            silences that were too long, and the sentences spoken in them; gaps in the ledger

The time line is drawn once, as long as the call, and shown in rows like lines of a page. It is
drawn from the call's history and its two channels of sound only: no browser, no fonts except the
reader's own. Texts are cut and escaped; colours have a fixed meaning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from cordboard.calls.history import CallHistory, Gap, LedgerLine, Overlap, Silence, Turn

Samples = NDArray[np.int16]

RATE = 8000
LEFT, RIGHT, TOP = 90, 30, 64
ROW_SECONDS = 20
LANE = 92
"""Height of one voice."""
BETWEEN = 64
"""Space between the voices, for tool calls and waits."""
ROW = 26
"""Height of one turn in the waterfall."""
PIXELS_PER_SECOND = 48
WIDTH = ROW_SECONDS * PIXELS_PER_SECOND
"""Width of one row of the time line."""
STRIP = 2 * LANE + BETWEEN + 22
"""Height of one row, including its seconds."""
CALLER, AGENT, TOOL, WAIT = "#2563eb", "#059669", "#d97706", "#dc2626"
_BLOCK = 12_000
"""Height of a block (s16)."""
HELD, SILENCE, FLAG = "#7c3aed", "#6b7280", "#be185d"
STAGES = (
    ("vad_ms", "silence noticed", "#64748b"),
    ("endpoint_ms", "end of turn", "#94a3b8"),
    ("stt_ms", "recogniser", "#60a5fa"),
    ("brain_ms", "brain and tools", "#f59e0b"),
    ("tts_ms", "voice", "#34d399"),
    ("wire_ms", "to the wire", "#a78bfa"),
)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw(history: CallHistory, caller: Samples, agent: Samples, offset_ms: float = 0.0) -> str:
    """Return the picture. `offset_ms` is the call time at which both channels (8 kHz) begin."""
    lasted = ((history.ended_ms or 0) - offset_ms) * RATE / 1000
    seconds = max(len(caller), len(agent), lasted, RATE) / RATE
    strip = _Strip(seconds, offset_ms)
    strip.axis()
    strip.wave(caller, LANE / 2, CALLER)
    strip.wave(agent, LANE + BETWEEN + LANE / 2, AGENT)
    for _, turn in sorted(history.turns.items()):
        strip.turn(turn)
    for overlap in history.overlaps:
        strip.overlap(overlap)
    for silence in history.silences:
        strip.silence(silence)
    for gap in history.gaps:
        strip.gap(gap)
    for act in history.watched:
        if act["type"] != "call.listened":
            strip.act(act)
    page = _Page(strip)
    page.title(history)
    page.waterfall([turn for turn in history.caller_turns if turn.latency])
    return page.svg()


def who_spoke(history: CallHistory) -> tuple[Samples, Samples]:
    """Return both voices of a call without a recording: blocks from the first to the last sample of
    each sentence, at 8 kHz from the offer on."""
    last = max(
        (turn.answer_end_ms or turn.endpoint_ms or 0 for turn in history.turns.values()), default=0
    )
    caller, agent = (
        np.zeros(max(last, history.ended_ms or 0) * RATE // 1000, np.int16) for _ in "ab"
    )
    for turn in history.turns.values():
        for voice, begin, end in (
            (caller, turn.speech_ms, turn.last_speech_ms),
            (agent, turn.answer_start_ms, turn.answer_end_ms),
        ):
            if begin is not None and end is not None:
                voice[begin * RATE // 1000 : end * RATE // 1000] = _BLOCK
    return caller, agent


class _Shapes:
    """Collects shapes."""

    def __init__(self) -> None:
        self.shapes: list[str] = []

    def _line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1
    ) -> None:
        self.shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width}"/>'
        )

    def _box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str,
        hint: str = "",
        opacity: float = 1,
    ) -> None:
        self.shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" '
            f'fill="{colour}" opacity="{opacity}"><title>{_xml(hint)}</title></rect>'
        )

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 12,
        anchor: str = "start",
        colour: str = "#111827",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}"{weight}>{_xml(text)}</text>'
        )


class _Strip(_Shapes):
    """The time line. Only this class converts call times (ms) to x positions."""

    def __init__(self, seconds: float, offset_ms: float) -> None:
        super().__init__()
        self._offset_ms = offset_ms
        self._seconds = seconds
        self.rows = math.ceil(seconds / ROW_SECONDS)

    def x(self, call_ms: float) -> float:
        return (call_ms - self._offset_ms) / 1000 * PIXELS_PER_SECOND

    def axis(self) -> None:
        bottom = 2 * LANE + BETWEEN
        for second in range(self.rows * ROW_SECONDS + 1):
            x = second * PIXELS_PER_SECOND
            self._line(x, 0, x, bottom, "#e5e7eb")
            self._text(x + 3, bottom + 14, f"{second} s", colour="#6b7280")

    def wave(self, samples: Samples, y: float, colour: str) -> None:
        """Draw peaks per pixel as one shape; a faint line where there is no sound."""
        width = self._seconds * PIXELS_PER_SECOND
        self._line(0, y, width, y, "#d1d5db")
        columns = int(width)
        sound = np.zeros(math.ceil(self._seconds * RATE), np.int16)
        sound[: len(samples)] = samples
        edges = np.linspace(0, len(sound), columns, endpoint=False).astype(np.intp)
        highest = np.maximum.reduceat(sound, edges).astype(np.float32)
        lowest = np.minimum.reduceat(sound, edges).astype(np.float32)
        peaks = np.maximum(highest, -lowest) / 32768 * (LANE / 2)
        places = np.arange(columns) * (width / columns)
        upper = [f"{x:.1f},{y - peak:.1f}" for x, peak in zip(places, peaks, strict=True)]
        lower = [f"{x:.1f},{y + peak:.1f}" for x, peak in zip(places, peaks, strict=True)]
        points = " ".join(upper + lower[::-1])
        self.shapes.append(f'<polygon points="{points}" fill="{colour}" opacity="0.75"/>')

    def turn(self, turn: Turn) -> None:
        """Draw the spoken text, the tool calls, and the wait between the voices."""
        if turn.speech_ms is not None and turn.last_speech_ms is not None:
            self._span(turn.speech_ms, turn.last_speech_ms, 0, CALLER, turn.heard or "(unclear)")
        if turn.answer_start_ms is not None:
            end = turn.answer_end_ms if turn.answer_end_ms is not None else turn.answer_start_ms
            words = " ".join(turn.said) + (" ✂" if turn.cut else "")
            self._span(turn.answer_start_ms, end, LANE + BETWEEN, AGENT, words)
        for place, use in enumerate(turn.tools):
            end = use.answered_ms if use.answered_ms is not None else use.asked_ms
            self._tool(
                use.asked_ms, end, place, f"{use.name}: {use.status}, {end - use.asked_ms} ms"
            )
        if turn.last_speech_ms is not None and turn.latency:
            self._wait(turn.last_speech_ms, turn.last_speech_ms + turn.latency["total_ms"])

    def overlap(self, overlap: Overlap) -> None:
        """Draw from the first sample of the other voice to the decision; the agent paused."""
        x, y = self.x(overlap.onset_ms), LANE + BETWEEN
        held = self.x(overlap.held_ms)
        over = self.x(overlap.over_ms if overlap.over_ms is not None else overlap.held_ms)
        cut = overlap.verdict == "interruption"
        colour = WAIT if cut else HELD
        reaction = overlap.held_ms - overlap.onset_ms
        words = f"{overlap.verdict or 'undecided'}: silent after {reaction} ms"
        if overlap.over_ms is not None:
            words += f", decided after {overlap.over_ms - overlap.onset_ms} ms"
        self._box(x, y - 8, max(1.0, held - x), 8, colour, words, opacity=0.35)
        self._box(held, y - 8, max(2.0, over - held), LANE + 8, colour, words, opacity=0.30)
        self._line(over, y - 8, over, y + LANE, colour, 2 if cut else 1)
        self._text(over + 4, y + LANE - 6, ("✂ " if cut else "↻ ") + words, colour=colour, size=11)

    def silence(self, silence: Silence) -> None:
        """Draw a silence up to the engine's reaction."""
        x, to, y = self.x(silence.since_ms), self.x(silence.until_ms), LANE + BETWEEN - 28
        length = (silence.until_ms - silence.since_ms) / 1000
        words = f"{silence.kind} after {length:.1f} s"
        self._box(x, y, max(2.0, to - x), 9, SILENCE, f"{words}: {silence.text}", opacity=0.25)
        self._line(to, y - 3, to, y + 12, SILENCE, 2)
        self._text(to + 5, y + 9, words, colour=SILENCE, size=11)

    def gap(self, gap: Gap) -> None:
        """Draw a stretch with missing lines of the ledger."""
        x, to, bottom = self.x(gap.since_ms), self.x(gap.until_ms), 2 * LANE + BETWEEN
        words = f"{gap.lost} lines of the ledger are missing"
        self._box(x, 0, max(2.0, to - x), bottom, WAIT, words, opacity=0.12)
        self._text(x + 4, bottom - 4, words, colour=WAIT, size=11)

    def act(self, act: LedgerLine) -> None:
        """Draw what a person who watched did: a flag, a hint, a sentence, the end."""
        x, bottom = self.x(act["at_ms"]), 2 * LANE + BETWEEN
        words = f"{act['type'].partition('.')[2]} by {act['who']}"
        said = act.get("text", act.get("reason", ""))
        self._line(x, 0, x, bottom, FLAG, 2)
        self._box(x, 0, 8, 10, FLAG, f"{words}: {said}" if said else words)
        self._text(x + 11, 10, words, colour=FLAG, size=11)

    def _span(self, start: float, end: float, y: float, colour: str, text: str) -> None:
        x, width = self.x(start), max(2.0, self.x(end) - self.x(start))
        self._box(x, y, width, LANE, colour, text, opacity=0.10)
        self._text(x + 3, y + 12, _cut(text, width), colour=colour)

    def _tool(self, start: float, end: float, place: int, text: str) -> None:
        x, y = self.x(start), LANE + 4 + 18 * (place % 2)
        self._box(x, y, max(3.0, self.x(end) - x), 16, TOOL, text)
        self._text(x + max(3.0, self.x(end) - x) + 4, y + 12, text, colour=TOOL)

    def _wait(self, start: float, end: float) -> None:
        x, y = self.x(start), LANE + BETWEEN - 14
        to = max(x + 1, self.x(end))
        self._line(x, y, to, y, WAIT, 2)
        self._line(x, LANE, x, y, WAIT)
        self._line(to, y, to, LANE + BETWEEN, WAIT)
        self._text(to + 5, y + 4, f"{end - start:.0f} ms", colour=WAIT, bold=True)


class _Page(_Shapes):
    """The strip in rows, a title above them and the waits below."""

    def __init__(self, strip: _Strip) -> None:
        super().__init__()
        self._strip = strip
        self._bottom = TOP + strip.rows * (STRIP + 10)

    def title(self, history: CallHistory) -> None:
        who = f"{history.context} · {history.provider} · {history.source}"
        self._text(LEFT, 26, f"Call {history.call_id}", size=16, bold=True)
        self._text(LEFT, 46, f"{history.started_at} · {who} · {history.outcome}: {history.reason}")

    def waterfall(self, turns: Sequence[Turn]) -> None:
        """Draw each turn's wait by stage, to one scale."""
        longest = max((_whole_wait(turn) for turn in turns), default=0)
        if not longest:
            return
        y, x = self._bottom + 16.0, float(LEFT)
        for _, label, colour in STAGES:
            self._box(x, y - 10, 12, 12, colour)
            self._text(x + 17, y, label)
            x += 34 + 7 * len(label)
        scale = (WIDTH - 120) / longest
        for turn in turns:
            y += ROW
            x = float(LEFT)
            self._text(LEFT - 12, y + 1, f"turn {turn.number}", anchor="end")
            for key, label, colour in STAGES:
                ms = _stage(turn, key)
                self._box(x, y - 12, ms * scale, 17, colour, f"{label}: {ms} ms")
                if ms * scale > 44:
                    self._text(x + 5, y + 1, f"{ms} ms", colour="#ffffff")
                x += ms * scale
            if turn.filled:
                self._after_filler(turn, x, y, scale)
            else:
                self._text(x + 8, y + 1, f"{turn.latency['total_ms']} ms", bold=True)
        self._bottom = int(y) + 10

    def _after_filler(self, turn: Turn, x: float, y: float, scale: float) -> None:
        """Draw a thin line from the filler, which ended the silence, to the answer itself."""
        words = f"{turn.latency['total_ms']} ms to the filler"
        if turn.answer_ms is not None:
            to = LEFT + turn.answer_ms * scale
            self._line(x, y - 3, to, y - 3, AGENT, 2)
            x, words = to, f"{words}, {turn.answer_ms} ms to the answer"
        room = WIDTH + LEFT - 7 * len(words)
        self._text(min(x + 8, room), y + (1 if x + 8 <= room else -7), words, bold=True)

    def svg(self) -> str:
        """Return the whole page; each row is a window on the one strip."""
        strip = "\n".join(self._strip.shapes)
        rows: list[str] = []
        for row in range(self._strip.rows):
            y = TOP + row * (STRIP + 10)
            self._text(
                LEFT - 12, y + LANE / 2 + 4, "caller", anchor="end", bold=True, colour=CALLER
            )
            agent_y = y + LANE + BETWEEN + LANE / 2 + 4
            self._text(LEFT - 12, agent_y, "agent", anchor="end", bold=True, colour=AGENT)
            rows.append(
                f'<svg x="{LEFT}" y="{y}" width="{WIDTH}" height="{STRIP}" '
                f'viewBox="{row * WIDTH} 0 {WIDTH} {STRIP}"><use href="#strip"/></svg>'
            )
        width, height = LEFT + WIDTH + RIGHT, self._bottom + 16
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" '
            'font-family="system-ui, sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
            f'<defs><g id="strip">\n{strip}\n</g></defs>\n'
            + "\n".join(rows + self.shapes)
            + "\n</svg>\n"
        )


def _stage(turn: Turn, key: str) -> int:
    """Return a stage of the wait; `endpoint_ms` without the part until silence was noticed."""
    ms = turn.latency.get(key, 0)
    return ms - turn.latency.get("vad_ms", 0) if key == "endpoint_ms" else ms


def _whole_wait(turn: Turn) -> int:
    return max(turn.latency["total_ms"], turn.answer_ms or 0)


def _xml(text: str) -> str:
    """Escape the text; characters that XML cannot contain (control, surrogates) are replaced."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def _cut(text: str, width: float) -> str:
    """Return as much of the text as fits in `width` pixels, at about 6.2 pixels per character."""
    room = int(width / 6.2)
    return text if len(text) <= room else text[: max(0, room - 1)] + "…" if room > 2 else ""
