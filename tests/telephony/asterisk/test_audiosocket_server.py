"""The AudioSocket port: who is let in, who is turned away, and what a connection carries."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from cordboard.audio.format import SLIN_16K
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Offer, TransferTarget
from cordboard.config.schema import AudioSocket
from cordboard.errors import LineGone, LineUnsupported, ListenError, MediaError
from cordboard.telephony.asterisk import audiosocket
from cordboard.telephony.asterisk.audiosocket import Audio, Hangup, Parser
from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer, WaitingRoom
from cordboard.telephony.line_media import MESSAGES_PER_SECOND
from cordboard_testkit.patience import PATIENCE

LOUD = b"\x01\x20" * 160


class Port:
    """A server, and the offers it made."""

    def __init__(self, context: str | None, **settings: float) -> None:
        self.offers: asyncio.Queue[Offer] = asyncio.Queue()
        self.pacer = Pacer(asyncio.get_running_loop())
        config = AudioSocket(port=0, context=context)
        self.server = AudioSocketServer(
            config, self.pacer, self.offers.put_nowait, **{"identify_seconds": 10.0} | settings
        )


@contextlib.asynccontextmanager
async def open_port(context: str | None = "demo", **settings: float) -> AsyncIterator[Port]:
    port = Port(context, **settings)
    await port.server.start()
    try:
        yield port
    finally:
        await port.server.stop()
        assert port.pacer.outlet_count == 0


@pytest_asyncio.fixture
async def port() -> AsyncIterator[Port]:
    async with open_port() as opened:
        yield opened


class Peer:
    """The other end of a connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.parser = Parser("client")
        self.events: list[object] = []

    @classmethod
    async def connect(cls, port: Port, first: bytes | UUID) -> Peer:
        peer = cls(*await asyncio.open_connection("127.0.0.1", port.server.port))
        peer.writer.write(audiosocket.encode_uuid(first) if isinstance(first, UUID) else first)
        return peer

    async def read(self, count: int) -> list[object]:
        """The next `count` events."""
        async with asyncio.timeout(PATIENCE):
            while len(self.events) < count:
                self.events += self.parser.feed(await self.reader.read(4096))
        taken, self.events = self.events[:count], self.events[count:]
        return taken

    async def closed(self) -> bool:
        """Wait until the server has ended the connection."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while await self.reader.read(4096):
                    pass
        self.writer.close()
        return True


async def bare_call(port: Port) -> tuple[Peer, Offer, AudioSocketMedia]:
    peer = await Peer.connect(port, uuid4())
    offer = await asyncio.wait_for(port.offers.get(), PATIENCE)
    media = await offer.media()
    assert isinstance(media, AudioSocketMedia)
    return peer, offer, media


async def test_who_expects_a_call_gets_its_connection_and_no_offer_is_made(port):
    expected = port.server.expect()
    peer = await Peer.connect(port, expected.uuid)
    media = await asyncio.wait_for(expected.connection, PATIENCE)
    assert media.uuid == expected.uuid
    assert port.offers.empty()
    peer.writer.close()


async def test_silence_is_sent_as_soon_as_the_connection_is_named(port):
    """Asterisk holds locks while it waits for the first frame, before the call has the media."""
    expected = port.server.expect()
    peer = await Peer.connect(port, expected.uuid)
    assert await peer.read(2) == [Audio(8000, bytes(320))] * 2
    media = await expected.connection
    media.claim(lambda _: None)
    assert await peer.read(2) == [Audio(8000, bytes(320))] * 2
    peer.writer.close()


async def test_sound_in_the_same_segment_as_the_name_has_the_format_that_was_agreed(port):
    expected = port.server.expect(SLIN_16K)
    sound = audiosocket.encode_audio(bytes(640), 16_000)
    peer = await Peer.connect(port, audiosocket.encode_uuid(expected.uuid) + sound)
    media = await asyncio.wait_for(expected.connection, PATIENCE)
    await asyncio.sleep(0)
    assert media.format == SLIN_16K
    assert media.problem == ""
    assert media.connected
    peer.writer.close()


async def test_without_a_context_an_unexpected_call_is_closed_and_counted():
    async with open_port(context=None) as port:
        peer = await Peer.connect(port, uuid4())
        assert await peer.closed()
        assert port.server.turned_away == {"unknown_uuid": 1}
        assert port.offers.empty()


async def test_a_connection_for_a_call_that_gave_up_waiting_is_no_new_call(port):
    expected = port.server.expect()
    expected.connection.cancel()
    peer = await Peer.connect(port, expected.uuid)
    assert await peer.closed()
    assert port.offers.empty()
    assert port.server.turned_away == {"late_uuid": 1}


async def test_a_uuid_of_a_call_by_ari_is_good_for_one_connection(port):
    """While the call lives and afterwards; also where bare calls are taken, none is made of it."""
    expected = port.server.expect()
    with capture_logs() as log:
        first = await Peer.connect(port, expected.uuid)
        media = await asyncio.wait_for(expected.connection, PATIENCE)
        second = await Peer.connect(port, expected.uuid)
        assert await second.closed()
        assert media.connected, "the call goes on"
        media.abort()
        assert await first.closed()
        third = await Peer.connect(port, expected.uuid)
        assert await third.closed()
    assert port.offers.empty()
    assert port.server.turned_away == {"used_uuid": 2}
    (told, *_) = [line for line in log if line["event"] == "audiosocket_turned_away"]
    assert (told["log_level"], told["reason"]) == ("warning", "used_uuid")
    assert told["peer"].startswith("127.0.0.1:")
    assert str(expected.uuid) not in str(log)
    assert str(expected.uuid) not in repr(expected), "it may get into a log by mistake"


async def test_every_call_by_ari_has_a_uuid_of_its_own(port):
    expected = [port.server.expect() for _ in range(100)]
    assert len({each.uuid for each in expected}) == 100
    assert {each.uuid.version for each in expected} == {4}
    for each in expected:
        each.connection.cancel()


async def test_a_connection_that_says_nothing_is_closed_in_time():
    async with open_port(identify_seconds=0.3) as port:
        peer = await Peer.connect(port, b"")
        assert await peer.closed()
        assert port.server.turned_away == {"no_uuid": 1}


async def test_a_browser_is_closed_at_once(port):
    peer = await Peer.connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await peer.closed()
    assert port.server.turned_away == {"protocol": 1}


async def test_a_look_at_the_port_leaves_nothing(port):
    peer = await Peer.connect(port, b"")
    peer.writer.write_eof()
    await peer.closed()
    assert port.server.connections == 0
    assert not port.server.turned_away


async def test_a_bare_call_is_offered_in_the_configured_context_under_an_id_of_ours(port):
    """Else whoever has heard of a call's id writes into its ledger, while it lives or later."""
    peer = await Peer.connect(port, UUID("40325ec2-5efd-4bd3-805f-53576e581d13"))
    offer = await asyncio.wait_for(port.offers.get(), PATIENCE)
    assert offer.external_id == "40325ec2-5efd-4bd3-805f-53576e581d13"
    assert UUID(offer.call_id) != UUID(offer.external_id)
    assert (offer.source, offer.variables) == ("audiosocket", {"AI_CONTEXT": "demo"})
    target = TransferTarget("sales", "extension", "6001", "internal")
    with pytest.raises(LineUnsupported):
        await offer.control.transfer(target, lambda: None)
    assert await offer.control.variable("AI_CONTEXT") is None
    peer.writer.close()


async def test_two_calls_with_one_uuid_are_two_calls(port):
    """Dialplans are found with a constant in place of ${UUID()}."""
    same = uuid4()
    peers = [await Peer.connect(port, same) for _ in range(2)]
    offers = [await asyncio.wait_for(port.offers.get(), PATIENCE) for _ in peers]
    assert len({offer.call_id for offer in offers}) == 2
    assert [offer.external_id for offer in offers] == [str(same)] * 2
    for peer in peers:
        peer.writer.close()


async def test_silence_is_sent_when_there_is_nothing_to_say(port):
    peer, *_ = await bare_call(port)
    assert await peer.read(10) == [Audio(8000, bytes(320))] * 10
    peer.writer.close()


async def test_what_is_written_is_sent_in_20_ms_frames_and_counted(port):
    peer, _, media = await bare_call(port)
    sent = asyncio.Event()
    media.write(LOUD * 5 + LOUD[:100])
    media.mark(sent.set)
    assert media.queued_ms == 107
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.wait_for(sent.wait(), PATIENCE)
    assert loop.time() - began >= 0.075, "sent at the pace of the line, not all at once"
    assert (media.heard_ms, media.queued_ms) == (106, 0)
    frames = [event.pcm for event in await peer.read(12)]
    assert all(len(frame) == 320 for frame in frames)
    assert b"".join(frames).strip(b"\0") == (LOUD * 5 + LOUD[:100]).strip(b"\0")
    peer.writer.close()


async def test_audio_and_keys_reach_the_call(port):
    peer, _, media = await bare_call(port)
    heard, keys = bytearray(), asyncio.Queue()
    media.on_audio(heard.extend)
    media.on_dtmf(keys.put_nowait)
    peer.writer.write(audiosocket.encode_audio(LOUD) * 3 + audiosocket.encode_dtmf("#"))
    assert await asyncio.wait_for(keys.get(), PATIENCE) == "#"
    assert bytes(heard) == LOUD * 3
    peer.writer.close()


async def test_the_caller_hangs_up(port):
    peer, offer, media = await bare_call(port)
    ended = asyncio.get_running_loop().create_future()
    media.on_closed(ended.set_result)
    media.write(LOUD * 50)
    peer.writer.close()
    assert await asyncio.wait_for(ended, PATIENCE) == "caller_hangup"
    assert media.queued_ms == 0
    again = []
    media.on_closed(again.append)
    assert again == ["caller_hangup"], "who asks late is told at once"
    await offer.control.hangup()
    await offer.control.release()
    with pytest.raises(LineGone):  # no failure: they hung up
        await offer.media()


async def test_a_connection_that_broke_before_the_call_is_a_failure(port):
    peer = await Peer.connect(port, audiosocket.encode_uuid(uuid4()) + b"\x10\x00\x01\x00")
    offer = await asyncio.wait_for(port.offers.get(), PATIENCE)
    assert await peer.closed()
    with pytest.raises(MediaError, match="sample"):
        await offer.media()


async def test_we_hang_up_with_a_hangup_frame(port):
    peer, offer, media = await bare_call(port)
    told = []
    media.on_closed(told.append)
    await offer.control.hangup()
    async with asyncio.timeout(PATIENCE):
        while Hangup() not in await peer.read(1):
            pass
    assert await peer.closed()
    await offer.control.release()
    await offer.control.release()
    assert port.server.connections == 0


async def test_our_own_close_is_not_reported(port):
    peer, _, media = await bare_call(port)
    told = []
    media.on_closed(told.append)
    closing = asyncio.create_task(media.close())
    assert await peer.closed()
    await closing
    media.write(LOUD)
    assert (told, media.queued_ms) == ([], 0)


@pytest.mark.parametrize(
    ("wrong", "counted"),
    [
        (audiosocket.encode_uuid(uuid4()), "protocol"),
        (b"\x10\x00\x01\x00", "protocol"),
        (audiosocket.encode_audio(bytes(640), 16_000), "rate"),
    ],
    ids=["second uuid", "half a sample", "16 kHz"],
)
async def test_nonsense_in_a_call_ends_it_as_lost_and_is_counted(port, wrong, counted):
    peer, _, media = await bare_call(port)
    ended = asyncio.get_running_loop().create_future()
    media.on_closed(ended.set_result)
    peer.writer.write(wrong)
    assert await asyncio.wait_for(ended, PATIENCE) == "media_lost"
    assert media.problem
    await peer.closed()
    assert port.server.faults == {counted: 1}
    assert not port.server.turned_away


async def test_a_flood_of_sound_ends_the_call(port):
    peer, _, media = await bare_call(port)
    ended = asyncio.get_running_loop().create_future()
    media.on_closed(ended.set_result)
    peer.writer.write(audiosocket.encode_audio(bytes(320)) * 50 * 20)  # 20 s at once
    assert await asyncio.wait_for(ended, PATIENCE) == "media_lost"
    assert "real time" in media.problem
    await peer.closed()
    assert port.server.faults == {"flood": 1}


@pytest.mark.parametrize(
    "frame",
    [
        audiosocket.encode_dtmf("5"),
        b"\x10\x00\x00",
        b"\x55\x00\x00",
        audiosocket.encode_error(2),
        audiosocket.encode_audio(bytes(2)),
    ],
    ids=["keys", "empty sound", "unknown kind", "errors", "single samples"],
)
async def test_a_flood_of_any_frames_ends_the_call(port, frame):
    peer, _, media = await bare_call(port)
    ended = asyncio.get_running_loop().create_future()
    media.on_closed(ended.set_result)
    keys, sounds = [], []
    media.on_dtmf(keys.append)
    media.on_audio(sounds.append)
    peer.writer.write(frame * 30_000)
    assert await asyncio.wait_for(ended, PATIENCE) == "media_lost"
    assert "flood" in media.problem
    assert len(keys) + len(sounds) <= MESSAGES_PER_SECOND
    await peer.closed()
    assert port.server.faults == {"flood": 1}


async def test_what_asterisk_catches_up_with_is_no_flood(port):
    """Ten seconds of a phone with packets of 10 ms, held up and sent at once."""
    peer, _, media = await bare_call(port)
    heard, keys = bytearray(), asyncio.Queue()
    media.on_audio(heard.extend)
    media.on_dtmf(keys.put_nowait)
    peer.writer.write(audiosocket.encode_audio(LOUD[:160]) * 990 + audiosocket.encode_dtmf("#"))
    assert await asyncio.wait_for(keys.get(), PATIENCE) == "#"
    assert len(heard) == 990 * 160
    assert media.problem == ""
    peer.writer.close()


async def test_sound_behind_a_name_that_is_turned_away_is_not_heard_and_counts_once():
    async with open_port(context=None) as port:
        sound = audiosocket.encode_audio(bytes(640), 16_000)
        peer = await Peer.connect(port, audiosocket.encode_uuid(uuid4()) + sound)
        assert await peer.closed()
        assert port.server.turned_away == {"unknown_uuid": 1}
        assert port.server.faults == {}


async def test_strangers_who_fill_the_port_keep_no_call_out():
    async with open_port(most_unidentified=4, identify_seconds=600) as port:
        strangers = [await Peer.connect(port, b"") for _ in range(6)]
        peer, *_ = await bare_call(port)
        assert port.server.turned_away == {"too_many": 3}
        for stranger in strangers[:3]:
            assert await stranger.closed()
        await peer.read(1)
        for each in (peer, *strangers[3:]):
            each.writer.close()


async def test_who_is_not_allowed_is_closed_before_a_byte_is_read(port):
    port.server.use(AudioSocket(port=0, context="demo"), ["10.0.0.5"])
    expected = port.server.expect()
    peer = await Peer.connect(port, expected.uuid)
    assert await peer.closed()
    assert not expected.connection.done()
    assert port.offers.empty()
    assert port.server.turned_away == {"not_allowed": 1}
    port.server.use(AudioSocket(port=0, context="demo"), ["127.0.0.0/8"])
    peer = await Peer.connect(port, expected.uuid)
    assert await asyncio.wait_for(expected.connection, PATIENCE)
    peer.writer.close()


async def test_ten_thousand_strangers_are_few_lines_of_the_log_and_all_are_counted():
    counted: Counter[str] = Counter()
    async with open_port(context=None, identify_seconds=600) as port:
        port.server._on_turned_away = lambda reason: counted.update([reason])
        port.server._turned_away_log._seconds = 600  # a busy machine takes its time
        with capture_logs() as log:
            for _ in range(20):
                peers = [await Peer.connect(port, uuid4()) for _ in range(50)]
                for peer in peers:
                    assert await peer.closed()
    assert counted == {"unknown_uuid": 1000}
    assert [line["event"] for line in log].count("audiosocket_turned_away") == 1


async def test_asterisk_is_not_pushed_out_by_those_who_came_with_it():
    """Its UUID has come, but the event loop has not read it yet: it took many at once."""
    async with open_port(most_unidentified=4, identify_seconds=600) as port:
        expected = port.server.expect()
        with contextlib.ExitStack() as stack:
            for number in range(12):  # all of them before the loop has its next turn
                address = ("127.0.0.1", port.server.port)
                one = stack.enter_context(socket.create_connection(address))
                one.sendall(audiosocket.encode_uuid(expected.uuid) if number == 0 else b"")
            media = await asyncio.wait_for(expected.connection, PATIENCE)
            assert media.uuid == expected.uuid
            media.abort()


class At:
    """A connection from an address, as the waiting room sees it."""

    def __init__(self, address: str, has_unread: bool = False) -> None:
        self.peer = (address, 1)
        self.has_unread = has_unread


def enter(room: WaitingRoom, address: str, has_unread: bool = False) -> At:
    at = At(address, has_unread)
    room.enter(at, asyncio.TimerHandle(0, print, (), asyncio.get_running_loop()))
    return at


async def test_strangers_of_one_address_push_out_each_other():
    room = WaitingRoom(3)
    asterisk = enter(room, "10.0.0.5")
    assert room.one_too_many() is None
    strangers = [enter(room, "10.0.0.66") for _ in range(2)]
    for _ in range(20):
        out = room.one_too_many()
        assert out is strangers.pop(0), "the oldest"
        assert room.leave(out)
        strangers.append(enter(room, "10.0.0.66"))
    assert room.leave(asterisk)
    assert not room.leave(asterisk)
    assert len(room) == 2


async def test_who_has_said_something_that_is_not_read_yet_stays():
    room = WaitingRoom(2)
    first, second = enter(room, "10.0.0.5", has_unread=True), enter(room, "10.0.0.5")
    assert room.one_too_many() is second
    second.has_unread = True
    assert room.one_too_many() is None, "the next turn of the loop reads them"
    enter(room, "10.0.0.5", has_unread=True)
    enter(room, "10.0.0.5", has_unread=True)
    assert room.one_too_many() is first, "but not for ever"


async def test_a_caller_who_hangs_up_within_a_frame_is_no_fault(port):
    """A socket that closes in the middle of a frame: what there is of it is not heard."""
    peer, _, media = await bare_call(port)
    ended = asyncio.get_running_loop().create_future()
    media.on_closed(ended.set_result)
    heard = bytearray()
    media.on_audio(heard.extend)
    peer.writer.write(audiosocket.encode_audio(LOUD)[:100])
    peer.writer.close()
    assert await asyncio.wait_for(ended, PATIENCE) == "caller_hangup"
    assert (heard, port.server.faults) == (b"", {})
    assert port.server.connections == 0


async def test_a_peer_that_stops_reading_ends_the_call(port):
    """The server's memory stays bounded, and the call hears of it."""
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, ("127.0.0.1", port.server.port))
        await loop.sock_sendall(deaf, audiosocket.encode_uuid(uuid4()))
        offer = await asyncio.wait_for(port.offers.get(), PATIENCE)
        media = await offer.media()
        media.stalled_seconds = 0.2
        ended = loop.create_future()
        media.on_closed(ended.set_result)
        # The kernel's buffers take a second or two of sound at the line's pace; the test hurries.
        for _ in range(1000):
            media.tick(3)
        assert await asyncio.wait_for(ended, PATIENCE) == "media_lost"
        assert "read nothing" in media.problem
    assert port.server.connections == 0
    assert port.server.faults == {"stalled": 1}


async def test_a_phone_on_hold_is_no_reason_to_end_a_call(port):
    """Asterisk sends nothing while the phone does not (measured); our silence goes on."""
    peer, _, media = await bare_call(port)
    told = []
    media.on_closed(told.append)
    await peer.read(60)  # 1.2 s without a word from the peer
    assert told == []
    peer.writer.close()


async def test_a_dead_line_is_given_up_in_the_end(port):
    peer, _, media = await bare_call(port)
    media.idle_seconds = 0.1
    ended = asyncio.get_running_loop().create_future()
    media.on_closed(ended.set_result)
    assert await asyncio.wait_for(ended, PATIENCE) == "media_lost"
    await peer.closed()
    assert port.server.faults == {"idle": 1}


async def test_a_port_in_use_is_named():
    async with open_port() as port:
        config = AudioSocket(port=port.server.port)
        second = AudioSocketServer(config, port.pacer, port.offers.put_nowait)
        with pytest.raises(ListenError, match=f"{port.server.port}.*audiosocket.port"):
            await second.start()
