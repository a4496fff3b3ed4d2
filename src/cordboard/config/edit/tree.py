"""The syntax of a YAML text: each node with the exact characters it occupies. Pure.

`yaml_document` reads values; this module reads where they are written. A block collection ends with
its last value: blank lines and comments behind it are outside. Positions are indexes of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from cordboard.config.yaml_document import Document, parse_events

_GAP = re.compile(r"#[^\n]*|\s+|[^\s#]")
"""Parts of the text between two nodes: comments, blanks, and characters of the syntax."""


@dataclass(slots=True, eq=False)
class Node:
    """A value, or a key, as it is written."""

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    """Position of the first character, that of an anchor or tag if there is one."""
    end: int
    """Position behind the last character."""
    style: str = ""
    """Of a scalar: the quote, `|`, `>`, or empty for a plain one. Of a collection: `flow` or
    empty."""
    value: str = ""
    """Text of a scalar; name of an alias."""
    anchor: str = ""
    tagged: bool = False
    entries: list[Entry] = field(default_factory=list)
    """Of a mapping or sequence, in the order of the text."""

    @property
    def empty(self) -> bool:
        """True if the value is left out, as in `key:`."""
        return self.start == self.end

    @property
    def is_block(self) -> bool:
        """True if the value continues on indented lines of its own."""
        return self.style in ("|", ">") if self.kind == "scalar" else self.style != "flow"

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes inside, in the order of the text."""
        yield self
        for entry in self.entries:
            if entry.key is not None:
                yield from entry.key.walk()
            yield from entry.value.walk()


@dataclass(slots=True, eq=False)
class Entry:
    """An entry of a mapping, or an item of a sequence."""

    key: Node | None
    """None for an item."""
    value: Node
    start: int
    """Position of the key, of the dash, or of the item in a flow sequence."""
    indicator: int
    """Position behind the colon or the dash; -1 if there is none."""

    @property
    def end(self) -> int:
        return max(self.value.end, self.indicator)

    @property
    def merges(self) -> bool:
        """True for `<<`."""
        key = self.key
        return key is not None and key.value == "<<" and not key.style and key.kind == "scalar"

    @property
    def explicit(self) -> bool:
        """True for a key that cannot be edited as one line: `? key`, an alias, a collection."""
        key = self.key
        return key is not None and (key.kind != "scalar" or self.start < key.start)


def parse_tree(text: str, file: str) -> tuple[Document, Node]:
    """Return the values and the root of a text. Raises `ConfigError` as `parse` does."""
    document, found = parse_events(text, file)
    events = iter(found)
    for event in events:
        if isinstance(event, NodeEvent):
            return document, _Reader(text, events).node(event)
    raise ValueError("the text has no value")


def significant(text: str, start: int, end: int) -> list[int]:
    """Return the positions of the syntax characters between two nodes, such as `-`, `:`, `,`."""
    found = (match for match in _GAP.finditer(text, start, end))
    return [match.start() for match in found if not match[0].isspace() and match[0][0] != "#"]


class _Reader:
    def __init__(self, text: str, events: Iterator[Any]) -> None:
        self._text = text
        self._events = events

    def node(self, event: NodeEvent) -> Node:
        start, end = int(event.start_mark.index), int(event.end_mark.index)
        anchor = str(event.anchor or "")
        match event:
            case AliasEvent():
                return Node("alias", start, end, value=anchor)
            case ScalarEvent():
                return self._scalar(event, start, end, anchor)
            case MappingStartEvent() | SequenceStartEvent():
                return self._collection(event, start, anchor)
        raise ValueError(f"unexpected event {type(event).__name__}")

    def _scalar(self, event: ScalarEvent, start: int, end: int, anchor: str) -> Node:
        style = str(event.style or "")
        written = self._text[start:end]
        if style in ("|", ">"):
            header = written.partition("\n")[0]
            if "+" in header.partition("#")[0]:
                end -= written.endswith("\n")
            else:
                end = start + len(written.rstrip())
        return Node("scalar", start, end, style, str(event.value), anchor, bool(event.tag))

    def _collection(
        self, start_event: MappingStartEvent | SequenceStartEvent, start: int, anchor: str
    ) -> Node:
        is_mapping = isinstance(start_event, MappingStartEvent)
        style = "flow" if start_event.flow_style else ""
        kind: Literal["mapping", "sequence"] = "mapping" if is_mapping else "sequence"
        node = Node(kind, start, start, style, "", anchor, bool(start_event.tag))
        before = start
        for event in self._events:
            if isinstance(event, CollectionEndEvent):
                written = self._text[start : int(event.end_mark.index)]
                node.end = before
                if style and written.endswith(("]", "}")) and written[0] in "[{&!":
                    node.end = int(event.end_mark.index)
                return node
            if is_mapping:
                key = self.node(event)
                entry = self._pair(before, key, self.node(next(self._events)))
            else:
                entry = self._item(before, self.node(event), flow=bool(style))
            node.entries.append(entry)
            before = entry.end
        raise ValueError("the text ends inside a collection")

    def _pair(self, before: int, key: Node, value: Node) -> Entry:
        colons = [at for at in significant(self._text, key.end, value.start) if self._is(at, ":")]
        indicator = colons[0] + 1 if colons else -1
        if value.empty:
            value.start = value.end = max(key.end, indicator)
        asked = [at for at in significant(self._text, before, key.start) if self._is(at, "?")]
        return Entry(key, value, asked[0] if asked else key.start, indicator)

    def _item(self, before: int, value: Node, *, flow: bool) -> Entry:
        if flow:
            return Entry(None, value, value.start, -1)
        dash = significant(self._text, before, value.start)[-1]
        return Entry(None, value, dash, dash + 1)

    def _is(self, position: int, character: str) -> bool:
        return self._text[position] == character
