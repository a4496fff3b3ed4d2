"""The edits of a configuration, and their effect on its plain values. Pure."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from cordboard.config.yaml_document import KeyPath, dotted, is_text
from cordboard.errors import EditRefused


@dataclass(frozen=True, slots=True)
class Set:
    """Give the value at `path` a new value. Mappings and lists are compared with the present ones,
    so that only differing parts are rewritten. A missing key is added at the end of its mapping,
    with missing mappings above it."""

    path: KeyPath
    value: Any


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove an entry or item."""

    path: KeyPath


@dataclass(frozen=True, slots=True)
class Insert:
    """Add an entry or item. `path` is its place afterwards: a new key, or the index in its list."""

    path: KeyPath
    value: Any
    before: str | None = None
    """Key of the entry that a new key is to precede; None = at the end."""


@dataclass(frozen=True, slots=True)
class Rename:
    """Give the entry at `path` another key; it keeps its place."""

    path: KeyPath
    key: str


@dataclass(frozen=True, slots=True)
class Move:
    """Move the list item at `path` to another index of its list."""

    path: KeyPath
    index: int


Edit: TypeAlias = Set | Remove | Insert | Rename | Move


def check_new(edit: Edit) -> None:
    """Raise `EditRefused` for a value or key that no YAML text has."""
    waiting = [edit.value] if isinstance(edit, (Set, Insert)) else []
    waiting += [edit.key] if isinstance(edit, Rename) else [*edit.path[-1:]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise EditRefused("a key must be a text")
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            if not is_text(value):
                raise EditRefused("a text has half of a surrogate pair, which is not a character")
        elif value is not None and not isinstance(value, (bool, int, float)):
            raise EditRefused(f"a value cannot be of the type {type(value).__name__}")


def same(one: object, other: object) -> bool:
    """Return True for equal values of equal types: 1, 1.0 and True differ; NaN equals itself."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def apply_to_data(tree: dict[str, Any], edit: Edit) -> dict[str, Any]:
    """Return a copy of the values with one edit. Raises `EditRefused` for an impossible path."""
    tree = deepcopy(tree)
    path = edit.path
    if not path:
        if isinstance(edit, Set) and isinstance(edit.value, dict):
            return deepcopy(edit.value)
        raise EditRefused("the whole file can only be set to a mapping")
    holder: Any = tree
    for length, part in enumerate(path[:-1]):
        inner = child(holder, part)
        if inner is None and isinstance(edit, (Set, Insert)) and isinstance(holder, dict):
            inner = holder[str(part)] = {}
        if not isinstance(inner, (dict, list)):
            raise missing(path[: length + 1], inner)
        holder = inner
    _change(holder, path, edit)
    return tree


def child(holder: Any, part: str | int) -> Any:
    if isinstance(holder, list):
        return holder[part] if isinstance(part, int) and 0 <= part < len(holder) else None
    return holder.get(part) if isinstance(holder, dict) else None


def missing(path: KeyPath, found: object = None) -> EditRefused:
    if found is not None:
        return EditRefused(f"{dotted(path)} has no entries: it is a single value")
    return EditRefused(f"there is no {dotted(path)}")


def _change(holder: Any, path: KeyPath, edit: Edit) -> None:
    """Change a mapping or list in place."""
    last, there = path[-1], has(holder, path[-1])
    if isinstance(last, int) is not isinstance(holder, list):
        kind = "a list" if isinstance(holder, list) else "a mapping"
        raise EditRefused(f"{dotted(path[:-1]) or 'the file'} is {kind}")
    match edit:
        case Set() | Insert() if isinstance(holder, list) and last == len(holder):
            holder.append(deepcopy(edit.value))
        case Set() if there or isinstance(holder, dict):
            holder[last] = deepcopy(edit.value)
        case Insert() if isinstance(holder, list) and there:
            holder.insert(int(last), deepcopy(edit.value))
        case Insert() if isinstance(holder, dict) and not there:
            _insert(holder, path, edit)
        case Insert() if there:
            raise EditRefused(f"there is a {dotted(path)} already")
        case Remove() if there:
            del holder[last]
        case Rename() if there and isinstance(holder, dict):
            _rename(holder, path, edit.key)
        case Move() if there and isinstance(holder, list) and 0 <= edit.index < len(holder):
            holder.insert(edit.index, holder.pop(int(last)))
        case _:
            raise missing(path)


def has(holder: Any, part: str | int) -> bool:
    if isinstance(holder, list):
        return isinstance(part, int) and 0 <= part < len(holder)
    return part in holder


def _insert(holder: dict[str, Any], path: KeyPath, edit: Insert) -> None:
    if edit.before is not None and edit.before not in holder:
        raise missing((*path[:-1], edit.before))
    entries = list(holder.items())
    at = list(holder).index(edit.before) if edit.before is not None else len(entries)
    entries.insert(at, (str(path[-1]), deepcopy(edit.value)))
    holder.clear()
    holder.update(entries)


def _rename(holder: dict[str, Any], path: KeyPath, key: str) -> None:
    if key in holder and key != path[-1]:
        raise EditRefused(f"there is a {dotted((*path[:-1], key))} already")
    entries = [(key if name == path[-1] else name, value) for name, value in holder.items()]
    holder.clear()
    holder.update(entries)
