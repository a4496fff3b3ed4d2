"""Checks of a request before anything else: its way here, its Host, its Origin. Pure.

Any web page that an operator visits can make the browser send requests to this port. Against it:

- **Host**: an IP address, `localhost`, or a configured name; a page that makes a name of its own
  point here (DNS rebinding) sends that name.
- **Origin**: never another one. All ports of localhost are one site for cookies, so `SameSite`
  alone does not separate this port from other local servers.
- A websocket without a bearer key needs an Origin: browsers send one with each, and grant any page
  a websocket to anywhere.
- A change without a bearer key needs an Origin and the header `X-Cordboard`, which no form and no
  simple cross-origin request can send (WHATWG Fetch, section 4.10), as no preflight is granted.

Headers of proxies are believed from configured addresses only. A request with such headers from
another address is refused, because it may have crossed the network unencrypted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from cordboard.api.gate import host_name, is_address
from cordboard.config.peers import network_of
from cordboard.config.remote_url import is_loopback
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import RequestRefused

SAFE = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""
WEBSOCKET = "WEBSOCKET"
"""In place of the method of a handshake."""
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came in, with the proxy's part taken off."""

    client: str
    """IP address; empty when it is unknown."""
    secure: bool
    """True if the browser used https."""


class Guard:
    """The checks of one port."""

    def __init__(self, settings: AdminUi) -> None:
        self._settings = settings
        self._trusted = [network_of(proxy) for proxy in settings.trusted_proxies]
        self._only_by_proxy = not (settings.tls or is_loopback(settings.host))
        public = urlsplit(settings.public_url)
        self._public_origin = settings.public_url.lower()
        self._names = {"localhost", settings.host.lower(), (public.hostname or "localhost").lower()}

    def arrival(self, headers: Mapping[str, str], peer: str) -> Arrival:
        """Return the client of a request from the address `peer`. Raises `RequestRefused`."""
        if not self._is_trusted(peer):
            if any(name in headers for name in _FORWARDED):
                raise RequestRefused(
                    400,
                    "untrusted_proxy",
                    f"the request came through a proxy at {peer}, which is not trusted; list its "
                    "address under admin.ui.trusted_proxies, with public_url, or have it send no "
                    "X-Forwarded headers",
                )
            if self._only_by_proxy:
                raise RequestRefused(
                    403,
                    "unencrypted",
                    f"this port is for the reverse proxy alone; use {self._settings.public_url}",
                )
            return Arrival(peer, self._settings.tls is not None)
        proto = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        secure = proto == "https" or self._settings.tls is not None
        if not secure and self._public_origin.startswith("https:"):
            raise RequestRefused(
                403,
                "unencrypted",
                "the proxy does not say that the browser used https: have it refuse http, and "
                "send X-Forwarded-Proto: https",
            )
        return Arrival(self._client(headers, peer), secure)

    def check(
        self,
        method: str,
        headers: Mapping[str, str],
        arrival: Arrival,
        *,
        from_elsewhere: bool = False,
    ) -> None:
        """Raise `RequestRefused` for a foreign Host or Origin, and for a change or a `WEBSOCKET`
        that lacks the proofs of coming from our own page. `from_elsewhere`: another page may send
        the browser here, as a whole page, which it cannot read."""
        host = headers.get("host", "").lower()
        name = host_name(host)
        if not (is_address(name) or name in self._names):
            raise RequestRefused(
                421,
                "foreign_host",
                f"the Host header names {name[:64]!r}, which is not a name of this engine; use its "
                "address, or set admin.ui.public_url",
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        ours = (f"http{'s' if arrival.secure else ''}://{host}", self._public_origin)
        foreign = origin is not None and (not origin or origin.lower() not in ours)
        sent_here = from_elsewhere and headers.get("sec-fetch-mode") == "navigate"
        if foreign or (site in ("cross-site", "same-site") and not sent_here):
            raise RequestRefused(
                403,
                "foreign_origin",
                "the request comes from a web page of another origin"
                f" ({(origin or site or '')[:100]})",
            )
        if method in SAFE or "authorization" in headers:
            return
        if method == WEBSOCKET:
            if origin is None:
                message = "a websocket without an API key needs the header Origin (this server's)"
                raise RequestRefused(403, "not_our_page", message)
            return
        if (origin is None and site != "same-origin") or headers.get("x-cordboard") != "1":
            raise RequestRefused(
                403,
                "not_our_page",
                "a change without an API key needs the headers Origin (this server's own) and "
                "X-Cordboard: 1",
            )

    def _client(self, headers: Mapping[str, str], peer: str) -> str:
        """Return the last address that a trusted proxy has named."""
        for text in reversed(headers.get("x-forwarded-for", "").split(",")):
            if not is_address(text.strip()):
                break
            peer = text.strip()
            if not self._is_trusted(peer):
                break
        return peer

    def _is_trusted(self, peer: str) -> bool:
        if not is_address(peer):
            return False
        address = plain(peer)
        return any(network is not None and address in network for network in self._trusted)


def joined(headers: Headers) -> dict[str, str]:
    """Return the headers with repeated ones as one (RFC 9110, section 5.3). Some proxies add a line
    of their own below that of the client, whose words would be believed otherwise."""
    found: dict[str, list[str]] = {}
    for name, value in headers.items():
        found.setdefault(name, []).append(value)
    return {name: ", ".join(values) for name, values in found.items()}


def neighbourhood(client: str) -> str:
    """Return the addresses that one machine can have at will: of IPv6 the network of 64 bits."""
    if not is_address(client):
        return client
    address = plain(client)
    bits = 64 if address.version == 6 else 32
    return str(ip_network(f"{address}/{bits}", strict=False))


def plain(text: str) -> IPv4Address | IPv6Address:
    """Return an address for comparison: IPv4-mapped IPv6 as IPv4."""
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address
