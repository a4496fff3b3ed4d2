"""Edits of a configuration's text. Pure.

    apply(text, [Set(("contexts", "demo", "greeting"), "Hello."), Remove(("mcp",))])

An edit replaces only the characters of the values it names; all others stay, byte for byte. New
text has the style of its neighbours. Comments belong to entries:

- a block of comment lines directly above an entry, without a blank line between them, belongs to
  that entry, and so does a comment at the end of its lines;
- comment lines below an entry that are indented deeper than it belong to it;
- a block that a blank line follows belongs to no entry and stays.

A text is changed only if the result reads as the old values with exactly the requested change:
`parse(apply(text, edits)) == apply_to_data(parse(text), edits)`. Otherwise `EditRefused` has the
reason. Values behind anchors, aliases and merge keys are read-only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from cordboard.config.edit.edits import (
    Edit,
    Insert,
    Move,
    Remove,
    Rename,
    Set,
    apply_to_data,
    check_new,
    child,
    has,
    missing,
    same,
)
from cordboard.config.edit.emit import (
    Emitted,
    block,
    column_of,
    entry_lines,
    flow,
    item_lines,
    key_text,
    quote_among,
    style_of,
)
from cordboard.config.edit.tree import Entry, Node, parse_tree, significant
from cordboard.config.yaml_document import KeyPath, dotted, parse
from cordboard.errors import ConfigError, EditRefused

_BOM = "\ufeff"
_HEADER = re.compile(r"[|>][-+0-9]*")
_STRANGE_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


def apply(text: str, edits: Iterable[Edit], file: str = "") -> str:
    """Return the text with the edits, in their order. Raises `EditRefused`, and `ConfigError` for a
    text that is not YAML; these name `file`."""
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    document, root = parse_tree(text, file)
    if document.problems:
        raise EditRefused(f"mend the text first: {document.problems[0]}")
    if _STRANGE_BREAK.search(text):
        raise EditRefused("the text has line breaks that are neither LF nor CRLF; edit it as text")
    ended = text if text.endswith("\n") else text + ("\r\n" if "\r\n" in text else "\n")
    data, edited = document.tree, ended
    for edit in edits:
        check_new(edit)
        before, data = data, apply_to_data(data, edit)
        edited, root = _edited(edited, root, edit, before, data)
    trimmed = edited.removesuffix("\n").removesuffix("\r")
    if ended is not text and same(parse(trimmed, "").tree, data):  # not the end of a `|` text
        edited = trimmed
    return bom + edited


def _edited(
    text: str, root: Node, edit: Edit, before: dict[str, Any], data: dict[str, Any]
) -> tuple[str, Node]:
    """Return the text with one edit, which turns the values `before` into `data`, and its root."""
    try:
        edited = _Editor(text, root, edit, before).edited()
        after, root = parse_tree(edited, "")
    except ConfigError as error:
        raise EditRefused(f"the text would not be YAML: {error}; edit it as text") from None
    if after.problems:
        raise EditRefused(f"{after.problems[0].key}: {after.problems[0].message}")
    if not same(after.tree, data):
        raise EditRefused(
            f"{dotted(edit.path)} is written in a way that is read-only; edit it as text"
        )
    return edited, root


@dataclass(frozen=True, slots=True)
class _Place:
    """An entry in its collection."""

    holder: Node
    index: int
    floor: int
    """Position behind which the collection may have comments of its first entry."""

    @property
    def entry(self) -> Entry:
        return self.holder.entries[self.index]

    @property
    def before(self) -> int:
        """Position behind the entry before, or behind the indicator of the collection."""
        return self.holder.entries[self.index - 1].end if self.index else self.floor


class _Editor:
    """One edit of a text that ends with a line break."""

    def __init__(self, text: str, root: Node, edit: Edit, data: dict[str, Any]) -> None:
        self._text = text
        self._edit = edit
        self._data: dict[str, Any] | None = data
        """Values of the text; None until they are needed again."""
        self._break = "\r\n" if "\r\n" in text else "\n"
        self._tree: Node | None = root
        self._style = style_of(self._root, text)
        self._splices: list[tuple[int, int, str]] = []

    def edited(self) -> str:
        """Return the text with the edit. Raises `EditRefused`."""
        edit = self._edit
        match edit:
            case Set():
                self._set(edit.path, edit.value)
            case Insert():
                self._add(edit.path, edit.value, edit.before)
            case Remove():
                self._remove(edit.path)
            case Rename():
                self._rename(edit.path, edit.key)
            case Move():
                self._move(edit.path, edit.index)
        return self._text

    # The text.

    @property
    def _root(self) -> Node:
        if self._tree is None:
            document, self._tree = parse_tree(self._text, "")
            self._data = document.tree
        return self._tree

    def _splice(self, start: int, end: int, new: str) -> None:
        self._splices.append((start, end, new))

    def _done(self) -> None:
        """Replace all spliced spans."""
        text = self._text
        for start, end, new in sorted(self._splices, reverse=True):
            text = text[:start] + new + text[end:]
        self._splices.clear()
        if text != self._text:
            self._text, self._data = text, None
            self._tree = None

    def _line(self, position: int) -> int:
        """Return the begin of the line of a position."""
        return self._text.rfind("\n", 0, position) + 1

    def _next_line(self, position: int) -> int:
        """Return the begin of the line after that of a position."""
        return self._text.find("\n", position) + 1 or len(self._text)

    def _line_end(self, position: int) -> int:
        """Return the position of the line break of a position's line."""
        end = self._next_line(position) - 1
        return end - 1 if self._text[end - 1 : end] == "\r" else end

    def _joined(self, lines: Iterable[str]) -> str:
        return "".join(line + self._break for line in lines)

    def _indent(self, position: int) -> str:
        return " " * column_of(self._text, position)

    # Places.

    def _there(self, path: KeyPath) -> _Place:
        """Return the entry at `path`. Raises `EditRefused` if it is not written there."""
        place = self._find(path, must=True)
        assert place is not None  # noqa: S101 - `must`
        return place

    def _find(self, path: KeyPath, *, must: bool = False) -> _Place | None:
        """Return the entry at `path`; None if its collection has none and none `must` be there.
        Raises `EditRefused` for a path that is read-only."""
        node, floor = self._root, 0
        place: _Place | None = None
        for length, part in enumerate(path):
            self._check_own(node, path[:length])
            found = _index(node, part)
            if found is None:
                if must or length < len(path) - 1:
                    raise self._read_only(node, path[: length + 1])
                return None
            place = _Place(node, found, floor)
            if place.entry.explicit:
                raise EditRefused(f"{dotted(path[: length + 1])} has no plain key; edit it as text")
            node = place.entry.value
            floor = max(place.entry.indicator, place.entry.start)
        return place

    def _check_own(self, node: Node, path: KeyPath) -> None:
        """Raise `EditRefused` if the entries of a collection are used elsewhere, too."""
        name, line = dotted(path) or "the file", self._text.count("\n", 0, node.start) + 1
        if node.kind == "alias":
            raise EditRefused(f"{name} is the alias *{node.value} (line {line}); edit it as text")
        if node.anchor:
            raise EditRefused(
                f"{name} has the anchor &{node.anchor} (line {line}); edit it as text"
            )
        if node.tagged:
            raise EditRefused(f"{name} has a tag (line {line}); edit it as text")

    def _read_only(self, node: Node, path: KeyPath) -> EditRefused:
        if any(entry.merges for entry in node.entries):
            return EditRefused(f"{dotted(path)} comes from a merge key (<<); edit it as text")
        return missing(path)

    def _check_value(self, place: _Place, path: KeyPath, *, moved: bool = False) -> None:
        """Raise `EditRefused` if others refer to a value that goes, or it is an alias itself."""
        self._check_own(place.entry.value, path)
        for node in place.entry.value.walk():
            if node.anchor or (moved and node.kind == "alias"):
                line = self._text.count("\n", 0, node.start) + 1
                found = f"the anchor &{node.anchor}" if node.anchor else f"the alias *{node.value}"
                raise EditRefused(f"{dotted(path)} has {found} (line {line}); edit it as text")

    def _value(self, path: KeyPath) -> Any:
        if self._data is None:
            document, self._tree = parse_tree(self._text, "")
            self._data = document.tree
        value: Any = self._data
        for part in path:
            value = child(value, part)
        return value

    # Regions: whole lines of an entry, with its comments.

    def _own_line(self, entry: Entry) -> bool:
        return not self._text[self._line(entry.start) : entry.start].strip()

    def _lead(self, place: _Place) -> int:
        """Return the begin of the comment lines directly above an entry, or of its line."""
        column = column_of(self._text, place.entry.start)
        begin = self._line(place.entry.start)
        while begin > place.before:
            above = self._line(begin - 1)
            line = self._text[above:begin]
            comment = line.lstrip()
            if not comment.startswith("#") or len(line) - len(comment) > column:
                break
            if above < place.before:
                break
            begin = above
        return begin

    def _region_end(self, entry: Entry) -> int:
        """Return the begin of the line behind an entry and the deeper comments below it."""
        column = column_of(self._text, entry.start)
        end = position = self._next_line(entry.end)
        while position < len(self._text):
            following = self._next_line(position)
            line = self._text[position:following]
            comment = line.strip()
            if comment and not comment.startswith("#"):
                break
            if comment and len(line) - len(line.lstrip()) <= column:
                break
            position = following
            end = position if comment else end
        return end

    def _spaced(self, holder: Node) -> bool:
        """True if blank lines separate the entries of a block collection."""
        pairs = pairwise(holder.entries)
        gaps = [self._text[self._line_end(one.end) : other.start] for one, other in pairs]
        return bool(gaps) and all(re.search(r"\n[ \t]*\r?\n", gap) for gap in gaps)

    # Set.

    def _set(self, path: KeyPath, value: Any) -> None:
        present = self._value(path)
        exists = not path or has(self._value(path[:-1]) or {}, path[-1])
        if exists and same(present, value):
            return
        if exists and value and isinstance(present, dict) and present and isinstance(value, dict):
            for key in value:
                self._set((*path, key), value[key])
            for key in present.keys() - value.keys():
                self._remove((*path, key))
        elif exists and value and isinstance(present, list) and present and isinstance(value, list):
            self._set_list(path, present, value)
        else:
            place = self._find(path) if exists else None
            if place is None:  # new, or only in a merged mapping
                self._add(path, value, None)
            else:
                self._check_value(place, path)
                self._replace(place, value)

    def _set_list(self, path: KeyPath, present: list[Any], value: list[Any]) -> None:
        start, end, new_end = 0, len(present), len(value)
        while start < min(end, new_end) and same(present[start], value[start]):
            start += 1
        while min(end, new_end) > start and same(present[end - 1], value[new_end - 1]):
            end, new_end = end - 1, new_end - 1
        both = min(end, new_end)
        for index in range(start, both):
            self._set((*path, index), value[index])
        for index in reversed(range(both, end)):
            self._remove((*path, index))
        for index in range(both, new_end):
            self._add((*path, index), value[index], None)

    def _replace(self, place: _Place, value: Any) -> None:
        entry, old = place.entry, place.entry.value
        style = replace(self._style, quote=quote_among(place.holder))
        if place.holder.style == "flow":
            quote = old.style if old.style in ("'", '"') else style.quote
            self._inline(entry, flow(value, quote))
        else:
            indent = column_of(self._text, entry.start)
            below = self._text[self._next_line(old.start) :].lstrip("\r\n")
            if old.kind == "scalar" and old.is_block and old.value.strip():
                style = replace(style, text=len(below) - len(below.lstrip(" ")) - indent)
            on_line = "\n" not in self._text[entry.start : old.start] and not old.empty
            dash = column_of(self._text, old.start) - indent if on_line else 2
            new = block(value, indent, style, old, dash=0 if entry.key is not None else dash)
            if not old.is_block:
                deeper = self._region_end(entry) > self._next_line(entry.end)
                if new.head.startswith(("|", ">")) and deeper:  # a comment would become text
                    new = Emitted(flow(value, '"'))
                self._replace_inline(entry, new)
            elif old.kind == "scalar":
                self._replace_block_text(entry, new)
            else:
                self._replace_block(entry, new)
        self._done()

    def _inline(self, entry: Entry, head: str) -> None:
        """Put a text in the place of a value that is not a block."""
        old = entry.value
        if not old.empty:
            self._splice(old.start, old.end, head)
        elif entry.indicator >= 0:
            self._splice(entry.indicator, entry.indicator, f" {head}")
        else:
            self._splice(old.start, old.end, f": {head}")

    def _replace_inline(self, entry: Entry, new: Emitted) -> None:
        behind = self._next_line(entry.end)
        if new.head:
            self._inline(entry, new.head)
        elif not entry.value.empty:
            self._drop_between(entry.indicator, entry.value.start)
            self._splice(entry.indicator, entry.value.end, "")
        self._splice(behind, behind, self._joined(new.body))

    def _replace_block_text(self, entry: Entry, new: Emitted) -> None:
        old = entry.value
        header = _HEADER.match(self._text, old.start)
        header_end = header.end() if header is not None else old.start
        if new.head:
            self._splice(old.start, header_end, new.head)
        else:
            self._drop_between(entry.indicator, old.start)
            self._splice(entry.indicator, header_end, "")
        begin = self._next_line(header_end)
        self._splice(begin, max(begin, self._next_line(old.end)), self._joined(new.body))

    def _replace_block(self, entry: Entry, new: Emitted) -> None:
        end = self._region_end(entry)
        if "\n" in self._text[entry.indicator : entry.value.start]:
            head = f" {new.head}" if new.head else ""
            self._splice(entry.indicator, entry.indicator, head)
            self._splice(self._next_line(entry.indicator), end, self._joined(new.body))
        else:
            self._splice(entry.value.start, end, self._joined((new.head, *new.body)))

    def _drop_between(self, start: int, end: int) -> None:
        if self._text[start:end].strip():
            raise EditRefused("there is a comment before the value; edit it as text")

    # Add.

    def _add(self, path: KeyPath, value: Any, before: str | None) -> None:
        """Add an entry; the values have been checked by `apply_to_data`."""
        above = path[:-1]
        if above and self._value(above) in (None, {}, []):
            key = path[-1]
            self._set(above, [value] if isinstance(key, int) else {key: value})
            return
        place = self._find(above) if above else None
        holder = place.entry.value if place is not None else self._root
        self._check_own(holder, above)
        index = len(holder.entries)
        if isinstance(path[-1], int):
            index = path[-1]
        elif before is not None:
            found = _index(holder, before)
            if found is None:
                raise self._read_only(holder, (*above, before))
            index = found
        floor = max(place.entry.indicator, place.entry.start) if place is not None else 0
        if holder.style == "flow":
            quote = quote_among(holder)
            written = flow(value, quote)
            if isinstance(path[-1], str):
                written = f"{key_text(path[-1], in_flow=True)}: {written}"
            self._add_to_flow(holder, index, written)
        else:
            self._add_to_block(holder, index, floor, path[-1], value, directly=before is not None)
        self._done()

    def _add_to_block(
        self, holder: Node, index: int, floor: int, key: str | int, value: Any, *, directly: bool
    ) -> None:
        indent = column_of(self._text, holder.entries[0].start)
        style = replace(self._style, quote=quote_among(holder))
        if isinstance(key, str):
            lines = entry_lines(key, value, indent, style)
        else:
            lines = item_lines(value, indent, style)
        blank = [""] if self._spaced(holder) else []
        if index and not (directly and index < len(holder.entries)):
            at = self._region_end(holder.entries[index - 1])
            self._splice(at, at, self._joined([*blank, *lines]))
            return
        place = _Place(holder, index, floor)
        if self._own_line(place.entry):
            at = self._lead(place)
            self._splice(at, at, self._joined([*lines, *blank]))
        else:
            at = place.entry.start
            self._splice(at, at, self._joined(lines).lstrip(" ") + " " * indent)

    def _add_to_flow(self, holder: Node, index: int, written: str) -> None:
        if self._text[holder.start] not in "[{":
            raise EditRefused("a list item has a key without braces; edit it as text")
        if not holder.entries:
            self._splice(holder.start + 1, holder.start + 1, written)
            return
        lined = self._lined(holder)
        if index < len(holder.entries):
            entry = holder.entries[index]
            at = self._lead(_Place(holder, index, holder.start + 1)) if lined else entry.start
            new = f"{self._indent(entry.start)}{written},{self._break}" if lined else f"{written}, "
            self._splice(at, at, new)
            return
        last = holder.entries[-1]
        separator = " ," if last.value.empty else ","  # "g:," would be a text
        if not lined:
            self._splice(last.end, last.end, f"{separator} {written}")
            return
        comma = self._comma(holder, len(holder.entries) - 1)
        if comma < 0:
            self._splice(last.end, last.end, separator)
        at = self._next_line(max(comma, last.end))
        tail = "," if comma >= 0 else ""
        self._splice(at, at, f"{self._indent(last.start)}{written}{tail}{self._break}")

    def _comma(self, holder: Node, index: int) -> int:
        """Return the position of the comma behind an entry of a flow collection; -1 if none."""
        entries = holder.entries
        until = entries[index + 1].start if index + 1 < len(entries) else holder.end - 1
        commas = significant(self._text, entries[index].end, until)
        return commas[0] if commas else -1

    def _lined(self, holder: Node) -> bool:
        """True if each entry of a flow collection has lines of its own."""
        for index, entry in enumerate(holder.entries):
            comma = self._comma(holder, index)
            behind = max(comma + 1, entry.end)
            rest = self._text[behind : self._line_end(behind)].strip()
            if not self._own_line(entry) or not (rest == "" or rest.startswith("#")):
                return False
            if "\n" in self._text[entry.end : max(comma, entry.end)]:
                return False
        return True

    # Remove.

    def _remove(self, path: KeyPath) -> None:
        place = self._there(path)
        for node in place.entry.value.walk():
            if node.anchor:
                line = self._text.count("\n", 0, node.start) + 1
                words = f"{dotted(path)} has the anchor &{node.anchor} (line {line})"
                raise EditRefused(f"{words}; edit it as text")
        if place.holder.style == "flow":
            self._remove_from_flow(place)
        elif len(place.holder.entries) == 1:
            self._empty(place)
        elif self._own_line(place.entry):
            self._splice(self._lead(place), self._region_end(place.entry), "")
        else:  # the first one behind a dash; the next one takes its place
            end = self._region_end(place.entry)
            blank = len(self._text[end:]) - len(self._text[end:].lstrip())
            self._splice(place.entry.start, end + blank, "")
        self._done()

    def _empty(self, place: _Place) -> None:
        """Remove the only entry of a block collection, which stays as `{}` or `[]`."""
        entry = place.entry
        word = "{}" if place.holder.kind == "mapping" else "[]"
        end = self._region_end(entry)
        if not self._own_line(entry):
            self._splice(entry.start, end, word + self._break)
        elif place.floor:
            self._splice(place.floor, place.floor, f" {word}")
            self._splice(self._lead(place), end, "")
        else:
            self._splice(self._lead(place), end, word + self._break)

    def _remove_from_flow(self, place: _Place) -> None:
        holder, index, entry = place.holder, place.index, place.entry
        if self._text[holder.start] not in "[{":
            raise EditRefused("a list item has a key without braces; edit it as text")
        comma = self._comma(holder, index)
        behind = max(comma + 1, entry.end)
        if self._lined(holder):
            place = _Place(holder, index, holder.start + 1)
            self._splice(self._lead(place), self._next_line(behind), "")
            return
        start, end = entry.start, behind
        if index + 1 < len(holder.entries):
            end = holder.entries[index + 1].start
        elif index:
            start, end = holder.entries[index - 1].end, entry.end
        outside = self._text[start : entry.start] + self._text[entry.end : end]
        if "#" in outside:
            raise EditRefused("there are comments between the items; edit it as text")
        self._splice(start, end, "")

    # Rename, move.

    def _rename(self, path: KeyPath, key: str) -> None:
        place = self._there(path)
        node = place.entry.key
        if node is None:
            raise missing(path)
        if node.anchor or node.tagged:
            raise EditRefused(f"the key {dotted(path)} has an anchor or tag; edit it as text")
        in_flow = place.holder.style == "flow"
        self._splice(node.start, node.end, key_text(key, node.style, in_flow=in_flow))
        self._done()

    def _move(self, path: KeyPath, index: int) -> None:
        place = self._there(path)
        if index == place.index:
            return
        self._check_value(place, path, moved=True)
        if place.holder.style != "flow":
            self._move_lines(place, index)
        elif self._lined(place.holder):
            last = len(place.holder.entries) - 1
            if last in (index, place.index) and self._comma(place.holder, last) < 0:
                end = place.holder.entries[last].end
                self._splice(end, end, ",")
                self._done()
                place = self._there(path)
            self._move_lines(replace(place, floor=place.holder.start + 1), index)
        else:
            self._move_on_a_line(place, index)
        self._done()

    def _move_lines(self, place: _Place, index: int) -> None:
        holder, flowing = place.holder, place.holder.style == "flow"
        if not all(map(self._own_line, holder.entries)):
            raise EditRefused("the items have no lines of their own; edit it as text")

        def region(one: _Place) -> tuple[int, int]:
            if not flowing:
                return self._lead(one), self._region_end(one.entry)
            behind = max(self._comma(holder, one.index), one.entry.end)
            return self._lead(one), self._next_line(behind)

        start, end = region(place)
        other_start, other_end = region(replace(place, index=index))
        at = other_end if index > place.index else other_start
        self._splice(start, end, "")
        self._splice(at, at, self._text[start:end])

    def _move_on_a_line(self, place: _Place, index: int) -> None:
        entries = place.holder.entries
        order = list(range(len(entries)))
        order.insert(index, order.pop(place.index))
        gaps = pairwise(entries)
        if any("#" in self._text[one.end : other.start] for one, other in gaps):
            raise EditRefused("there are comments between the items; edit it as text")
        for slot, source in zip(entries, order, strict=True):
            old = entries[source]
            self._splice(slot.start, slot.end, self._text[old.start : old.end])


def _index(node: Node, part: str | int) -> int | None:
    """Return the position of an entry in a collection, by its key or index."""
    if isinstance(part, int):
        return part if node.kind == "sequence" and 0 <= part < len(node.entries) else None
    if node.kind != "mapping":
        return None
    for index, entry in enumerate(node.entries):
        key = entry.key
        if key is not None and key.kind == "scalar" and key.value == part and not entry.merges:
            return index
    return None
