"""The websocket to Asterisk when the other side misbehaves: refusals, floods, breaks, silence."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson
import pytest
from pydantic import SecretStr
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K
from cordboard.audio.pacer import Pacer
from cordboard.config.schema import Asterisk
from cordboard.errors import MediaError
from cordboard.telephony.asterisk.websocket_media import PeerTimes, WebsocketMedia
from cordboard.telephony.asterisk.websocket_path import WebsocketArrival, WebsocketPath
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import PATIENCE, until

CONNECTION_ID = "3f0c9f7e-0000-4000-8000-a57e415cdb2d"
CHANNEL_ID = "cordboard-test-media"
START = {
    "event": "MEDIA_START",
    "connection_id": CONNECTION_ID,
    "channel_id": CHANNEL_ID,
    "format": "ulaw",
    "optimal_frame_size": 160,
}


class Peer(asyncio.Protocol):
    """A chan_websocket that does as the test says."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._protocol = ServerProtocol(subprotocols=stage.subprotocols, max_size=None)
        self.texts: list[dict[str, str]] = []
        self.sound = bytearray()
        self.request: Request | None = None
        self.gone = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._stage.peers.append(self)

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._shake_hands(event)
            elif event.opcode is Opcode.TEXT:
                self._command(orjson.loads(event.data))
            elif event.opcode is Opcode.BINARY:
                self.sound += event.data
        self._pass_on()
        if self._protocol.close_expected():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def say(self, **message: object) -> None:
        self.raw(Frame(Opcode.TEXT, orjson.dumps(message)))

    def text(self, text: bytes) -> None:
        self.raw(Frame(Opcode.TEXT, text))

    def play(self, sound: bytes) -> None:
        self.raw(Frame(Opcode.BINARY, sound))

    def raw(self, frame: Frame) -> None:
        self.transport.write(frame.serialize(mask=False))

    def close(self, code: int) -> None:
        self._protocol.send_close(code)
        self._pass_on()

    def _shake_hands(self, request: Request) -> None:
        self.request = request
        if self._stage.refuse_with is not None:
            self._protocol.send_response(self._protocol.reject(self._stage.refuse_with, "no\n"))
            return
        response = self._protocol.accept(request)
        if self._stage.speak is not None:
            del response.headers["Sec-WebSocket-Protocol"]
            if self._stage.speak:
                response.headers["Sec-WebSocket-Protocol"] = self._stage.speak
        self._send_response(response)
        if self._stage.start is not None:
            self._protocol.send_text(orjson.dumps(START | self._stage.start))

    def _send_response(self, response: Response) -> None:
        self._protocol.send_response(response)

    def _command(self, message: dict[str, str]) -> None:
        self.texts.append(message)
        if message["command"] == "GET_STATUS" and self._stage.answering:
            status = {"event": "STATUS", "queue_length": 0, "media_paused": False}
            self._protocol.send_text(orjson.dumps(status))

    def _pass_on(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.transport.write(data)


@dataclass
class Stage:
    """One fake Asterisk and the path to it."""

    pacer: Pacer
    path: WebsocketPath
    subprotocols: list[str] = field(default_factory=lambda: ["media"])
    speak: str | None = None
    """Another subprotocol than was agreed on; empty: none."""
    refuse_with: HTTPStatus | None = None
    start: dict[str, object] | None = field(default_factory=dict)
    """What differs from a good MEDIA_START; None: it never comes."""
    answering: bool = True
    peers: list[Peer] = field(default_factory=list)

    async def arrival(self, **channel: object) -> WebsocketArrival:
        arrival = await self.path.prepare([ULAW_8K])
        variables = {"MEDIA_WEBSOCKET_CONNECTION_ID": CONNECTION_ID}
        arrival.channel_made({"id": CHANNEL_ID, "channelvars": variables, **channel})
        return arrival

    async def media(self) -> WebsocketMedia:
        async with asyncio.timeout(PATIENCE):
            return await (await self.arrival()).media()

    async def claimed(self) -> tuple[WebsocketMedia, Peer, asyncio.Future[str]]:
        """A medium in use, its far side, and what it says when it is lost."""
        media = await self.media()
        lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        media.claim(lost.set_result)
        return media, self.peers[-1], lost


OpenStage = Callable[..., contextlib.AbstractAsyncContextManager[Stage]]


@pytest.fixture
def open_stage() -> OpenStage:
    """`async with open_stage() as stage`; afterwards nothing may be left."""

    @contextlib.asynccontextmanager
    async def opened(
        listening: bool = True,
        times: PeerTimes = PeerTimes(),  # noqa: B008 - frozen
        **settings: object,
    ) -> AsyncIterator[Stage]:
        before = LeakSnapshot.take()
        loop = asyncio.get_running_loop()
        port = free_port()
        config = Asterisk(
            url=f"http://127.0.0.1:{port}/pbx", username="us", password=SecretStr("s3cret")
        )
        pacer = Pacer(loop)
        stage = Stage(pacer, WebsocketPath(config, pacer, times=times), **settings)
        server = None
        if listening:
            server = await loop.create_server(lambda: Peer(stage), "127.0.0.1", port)
        try:
            yield stage
        finally:
            await stage.path.stop()
            if server is not None:
                server.close()
            for peer in stage.peers:
                peer.transport.abort()
                await peer.gone.wait()
        assert not pacer.running
        await before.assert_nothing_left()

    return opened


async def test_it_connects_with_credentials_in_a_header_only(open_stage):
    async with open_stage() as stage:
        media = await stage.media()
        request = stage.peers[0].request
        assert request is not None
        assert request.path == f"/pbx/media/{CONNECTION_ID}"
        credentials = base64.b64encode(b"us:s3cret").decode()
        assert request.headers["Authorization"] == f"Basic {credentials}"
        assert "Sec-WebSocket-Extensions" not in request.headers, "no compression of sound"
        assert media.format == ULAW_8K
        await media.close()
        await media.close()


@pytest.mark.parametrize(
    ("codec", "wished", "gets"),
    [
        ("auto", [SLIN_16K, ULAW_8K], "slin16"),
        ("auto", [ALAW_8K, SLIN_8K], "alaw"),
        ("ulaw", [SLIN_16K, ULAW_8K], "ulaw"),
        ("ulaw", [SLIN_16K], "ulaw"),
        ("slin", [ULAW_8K, SLIN_8K], "slin"),
        ("auto", [], "slin"),
    ],
)
async def test_the_format_is_the_agents_favourite_within_the_codec_of_the_file(codec, wished, gets):
    config = Asterisk(password=SecretStr("x"), codec=codec)
    path = WebsocketPath(config, Pacer(asyncio.get_running_loop()))
    arrival = await path.prepare(wished)
    assert arrival.external_media["format"] == gets
    assert arrival.external_media["connection_type"] == "server"
    arrival.give_up()


async def test_a_codec_that_it_cannot_carry_is_refused_at_the_start():
    path = WebsocketPath(
        Asterisk(password=SecretStr("x"), codec="g722"), Pacer(asyncio.get_running_loop())
    )
    with pytest.raises(MediaError, match=r"g722.*ulaw, alaw, slin, slin16"):
        await path.start()


@pytest.mark.parametrize(
    ("settings", "says", "counted"),
    [
        ({"listening": False}, "cannot connect", "refused"),
        ({"refuse_with": HTTPStatus.UNAUTHORIZED}, "401", "refused"),
        ({"refuse_with": HTTPStatus.NOT_FOUND}, "404", "refused"),
        ({"speak": ""}, "'media'", "handshake"),
        ({"speak": "ari"}, "ari", "handshake"),
        ({"start": {"channel_id": "another call"}}, "another channel", "wrong_channel"),
        ({"start": {"format": "slin16"}}, "slin16", "wrong_format"),
        ({"start": {"optimal_frame_size": 240}}, "240", "wrong_format"),
    ],
    ids=["refused", "401", "404", "no subprotocol", "other subprotocol", "uri", "format", "frame"],
)
async def test_what_cannot_become_media_says_why_and_is_counted(
    open_stage, settings, says, counted
):
    async with open_stage(**settings) as stage:
        with pytest.raises(MediaError, match=says) as refusal:
            await stage.media()
        assert stage.path.counts == {counted: 1}
        assert "s3cret" not in str(refusal.value)
        for peer in stage.peers:
            await asyncio.wait_for(peer.gone.wait(), PATIENCE)


@pytest.mark.parametrize(
    "variables", [None, {}, {"MEDIA_WEBSOCKET_CONNECTION_ID": "../ari/events?app=x"}]
)
async def test_without_a_connection_id_nothing_is_connected(open_stage, variables):
    async with open_stage() as stage:
        arrival = await stage.arrival(channelvars=variables)
        with pytest.raises(MediaError, match="MEDIA_WEBSOCKET_CONNECTION_ID"):
            await arrival.media()
        arrival.give_up()
        assert stage.peers == []


@pytest.mark.parametrize("start", [None, {}], ids=["without MEDIA_START", "with it"])
async def test_who_gives_up_leaves_nothing_behind(open_stage, start):
    async with open_stage(start=start) as stage:
        arrival = await stage.arrival()
        await until(lambda: bool(stage.peers and stage.peers[0].request))
        waiting = asyncio.create_task(arrival.media())
        await asyncio.sleep(0)
        if start is None:
            waiting.cancel()
        else:
            await waiting
        arrival.give_up()
        arrival.give_up()
        await asyncio.wait((waiting,), timeout=5)
        await asyncio.wait_for(stage.peers[0].gone.wait(), PATIENCE)


async def test_an_arrival_that_was_never_named_can_be_given_up(open_stage):
    async with open_stage() as stage:
        arrival = await stage.path.prepare([ULAW_8K])
        arrival.give_up()
        arrival.channel_made({"id": CHANNEL_ID})
        assert stage.peers == []


HALF_A_FRAME = Frame(Opcode.BINARY, bytes(160)).serialize(mask=False)[:80]
BREAKS = {
    "half_sample": lambda peer: peer.play(bytes(321)),
    "malformed_frame": lambda peer: peer.transport.write(b"\xff\xff\xff\xff"),
    "oversized": lambda peer: peer.play(bytes(65_536)),
    "masked": lambda peer: peer.transport.write(Frame(Opcode.TEXT, b"{}").serialize(mask=True)),
    "stray continuation": lambda peer: peer.raw(Frame(Opcode.CONT, b"x")),
    "flood": lambda peer: [peer.play(bytes(32_000)) for _ in range(7)],
    "flood of messages": lambda peer: [peer.text(b'{"event":"X"}') for _ in range(2100)],
    "flood of empty sound": lambda peer: [peer.play(b"") for _ in range(2100)],
    "flood of single samples": lambda peer: [peer.play(bytes(2)) for _ in range(2100)],
    "flood of pings": lambda peer: [peer.raw(Frame(Opcode.PING, b"")) for _ in range(1100)],
    "flood of empty pieces": lambda peer: [
        peer.raw(Frame(Opcode.CONT if piece else Opcode.BINARY, b"", fin=False))
        for piece in range(1100)
    ],
    "closed": lambda peer: peer.close(1011),
}


@pytest.mark.parametrize("what", BREAKS)
async def test_sound_that_makes_no_sense_ends_the_media_with_a_reason(
    open_stage, monkeypatch, what
):
    async with open_stage(start={"format": "slin", "optimal_frame_size": 320}) as stage:
        stage.path = WebsocketPath(
            Asterisk(
                url=stage.path.address.replace("ws:", "http:").removesuffix("/media/"),
                password=SecretStr("x"),
                codec="slin",
            ),
            stage.pacer,
        )
        media, peer, lost = await stage.claimed()
        heard: list[bytes] = []
        media.on_audio(heard.append)
        BREAKS[what](peer)
        problem = await asyncio.wait_for(lost, PATIENCE)
        assert problem
        assert sum(stage.path.counts.values()) == 1
        assert ("flood" in stage.path.counts) == what.startswith("flood")
        media.end("media_lost")
        media.write(bytes(320))
        assert media.queued_ms == 0
        await asyncio.wait_for(peer.gone.wait(), PATIENCE)
        await media.close()
        if what == "flood":
            assert sum(map(len, heard)) <= 10 * 16_000 + 32_000


async def test_a_connection_closed_in_the_middle_of_a_frame_is_lost(open_stage):
    async with open_stage() as stage:
        media, peer, lost = await stage.claimed()
        heard: list[bytes] = []
        media.on_audio(heard.append)
        peer.transport.write(HALF_A_FRAME)
        peer.transport.close()
        await asyncio.wait_for(lost, PATIENCE)
        assert heard == []
        await media.close()


async def test_asterisk_that_simply_closes_is_no_problem_to_log(open_stage):
    async with open_stage() as stage:
        media, peer, lost = await stage.claimed()
        peer.close(1000)
        assert await asyncio.wait_for(lost, PATIENCE) == ""
        reasons: list[str] = []
        media.on_closed(reasons.append)
        media.end("caller_hangup")
        media.end("media_lost")
        assert reasons == ["caller_hangup"]
        await media.close()


async def test_a_message_in_several_frames_is_put_together(open_stage):
    async with open_stage() as stage:
        media, peer, _ = await stage.claimed()
        heard: list[bytes] = []
        keys: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        media.on_audio(heard.append)
        media.on_dtmf(keys.set_result)
        peer.raw(Frame(Opcode.BINARY, b"a" * 100, fin=False))
        peer.raw(Frame(Opcode.PING, b"are you there"))
        peer.raw(Frame(Opcode.CONT, b"b" * 60))
        peer.say(event="DTMF_END", digit="5")
        assert await asyncio.wait_for(keys, PATIENCE) == "5"
        assert heard == [b"a" * 100 + b"b" * 60]
        await media.close()


async def test_control_messages_that_make_no_sense_are_counted_and_the_call_goes_on(open_stage):
    async with open_stage() as stage:
        media, peer, lost = await stage.claimed()
        key: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        media.on_dtmf(key.set_result)
        for text in (b"{", b"[1]", b'{"event":"DTMF_END","digit":"55"}', b'{"event":"STATUS"}'):
            peer.text(text)
        peer.say(event="STATUS", queue_length=3)  # nobody has asked
        peer.say(event="MEDIA_MARK_PROCESSED", correlation_id="999")
        peer.say(event="ERROR", error_text="Unable to parse JSON command")
        peer.text(orjson.dumps(START))  # a second one
        peer.say(event="DTMF_END", digit="#")
        assert await asyncio.wait_for(key, PATIENCE) == "#"
        assert not lost.done()
        assert stage.path.counts == {"malformed_message": 4, "command_refused": 1}
        assert media.heard_ms == 0
        await media.close()


async def test_asterisk_that_says_nothing_any_more_is_lost(open_stage):
    async with open_stage(times=PeerTimes(ask=0.05, answer=2.0)) as stage:
        media, peer, lost = await stage.claimed()
        await until(lambda: len(peer.texts) > 5)  # it answers: a phone on hold sends nothing
        assert not lost.done()
        stage.answering = False
        assert "not answered" in await asyncio.wait_for(lost, PATIENCE)
        assert stage.path.counts == {"no_answer": 1}
        await media.close()


async def test_asterisk_that_sends_nothing_while_ari_is_away_is_lost(open_stage):
    async with open_stage() as stage:
        media, _, lost = await stage.claimed()
        media.idle_seconds = 0.1
        assert "no frame from Asterisk" in await asyncio.wait_for(lost, PATIENCE)
        await media.close()


async def test_a_peer_that_does_not_read_is_lost_and_the_others_go_on(open_stage):
    async with open_stage(start={"format": "slin16", "optimal_frame_size": 640}) as stage:
        config = Asterisk(
            url=stage.path.address.replace("ws:", "http:").removesuffix("/media/"),
            password=SecretStr("x"),
            codec="slin16",
        )
        stage.path = WebsocketPath(
            config, stage.pacer, ahead_seconds=60, times=PeerTimes(stalled=0.2)
        )
        deaf, deaf_peer, lost = await stage.claimed()
        good, good_peer, good_lost = await stage.claimed()
        deaf_peer.transport.pause_reading()
        while not lost.done():
            # More than the kernel's buffers hold; what Asterisk would have played is flushed.
            deaf.write(bytes(32_000))
            deaf.flush()
            await asyncio.sleep(0.002)
        assert "read nothing" in lost.result()
        good.write(b"\1" * 6400)
        await until(lambda: len(good_peer.sound) == 6400)
        assert not good_lost.done()
        await deaf.close()
        await good.close()


async def test_while_asterisk_is_full_nothing_is_sent(open_stage):
    async with open_stage() as stage:
        media, peer, _ = await stage.claimed()
        key: asyncio.Queue[str] = asyncio.Queue()
        media.on_dtmf(key.put_nowait)
        peer.say(event="MEDIA_XOFF")
        peer.say(event="DTMF_END", digit="1")
        await asyncio.wait_for(key.get(), PATIENCE)
        media.write(b"\1" * 1600)
        await asyncio.sleep(0.1)
        assert bytes(peer.sound) == b""
        assert media.queued_ms == 200
        peer.say(event="MEDIA_XON")
        await until(lambda: len(peer.sound) == 1600)
        await media.close()
