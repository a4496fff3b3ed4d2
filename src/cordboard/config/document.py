"""A YAML file as plain values, each with the line it stands on.

YAML 1.2 (`on` and `yes` are texts). Keys are always texts, as written: `007:` is the key "007".
What looks like a date stays a text. Duplicate keys are refused, all of them at once; tags that
would build objects are refused. Anchors, aliases and merge keys (`<<`) work.

Pure: takes the text of the file, gives a `Document` or raises `ConfigError`. Messages never quote
values, since any value may be a secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from cordboard.errors import ConfigError, ConfigProblem

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way to a value from the root: keys of mappings, indexes (from 0) of lists."""

_TAG = "tag:yaml.org,2002:"
_MOST_VALUES = 100_000
"""Far above any real configuration; stops aliases that multiply each other."""


def dotted(path: KeyPath) -> str:
    """`("contexts", "demo", "tools", 2)` → `contexts.demo.tools[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(slots=True)
class Document:
    """One file, parsed."""

    file: str
    tree: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """1-based line of each key and list item; of the root, that of its first key."""
    problems: list[ConfigProblem] = field(default_factory=list)

    def line(self, path: KeyPath) -> int | None:
        """The line of a value, or of the nearest part of the file that surrounds it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def problem(self, path: KeyPath, message: str, *, fatal: bool = True) -> ConfigProblem:
        """A problem with the value at `path`."""
        return ConfigProblem(message, dotted(path), self.file, self.line(path), fatal)

    def has(self, path: KeyPath) -> bool:
        """Whether the file says anything at `path`."""
        return self._find(path)[0]

    def get(self, path: KeyPath) -> Any:
        """The value at `path`; None when there is none."""
        return self._find(path)[1]

    def _find(self, path: KeyPath) -> tuple[bool, Any]:
        value: Any = self.tree
        for part in path:
            in_mapping = isinstance(value, dict) and part in value
            in_list = isinstance(value, list) and isinstance(part, int) and part < len(value)
            if not (in_mapping or in_list):
                return False, None
            value = value[part]
        return True, value


def parse(text: str, file: str) -> Document:
    """Read YAML. Raises `ConfigError` when it is not YAML or its root is not a mapping.

    Lesser problems (duplicate keys, tags) are in `problems` of the result, next to what could be
    read, so that a caller can go on and report everything at once.
    """
    try:
        yaml = YAML(typ="rt", pure=True)
        yaml.composer.warn_double_anchors = False
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(error, file)]) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"not valid YAML: the character U+{error.character:04X} is not allowed"
        raise ConfigError([ConfigProblem(message, file=file, line=line)]) from None
    except RecursionError:
        raise ConfigError([ConfigProblem("nested too deeply", file=file)]) from None
    if root is None:
        message = "the file is empty; expected at least `contexts:` with one context"
        raise ConfigError([ConfigProblem(message, file=file, line=1)])
    if not isinstance(root, MappingNode):
        found = "a list" if isinstance(root, SequenceNode) else "a single value"
        message = f"expected a mapping (`key: value` lines), found {found}"
        raise ConfigError([ConfigProblem(message, file=file, line=_line(root))])
    return _Builder(file).build(root)


def _syntax_problem(error: MarkedYAMLError, file: str) -> ConfigProblem:
    """Say what the parser says, without the excerpt of the file that it would add."""
    mark = error.problem_mark or error.context_mark
    message = f"not valid YAML: {error.problem or error.context}"
    if error.problem and error.context:
        message += f" ({error.context}"
        if error.context_mark is not None and error.context_mark.line != mark.line:
            message += f" that begins in line {error.context_mark.line + 1}"
        message += ")"
    if mark is not None and "{" in (mark.buffer or "")[mark.pointer : mark.pointer + 1]:
        message += "; inside { } or [ ], write a ${VARIABLE} in quotes"
    return ConfigProblem(message, file=file, line=mark.line + 1 if mark is not None else None)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


class _Builder:
    """Turns a graph of YAML nodes into plain values and their lines."""

    def __init__(self, file: str) -> None:
        self._document = Document(file)
        self._above: list[Node] = []
        self._values = 0

    def build(self, root: MappingNode) -> Document:
        self._document.lines[()] = _line(root)
        try:
            self._document.tree = self._value(root, ())
        except RecursionError:
            raise ConfigError([self._document.problem((), "nested too deeply")]) from None
        return self._document

    def _complain(self, path: KeyPath, message: str, line: int | None = None) -> None:
        problem = self._document.problem(path, message)
        if line is not None:
            problem = ConfigProblem(message, problem.key, problem.file, line)
        self._document.problems.append(problem)

    def _value(self, node: Node, path: KeyPath) -> Any:
        self._values += 1
        if any(node is above for above in self._above):
            self._complain(path, "an alias that contains itself")
            return None
        if self._values > _MOST_VALUES:
            raise ConfigError(
                [self._document.problem(path, "too many values (aliases in aliases)")]
            )
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            return self._sequence(node, path)
        finally:
            self._above.pop()

    def _sequence(self, node: Node, path: KeyPath) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            self._document.lines[(*path, index)] = _line(item)
            items.append(self._value(item, (*path, index)))
        return items

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in self._own_entries(node, path):
            key = key_node.value
            if key in first_lines:
                message = f"duplicate key; it is already in line {first_lines[key]}"
                self._complain((*path, key), message, _line(key_node))
                continue
            first_lines[key] = _line(key_node)
            self._document.lines[(*path, key)] = _line(key_node)
            mapping[key] = self._value(value_node, (*path, key))
        for key_node, value_node in self._merged_entries(node, path):
            if key_node.value not in mapping:
                self._document.lines[(*path, key_node.value)] = _line(key_node)
                mapping[key_node.value] = self._value(value_node, (*path, key_node.value))
        return mapping

    def _own_entries(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[ScalarNode, Node]]:
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._complain(path, "a key must be a text", _line(key_node))
            elif str(key_node.tag) != _TAG + "merge":
                yield key_node, value_node

    def _merged_entries(
        self, node: MappingNode, path: KeyPath
    ) -> Iterator[tuple[ScalarNode, Node]]:
        """What `<<: *alias` or `<<: [*one, *two]` bring in; earlier ones win."""
        for key_node, value_node in node.value:
            if str(key_node.tag) != _TAG + "merge":
                continue
            sources = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            for source in sources:
                if not isinstance(source, MappingNode) or source in self._above:
                    self._complain((*path, "<<"), "expected the alias of a mapping")
                    continue
                yield from self._own_entries(source, path)
                yield from self._merged_entries(source, path)

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        text, tag = str(node.value), str(node.tag)
        try:
            match tag.removeprefix(_TAG):
                case "null":
                    return None
                case "bool":
                    return text.lower() in ("true", "yes", "on")
                case "int":
                    return _whole_number(text)
                case "float":
                    return _number(text)
                case "str" | "timestamp" | "value":
                    return text
        except ValueError:
            pass
        self._complain(path, f"the YAML tag {node.tag} does not fit here; leave it out")
        return text


def _whole_number(text: str) -> int:
    digits = text.replace("_", "")
    unsigned = digits.lstrip("+-").lower()
    if unsigned.startswith(("0x", "0o", "0b")):
        return int(digits, 0)
    return int(digits)


def _number(text: str) -> float:
    plain = text.replace("_", "").lower()
    if plain.endswith(".nan"):
        return math.nan
    return float(plain.replace(".inf", "inf"))
