"""An exchange without agents (every call hears itself), and the telephony that feeds it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from pydantic import SecretStr

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Media, Offer
from cordboard.config.schema import Asterisk, AudioSocket
from cordboard.errors import LineGone, MediaError
from cordboard.telephony.asterisk import caller_side, rtp_media, rtp_path
from cordboard.telephony.asterisk.ari import AriClient, AriState
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.instance import Instance
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.timeline import RATE, Samples

DIALPLAN = """[from-test-extra]
exten => early,1,Set(AI_CONTEXT=sales)
 same => n,Set(AI_PROVIDER=local)
 same => n,Set(ORDER=A-17, "urgent")
 same => n,Stasis(cordboard,with,arguments)
 same => n,Hangup()
exten => answered,1,Answer()
 same => n,Stasis(cordboard)
 same => n,Hangup()
exten => elsewhere,1,Stasis(elsewhere)
 same => n,Hangup()
exten => mislabelled,1,Answer()
 same => n,Dial(AudioSocket/${AUDIOSOCKET}/${UUID()})
 same => n,Hangup()
[queues]
exten => support,1,Goto(internal,6001,1)
"""


@dataclass
class EchoCall:
    """One call and what happened to it."""

    offer: Offer
    media: Media | None = None
    setup_ms: float = 0.0
    ended: asyncio.Future[str] = field(default_factory=asyncio.Future)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    problem: Exception | None = None
    keys: str = ""
    two_keys: asyncio.Event = field(default_factory=asyncio.Event)
    echoing: bool = True
    heard: bytearray = field(default_factory=bytearray)


class EchoExchange:
    """Takes every offer, echoes, and releases the line when the call has ended."""

    def __init__(self) -> None:
        self.calls: list[EchoCall] = []
        self.answering = True
        self.formats: tuple[AudioFormat, ...] = (SLIN_8K,)
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    def offer(self, offer: Offer) -> None:
        call = EchoCall(offer)
        self.calls.append(call)
        self._arrived.set()
        if self.answering:
            task = asyncio.get_running_loop().create_task(self._serve(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def next(self, count: int = 1) -> EchoCall:
        """The `count`-th call so far, once it has been offered."""
        async with asyncio.timeout(PATIENCE):
            while len(self.calls) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.calls[count - 1]

    async def next_up(self, count: int = 1) -> EchoCall:
        """The same, once its media is up."""
        call = await self.next(count)
        await asyncio.wait_for(call.up.wait(), PATIENCE)
        assert call.problem is None, call.problem
        return call

    async def idle(self) -> None:
        """Until every call has ended and is cleared up."""
        async with asyncio.timeout(PATIENCE):
            while self._tasks:
                await asyncio.wait(self._tasks)

    async def _serve(self, call: EchoCall) -> None:
        control = call.offer.control
        try:
            began = time.perf_counter()
            call.media = media = await call.offer.media(self.formats)
            call.setup_ms = (time.perf_counter() - began) * 1000
            media.on_closed(call.ended.set_result)

            def echo(pcm: bytes) -> None:
                call.heard += pcm
                if call.echoing:
                    media.write(pcm)

            def key(digit: str) -> None:
                call.keys += digit
                if len(call.keys) == 2:
                    call.two_keys.set()

            media.on_audio(echo)
            media.on_dtmf(key)
            call.up.set()
            reason = await call.ended
            if reason != "transferred":
                await control.hangup()
        except (LineGone, MediaError) as error:
            call.problem = error
            call.up.set()
            await control.hangup("congestion")
        finally:
            if call.media is not None:
                await call.media.close()
            await control.release()


@dataclass
class Board:
    """The telephony of an engine, on the echo exchange."""

    exchange: EchoExchange
    server: AudioSocketServer
    source: AsteriskSource
    pacer: Pacer
    path: MediaPath

    async def connected(self) -> None:
        await until(lambda: self.source.ready)

    async def failed(self) -> AriState:
        """Once something has gone wrong."""
        await until(lambda: bool(self.source.state.last_error))
        return self.source.state

    async def disconnected(self) -> None:
        await until(lambda: not self.source.ready)


OpenBoard = Callable[..., contextlib.AbstractAsyncContextManager[Board]]


@contextlib.asynccontextmanager
async def _open_board(
    asterisk: AsteriskInstance,
    *,
    context: str | None = None,
    password: str | None = None,
    audiosocket: AudioSocket | None = None,
    make_path: Callable[[AudioSocketServer, Pacer], MediaPath] | None = None,
    wait: bool = True,
    instance: str = "",
    **options: Any,
) -> AsyncIterator[Board]:
    """`make_path`: another transport than AudioSocket; `instance`: name of this one of several
    engines; `options`: of `AsteriskSource`."""
    exchange, pacer = EchoExchange(), Pacer(asyncio.get_running_loop())
    server = AudioSocketServer(
        audiosocket or AudioSocket(port=0, context=context, connect_timeout_ms=30_000),
        pacer,
        exchange.offer,
    )
    config = Asterisk(
        url=asterisk.ari_url,
        username=asterisk.ari_user,
        password=SecretStr(password or asterisk.ari_password),
        app=asterisk.app,
        reconnect_max_ms=400,
    )
    own = Instance(config, instance) if instance else None
    path = make_path(server, pacer) if make_path else AudioSocketPath(server)
    source = AsteriskSource(
        config if own is None else own.config,
        path,
        exchange.offer,
        variables={"ORDER"},
        instance=own,
        **options,
    )
    source._ari._request_seconds = PATIENCE
    await server.start()
    await path.start()
    await source.start()
    board = Board(exchange, server, source, pacer, path)
    try:
        if wait:
            await board.connected()
        yield board
    finally:
        await source.stop()
        await path.stop()
        await server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def asterisk() -> AsyncIterator[AsteriskInstance]:
    """One Asterisk for all tests of this room; each test leaves it without channels."""
    async with AsteriskInstance(dialplan=DIALPLAN) as instance:
        yield instance


@pytest.fixture
def open_board(monkeypatch: pytest.MonkeyPatch) -> OpenBoard:
    """Opens the telephony of an engine on the echo exchange: `async with open_board(asterisk)`. It
    does not mind a busy machine."""
    monkeypatch.setattr(rtp_media, "FLOOD_SECONDS", 10.0)
    monkeypatch.setattr(rtp_path, "CONNECT_SECONDS", 30.0)
    monkeypatch.setattr(caller_side, "ENTRY_SECONDS", 20.0)
    return _open_board


@pytest.fixture
def bursts() -> Callable[..., Samples]:
    """Makes noise bursts of 120 ms, one every 300 ms."""

    def make(count: int = 4, seed: int = 1) -> Samples:
        sound = np.zeros(int(count * 0.3 * RATE), np.int16)
        noise = np.random.default_rng(seed)
        for index in range(count):
            start = int(index * 0.3 * RATE)
            sound[start : start + 960] = noise.normal(0, 4000, 960).clip(-30000, 30000)
        return sound

    return make


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests to Asterisk, in their order: `METHOD path` and the channel of the query."""
    asked: list[str] = []
    request = AriClient.request

    async def recorded(ari: AriClient, method: str, path: str, *args: Any, **query: str) -> Any:
        asked.append(f"{method} {path} {query.get('channel', '')}".rstrip())
        return await request(ari, method, path, *args, **query)

    monkeypatch.setattr(AriClient, "request", recorded)
    return asked
