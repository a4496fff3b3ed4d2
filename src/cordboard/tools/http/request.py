"""From the arguments of a tool call to one HTTP request. Pure.

Every value, from any source, is escaped for its place: in the path as one segment, in a query or
form as one value, in JSON as a string, in XML as text; in a header, control characters are refused.
So an argument can change neither the host nor the path's shape nor the structure of a body.
`${VAR}` and braces inside a value mean nothing.

Raises `ToolError`, fit to be spoken, where the request would differ from the operator's intent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape as xml_escape

import orjson

from cordboard.config.remote_url import Address, address_problem, inner_problem
from cordboard.config.templates import (
    Placeholder,
    Template,
    only_placeholder,
    read_json_template,
)
from cordboard.config.tools.http_tool import CALL, HttpTool
from cordboard.config.tools.parameters import parameter_defaults
from cordboard.config.url_template import read_url_template
from cordboard.errors import HttpAddressRefused, ToolError, Unplaceable
from cordboard.tools.templates import MISSING, as_text, fill_json, fill_text, value_of
from cordboard.tools.tool import JsonObject
from cordboard.version import __version__

JSON = "application/json"
MAX_TARGET = 8_000
"""Bytes of path and query; servers refuse longer ones with less clear errors."""

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document can contain, escaped or not."""
_LITERAL = "/%:@!$&'()*+,;=~?[]"
"""Characters that stay unescaped in the operator's own parts of a URL."""


TIMESTAMP = "X-Cordboard-Timestamp"
SIGNATURE = "X-Cordboard-Signature"


def host_allowed(host: str, patterns: Iterable[str]) -> bool:
    """Return True if a host is one of `allow_hosts`."""
    host = host.lower().rstrip(".")
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
        for pattern in patterns
    )


def public_addresses(addresses: Iterable[Address]) -> list[Address]:
    """Return the public addresses. Raises `HttpAddressRefused` when there is none."""
    return _chosen(addresses, private=False)


def all_but_forbidden(addresses: Iterable[Address]) -> list[Address]:
    """Return the addresses for a tool with `allow_private`. Raises `HttpAddressRefused`."""
    return _chosen(addresses, private=True)


def _chosen(addresses: Iterable[Address], *, private: bool) -> list[Address]:
    good: list[Address] = []
    problem = "leads to no address"
    for address in addresses:
        kind = address_problem(address) if private else inner_problem(address)
        if kind is None:
            good.append(address)
        else:
            problem = f"leads to a {kind} address ({address})"
    if not good:
        raise HttpAddressRefused(f"its name {problem}")
    return good


def signature_headers(secret: str, now: float, body: bytes) -> Mapping[str, str]:
    """Return the two headers, which prove to a receiver the request's origin, integrity and age.

    The hex digits after `v1=` are HMAC-SHA256 with the shared secret as key over the timestamp, a
    dot, and the body as it was sent. A receiver computes the same, compares in constant time, and
    refuses a timestamp more than some minutes old. Users find it in docs/tools/http.md. `now` is
    seconds since 1970.
    """
    timestamp = str(int(now))
    return {TIMESTAMP: timestamp, SIGNATURE: f"v1={_digest(secret, timestamp, body)}"}


def is_signed(
    secret: str, timestamp: str, signature: str, body: bytes, now: float, tolerance: float = 300
) -> bool:
    """Return True for a valid signature that is at most `tolerance` seconds old."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        return False
    if abs(now - int(timestamp)) > tolerance:
        return False
    expected = f"v1={_digest(secret, timestamp, body)}"
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def _digest(secret: str, timestamp: str, body: bytes) -> str:
    signed = timestamp.encode() + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, complete except for `Host` and `Content-Length`."""

    method: str
    scheme: str
    host: str
    port: int
    target: str
    """Path and query."""
    headers: tuple[tuple[str, bytes], ...] = ()
    secret_headers: tuple[tuple[str, bytes], ...] = ()
    """Headers that are never sent to another host."""
    body: bytes | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def elsewhere(self, scheme: str, host: str, port: int | None, target: str) -> HttpRequest:
        """Return the same request to another place; another host gets no secrets."""
        secret = self.secret_headers if host == self.host else ()
        return replace(
            self,
            scheme=scheme,
            host=host,
            port=port or _PORTS[scheme],
            target=target,
            secret_headers=secret,
        )


class RequestPlan:
    """The parts of a tool's requests, parsed once."""

    def __init__(self, config: HttpTool) -> None:
        self._config = config
        self._url = read_url_template(config.url)
        self._query: Mapping[str, Any] = read_json_template(config.query)
        self._headers: Mapping[str, Any] = read_json_template(config.header_templates)
        self._body = read_json_template(config.body)
        self._form: Mapping[str, Any] | None = read_json_template(config.form)
        self._text: Template | None = read_json_template(config.text)
        self._defaults = parameter_defaults(
            {name: schema for name, schema in config.properties.items() if isinstance(schema, dict)}
        )
        self._secret_headers = tuple(
            (name, value.get_secret_value().encode()) for name, value in config.headers.items()
        )

    def request(
        self, arguments: JsonObject, variables: Mapping[str, str], key: str, now: float
    ) -> HttpRequest:
        """Return the request of one tool call. `key` is its idempotency key, `now` seconds since
        1970."""
        scope = {**self._defaults, **arguments, CALL: dict(variables)}
        config = self._config
        body, kind = self._content(scope)
        headers = dict(self._own_headers(scope))
        names = {name.lower() for name in (*headers, *config.headers)}
        for name, value in (
            ("User-Agent", f"cordboard/{__version__}"),
            ("Accept", f"{JSON}, */*;q=0.5"),
            ("Content-Type", kind),
        ):
            if value and name.lower() not in names:
                headers[name] = value.encode()
        headers["Accept-Encoding"] = b"gzip"
        if config.method not in ("GET", "HEAD"):
            headers["Idempotency-Key"] = key.encode("ascii", "replace")
        if config.sign_with is not None:
            secret = config.sign_with.get_secret_value()
            signed = signature_headers(secret, now, body or b"")
            headers |= {name: value.encode() for name, value in signed.items()}
        url = self._url
        return HttpRequest(
            method=config.method,
            scheme=url.scheme,
            host=self._host(scope),
            port=url.port or _PORTS[url.scheme],
            target=self._target(scope),
            headers=tuple(headers.items()),
            secret_headers=self._secret_headers,
            body=body,
        )

    def _host(self, scope: Mapping[str, Any]) -> str:
        fixed = self._url.fixed_host
        if fixed is not None:
            return fixed
        host = fill_text(self._url.host, scope).lower()
        if not _HOST.fullmatch(host) or not host_allowed(host, self._config.allow_hosts):
            raise Unplaceable("the host is not one of `allow_hosts`")
        return host

    def _target(self, scope: Mapping[str, Any]) -> str:
        path = "".join(
            quote(piece, safe=_LITERAL) if isinstance(piece, str) else _segment(piece, scope)
            for piece in self._url.path
        )
        if any(segment in (".", "..") for segment in path.split("/")):
            raise Unplaceable("a part of the path would be . or ..")
        query = "".join(
            quote(piece, safe=_LITERAL)
            if isinstance(piece, str)
            else _quoted(as_text(value_of(piece, scope)))
            for piece in self._url.query
        )
        parts = [part for part in (query, _pairs(self._query, scope)) if part]
        target = f"{path}?{'&'.join(parts)}" if parts else path
        if len(target) > MAX_TARGET:
            raise Unplaceable(f"path and query would be longer than {MAX_TARGET} bytes")
        return target

    def _own_headers(self, scope: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        for name, template in self._headers.items():
            value = fill_text(template, scope).strip()
            if _CONTROL.search(value):
                raise Unplaceable(f"the header {name} would have control characters")
            if value:
                yield name, value.encode("utf-8", "replace")

    def _content(self, scope: Mapping[str, Any]) -> tuple[bytes | None, str]:
        """Return the body and its media type."""
        config = self._config
        if self._form is not None:
            return _pairs(self._form, scope).encode(), "application/x-www-form-urlencoded"
        if self._text is not None:
            text = fill_text(self._text, scope, _escape_for(config.content_type))
            return text.encode("utf-8", "replace"), config.content_type
        if config.body is not None:
            return _json(fill_json(self._body, scope)), JSON
        return (None, "") if config.method in ("GET", "HEAD", "DELETE") else (b"", "")


def _segment(placeholder: Placeholder, scope: Mapping[str, Any]) -> str:
    text = as_text(value_of(placeholder, scope))
    if not text.strip():
        name = placeholder.path[-1].replace("_", " ")
        raise ToolError(f"The {name} is missing.")
    return _quoted(text)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="")


def _pairs(templates: Mapping[str, Any], scope: Mapping[str, Any]) -> str:
    """Return `name=value` for each value present; a list gives several."""
    pairs: list[str] = []
    for name, template in templates.items():
        only = only_placeholder(template)
        value = fill_json(template, scope) if only is None else value_of(only, scope)
        if value is MISSING:
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        pairs += [f"{_quoted(name)}={_quoted(as_text(item))}" for item in values]
    return "&".join(pairs)


def _escape_for(content_type: str) -> Callable[[str], str]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith(("xml", "html")):
        quotes = {'"': "&quot;", "'": "&apos;"}
        return lambda text: xml_escape(_NOT_IN_XML.sub(" ", text), quotes)
    if kind.endswith("json"):
        return lambda text: json.dumps(text, ensure_ascii=False)[1:-1]
    return lambda text: text


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(None if value is MISSING else value, default=str)
    except TypeError:  # integers over 64 bits, lone surrogates
        return json.dumps(value, default=str).encode("utf-8", "replace")
