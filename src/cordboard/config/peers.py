"""Where a connection may come from: an address, a network, or a host name that has addresses."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

THIS_MACHINE = "localhost"
"""An entry that needs no name service: every address of loopback."""
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_EXPECTED = "expected an address (10.0.0.5), a network (10.0.0.0/24) or a host name"


def network_of(entry: str) -> Network | None:
    """The network that an entry names, an address being one of its own; None for a host name.

    Raises `ValueError` for what is neither, such as `10.0.0.300` or `10.0.0.5/24`.
    """
    text = entry.strip()
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        if "host bits" in str(error):
            message = f"{_EXPECTED}; a network is written by its first address"
            raise ValueError(message) from None
    name = _HOST.fullmatch(text)
    # A name whose last part is a number is a mistyped address: no such top-level domain exists.
    if name is None or len(text) > 253 or text.rstrip(".").rpartition(".")[2].isdigit():
        raise ValueError(_EXPECTED)  # without the entry: it may be from the environment
    return None


def is_loopback(host: str) -> bool:
    """Whether a host, named or by its address, is this machine's loopback."""
    if host.rstrip(".").lower() == THIS_MACHINE:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(entry: str) -> str:
    network_of(entry)
    return entry.strip()


Peer = Annotated[str, AfterValidator(_checked)]
"""One entry of `audiosocket.allow_from`."""
