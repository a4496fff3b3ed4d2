"""Nodes of a YAML text by libyaml's parser.

2,000 lines take 41 ms in place of the 187 ms of ruamel.yaml's parser and composer. `compose`
declines a text that the two could read differently, and one that is not in order: ruamel.yaml
follows YAML 1.2, libyaml 1.1, and the words for what is wrong with a text are ruamel's. A test
compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml import events as ruamel_events
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml import events as libyaml_events

try:
    from yaml.cyaml import CParser
except ImportError:  # PyYAML was built without libyaml
    CParser = None

_MAYBE_READ_DIFFERENTLY = re.compile(
    r"""
    [\t\x85\u2028\u2029\ufeff]  # blanks, line breaks or characters, by version
    | (?:^|[\s\[{,]) \? (?:\s|$)  # a key that is marked as one
    | [&*] \w+ [^\w\s,\]}]  # the end of an anchor's name
    | ["']:\S  # a value without a blank before it
    | [|>][-+\d]*\#  # a comment without one
    | ^\.\.\.  # the end of a document
    """,
    re.VERBOSE | re.MULTILINE,
)


class _Declined(Exception):
    """The text is left to ruamel.yaml."""


def compose(text: str, most_nodes: int, deepest: int) -> tuple[Node, list[Any]] | None:
    """Return the root of a text, and the events of its parser; None if the text is declined."""
    if CParser is None or _MAYBE_READ_DIFFERENTLY.search(text):
        return None
    composer = _Composer(text, most_nodes, deepest)
    try:
        return composer.document(), composer.events
    except (yaml.YAMLError, _Declined, UnicodeEncodeError):
        return None


def as_ruamel(event: Any) -> Any:
    """Return an event of libyaml as one of ruamel.yaml, with what `config.edit` reads of it."""
    if isinstance(event, ruamel_events.Event):
        return event
    start, end = event.start_mark, event.end_mark
    match event:
        case libyaml_events.ScalarEvent():
            told = (event.anchor, event.tag, event.implicit, event.value)
            return ruamel_events.ScalarEvent(*told, start, end, style=event.style)
        case libyaml_events.AliasEvent():
            return ruamel_events.AliasEvent(event.anchor, start, end)
        case libyaml_events.MappingStartEvent() | libyaml_events.SequenceStartEvent():
            kind = getattr(ruamel_events, type(event).__name__)
            begun = (event.anchor, event.tag, event.implicit)
            return kind(*begun, start, end, flow_style=event.flow_style)
    return getattr(ruamel_events, type(event).__name__)(start, end)


class _Composer:
    """Turns the events of one document into nodes."""

    def __init__(self, text: str, most_nodes: int, deepest: int) -> None:
        self.events: list[Any] = []
        self._parser = CParser(text)
        self._resolver = YAML(typ="safe", pure=True).resolver
        self._anchors: dict[str, Node] = {}
        self._plain: dict[str | None, Any] = {}
        """Tags of plain scalars."""
        self._left = most_nodes
        self._deepest = deepest

    def document(self) -> Node:
        """Return the root of the only document."""
        self._next()
        if not isinstance(self._next(), libyaml_events.DocumentStartEvent):
            raise _Declined
        root = self._node(self._next(), 0)
        self._next()
        ends = isinstance(self._next(), libyaml_events.StreamEndEvent)
        if not (ends and isinstance(root, MappingNode)):
            raise _Declined
        return root

    def _next(self) -> Any:
        event = self._parser.get_event()
        self.events.append(event)
        return event

    def _node(self, event: Any, depth: int) -> Node:
        if isinstance(event, libyaml_events.AliasEvent):
            if event.anchor not in self._anchors:
                raise _Declined
            return self._anchors[event.anchor]
        self._left -= 1
        depth += 1
        if self._left < 0 or depth > self._deepest:
            raise _Declined
        node: Node
        if isinstance(event, libyaml_events.ScalarEvent):
            tag = self._tag(ScalarNode, event, event.value)
            node = ScalarNode(tag, event.value, event.start_mark, event.end_mark, event.style)
            self._name(event, node)
            return node
        kind = MappingNode if isinstance(event, libyaml_events.MappingStartEvent) else SequenceNode
        node = kind(self._tag(kind, event, None), [], event.start_mark, None, event.flow_style)
        self._name(event, node)
        for inner in self._inside():
            child = self._node(inner, depth)
            node.value.append(
                child if kind is SequenceNode else (child, self._node(self._next(), depth))
            )
        node.end_mark = self.events[-1].end_mark
        return node

    def _inside(self) -> Iterator[Any]:
        while not isinstance(event := self._next(), libyaml_events.CollectionEndEvent):
            yield event

    def _name(self, event: Any, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _tag(self, kind: type[Node], event: Any, value: str | None) -> Any:
        if event.tag is not None:
            raise _Declined  # hardly ever written, and `!` alone differs
        if kind is not ScalarNode or not event.implicit[0]:
            return self._resolver.resolve(kind, value, event.implicit)
        if value not in self._plain:  # most texts are keys, and stand there many times
            self._plain[value] = self._resolver.resolve(kind, value, event.implicit)
        return self._plain[value]
