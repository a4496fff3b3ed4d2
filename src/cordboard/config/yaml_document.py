"""A YAML file as plain values, each with its place in the text.

YAML 1.2 (`on` and `yes` are texts). Keys are always texts, as written: `007:` is the key "007".
Text that looks like a date stays a text. Duplicate keys are refused, all at once; tags that
would build objects are refused. Anchors, aliases and merge keys (`<<`) work.

Pure: takes the text of the file, returns a `Document` or raises `ConfigError`. Messages never quote
values, since any value may be a secret. Depth, number of values and amount of text are limited, so
that no text takes long to read or breaks later work on the values.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import Event
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.parser import Parser
from ruamel.yaml.reader import ReaderError

from cordboard.config.yaml_nodes import as_ruamel, compose
from cordboard.errors import ConfigError, ConfigProblem

KeyPath: TypeAlias = tuple[str | int, ...]
"""Path of a value from the root: keys of mappings, indexes (from 0) of lists."""

_TAG = "tag:yaml.org,2002:"
MAX_DEPTH = 50
"""Nesting of sections and lists; the deepest of the schema end at about 12, and JSON schemas
of tool arguments add a few."""
MAX_VALUES = 50_000
"""Keys and values as written, and again values with each alias counted as often as it is used: far
above any real configuration."""
MAX_TEXT = 4_000_000
"""Characters of all values, with each alias counted as often as it is used."""
MAX_KEY = 1_000
"""Characters of a key; YAML allows 1,024 before the colon."""
MAX_DIGITS = 40
"""Characters of a number."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_TEXT = "half of a surrogate pair (\\uD800 to \\uDFFF), which is not a character"
_TOO_DEEP = f"nested more than {MAX_DEPTH} deep"
_TOO_MANY = f"more than {MAX_VALUES:,} keys and values"


def dotted(path: KeyPath) -> str:
    """`("contexts", "demo", "tools", 2)` → `contexts.demo.tools[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def is_text(text: str) -> bool:
    """Return False for text with half a surrogate pair, which no file and no socket takes: an
    escape such as \\uD800, or bytes of the environment that are not UTF-8 (PEP 383)."""
    return _SURROGATE.search(text) is None


class Place(NamedTuple):
    """Where an entry is written, for an editor to mark. Lines and columns begin with 1."""

    line: int
    column: int
    end_line: int
    end_column: int
    """Column behind the last character: of the value if it is written on one line, else of the
    key."""


@dataclass(slots=True)
class Document:
    """One file, parsed."""

    file: str
    tree: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    """Place of each entry and list item; for the root, that of its first key."""
    problems: list[ConfigProblem] = field(default_factory=list)
    from_outside: set[KeyPath] = field(default_factory=set)
    """Places of values from the environment or a file."""

    def place(self, path: KeyPath) -> Place | None:
        """Return the place of a value, or of the nearest part of the file that surrounds it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return None

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a value, or of the nearest part of the file that surrounds it."""
        place = self.place(path)
        return place.line if place is not None else None

    def problem(self, path: KeyPath, message: str, *, fatal: bool = True) -> ConfigProblem:
        """Return a problem with the value at `path`."""
        found = _problem(message, dotted(path), self.file, self.place(path), fatal)
        return replace(found, from_outside=True) if path in self.from_outside else found

    def has(self, path: KeyPath) -> bool:
        """Return True if the file has a value at `path`."""
        return self._find(path)[0]

    def get(self, path: KeyPath) -> Any:
        """Return the value at `path`; None when there is none."""
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


def _problem(
    message: str, key: str, file: str, place: Place | None, fatal: bool = True
) -> ConfigProblem:
    if place is None:
        return ConfigProblem(message, key, file, None, fatal)
    line, column, end_line, end_column = place
    return ConfigProblem(message, key, file, line, fatal, column, end_line, end_column)


def parse(text: str, file: str) -> Document:
    """Read YAML. Raises `ConfigError` when it is not YAML or its root is not a mapping.

    Lesser problems (duplicate keys, tags) are in `problems` of the result, next to the readable
    values, so that a caller can continue and report everything at once.
    """
    return _document(*_composed(text, file), file)[0]


def parse_events(text: str, file: str) -> tuple[Document, list[Event]]:
    """Like `parse`, with the events of the YAML parser: scanning a text twice takes twice as
    long."""
    document, events = _document(*_composed(text, file), file)
    return document, [*map(as_ruamel, events)]


def _composed(text: str, file: str) -> tuple[Node | None, list[Any]]:
    return compose(text, MAX_VALUES, MAX_DEPTH) or _carefully_composed(text, file)


def _document(root: Node | None, events: list[Any], file: str) -> tuple[Document, list[Any]]:
    if root is None:
        message = "the file is empty; expected at least `contexts:` with one context"
        raise ConfigError([ConfigProblem(message, file=file, line=1)])
    if not isinstance(root, MappingNode):
        found = "a list" if isinstance(root, SequenceNode) else "a single value"
        message = f"expected a mapping (`key: value` lines), found {found}"
        raise ConfigError([_problem(message, "", file, _place(root, root))])
    return _Builder(file).build(root), events


def _carefully_composed(text: str, file: str) -> tuple[Node | None, list[Any]]:
    """Read a text that libyaml's parser does not take, or refuses."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Parser, yaml.Composer = _RecordingParser, _LimitedComposer
    try:
        return yaml.compose(text), yaml.parser.events
    except _TooMuch as error:
        place = _marked_place(error)
        raise ConfigError([_problem(str(error.problem), "", file, place)]) from None
    except MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(error, file)]) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        message = f"not valid YAML: the character U+{error.character:04X} is not allowed"
        place = Place(line, column, line, column + 1)
        raise ConfigError([_problem(message, "", file, place)]) from None
    except (ValueError, OverflowError):  # of chr(); the library does not check it
        raise ConfigError([_no_character(text, file)]) from None


class _TooMuch(MarkedYAMLError):
    """The text is beyond `MAX_DEPTH` or `MAX_VALUES`."""


class _RecordingParser(Parser):
    """Keeps the events that it has given to the composer."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self.events: list[Event] = []

    def get_event(self) -> Any:
        event = super().get_event()
        self.events.append(event)
        return event


class _LimitedComposer(Composer):
    """Stops at the limits, before the rest of the text is even scanned."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False
        self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        if self._nodes > MAX_VALUES or self.depth > MAX_DEPTH:
            problem = _TOO_DEEP if self.depth > MAX_DEPTH else _TOO_MANY
            raise _TooMuch(problem=problem, problem_mark=self.parser.peek_event().start_mark)
        return super().compose_node(parent, index)


def _no_character(text: str, file: str) -> ConfigProblem:
    escapes = re.finditer(r"\\U([0-9A-Fa-f]{8})", text)
    places = (escape.start() for escape in escapes if int(escape[1], 16) > sys.maxunicode)
    line = next((text.count("\n", 0, place) + 1 for place in places), None)
    message = "not valid YAML: an escape beyond \\U0010FFFF, the last character"
    return ConfigProblem(message, file=file, line=line)


def _marked_place(error: MarkedYAMLError) -> Place | None:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return None
    line, column = int(mark.line) + 1, int(mark.column) + 1
    return Place(line, column, line, column + 1)


def _syntax_problem(error: MarkedYAMLError, file: str) -> ConfigProblem:
    """Return the parser's message, without its excerpt of the file."""
    mark = error.problem_mark or error.context_mark
    message = f"not valid YAML: {error.problem or error.context}"
    if error.problem and error.context:
        message += f" ({error.context}"
        if error.context_mark is not None and error.context_mark.line != mark.line:
            message += f" that begins in line {error.context_mark.line + 1}"
        message += ")"
    if mark is not None and "{" in (mark.buffer or "")[mark.pointer : mark.pointer + 1]:
        message += "; inside { } or [ ], write a ${VARIABLE} in quotes"
    return _problem(message, "", file, _marked_place(error))


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _place(first: Node, value: Node) -> Place:
    """Return the place of a key with its value, or of an item (`first` is the value)."""
    start, end = first.start_mark, first.end_mark
    on_one_line = value.start_mark.line == value.end_mark.line == start.line
    is_written = value.start_mark.index != value.end_mark.index
    if on_one_line and is_written and value.end_mark.index > end.index:  # an alias is elsewhere
        end = value.end_mark
    line, column = int(start.line) + 1, int(start.column) + 1
    if end.line != start.line:
        return Place(line, column, line, column + 1)
    return Place(line, column, line, int(end.column) + 1)


class _Builder:
    """Turns a graph of YAML nodes into plain values and their lines."""

    def __init__(self, file: str) -> None:
        self._document = Document(file)
        self._above: list[Node] = []
        self._values = 0
        self._text = 0

    def build(self, root: MappingNode) -> Document:
        self._document.places[()] = _place(*root.value[0]) if root.value else _place(root, root)
        self._document.tree = self._mapping(root, ())
        return self._document

    def _complain(self, path: KeyPath, message: str, node: Node | None = None) -> None:
        """Add a problem with the value at `path`, or with one of its keys."""
        place = _place(node, node) if node is not None else self._document.place(path)
        self._document.problems.append(_problem(message, dotted(path), self._document.file, place))

    def _count(self, path: KeyPath, text: str = "") -> None:
        """Count a value; aliases may use one many times, each time within others."""
        self._values += 1
        self._text += len(text)
        if self._values > MAX_VALUES:
            self._stop(path, f"{_TOO_MANY} (aliases in aliases)")
        if self._text > MAX_TEXT:
            self._stop(path, f"more than {MAX_TEXT:,} characters of text (aliases of long texts)")

    def _stop(self, path: KeyPath, message: str) -> NoReturn:
        raise ConfigError([*self._document.problems, self._document.problem(path, message)])

    def _value(self, node: Node, path: KeyPath) -> Any:
        if isinstance(node, ScalarNode):
            self._count(path, node.value)
            return self._scalar(node, path)
        self._count(path)
        if self._contains_itself(node):
            self._complain(path, "an alias that contains itself")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        with self._within(node, path):
            return self._sequence(node, path)

    def _contains_itself(self, node: Node) -> bool:
        return any(node is above for above in self._above)

    @contextmanager
    def _within(self, node: Node, path: KeyPath) -> Iterator[None]:
        if len(self._above) == MAX_DEPTH:
            self._stop(path, f"{_TOO_DEEP} (aliases in aliases)")
        self._above.append(node)
        yield
        self._above.pop()

    def _sequence(self, node: Node, path: KeyPath) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            self._document.places[(*path, index)] = _place(item, item)
            items.append(self._value(item, (*path, index)))
        return items

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        with self._within(node, path):
            for key_node, value_node in self._own_entries(node, path):
                key = key_node.value
                if key in first_lines:
                    message = f"duplicate key; it is already in line {first_lines[key]}"
                    self._complain((*path, key), message, key_node)
                    continue
                first_lines[key] = _line(key_node)
                self._document.places[(*path, key)] = _place(key_node, value_node)
                mapping[key] = self._value(value_node, (*path, key))
            for key_node, value_node in self._merged_entries(node, path):
                if key_node.value not in mapping:
                    inner = (*path, key_node.value)
                    self._document.places[inner] = _place(key_node, value_node)
                    mapping[key_node.value] = self._value(value_node, inner)
        return mapping

    def _own_entries(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[ScalarNode, Node]]:
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._complain(path, "a key must be a text", key_node)
            elif len(key_node.value) > MAX_KEY:
                message = f"a key with more than {MAX_KEY:,} characters"
                self._complain(path, message, key_node)
            elif not is_text(key_node.value):
                self._complain(path, f"{_NOT_TEXT}, in a key", key_node)
            elif str(key_node.tag) != _TAG + "merge":
                yield key_node, value_node

    def _merged_entries(
        self, node: MappingNode, path: KeyPath
    ) -> Iterator[tuple[ScalarNode, Node]]:
        """Return the entries of `<<: *alias` or `<<: [*one, *two]`; earlier ones win."""
        for key_node, value_node in node.value:
            if str(key_node.tag) != _TAG + "merge":
                continue
            sources = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            for source in sources:
                self._count((*path, "<<"))
                if not isinstance(source, MappingNode) or self._contains_itself(source):
                    self._complain((*path, "<<"), "expected the alias of a mapping")
                    continue
                with self._within(source, path):
                    for entry in self._own_entries(source, path):
                        self._count(path)
                        yield entry
                    yield from self._merged_entries(source, path)

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        text, tag = str(node.value), str(node.tag)
        try:
            match tag.removeprefix(_TAG):
                case "null":
                    return None
                case "bool":
                    return text.lower() in ("true", "yes", "on")
                case "int" | "float" if len(text) > MAX_DIGITS:
                    self._complain(path, f"a number with more than {MAX_DIGITS} digits")
                    return 0
                case "int":
                    return _whole_number(text)
                case "float":
                    return _number(text)
                case "str" | "timestamp" | "value":
                    if not is_text(text):
                        self._complain(path, _NOT_TEXT)
                        return ""
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
