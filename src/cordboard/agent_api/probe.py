"""One cheap GET that verifies a key, model or voice, for `cordboard check --online`. Pure.

None of the requests costs money. The helpers read what the built-in vendors have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from cordboard.config.sections.service import Service

Judge: TypeAlias = Callable[[Any], str]
"""Takes the JSON of an answer with status 200; returns the problem, or an empty text."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request."""

    what: str
    """The thing that it verifies: `key`, `model gpt-x`, `voice y`."""
    url: str
    headers: Mapping[str, str] = field(repr=False)
    judge: Judge = lambda _: ""
    unknown: frozenset[int] = frozenset({404})
    """Statuses by which the service says that there is no such thing."""


def http_base(service: Service, usual: str) -> str:
    """The HTTP address of a service; its `base_url` may be configured for websockets."""
    base = (service.base_url or usual).rstrip("/")
    return f"http{base[2:]}" if urlsplit(base).scheme in ("ws", "wss") else base


def path_part(name: str) -> str:
    """A name as one part of a URL's path."""
    return quote(name, safe=":@")


def entries(told: Any, key: str) -> list[dict[str, Any]]:
    """The objects of a list in an answer; none when there is no such list."""
    listed = told.get(key) if isinstance(told, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
