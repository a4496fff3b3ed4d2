"""The UDP sockets of RTP calls, on the loopback network."""

from __future__ import annotations

import asyncio
import socket

import pytest

from cordboard.config.schema import Rtp
from cordboard.errors import ListenError, MediaError
from cordboard.telephony.asterisk.rtp_ports import MAX_DATAGRAM, MAX_PER_TICK, RtpPorts
from cordboard_testkit.free_ports import free_port_range
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import PATIENCE


class Taker:
    """Takes down what a socket tells."""

    def __init__(self) -> None:
        self.datagrams: list[tuple[bytes, tuple[str, int]]] = []
        self.refusals = 0
        self.floods = 0
        self.errors: list[Exception] = []
        self.news = asyncio.Event()
        self.clumsy = False

    def datagram(self, data, source):
        self.news.set()
        if self.clumsy:
            raise ZeroDivisionError
        self.datagrams.append((data, source))

    def refused(self):
        self.refusals += 1
        self.news.set()

    def flooded(self):
        self.floods += 1
        self.news.set()

    def broken(self, error):
        self.errors.append(error)
        self.news.set()

    async def told(self) -> None:
        await asyncio.wait_for(self.news.wait(), PATIENCE)
        self.news.clear()


@pytest.fixture
async def ports():
    opened = RtpPorts(Rtp())
    await opened.start()
    yield opened
    opened.stop()


@pytest.fixture
def peer():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(PATIENCE)
        yield made


async def test_datagrams_pass_both_ways(ports, peer):
    taker = Taker()
    opened = ports.open(taker)
    peer.sendto(b"early", ("127.0.0.1", opened.port))
    opened.listen()
    await taker.told()
    assert taker.datagrams == [(b"early", peer.getsockname())], "what came before is kept"
    opened.send(b"answer", peer.getsockname())
    assert peer.recv(100) == b"answer"


async def test_many_calls_are_read_by_one_handler(ports, peer):
    takers = [Taker() for _ in range(60)]
    sockets = [ports.open(taker) for taker in takers]
    for index, opened in enumerate(sockets):
        opened.listen()
        peer.sendto(b"%d" % index, ("127.0.0.1", opened.port))
    for index, taker in enumerate(takers):
        await taker.told()
        assert taker.datagrams[0][0] == b"%d" % index


async def test_a_huge_datagram_arrives_as_too_long(ports, peer):
    taker = Taker()
    opened = ports.open(taker)
    opened.listen()
    peer.sendto(bytes(60_000), ("127.0.0.1", opened.port))
    await taker.told()
    assert len(taker.datagrams[0][0]) == MAX_DATAGRAM + 1


async def test_a_flood_on_one_socket_is_left_alone_and_the_others_hear(ports, peer):
    flooded, quiet = Taker(), Taker()
    target, other = ports.open(flooded), ports.open(quiet)
    for _ in range(3 * MAX_PER_TICK):
        peer.sendto(b"x", ("127.0.0.1", target.port))
    target.listen()
    other.listen()
    while not flooded.floods:
        await flooded.told()
    count = len(flooded.datagrams)
    assert count == MAX_PER_TICK
    peer.sendto(b"hello", ("127.0.0.1", other.port))
    await quiet.told()
    assert quiet.datagrams[0][0] == b"hello"
    assert len(flooded.datagrams) == count, "nothing is read of it meanwhile"
    flooded.news.clear()
    target.refresh()
    await flooded.told()
    assert len(flooded.datagrams) > count


async def test_nobody_listening_is_a_refusal_and_no_busy_loop(ports, peer):
    taker, other = Taker(), Taker()
    opened, healthy = ports.open(taker), ports.open(other)
    opened.listen()
    healthy.listen()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        nowhere = gone.getsockname()
    opened.send(b"anybody?", nowhere)
    await taker.told()
    assert taker.refusals == 1
    wakes = 0
    select = ports._selector.select

    def counted(timeout):
        nonlocal wakes
        wakes += 1
        return select(timeout)

    ports._selector.select = counted
    peer.sendto(b"hello", ("127.0.0.1", healthy.port))
    await other.told()
    assert wakes <= 2
    opened.send(b"back", peer.getsockname())
    assert peer.recv(100) == b"back", "the socket is as good as new"


async def test_a_receiver_that_fails_is_alone(ports, peer):
    clumsy, other = Taker(), Taker()
    clumsy.clumsy = True
    broken, healthy = ports.open(clumsy), ports.open(other)
    broken.listen()
    healthy.listen()
    for opened in (broken, healthy, broken):
        peer.sendto(b"x", ("127.0.0.1", opened.port))
    await other.told()
    while not clumsy.errors:
        await clumsy.told()
    assert [type(error) for error in clumsy.errors] == [ZeroDivisionError]
    broken.refresh()
    peer.sendto(b"y", ("127.0.0.1", healthy.port))
    await other.told()
    assert len(clumsy.errors) == 1


async def test_a_range_that_is_used_up_says_so():
    span = free_port_range(3)
    ports = RtpPorts(Rtp(first_port=span[0], last_port=span[2]))
    await ports.start()
    opened = [ports.open(Taker()) for _ in range(3)]
    assert sorted(each.port for each in opened) == list(span[:3])
    with pytest.raises(MediaError, match=rf"no UDP port is free from {span[0]} to {span[2]}.*3 of"):
        ports.open(Taker())
    assert ports.counts == {"no_port": 1}
    opened[1].close()
    assert ports.open(Taker()).port == opened[1].port
    ports.stop()


async def test_a_freed_port_is_the_last_to_be_used_again():
    span = free_port_range(3)
    ports = RtpPorts(Rtp(first_port=span[0], last_port=span[2]))
    await ports.start()
    seen = []
    for _ in range(6):
        opened = ports.open(Taker())
        seen.append(opened.port)
        opened.close()
    assert seen == [*span[:3], *span[:3]]
    ports.stop()


async def test_an_address_that_is_not_ours_is_told_at_the_start():
    with pytest.raises(ListenError, match=r"192\.0\.2\.1.*rtp\.host"):
        await RtpPorts(Rtp(host="192.0.2.1")).start()


async def test_nothing_is_left_open():
    before = LeakSnapshot.take()
    ports = RtpPorts(Rtp())
    await ports.start()
    opened = [ports.open(Taker()) for _ in range(5)]
    for each in opened[:3]:
        each.listen()
    opened[0].close()
    opened[0].close()
    ports.stop()
    ports.stop()
    assert ports.opened == 0
    with pytest.raises(MediaError, match="closed"):
        ports.open(Taker())
    await before.assert_nothing_left()


async def test_ipv6(peer):
    ports = RtpPorts(Rtp(host="::1"))
    try:
        await ports.start()
    except ListenError:
        pytest.skip("no IPv6 on this machine")
    taker = Taker()
    opened = ports.open(taker)
    opened.listen()
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        other.bind(("::1", 0))
        other.sendto(b"six", ("::1", opened.port))
        await taker.told()
        assert taker.datagrams == [(b"six", other.getsockname()[:2])]
    opened.send(b"gone", ("::1", other_port()))
    await taker.told()
    assert taker.refusals == 1
    ports.stop()


def other_port() -> int:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as closed:
        closed.bind(("::1", 0))
        return int(closed.getsockname()[1])


@pytest.mark.parametrize(
    "scenario",
    [
        test_datagrams_pass_both_ways,
        test_a_flood_on_one_socket_is_left_alone_and_the_others_hear,
        test_nobody_listening_is_a_refusal_and_no_busy_loop,
        test_a_receiver_that_fails_is_alone,
    ],
)
def test_the_same_on_uvloop(scenario, peer):
    """The loops differ in what they make of an error on a socket."""
    uvloop = pytest.importorskip("uvloop")

    async def run() -> None:
        ports = RtpPorts(Rtp())
        await ports.start()
        await scenario(ports, peer)
        ports.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
