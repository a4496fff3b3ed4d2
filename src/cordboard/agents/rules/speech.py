"""Fill the sentences of the rules: every word comes from them or from a tool's reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cordboard.agents.rules.values import Value

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*(?:\.\w+)*)\}")

Fillings = Mapping[str, Any]
"""Name → a `Value`, a text, or a structure for dotted paths."""


def fill(template: str, fillings: Fillings) -> str:
    """Return the template with its placeholders as they are spoken."""
    return _PLACEHOLDER.sub(lambda match: _spoken(_at(match[1], fillings)), template)


def fill_arguments(arguments: object, fillings: Fillings) -> Any:
    """Return a tool's arguments with the values for tools.

    A text that is only one placeholder keeps the type of its value. An item that depends on an open
    slot is left out of its object.
    """
    if isinstance(arguments, str):
        whole = _PLACEHOLDER.fullmatch(arguments)
        if whole:
            return _raw(_at(whole[1], fillings))
        return _PLACEHOLDER.sub(lambda match: str(_raw(_at(match[1], fillings))), arguments)
    if isinstance(arguments, Mapping):
        return {
            key: fill_arguments(item, fillings)
            for key, item in arguments.items()
            if not _is_open(item, fillings)
        }
    if isinstance(arguments, (list, tuple)):
        return [fill_arguments(item, fillings) for item in arguments]
    return arguments


def _is_open(item: object, fillings: Fillings) -> bool:
    if not isinstance(item, str):
        return False
    return any(name.partition(".")[0] not in fillings for name in _PLACEHOLDER.findall(item))


def _at(path: str, fillings: Fillings) -> object:
    head, *rest = path.split(".")
    found: object = fillings.get(head, "")
    for part in rest:
        if isinstance(found, Value):
            found = found.value if part == "value" else found.spoken
        elif isinstance(found, Mapping):
            found = found.get(part, "")
        elif isinstance(found, (list, tuple)) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            found = ""
    return found


def _spoken(found: object) -> str:
    if isinstance(found, Value):
        return found.spoken
    if isinstance(found, bool):
        return "yes" if found else "no"
    return "" if found is None else str(found)


def _raw(found: object) -> object:
    return found.value if isinstance(found, Value) else found
