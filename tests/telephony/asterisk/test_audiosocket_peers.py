"""From where AudioSocket connections are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from cordboard.telephony.asterisk.audiosocket_peers import LOOK_UP_SECONDS, AllowedPeers
from cordboard_testkit.virtual_time import virtual_time

OWN = "10.0.0.6"


@pytest.mark.parametrize(
    ("entry", "peer", "taken"),
    [
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "10.0.0.7", False),
        ("10.0.0.5", "127.0.0.1", False),
        ("10.0.0.5", "::ffff:10.0.0.5", True),
        ("::ffff:10.0.0.5", "10.0.0.5", True),
        ("::ffff:127.0.0.1", "127.3.2.1", True),
        ("10.0.0.0/24", "10.0.0.77", True),
        ("10.0.0.0/24", "10.0.1.77", False),
        ("fd00::/8", "fd00::9", True),
        ("fd00::/8", "10.0.0.5", False),
        ("localhost", "127.0.0.1", True),
        ("localhost", "127.3.2.1", True),
        ("localhost", "::1", True),
        ("127.0.0.1", "::1", True),
        ("localhost", OWN, True),  # this machine, by another of its addresses
        ("localhost", "10.0.0.7", False),
        ("localhost", "nonsense", False),
        ("fe80::/10", "fe80::1%eth0", True),
    ],
)
async def test_who_is_taken(entry: str, peer: str, taken: bool) -> None:
    assert AllowedPeers([entry]).permits(peer, OWN) is taken


class NameService:
    """Has answers, and counts the questions."""

    def __init__(self, **addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Collection[str]:
        self.asked.append(name)
        await asyncio.sleep(0.1)
        if name not in self.addresses:
            raise OSError("unknown name")
        return [self.addresses[name]]


def test_names_are_looked_up_and_again_when_a_stranger_comes() -> None:
    """A container that restarts may have another address."""

    async def scenario() -> None:
        names = NameService(pbx="10.0.0.5")
        peers = AllowedPeers(["pbx"], names)
        assert not peers.permits("10.0.0.5", OWN), "not known yet"
        await asyncio.sleep(1)
        assert peers.permits("10.0.0.5", OWN)
        names.addresses["pbx"] = "10.0.0.8"
        await asyncio.sleep(LOOK_UP_SECONDS)
        assert not peers.permits("10.0.0.8", OWN)
        await asyncio.sleep(1)
        assert peers.permits("10.0.0.8", OWN)
        assert not peers.permits("10.0.0.5", OWN), "the address belongs to somebody else now"
        for _ in range(1000):
            assert not peers.permits("10.6.6.6", OWN)
        assert names.asked == ["pbx"] * 2, "strangers cause a look-up now and then"
        await peers.close()

    with virtual_time() as loop:
        loop.run_until_complete(scenario())


def test_a_name_that_cannot_be_looked_up_keeps_its_address() -> None:
    async def scenario() -> None:
        names = NameService(pbx="10.0.0.5")
        peers = AllowedPeers(["pbx", "10.1.0.0/16"], names)
        looking = peers.look_up()
        assert looking is not None
        await looking
        names.addresses.clear()
        again = peers.look_up()
        assert again is not None
        await again
        assert peers.permits("10.0.0.5", OWN)
        assert peers.permits("10.1.2.3", OWN)

    with virtual_time() as loop:
        loop.run_until_complete(scenario())


def test_after_a_reload_others_are_taken() -> None:
    async def scenario() -> None:
        names = NameService(pbx="10.0.0.5", other="10.0.0.9")
        peers = AllowedPeers(["pbx"], names)
        peers.look_up()
        peers.use(["other"])  # while the look-up is on its way
        looking = peers.look_up()
        assert looking is not None
        await looking
        assert peers.permits("10.0.0.9", OWN)
        assert not peers.permits("10.0.0.5", OWN)
        peers.use(["10.0.0.7"])
        assert peers.look_up() is None
        assert peers.permits("10.0.0.7", OWN)
        assert not peers.permits("10.0.0.9", OWN)

    with virtual_time() as loop:
        loop.run_until_complete(scenario())


async def test_a_name_of_this_machine_is_this_machine() -> None:
    peers = AllowedPeers(["mybox"], NameService(mybox="127.0.1.1"))
    looking = peers.look_up()
    assert looking is not None
    await looking
    assert peers.permits("127.0.0.1", "127.0.0.1")
