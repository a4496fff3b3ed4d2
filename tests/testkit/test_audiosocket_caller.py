"""The simulated caller, on a small AudioSocket server and beside a real Asterisk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from cordboard.errors import CallRefused
from cordboard.telephony.asterisk.audiosocket import (
    Audio,
    Dtmf,
    Identified,
    Parser,
    encode_audio,
    encode_hangup,
)
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.correlation import came_through
from cordboard_testkit.leaks import LeakSnapshot, assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import Samples

Bursts = Callable[..., Samples]


class EchoServer:
    """Sends back the audio it gets; or sends `once` at the first frame and nothing more."""

    def __init__(self, once: bytes | None = None) -> None:
        self.once = once
        self.names: list[str] = []
        self.keys = ""
        self.two_keys = asyncio.Event()
        self.hears = asyncio.Event()
        """Set by the first audio: what is said earlier is lost before it gets here."""
        self.audio_bytes: set[int] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> EchoServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = Parser("server")
        try:
            while data := await reader.read(4096):
                for event in parser.feed(data):
                    if isinstance(event, Identified):
                        self.names.append(str(event.uuid))
                    elif isinstance(event, Dtmf):
                        self.keys += event.digit
                        if len(self.keys) == 2:
                            self.two_keys.set()
                    elif isinstance(event, Audio):
                        self.audio_bytes.add(len(event.pcm))
                        self.hears.set()
                        writer.write(encode_audio(event.pcm) if self.once is None else self.once)
                        self.once = b"" if self.once is not None else None
        except ConnectionError:
            pass
        finally:
            writer.close()


async def test_the_caller_hears_its_echo(bursts: Bursts) -> None:
    before = LeakSnapshot.take()
    async with EchoServer() as server, SimulatedCaller("127.0.0.1", server.port) as caller:
        caller.say(bursts(5))
        await caller.said()
        await caller.hear_silence()
        assert came_through(bursts(5), caller.heard_in_order())
        caller.press("4#")
        await asyncio.wait_for(server.two_keys.wait(), PATIENCE)
        assert server.names == [str(caller.uuid)]
        assert server.audio_bytes == {320}
        assert server.keys == "4#"
    assert caller.end is not None
    assert caller.end.by == "us"
    await before.assert_nothing_left()


async def test_the_first_frame_is_sent_when_it_shall_begin() -> None:
    async with EchoServer() as server:
        begins_at = time.monotonic() + 0.1
        async with SimulatedCaller("127.0.0.1", server.port, begins_at=begins_at):
            await asyncio.wait_for(server.hears.wait(), PATIENCE)
            assert time.monotonic() >= begins_at


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (encode_hangup(), "hung up"),
        (b"\x03\x00\x011", "0x03"),
        (b"\x10\x00\x00", "empty"),
    ],
)
async def test_the_call_ends_for_what_asterisk_ends_it(frame: bytes, reason: str) -> None:
    async with (
        EchoServer(once=frame) as server,
        SimulatedCaller("127.0.0.1", server.port) as caller,
    ):
        end = await caller.ended()
    assert end.by == "them"
    assert reason in end.reason


async def test_nobody_listening_is_a_refused_call() -> None:
    async with EchoServer() as server:
        port = server.port
    with pytest.raises(CallRefused, match=str(port)):
        async with SimulatedCaller("127.0.0.1", port):
            pass


async def test_sound_sent_ahead_is_heard_at_the_lines_pace(bursts: Bursts) -> None:
    """A second of audio in one write is heard for a second."""
    second = bursts(4)[:8000].astype("<i2").tobytes()
    frames = b"".join(encode_audio(second[at : at + 320]) for at in range(0, 16000, 320))
    async with (
        EchoServer(once=frames) as server,
        SimulatedCaller("127.0.0.1", server.port) as caller,
    ):
        await caller.hear_silence()
        segments = caller.heard_segments(join=0.1)
    assert len(segments) == 4
    assert segments[3].start - segments[0].start >= 0.88


@pytest.mark.asterisk
@pytest.mark.asyncio(loop_scope="session")
async def test_a_real_asterisk_gives_the_same_call(
    asterisk: AsteriskInstance, bursts: Bursts
) -> None:
    """The extension `bare` and the simulated caller are the same to a server."""
    async with EchoServer() as server, SipPhone() as phone:
        await asterisk.set_global("AUDIOSOCKET", f"127.0.0.1:{server.port}")
        call = await phone.call(asterisk.sip_uri("bare"))
        await call.answered()
        await asyncio.wait_for(server.hears.wait(), PATIENCE)
        call.say(bursts(4))
        await call.said()
        await call.hear_silence()
        assert came_through(bursts(4), call.heard_in_order())
        call.press("4#")
        await asyncio.wait_for(server.two_keys.wait(), PATIENCE)
        call.hangup()
        assert server.audio_bytes == {320}
        assert server.keys == "4#"
        await assert_line_clean(asterisk)
