"""Where our HTTP requests may go: to the operator's server, and nowhere that it sends us.

Whatever URL a server gives (a redirect, the `endpoint` of the SSE transport) must be of the origin
that the operator wrote, else it is refused (`within`). And the address is checked where it counts,
by `cordboard.net.guarded`: what is connected to is the very address that has passed
`allowed`. The rules for addresses are `cordboard.config.remote_url`'s.

Used by `cordboard.mcp.remote.http_channel`. A proxy that the environment
names is asked for a tunnel to the checked address.
"""

from __future__ import annotations

from collections.abc import Iterable

import httpx2

from cordboard.config.remote_url import Address, address_problem, unwrapped
from cordboard.errors import McpAddressRefused
from cordboard.net.guarded import GuardedBackend

MAX_REFERENCE = 4_096
"""A URL that a server sends may be as long as this."""

_PORTS = {"http": 80, "https": 443}


def origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host and port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme, 0)


def within(base: httpx2.URL, reference: str) -> httpx2.URL:
    """The absolute form of a URL that a server sent. Raises `McpAddressRefused` off its origin."""
    if len(reference) > MAX_REFERENCE:
        raise McpAddressRefused("it sent an address that is too long")
    try:
        url = base.join(reference)
    except (httpx2.InvalidURL, ValueError) as error:
        raise McpAddressRefused("it sent an address that is no URL") from error
    if origin(url) != origin(base) or url.userinfo:
        raise McpAddressRefused("it sent us to an address elsewhere, which is not followed")
    return url.copy_with(fragment=None)


def allowed(addresses: Iterable[Address], only_loopback: bool) -> list[Address]:
    """Those of a name's addresses that may be connected to. Raises `McpAddressRefused` if none."""
    good: list[Address] = []
    problem = "leads to no address"
    for address in addresses:
        kind = address_problem(address)
        if kind is not None:
            problem = f"leads to a {kind} address ({address})"
        elif only_loopback and not unwrapped(address).is_loopback:
            problem = f"leads off this machine ({address}), where only https may be used"
        else:
            good.append(address)
    if not good:
        raise McpAddressRefused(f"its name {problem}")
    return good


def only_loopback(url: httpx2.URL, plain_http: bool) -> bool:
    """Whether a URL may be used for this machine alone: it is not encrypted."""
    return url.scheme != "https" and not plain_http


def guarded_backend(only_loopback: bool) -> GuardedBackend:
    """Opens TCP connections for httpcore2, to allowed addresses only; raises `McpAddressRefused`
    or httpcore2's errors."""
    return GuardedBackend(lambda addresses: allowed(addresses, only_loopback))
