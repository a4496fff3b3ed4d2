"""Merge `extra:` of a service's configuration into a message to the service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_extra(message: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return `message` with all of `extra` merged in: objects are merged, other values replaced."""
    whole = dict(message)
    for name, value in extra.items():
        there = whole.get(name)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            value = with_extra(there, value)
        whole[name] = value
    return whole
