"""YAML for a value, in the style of the text around it. Pure.

Each text is written in the first form that reads back as exactly this text: the form of the value
before it or of its neighbours, else plain, else in double quotes.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cordboard.config.edit.tree import Node
from cordboard.config.yaml_document import parse
from cordboard.errors import ConfigError

WIDTH = 100
"""Columns of folded texts (`>`)."""
_PLAIN = re.compile(r"[\w/.$(][^\n]*")
_OTHER_YAML = re.compile(r"(?i)yes|no|on|off|y|n|<<")
"""Plain words that readers of YAML 1.1 take for booleans, and the merge key."""
_BLOCK = re.compile(
    r"[^ \t\n\x00-\x1f][^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]*"
)
"""Texts that `|` can express without an indentation indicator."""
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON allows in a text but YAML does not."""


@dataclass(frozen=True, slots=True)
class Style:
    """Habits of a text."""

    step: int = 2
    """Columns by which a nested mapping is indented."""
    dash: int = 2
    """Columns by which the dashes of a list are indented below its key."""
    text: int = 0
    """Columns by which a text behind `|` or `>` is indented; 0 = like a mapping."""
    flow_lists: bool = True
    """True if short lists are written as `[a, b]`."""
    quote: str = ""
    """Quote of one-line texts among the neighbours; empty if they are plain."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A value as it follows its key or dash."""

    head: str
    """On the line of the key; empty for a block collection below a key."""
    body: tuple[str, ...] = ()
    """Further lines, with their indentation."""


def style_of(root: Node, text: str) -> Style:
    """Return the habits of a text: the most frequent ones count."""
    steps: Counter[int] = Counter()
    dashes: Counter[int] = Counter()
    lists: Counter[bool] = Counter()
    for node in root.walk():
        for entry in node.entries:
            value = entry.value
            if value.kind == "sequence" and value.entries:
                lists[value.style == "flow"] += 1
            if value.kind == "scalar" or value.style or node.style or entry.key is None:
                continue
            below = column_of(text, value.start) - column_of(text, entry.start)
            (steps if value.kind == "mapping" else dashes)[below] += 1
    step = steps.most_common(1)[0][0] if steps else 2
    return Style(
        max(step, 1),
        dashes.most_common(1)[0][0] if dashes else step,
        flow_lists=lists[True] >= lists[False],
    )


def quote_among(holder: Node) -> str:
    """Return the quote that the one-line texts of a collection have, the last one first."""
    for entry in reversed(holder.entries):
        value = entry.value
        if value.kind == "scalar" and value.style in ("'", '"'):
            return value.style
        plain = value.kind == "scalar" and not value.style and value.value[:1].isalpha()
        if plain and value.value not in ("true", "false", "null"):
            return ""
    return ""


def column_of(text: str, position: int) -> int:
    """Return the column of a position, from 0."""
    return position - (text.rfind("\n", 0, position) + 1)


def block(
    value: Any, indent: int, style: Style, old: Node | None = None, *, dash: int = 0
) -> Emitted:
    """Return a value of a block collection whose key or dash is at the column `indent`. `old` is
    the value before it, whose form is kept if possible. `dash`: columns from the dash to the value;
    0 = it follows a key."""
    if isinstance(value, dict) and value and not _is_flow(old):
        inner = indent + (dash or style.step)
        lines = [line for key, one in value.items() for line in entry_lines(key, one, inner, style)]
        return _compact(lines, inner) if dash else Emitted("", tuple(lines))
    if isinstance(value, list) and value and not _is_flow(old) and not _short(value, style, old):
        inner = indent + (dash or style.dash)
        lines = [line for one in value for line in item_lines(one, inner, style)]
        return _compact(lines, inner) if dash else Emitted("", tuple(lines))
    if isinstance(value, str):
        return _text(value, indent + (style.text or dash or style.step), style, old)
    return Emitted(flow(value, style.quote))


def entry_lines(key: str, value: Any, indent: int, style: Style) -> list[str]:
    """Return the lines of an entry of a block mapping."""
    emitted = block(value, indent, style)
    return _lines(f"{' ' * indent}{key_text(key)}:", emitted)


def item_lines(value: Any, indent: int, style: Style) -> list[str]:
    """Return the lines of an item of a block sequence."""
    return _lines(f"{' ' * indent}-", block(value, indent, style, dash=2))


def _lines(prefix: str, emitted: Emitted) -> list[str]:
    return [f"{prefix} {emitted.head}" if emitted.head else prefix, *emitted.body]


def _compact(lines: list[str], indent: int) -> Emitted:
    return Emitted(lines[0][indent:], tuple(lines[1:]))


def _is_flow(old: Node | None) -> bool:
    return old is not None and old.style == "flow" and bool(old.entries)


def _short(value: list[Any], style: Style, old: Node | None) -> bool:
    if old is not None and old.kind == "sequence" and old.entries:
        return False
    plain = not any(isinstance(one, (dict, list)) for one in value)
    return style.flow_lists and plain and len(flow(value, "")) < WIDTH


def flow(value: Any, quote: str) -> str:
    """Return a value on one line, as it may stand in `[ ]` and `{ }`. Raises `TypeError` for a
    value that YAML has no form for here."""
    if isinstance(value, dict):
        entries = (
            f"{key_text(key, in_flow=True)}: {flow(one, quote)}" for key, one in value.items()
        )
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(one, quote) for one in value) + "]"
    if isinstance(value, str):
        return _one_line(value, quote, in_flow=True)
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    raise TypeError(f"a value cannot be a {type(value).__name__}")


def key_text(key: str, quote: str = "", *, in_flow: bool = False) -> str:
    """Return a key as it is written before its colon."""
    forms = ([_single(key)] if quote == "'" else []) + ([_double(key)] if quote == '"' else [])
    if _PLAIN.fullmatch(key) or key.lstrip("-").isdigit():
        forms.append(key)
    for form in forms:
        if _reads_as(f"k: {{{form}: 1}}" if in_flow else f"{form}: 1", key, in_flow=in_flow):
            return form
    return _double(key)


def _reads_as(text: str, key: str, *, in_flow: bool) -> bool:
    expected = {"k": {key: 1}} if in_flow else {key: 1}
    return _read(text) == expected


def _read(text: str) -> object:
    try:
        document = parse(text + "\n", "")
    except ConfigError:
        return None
    return None if document.problems else document.tree


def _text(text: str, indent: int, style: Style, old: Node | None) -> Emitted:
    was = old.style if old is not None and old.kind == "scalar" else ""
    if was in ("|", ">") or "\n" in text.rstrip("\n"):
        for emitted in _blocks(text, indent, folded=was == ">"):
            if _read("\n".join((f"k: {emitted.head}", *emitted.body))) == {"k": text}:
                return emitted
    quote = was if was in ("'", '"') else style.quote
    if old is not None and old.kind == "scalar" and not was and not old.empty:
        quote = ""
    return Emitted(_one_line(text, quote, in_flow=False))


def _blocks(text: str, indent: int, *, folded: bool) -> Iterator[Emitted]:
    """Yield the block forms of a text, the preferred one first."""
    content = text.rstrip("\n")
    trailing = len(text) - len(content)
    if not _BLOCK.fullmatch(content):
        return
    chomping = ("-", "", "+")[min(trailing, 2)]
    blank = [""] * (trailing - 1)
    margin = " " * indent
    if folded:
        lines: list[str] = []
        for number, part in enumerate(content.split("\n")):
            lines += [""] if number else []
            lines += textwrap.wrap(
                part,
                max(WIDTH - indent, 40),
                expand_tabs=False,
                replace_whitespace=False,
                drop_whitespace=True,
                break_long_words=False,
                break_on_hyphens=False,
            )
        yield Emitted(f">{chomping}", (*(line and margin + line for line in lines), *blank))
    lines = [line and margin + line for line in content.split("\n")]
    yield Emitted(f"|{chomping}", (*lines, *blank))


def _one_line(text: str, quote: str, *, in_flow: bool) -> str:
    forms = []
    if quote == "'":
        forms.append(_single(text))
    elif quote != '"' and _PLAIN.fullmatch(text) and not _OTHER_YAML.fullmatch(text):
        forms.append(text)
    for form in forms:
        if _read(f"k: [{form}]" if in_flow else f"k: {form}") == {"k": [text] if in_flow else text}:
            return form
    return _double(text)


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
