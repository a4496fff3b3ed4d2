"""`extra:` of a service's configuration, put into what is sent to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_extra(message: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """`message` with all of `extra` in it: objects are merged, anything else is replaced."""
    whole = dict(message)
    for name, value in extra.items():
        there = whole.get(name)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            value = with_extra(there, value)
        whole[name] = value
    return whole
