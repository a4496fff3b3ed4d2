"""Redirects: the decision to follow one, and the new request. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from cordboard.errors import HttpAddressRefused, HttpError
from cordboard.tools.http.hosts import host_allowed
from cordboard.tools.http.request import HttpRequest

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_LOCATION = 4_096
_OF_A_BODY = {"content-type", "idempotency-key", "x-cordboard-signature", "x-cordboard-timestamp"}


def redirected(
    request: HttpRequest, status: int, location: str, hosts: Iterable[str]
) -> HttpRequest:
    """Return the request that a redirect leads to.

    Raises `HttpAddressRefused` when it leads to another host that is not listed, to another port,
    or from https to http; `HttpError` when the redirect would lose the request.
    """
    if len(location) > MAX_LOCATION:
        raise HttpAddressRefused("it sent an address that is too long")
    try:
        parts = urlsplit(
            urljoin(f"{request.scheme}://{request.authority}{request.target}", location)
        )
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise HttpAddressRefused("it sent an address that is not a URL") from None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise HttpAddressRefused("it sent us to an address that is not followed")
    if not target.isascii() or not target.isprintable() or " " in target or not host.isascii():
        raise HttpAddressRefused("it sent an address that is not a URL")
    if request.scheme == "https" and parts.scheme == "http":
        raise HttpAddressRefused("it sent us from https to http, which is not followed")
    onwards = request.elsewhere(parts.scheme, host, port, target)
    is_upgrade = (request.scheme, request.port, *onwards.origin) == ("http", 80, "https", host, 443)
    same_place = host == request.host and (onwards.port == request.port or is_upgrade)
    if not same_place and not host_allowed(host, hosts):
        raise HttpAddressRefused("it sent us to a host elsewhere, which is not followed")
    if request.method in ("GET", "HEAD") or status in (307, 308):
        return onwards
    if status == 303:  # the result of the request is at that address
        return replace(onwards, method="GET", body=None, headers=_of_a_get(onwards.headers))
    raise HttpError(f"it redirects us in a way that would lose the request (HTTP {status})")


def _of_a_get(headers: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value) for name, value in headers if name.lower() not in _OF_A_BODY)
