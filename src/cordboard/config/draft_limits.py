"""The limits of a draft whose author may not publish it. Pure.

A configuration names programs to start, addresses to call and secrets to send there. Only
people who may publish decide about these. Another author may try other words and rules, but must
not learn a value from outside of the file, have it sent elsewhere, or have a program started:

- everything but `contexts`, `routes`, `default_context` and `default_provider` is as in the
  configuration in force: providers, tools, MCP servers, the admin port
- a part that contains a reference (`${NAME}`, `${file:PATH}`) or a hole of a literal secret is, as
  a whole, the same part as in force. Parts are the keys of a context, such as its `prompt` or its
  `pre_call`

Texts are compared as they are written, before any value is put in: the comparison tells nothing
about values.

A check without a trial reads nothing from outside for such an author either, except at the places
where the file has the same reference (`new_references`): whether a value is accepted, or which name
it resembles, tells what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, Final

from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

FREE: Final = ("contexts", "routes", "default_context", "default_provider")
"""The keys of the file that such an author may change."""
_OUTSIDE = re.compile(r"\$\{|«secret:")
_ABSENT: Final = object()


def beyond_a_draft(draft: Document, in_force: Mapping[str, Any]) -> list[ConfigProblem]:
    """Return the places that only someone who may publish may try; empty if there are none.

    `draft` and `in_force` are as written, with holes in place of literal secrets: no value from
    outside may be in them yet.
    """
    found: list[ConfigProblem] = []
    for key in dict.fromkeys((*draft.tree, *in_force)):
        if key in FREE:
            continue
        before, after = in_force.get(key, _ABSENT), draft.tree.get(key, _ABSENT)
        if (place := _difference(before, after, (key,))) is not None:
            message = (
                "differs from the configuration in force; a trial with other programs, addresses "
                f"or keys needs the permission config.publish, else only {_IN_WORDS} may differ"
            )
            found.append(draft.problem(place, message))
    for path, part in _parts(draft.tree):
        place = next((place for place, _ in _references(part, path)), None)
        if place is not None and part != _at(in_force, path):
            message = (
                "has a value from outside of the file or a secret, and differs from the "
                "configuration in force; to try that needs the permission config.publish"
            )
            found.append(draft.problem(place, message))
    return found


def new_references(draft: Document, file: Mapping[str, Any]) -> list[ConfigProblem]:
    """Return the places with a value from outside, or a secret, that the file does not have there.
    Places within a list count as one. `draft` and `file` are as for `beyond_a_draft`."""
    known = {(_named(path), text) for path, text in _references(file, ())}
    message = (
        "has a value from outside of the file or a secret, and the file does not have it there; "
        "to check that needs the permission config.publish"
    )
    return [
        draft.problem(path, message)
        for path, text in _references(draft.tree, ())
        if (_named(path), text) not in known
    ]


def replaced_references(draft: Mapping[str, Any], file: Mapping[str, Any]) -> list[KeyPath]:
    """Return the places where the file has a value from outside, or a secret, and the draft has
    something else. Places within a list are the list's. Both are as for `beyond_a_draft`.

    The draft may have a guess there: whether it equals the value in force must not be told.
    """
    kept = set(_references(draft, ()))
    gone = (path for path, text in _references(file, ()) if (path, text) not in kept)
    return list(
        dict.fromkeys(tuple(takewhile(lambda key: isinstance(key, str), path)) for path in gone)
    )


def _named(path: KeyPath) -> KeyPath:
    return tuple(key for key in path if isinstance(key, str))


_IN_WORDS = ", ".join(f"`{key}`" for key in FREE)


def _difference(before: Any, after: Any, path: KeyPath) -> KeyPath | None:
    """Return the first place at which two values differ; None if they are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**after, **before}:
            inner = before.get(key, _ABSENT), after.get(key, _ABSENT)
            if (found := _difference(*inner, (*path, key))) is not None:
                return found
        return None
    same = type(before) is type(after) and before == after
    return None if same else path


def _parts(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the parts of the keys that may differ."""
    for key in FREE:
        value = tree.get(key)
        if key != "contexts" or not isinstance(value, dict):
            yield (key,), value
            continue
        for name, context in value.items():
            if isinstance(context, dict):
                yield from (((key, name, inner), part) for inner, part in context.items())
            else:
                yield (key, name), context


def _at(tree: Any, path: KeyPath) -> Any:
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return _ABSENT
        tree = tree[key]
    return tree


def _references(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield the texts with a reference or a hole, with their places."""
    if isinstance(value, str) and _OUTSIDE.search(value.replace("$$", "")):
        yield path, value
    entries: Any = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, item in entries:
        yield from _references(item, (*path, key))
