"""A URL with `{placeholders}`, parsed once: those in its host, its path and its query.

    https://api.example.com/customers/{number}?fields={fields|all}

Scheme and port are always the operator's; no user, password or fragment. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from cordboard.config.templates import Placeholder, Template, joined, read_data_template

_SCHEME = re.compile(r"(?P<scheme>https?)://", re.IGNORECASE)
_PORT = re.compile(r":(?P<port>[0-9]{1,5})$")
_NOT_IN_HOST = re.compile(r"[^A-Za-z0-9.\-\[\]:_]")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f\\#]")
EXPECTED = "expected a URL such as https://api.example.com/customers/{number}"


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """The parts of a URL."""

    scheme: str
    """`http` or `https`."""
    host: Template
    """Host in lower case; an IPv6 address without its brackets."""
    port: int | None
    path: Template
    """Path, with the leading slash."""
    query: Template
    """Text after the first question mark; empty without one."""

    @property
    def fixed_host(self) -> str | None:
        """The host when it has no placeholder."""
        host = self.host
        return host[0] if len(host) == 1 and isinstance(host[0], str) else None


def read_url_template(text: str) -> UrlTemplate:
    """Parse a URL. Raises `ValueError`."""
    pieces = list(read_data_template(text))
    first = pieces[0] if pieces else ""
    scheme = _SCHEME.match(first) if isinstance(first, str) else None
    if scheme is None or not isinstance(first, str):
        raise ValueError(f"{EXPECTED}; it begins with https:// or http://")
    pieces[0] = first[scheme.end() :]
    for piece in pieces:
        if isinstance(piece, str) and (wrong := _NOT_IN_URL.search(piece)):
            raise ValueError(f"{EXPECTED}; there is no {wrong[0]!r} in a URL")
    before_query, query = _split(pieces, "?")
    host, path = _split(before_query, "/")
    hostname, port = _host(host)
    return UrlTemplate(
        scheme["scheme"].lower(), hostname, port, joined(["/", *path]), joined(query)
    )


def _split(
    pieces: list[str | Placeholder], mark: str
) -> tuple[list[str | Placeholder], list[str | Placeholder]]:
    """Return the pieces before and behind the first such mark."""
    for index, piece in enumerate(pieces):
        if isinstance(piece, str) and mark in piece:
            before, _, behind = piece.partition(mark)
            return [*pieces[:index], before], [behind, *pieces[index + 1 :]]
    return pieces, []


def _host(pieces: list[str | Placeholder]) -> tuple[Template, int | None]:
    port = None
    last = pieces[-1] if pieces else ""
    if isinstance(last, str):
        found = _PORT.search(last)
        if found is not None and not last.endswith("]"):
            port, last = int(found["port"]), last[: found.start()]
        pieces = [*pieces[:-1], last]
    if port is not None and not 0 < port < 65_536:
        raise ValueError(f"{EXPECTED}; {port} is not a port")
    for piece in pieces:
        if isinstance(piece, str) and (wrong := _NOT_IN_HOST.search(piece)):
            what = "user or password" if "@" in piece else f"{wrong[0]!r}"
            raise ValueError(f"{EXPECTED}; there is no {what} in its host")
    host = joined([piece.lower() if isinstance(piece, str) else piece for piece in pieces])
    if len(host) == 1 and isinstance(host[0], str):
        host = (host[0].strip("[]"),)
    if not host or host == ("",):
        raise ValueError(f"{EXPECTED}; it has no host")
    if any(isinstance(piece, str) and ":" in piece for piece in host) and len(host) > 1:
        raise ValueError(f"{EXPECTED}; a placeholder cannot be the port")
    return host, port


def _is_url_template(text: str) -> str:
    read_url_template(text)
    return text


UrlTemplateText = Annotated[str, AfterValidator(_is_url_template)]
"""A URL with `{placeholders}`."""
