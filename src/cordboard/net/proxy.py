"""HTTP proxies for outgoing connections: the choice of one, and the request for a tunnel.

One rule for HTTP and for websockets, by the usual environment variables: `HTTPS_PROXY` for `https`
and `wss`, `HTTP_PROXY` for `http` and `ws`, `ALL_PROXY` where neither is set; the lower-case names
count too. `NO_PROXY` lists exceptions: host names with all their subdomains, addresses, networks
such as `10.0.0.0/8`, each with or without a port; `*` excepts everything. Connections to this
machine (`localhost`, loopback addresses) are always direct: the proxy's own loopback is a different
one.

The connection to a proxy is plain HTTP; its address may hold a name and a password, which no
message repeats. Tunnels are requested with CONNECT (RFC 9110, section 9.3.6).
"""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from cordboard.config.remote_url import literal_address

_USUAL_PORT = 80
_MOST_HEAD_BYTES = 16_384
_SECURE = ("https", "wss")


class ProxyFailed(OSError):
    """The proxy cannot be used, or refused the tunnel; the message contains no password."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy."""

    host: str
    port: int
    url: str = field(repr=False)
    """The whole address, which may hold a password."""
    authorization: str = field(default="", repr=False)
    """Value of the Proxy-Authorization header; empty: the header is not sent."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def tunnel_request(self, host: str, port: int) -> bytes:
        """Return the CONNECT request for a tunnel to `host`, a name or an address."""
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode()

    def is_open(self, received: bytes) -> bool:
        """True if the tunnel is open, by all bytes received so far; False: the answer is
        incomplete.

        Raises `ProxyFailed` when the proxy refuses, or when its answer is not HTTP.
        """
        head, end, _ = received.partition(b"\r\n\r\n")
        if not end:
            if len(received) > _MOST_HEAD_BYTES:
                raise ProxyFailed(f"the proxy {self} sent an answer that is too long")
            return False
        version, _, rest = head.split(b"\r\n")[0].partition(b" ")
        status = rest[:3]
        if not version.startswith(b"HTTP/1.") or not status.isdigit():
            raise ProxyFailed(f"the proxy {self} does not speak HTTP")
        if not status.startswith(b"2"):
            raise ProxyFailed(f"the proxy {self} refused the connection (HTTP {status.decode()})")
        return True


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy for a URL; None: connect directly. Raises `ProxyFailed`."""
    parts = urlsplit(url)
    secure = parts.scheme in _SECURE
    host = parts.hostname or ""
    return proxy_to(host, parts.port or (443 if secure else 80), secure=secure)


def proxy_to(host: str, port: int, *, secure: bool) -> Proxy | None:
    """Return the proxy for a host; None: connect directly. Raises `ProxyFailed`."""
    found = urllib.request.getproxies_environment()
    value = found.get("https" if secure else "http") or found.get("all")
    if not value or _is_direct(host, port, found.get("no", "")):
        return None
    return _parsed(value)


def unusable_proxies() -> Iterator[str]:
    """Yield the variables of the environment whose proxy cannot be used, each with the reason."""
    found = urllib.request.getproxies_environment()
    in_use = {name if name in found else "all" for name in ("http", "https")}
    for name in sorted(in_use & found.keys()):
        try:
            _parsed(found[name])
        except ProxyFailed as error:
            yield f"{name.upper()}_PROXY: {error}; no service can be reached through it"


def _is_direct(host: str, port: int, exceptions: str) -> bool:
    host = host.lower().rstrip(".")
    address = literal_address(host)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    if address is not None and address.is_loopback:
        return True
    return any(_holds(entry.strip().lower(), host, port) for entry in exceptions.split(","))


def _holds(entry: str, host: str, port: int) -> bool:
    """True if an entry of `NO_PROXY` names this host, one above it, or the address's network."""
    for text in (entry, entry.removesuffix(f":{port}").strip("[]")):
        name = text.removeprefix("*").strip(".")
        if text == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
        with suppress(ValueError):  # a name on one side, or on both
            if ip_address(host) in ip_network(text, strict=False):
                return True
    return False


def _parsed(value: str) -> Proxy:
    url = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _USUAL_PORT
        host.encode("idna")  # as the look-up does
    except ValueError:
        raise ProxyFailed("the proxy's address in the environment is not a URL") from None
    if parts.scheme != "http" or not host:
        raise ProxyFailed(
            f"the proxy in the environment is of the kind {parts.scheme}://; "
            "only http://HOST:PORT can be used"
        )
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(pair.encode()).decode()}"
    return Proxy(host, port, url, authorization)


async def tunnel(proxy: Proxy, host: str, port: int) -> socket.socket:
    """Open a connection to `host` through a proxy, which looks up the name.

    Sets no timeout of its own. Raises `OSError`; then nothing is left open.
    """
    loop = asyncio.get_running_loop()
    connection = await _connected(proxy)
    try:
        await loop.sock_sendall(connection, proxy.tunnel_request(host, port))
        received = b""
        while not proxy.is_open(received):
            piece = await loop.sock_recv(connection, 4096)
            if not piece:
                raise ProxyFailed(f"the proxy {proxy} closed the connection")
            received += piece
    except BaseException:
        connection.close()
        raise
    return connection


async def _connected(proxy: Proxy) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError = ProxyFailed(f"the proxy {proxy} has no address")
    try:
        found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ProxyFailed(f"the name of the proxy {proxy} is not known") from error
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            reason = error.strerror or "no connection"
            failure = ProxyFailed(f"the proxy {proxy} cannot be reached: {reason}")
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure
