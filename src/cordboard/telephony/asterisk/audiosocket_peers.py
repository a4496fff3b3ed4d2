"""Addresses from which AudioSocket connections are accepted (`audiosocket.allow_from`).

Addresses and networks are compared as they are. Host names are resolved off the event loop: at the
start, when the configuration or the connection to Asterisk is new, and when a connection comes from
an address that none of them has, because a container that restarts may get another address. The
last known addresses of a name stay in force while it cannot be resolved.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeAlias

import structlog

from cordboard.config.peers import Address, network_of
from cordboard.config.remote_url import is_loopback

log = structlog.get_logger()

Resolve: TypeAlias = Callable[[str], Awaitable[Collection[str]]]
"""Returns the addresses of a host name. Raises `OSError`."""
LOOK_UP_SECONDS = 5.0
"""Pause between two look-ups caused by strangers."""


async def resolve(name: str) -> Collection[str]:
    """Resolve a name by the system's name service, in a thread."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return {str(info[4][0]) for info in found}


class AllowedPeers:
    """The entries in force, and the addresses of those that are host names."""

    def __init__(self, entries: Sequence[str], resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._addresses: dict[str, frozenset[Address]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = -math.inf
        self.use(entries)

    def use(self, entries: Sequence[str]) -> None:
        """Replace the entries. Call `look_up` afterwards."""
        self._networks = [network for entry in entries if (network := network_of(entry))]
        self._names = [e for e in entries if network_of(e) is None and not is_loopback(e)]
        self._this_machine = any(is_loopback(entry) for entry in entries)
        self._addresses = {n: a for n, a in self._addresses.items() if n in self._names}
        if self._looking is not None:
            self._looking.cancel()  # it resolves the old names

    def permits(self, peer: str, own: str) -> bool:
        """Return True if a connection from the address `peer` to our address `own` is accepted.

        The loopback stands for this machine, which connects from the same address that it connects
        to. An address that no entry covers triggers a new look-up, for the next connection.
        """
        address, local = _plain(peer), _plain(own)
        if address is None:
            return False
        if any(address in network for network in self._networks):
            return True
        here = address.is_loopback or address == local
        known = [known for addresses in self._addresses.values() for known in addresses]
        if here and (self._this_machine or any(each.is_loopback for each in known)):
            return True
        if address in known:
            return True
        if asyncio.get_running_loop().time() >= self._looked_at + LOOK_UP_SECONDS:
            self.look_up()
        return False

    def look_up(self) -> asyncio.Task[None] | None:
        """Resolve the names; None when there are none. The task never fails."""
        if not self._names:
            return None
        if self._looking is None or self._looking.done() or self._looking.cancelling():
            self._looked_at = asyncio.get_running_loop().time()
            self._looking = asyncio.create_task(self._look_up(), name="audiosocket peers")
        return self._looking

    async def close(self) -> None:
        """Stop resolving names."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))

    async def _look_up(self) -> None:
        await asyncio.gather(*map(self._look_up_one, tuple(self._names)))

    async def _look_up_one(self, name: str) -> None:
        try:
            found = await self._resolve(name)
        except (OSError, UnicodeError) as error:
            log.warning("audiosocket_peer_unknown", host=name, error=str(error))
            return
        if name in self._names:
            plain = map(_plain, found)
            self._addresses[name] = frozenset(each for each in plain if each is not None)


def _plain(text: str) -> Address | None:
    """Return an address as it is compared: without zone, IPv4-mapped IPv6 as IPv4."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
