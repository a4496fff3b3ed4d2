"""Restricts the engine's HTTP requests to the operator's server.

A URL that a server sends (a redirect, the `endpoint` of the SSE transport) must be of the origin
that the operator wrote, otherwise it is refused (`within`). `cordboard.net.address_guard` checks
the address at the moment of connecting: the connection goes to exactly the address that has passed
`allowed`. The rules for addresses are in `cordboard.config.remote_url`.

Used by `cordboard.mcp.remote.http_channel`. A proxy from the environment is asked for a tunnel to
the checked address.
"""

from __future__ import annotations

from collections.abc import Iterable

import httpx2

from cordboard.config.remote_url import Address, address_problem, unwrapped
from cordboard.errors import McpAddressRefused
from cordboard.net.address_guard import GuardedBackend

MAX_REFERENCE = 4_096
"""Maximum length of a URL that a server sends."""

_PORTS = {"http": 80, "https": 443}


def origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme, 0)


def within(base: httpx2.URL, reference: str) -> httpx2.URL:
    """Return the absolute form of a server's URL. Raises `McpAddressRefused` for another origin."""
    if len(reference) > MAX_REFERENCE:
        raise McpAddressRefused("it sent an address that is too long")
    try:
        url = base.join(reference)
    except (httpx2.InvalidURL, ValueError) as error:
        raise McpAddressRefused("it sent an address that is not a URL") from error
    if origin(url) != origin(base) or url.userinfo:
        raise McpAddressRefused("it sent an address of another origin, which is not followed")
    return url.copy_with(fragment=None)


def allowed(addresses: Iterable[Address], only_loopback: bool) -> list[Address]:
    """Return the addresses of a name that may be connected to. Raises `McpAddressRefused` if
    none."""
    good: list[Address] = []
    problem = "leads to no address"
    for address in addresses:
        kind = address_problem(address)
        if kind is not None:
            problem = f"leads to a {kind} address ({address})"
        elif only_loopback and not unwrapped(address).is_loopback:
            problem = f"leads to another machine ({address}), where only https may be used"
        else:
            good.append(address)
    if not good:
        raise McpAddressRefused(f"its name {problem}")
    return good


def only_loopback(url: httpx2.URL, plain_http: bool) -> bool:
    """True if a URL may be used only on this machine because it is not encrypted."""
    return url.scheme != "https" and not plain_http


def guarded_backend(only_loopback: bool) -> GuardedBackend:
    """Return the backend that opens TCP connections for httpcore2, to allowed addresses only; it
    raises `McpAddressRefused` or httpcore2's errors."""
    return GuardedBackend(lambda addresses: allowed(addresses, only_loopback))
