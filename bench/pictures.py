"""Plots as small SVG files: no library, readable on light and dark pages.

`bars`, `steps` (cumulative shares) and `stack` (a waterfall) return the text of a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH = 780
_LEFT, _RIGHT, _TOP = 270, 90, 44
_ROW = 30
_COLOURS = ("#2563a8", "#c2571a", "#2e8b57", "#8c4fa8", "#a33a4a", "#6b7280", "#b08a1e")
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}"
    ".title{font-weight:600;font-size:14px}.note{fill:#666;font-size:12px}"
    ".grid{stroke:#ccc;stroke-width:1}.frame{fill:#fff}"
)


def bars(title: str, values: Sequence[tuple[str, float]], unit: str) -> str:
    """One horizontal bar for each name; the longest fills the width."""
    most = max((value for _, value in values), default=0.0) or 1.0
    scale = (WIDTH - _LEFT - _RIGHT) / most
    parts = []
    for number, (name, value) in enumerate(values):
        top = _TOP + number * _ROW
        parts += [
            _text(_LEFT - 8, top + 16, name, anchor="end"),
            _rect(_LEFT, top + 3, value * scale, _ROW - 10, _COLOURS[number % len(_COLOURS)]),
            _text(_LEFT + value * scale + 6, top + 16, f"{value:.3g} {unit}"),
        ]
    return _page(title, parts, _TOP + len(values) * _ROW + 12)


def stack(
    title: str, rows: Mapping[str, Mapping[str, float]], unit: str, line: float | None = None
) -> str:
    """For each row its parts one after the other, as in a waterfall; `line` marks a target."""
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    most = max([sum(parts.values()) for parts in rows.values()] + [line or 0.0]) or 1.0
    scale = (WIDTH - _LEFT - _RIGHT) / most
    parts = []
    for number, (row, values) in enumerate(rows.items()):
        top, left = _TOP + number * _ROW, float(_LEFT)
        parts.append(_text(_LEFT - 8, top + 16, row, anchor="end"))
        for name, value in values.items():
            colour = _COLOURS[names.index(name) % len(_COLOURS)]
            parts.append(_rect(left, top + 3, value * scale, _ROW - 10, colour))
            left += value * scale
        parts.append(_text(left + 6, top + 16, f"{sum(values.values()):.0f} {unit}"))
    bottom = _TOP + len(rows) * _ROW
    if line is not None:
        parts.append(_line(_LEFT + line * scale, _TOP - 4, _LEFT + line * scale, bottom))
        parts.append(_text(_LEFT + line * scale, bottom + 12, f"target {line:g} {unit}", "middle"))
    return _page(title, [*parts, *_legend(names, bottom + 26)], bottom + 50)


def steps(
    title: str, series: Mapping[str, Sequence[float]], unit: str, line: float | None = None
) -> str:
    """The share of values up to each value, one stair for each series."""
    height = 240
    most = max([max(values) for values in series.values() if values] + [line or 0.0]) * 1.05
    scale_x, scale_y = (WIDTH - 60 - 30) / (most or 1.0), height - _TOP - 10
    left, bottom = 60, height
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 0.95, 1):
        y = bottom - share * scale_y
        parts += [_line(left, y, WIDTH - 30, y), _text(left - 8, y + 4, f"{share:.0%}", "end")]
    for tick in range(5):
        value = most * tick / 4
        parts.append(_text(left + value * scale_x, bottom + 18, f"{value:.0f} {unit}", "middle"))
    for number, values in enumerate(series.values()):
        ordered = sorted(values)
        points = [f"{left},{bottom}"]
        for rank, value in enumerate(ordered):
            x = left + value * scale_x
            points += [
                f"{x:.1f},{bottom - rank / len(ordered) * scale_y:.1f}",
                f"{x:.1f},{bottom - (rank + 1) / len(ordered) * scale_y:.1f}",
            ]
        colour = _COLOURS[number % len(_COLOURS)]
        way = " ".join(points)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{way}"/>')
    if line is not None:
        x = left + line * scale_x
        parts += [_line(x, _TOP, x, bottom, "#b3261e"), _text(x + 4, _TOP + 10, f"{line:g} {unit}")]
    return _page(title, [*parts, *_legend(list(series), bottom + 40)], bottom + 66)


def _legend(names: Sequence[str], top: float) -> list[str]:
    parts, left = [], 24.0
    for number, name in enumerate(names):
        parts.append(_rect(left, top, 12, 12, _COLOURS[number % len(_COLOURS)]))
        parts.append(_text(left + 17, top + 11, name))
        left += 40 + 7.2 * len(name)
    return parts


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#ccc") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _page(title: str, parts: Sequence[str], height: float) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img">\n<title>{escape(title)}</title>\n'
        f'<style>{_STYLE}</style>\n<rect class="frame" width="100%" height="100%" rx="6"/>\n'
        f'<text class="title" x="20" y="26">{escape(title)}</text>\n{body}\n</svg>\n'
    )
