"""A picture of a call (SVG): both voices over time, turns, tool calls, and where waits come from.

    caller  ▁▃▇▅▂______________▂▅▇▃▁
    tools            [get_atis 4 ms]
    agent   ____________▂▅▇▇▅▃▁______
            each wait drawn between the two voices, and below them, stage by stage, to scale

It is drawn from the call's history and its two channels of sound, and needs nothing else: no
browser, no font but the reader's own. Texts are cut and escaped; colours keep their meaning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape

import numpy as np
from numpy.typing import NDArray

from cordboard.calls.history import CallHistory, Turn

Samples = NDArray[np.int16]

RATE = 8000
LEFT, RIGHT, TOP = 90, 30, 64
LANE = 92
"""Height of one voice."""
BETWEEN = 92
"""Room between the voices, for tool calls and waits."""
ROW = 26
"""Height of one turn in the waterfall."""
PIXELS_PER_SECOND = 48
CALLER, AGENT, TOOL, WAIT = "#2563eb", "#059669", "#d97706", "#dc2626"
STAGES = (
    ("endpoint_ms", "end of turn", "#94a3b8"),
    ("stt_ms", "recogniser", "#60a5fa"),
    ("brain_ms", "brain and tools", "#f59e0b"),
    ("tts_ms", "voice", "#34d399"),
    ("wire_ms", "to the wire", "#a78bfa"),
)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw(history: CallHistory, caller: Samples, agent: Samples, offset_ms: float = 0.0) -> str:
    """The picture. `offset_ms` is the call time at which the two channels (8 kHz) begin."""
    seconds = max(len(caller), len(agent), RATE) / RATE
    canvas = _Canvas(seconds, offset_ms, len(history.caller_turns))
    canvas.title(history)
    canvas.axis()
    canvas.wave(caller, canvas.caller_y, CALLER, "caller")
    canvas.wave(agent, canvas.agent_y, AGENT, "agent")
    for _, turn in sorted(history.turns.items()):
        canvas.turn(turn)
    canvas.waterfall(history.caller_turns)
    return canvas.svg()


class _Canvas:
    """Collects the shapes. Call times (ms) become x positions here and nowhere else."""

    def __init__(self, seconds: float, offset_ms: float, turns: int) -> None:
        self._offset_ms = offset_ms
        self._seconds = seconds
        self._inner = max(760.0, seconds * PIXELS_PER_SECOND)
        self.caller_y = TOP + LANE / 2
        self.agent_y = TOP + LANE + BETWEEN + LANE / 2
        self._bottom = TOP + 2 * LANE + BETWEEN
        self._width = LEFT + self._inner + RIGHT
        self._height = self._bottom + 70 + ROW * turns + 30
        self._shapes: list[str] = []

    def x(self, call_ms: float) -> float:
        return LEFT + (call_ms - self._offset_ms) / 1000 / self._seconds * self._inner

    def title(self, history: CallHistory) -> None:
        who = f"{history.context} · {history.provider} · {history.source}"
        self._text(LEFT, 26, f"Call {history.call_id}", size=16, bold=True)
        self._text(LEFT, 46, f"{history.started_at} · {who} · {history.outcome}: {history.reason}")

    def axis(self) -> None:
        step = 1 if self._seconds <= 30 else 5 if self._seconds <= 180 else 30
        for second in range(0, int(self._seconds) + 1, step):
            x = LEFT + second / self._seconds * self._inner
            self._line(x, TOP, x, self._bottom, "#e5e7eb")
            self._text(x, self._bottom + 16, f"{second} s", anchor="middle", colour="#6b7280")

    def wave(self, samples: Samples, y: float, colour: str, label: str) -> None:
        """Peaks per pixel, drawn as one shape; a faint line where there is no sound."""
        self._text(LEFT - 12, y + 4, label, anchor="end", bold=True, colour=colour)
        self._line(LEFT, y, LEFT + self._inner, y, "#d1d5db")
        columns = int(self._inner)
        sound = np.zeros(math.ceil(self._seconds * RATE), np.int16)
        sound[: len(samples)] = samples
        edges = np.linspace(0, len(sound), columns, endpoint=False).astype(np.intp)
        highest = np.maximum.reduceat(sound, edges).astype(np.float32)
        lowest = np.minimum.reduceat(sound, edges).astype(np.float32)
        peaks = np.maximum(highest, -lowest) / 32768 * (LANE / 2)
        places = LEFT + np.arange(columns) * (self._inner / columns)
        upper = [f"{x:.1f},{y - peak:.1f}" for x, peak in zip(places, peaks, strict=True)]
        lower = [f"{x:.1f},{y + peak:.1f}" for x, peak in zip(places, peaks, strict=True)]
        points = " ".join(upper + lower[::-1])
        self._shapes.append(f'<polygon points="{points}" fill="{colour}" opacity="0.75"/>')

    def turn(self, turn: Turn) -> None:
        """What was said, the tool calls, and the wait between the voices."""
        if turn.speech_ms is not None and turn.last_speech_ms is not None:
            self._span(turn.speech_ms, turn.last_speech_ms, TOP, CALLER, turn.heard or "(unclear)")
        if turn.answer_start_ms is not None:
            end = turn.answer_end_ms if turn.answer_end_ms is not None else turn.answer_start_ms
            words = " ".join(turn.said) + (" ✂" if turn.interrupted is not None else "")
            self._span(turn.answer_start_ms, end, self._bottom - LANE, AGENT, words)
        for place, use in enumerate(turn.tools):
            end = use.answered_ms if use.answered_ms is not None else use.asked_ms
            self._tool(
                use.asked_ms, end, place, f"{use.name}: {use.status}, {end - use.asked_ms} ms"
            )
        if turn.last_speech_ms is not None and turn.answer_start_ms is not None:
            self._wait(turn.last_speech_ms, turn.answer_start_ms)

    def waterfall(self, turns: Iterable[Turn]) -> None:
        """Each turn's wait by stage, to one scale."""
        rows = [turn for turn in turns if turn.latency]
        longest = max((turn.latency["total_ms"] for turn in rows), default=0)
        if not longest:
            return
        y = self._bottom + 44
        x = float(LEFT)
        for _, label, colour in STAGES:
            self._box(x, y - 10, 12, 12, colour)
            self._text(x + 17, y, label)
            x += 34 + 7 * len(label)
        scale = (self._inner - 120) / longest
        for turn in rows:
            y += ROW
            x = float(LEFT)
            self._text(LEFT - 12, y + 1, f"turn {turn.number}", anchor="end")
            for key, label, colour in STAGES:
                width = turn.latency[key] * scale
                self._box(x, y - 12, width, 17, colour, f"{label}: {turn.latency[key]} ms")
                if width > 44:
                    self._text(x + 5, y + 1, f"{turn.latency[key]} ms", colour="#ffffff")
                x += width
            self._text(x + 8, y + 1, f"{turn.latency['total_ms']} ms", bold=True)

    def svg(self) -> str:
        size = f'width="{self._width:.0f}" height="{self._height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {self._width:.0f} {self._height:.0f}" '
            'font-family="system-ui, sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
            + "\n".join(self._shapes)
            + "\n</svg>\n"
        )

    def _span(self, start: float, end: float, y: float, colour: str, text: str) -> None:
        x, width = self.x(start), max(2.0, self.x(end) - self.x(start))
        self._box(x, y, width, LANE, colour, text, opacity=0.10)
        self._text(x + 3, y + 12, _cut(text, width), colour=colour)

    def _tool(self, start: float, end: float, place: int, text: str) -> None:
        x, y = self.x(start), TOP + LANE + 8 + 20 * (place % 2)
        self._box(x, y, max(3.0, self.x(end) - x), 16, TOOL, text)
        self._text(x + max(3.0, self.x(end) - x) + 4, y + 12, text, colour=TOOL)

    def _wait(self, start: float, end: float) -> None:
        x, y = self.x(start), TOP + LANE + BETWEEN - 26
        to = max(x + 1, self.x(end))
        self._line(x, y, to, y, WAIT, 2)
        self._line(x, TOP + LANE, x, y, WAIT)
        self._line(to, y, to, TOP + LANE + BETWEEN, WAIT)
        self._text(x, y + 14, f"{end - start:.0f} ms", colour=WAIT, bold=True)

    def _line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1
    ) -> None:
        self._shapes.append(
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
        self._shapes.append(
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
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}"{weight}>{_xml(text)}</text>'
        )


def _xml(text: str) -> str:
    """Escaped; what XML cannot hold at all (control characters, half characters) is replaced."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def _cut(text: str, width: float) -> str:
    """As much of the text as fits in `width` pixels at about 6.2 pixels a character."""
    room = int(width / 6.2)
    return text if len(text) <= room else text[: max(0, room - 1)] + "…" if room > 2 else ""
