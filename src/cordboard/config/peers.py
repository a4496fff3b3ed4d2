"""Addresses to bind to, and allowed peers of a connection: an address, a network, a host name."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

THIS_MACHINE = "localhost"
"""An entry that needs no name service: every loopback address."""
_MAPPED_BITS = 96
"""Length of ::ffff:0:0, the prefix of an IPv4-mapped address."""
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_EXPECTED = "expected an address (10.0.0.5), a network (10.0.0.0/24) or a host name"


def network_of(entry: str) -> Network | None:
    """Return the network of an entry, or of a single address; None for a host name.

    Raises `ValueError` for any other text, such as `10.0.0.300` or `10.0.0.5/24`.
    """
    text = entry.strip()
    try:
        return _plain(ipaddress.ip_network(text))
    except ValueError as error:
        if "host bits" in str(error):
            message = f"{_EXPECTED}; a network is written by its first address"
            raise ValueError(message) from None
    name = _HOST.fullmatch(text)
    # A name whose last part is a number is a mistyped address: no such top-level domain exists.
    if name is None or len(text) > 253 or text.rstrip(".").rpartition(".")[2].isdigit():
        raise ValueError(_EXPECTED)  # without the entry: it may be from the environment
    return None


def _plain(network: Network) -> Network:
    """Return the form for comparison with connections: IPv4-mapped IPv6 as IPv4."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


def _checked(entry: str) -> str:
    network_of(entry)
    return entry.strip()


Peer = Annotated[str, AfterValidator(_checked)]
"""One entry of `audiosocket.allow_from`."""


def _host(text: str) -> str:
    try:
        text.encode("idna")  # as each look-up does
    except UnicodeError:
        raise ValueError("expected an address (10.0.0.5) or a host name") from None
    return text


Host = Annotated[str, AfterValidator(_host)]
"""An address or a host name to bind to."""
