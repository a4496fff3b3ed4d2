"""Allowed addresses of servers on the network, and the cases that require https.

Pure: no name is looked up here. `cordboard.config.checks.semantics` checks the operator's text,
`cordboard.mcp.remote.http_guard` checks the address that a name really leads to, at each connect.

Link-local addresses (cloud metadata services use them), multicast, broadcast, reserved ones and
0.0.0.0 are always refused, in every spelling: as IPv6 that carries an IPv4 address, and as the
short, hexadecimal and decimal forms that resolvers accept. An MCP server may have a private
address: only the operator can name one. An HTTP tool, whose URL is put together from outside
values, may reach private addresses only where the operator allows it (`inner_problem`).
"""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

Address: TypeAlias = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_METADATA = (IPv6Address("fd00:ec2::254"), IPv4Address("100.100.100.200"))
"""Cloud metadata services whose addresses are not link-local."""
_OLD_FORM = re.compile(r"(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+)){0,3}")
"""Forms that `inet_aton` takes besides dotted quads: 127.1, 0x7f000001, 2130706433."""

_LONG = 20
_RATHER_LONG = 12


def path_secrets(url: str) -> frozenset[str]:
    """Return the parts of a URL's path that may be its key, which alone gives access.

    Hosted servers do this, with a UUID or a token. Counted: a part of 20 characters or more, or of
    12 or more with a digit among them. Also in decoded form, since a server may repeat it so.
    """
    try:
        path = urlsplit(url).path
    except ValueError:
        return frozenset()
    parts = [part for part in path.split("/") if _may_be_a_key(part)]
    return frozenset([*parts, *map(unquote, parts)])


def _may_be_a_key(part: str) -> bool:
    has_digit = any(character.isdigit() for character in part)
    return len(part) >= _LONG or (len(part) >= _RATHER_LONG and has_digit)


def address_problem(address: Address) -> str | None:
    """Return why no server may have this address, or None."""
    address = unwrapped(address)
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_unspecified:
        return "unspecified"
    if address in _METADATA:
        return "metadata service's"
    if isinstance(address, IPv4Address) and (address in _THIS_NETWORK or address.is_reserved):
        return "reserved"
    return None


def inner_problem(address: Address) -> str | None:
    """Return why an address is not public on the Internet, or None when it is."""
    kind = address_problem(address)
    if kind is not None:
        return kind
    is_tunnel = isinstance(address, IPv6Address) and bool(address.sixtofour or address.teredo)
    address = unwrapped(address)
    if address.is_loopback:
        return "loopback"
    if is_tunnel:  # newer Pythons disagree with older ones whether 6to4 is global
        return "tunnel"
    if isinstance(address, IPv6Address):
        special = address.is_site_local or address.is_reserved or address in _LOCAL_NAT64
        return "private" if special or not address.is_global else None
    return None if address.is_global else "private"


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    carried = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return carried
    return address


def literal_address(host: str) -> Address | None:
    """Return the address that a host is, in any spelling; None for a name."""
    host = host.strip("[]").lower()
    try:
        return ip_address(host)
    except ValueError:
        pass
    if _OLD_FORM.fullmatch(host):
        try:
            return IPv4Address(socket.inet_aton(host))
        except OSError:
            pass
    return None


def is_loopback(host: str) -> bool:
    """Return True if a host can only be this machine, judging by its name."""
    address = literal_address(host)
    if address is not None:
        return unwrapped(address).is_loopback
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost")


def url_problem(url: str, plain_http: bool) -> str | None:
    """Return why a server's URL is unusable, or None. `plain_http` allows http:// off loopback."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "it is not a URL; expected for example https://tools.example.com/mcp"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return "it is not a URL; expected for example https://tools.example.com/mcp"
    address = literal_address(host)
    if address is not None and (kind := address_problem(address)):
        return f"{host} is a {kind} address; no server may be there"
    if parts.scheme == "http" and not plain_http and not is_loopback(host):
        return (
            f"http:// would send everything to {host} in the clear; expected https://, or"
            " `plain_http: true` for a network you trust"
        )
    return None
