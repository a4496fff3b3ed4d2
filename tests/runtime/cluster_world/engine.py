"""An engine of a simulated cluster: membership and doors are real, its calls are light."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls import events
from cordboard.calls.call import _OUTCOMES, STAYED, CallState
from cordboard.calls.call_registry import farewell_of, turn_away
from cordboard.calls.ending import CallEnding, give_back, step
from cordboard.calls.ledger_file import encode_event
from cordboard.calls.offer import Media, Offer
from cordboard.calls.resumption import MOVED
from cordboard.calls.speech_pause import Rest
from cordboard.cluster.member import Standing
from cordboard.cluster.orders import Order
from cordboard.config.schema import Config
from cordboard.errors import CallerStays, LineError, LineGone, MediaError
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.runtime.membership import Membership
from cordboard.telephony.asterisk.control import AsteriskLine
from cordboard.telephony.asterisk.instance import Instance
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard.telephony.line_media import LineMediaBase

from .asterisk import Asterisk
from .bus import Connection
from .processes import Process, later

log = structlog.get_logger()

MOST_CALLS = 6
GRACE_SECONDS = 30.0
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
IDLE_LOOK_SECONDS = 1.0


class SimulatedMedia(LineMediaBase):
    """The sound of one call; all of it is silence."""

    format = SLIN_8K
    heard_ms = queued_ms = 0

    def __init__(self, sound: Sound, channel_id: str) -> None:
        super().__init__()
        self._sound = sound
        self.channel_id = channel_id
        self.quiet_since: float | None = None

    @property
    def is_open(self) -> bool:
        return self._in_use

    def claim(self, on_lost: Callable[[str], None]) -> None:
        self._on_lost = on_lost

    def lost(self, problem: str) -> None:
        self._tell_lost(problem)

    def take_key(self, key: str) -> None: ...
    def write(self, pcm: bytes) -> None: ...
    def mark(self, callback: Callable[[], None]) -> None: ...
    def hold(self) -> None: ...
    def resume(self) -> None: ...
    def _stop_sound(self) -> None: ...

    def flush(self) -> int:
        return 0

    def abort(self) -> None:
        self._begin_closing()
        self._sound.closed(self)

    async def close(self) -> None:
        self.abort()


class Arrival:
    """The sound that one call waits for."""

    external_media: Mapping[str, str] = MappingProxyType({"external_host": "127.0.0.1:1"})
    advice = "the sound has not come"

    def __init__(self, sound: Sound) -> None:
        self._sound = sound
        self._channel_id = ""
        self.come: asyncio.Future[SimulatedMedia] = asyncio.get_running_loop().create_future()

    def channel_made(self, channel: dict[str, Any]) -> None:
        self._channel_id = channel["id"]
        self._sound.expect(self._channel_id, self)

    async def bridgeable(self) -> None: ...

    async def media(self) -> SimulatedMedia:
        return await self.come

    def give_up(self) -> None:
        self._sound.arrivals.pop(self._channel_id, None)


class Sound:
    """The sound of one process (a `MediaPath`)."""

    connect_seconds = 5.0
    trouble = ""

    def __init__(self, asterisk: Asterisk, process: Process, *, rtp: bool) -> None:
        self._asterisk, self._process, self._rtp = asterisk, process, rtp
        self.arrivals: dict[str, Arrival] = {}
        self._early: set[str] = set()
        self.open: dict[str, SimulatedMedia] = {}
        """By the id of the channel."""

    async def prepare(self, formats: Sequence[AudioFormat]) -> Arrival:
        return Arrival(self)

    def expect(self, channel_id: str, arrival: Arrival) -> None:
        self.arrivals[channel_id] = arrival
        if channel_id in self._early:
            self.begins(channel_id)

    def begins(self, channel_id: str) -> None:
        """Asterisk has connected a channel's sound."""
        arrival = self.arrivals.pop(channel_id, None)
        if arrival is None:
            self._early.add(channel_id)
        elif not arrival.come.done():
            self.open[channel_id] = media = SimulatedMedia(self, channel_id)
            arrival.come.set_result(media)

    def lost(self, channel_id: str) -> None:
        """The channel is gone."""
        if not self._rtp and (media := self.open.get(channel_id)) is not None:
            media.lost("closed")

    def closed(self, media: SimulatedMedia) -> None:
        self.open.pop(media.channel_id, None)
        if not self._rtp:
            later(0.0005, self._asterisk.sound_closed, media.channel_id)

    async def watch(self) -> None:
        """End the sound of which nothing has come for long."""
        loop = asyncio.get_running_loop()
        while True:
            for media in tuple(self.open.values()):
                channel = self._asterisk.channels.get(media.channel_id)
                if channel is not None and self._process not in self._asterisk.cut:
                    media.quiet_since = None
                elif media.quiet_since is None:
                    media.quiet_since = loop.time()
                elif loop.time() - media.quiet_since > media.idle_seconds:
                    media.lost("silent")
            await asyncio.sleep(IDLE_LOOK_SECONDS)

    def health(self) -> dict[str, Any]:
        return {}

    def report(self, metrics: object) -> None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class SimulatedCall:
    """A call, which takes the steps of `cordboard.calls.call.Call` without a conversation."""

    context_name = provider_name = "demo"
    started_at = BEGAN

    def __init__(self, engine: Engine, offer: Offer) -> None:
        self._engine = engine
        self.offer = offer
        self.call_id = offer.call_id
        self.state = CallState.OFFERED
        self.rest = Rest.BUSY
        self.ledger_path = engine.folder / f"{offer.call_id}.jsonl"
        resumed = offer.resumed
        self.copied_lines: tuple[bytes, ...] = resumed.lines if resumed is not None else ()
        self._hand_over = resumed.hand_over if resumed is not None else None
        self._held: list[Callable[[], None]] | None = [] if self._hand_over is not None else None
        self._closed = False
        self._ending = CallEnding(SimpleNamespace(), self._trouble)  # type: ignore[arg-type]
        self.media: Media | None = None
        self._give_back = False
        self.result = ("", "")

    def _trouble(self, where: str, message: str) -> None:
        self._engine.world.note(f"{self.call_id[:4]} trouble {where}: {message}")

    def record(self, event: Any) -> None:
        if self._closed:
            return
        if self._held is not None:
            self._held.append(partial(self._put, event))
        else:
            self._put(event)

    def _put(self, event: Any) -> None:
        membership = self._engine.membership
        membership.copy_line(self.call_id, encode_event(0, event))
        membership.listen(self.call_id, 0, event)

    async def run(self) -> None:
        outcome, reason = "failed", "internal_error"
        try:
            outcome, reason = await self._live()
        except LineGone:
            outcome, reason = "completed", "caller_hangup"
        except CallerStays:
            pass
        except MediaError as error:
            self._trouble("media_failed", str(error))
            reason = "media_failed"
        except LineError as error:
            self._trouble("line_failed", str(error))
            reason = "line_failed"
        finally:
            await self._end(outcome, reason)

    def end(self, outcome: str, reason: str) -> None:
        self._ending.end(outcome, reason)

    async def _live(self) -> tuple[str, str]:
        resumed = self.offer.resumed
        if resumed is None:
            self.record(events.Trouble("begin", "offered"))
        else:
            self.record(events.Trouble("begin", f"adopted from {resumed.engine}"))
        self.state = CallState.CONNECTING
        agent = asyncio.create_task(asyncio.sleep(self._engine.chance.choice((0.05, 0.3, 1.0))))
        if self._hand_over is None:
            try:
                media = await self._ending.unless_over(self.offer.media((SLIN_8K,)))
            except MediaError:
                self._give_back = True
                raise
            if media is None:
                return self._ending.result
            self._has(media)
        self.record(events.Connected())
        if resumed is not None and not resumed.has_room:
            self._give_back = True
            return "failed", "no_room"
        await self._ending.unless_over(_wait(agent))
        if self._hand_over is not None:
            await self._take_caller()
        if self._ending.is_over:
            return self._ending.result
        self.state = CallState.TALKING
        talking = asyncio.create_task(self._talk())
        try:
            return await self._ending.wait(100_000)
        finally:
            talking.cancel()

    def _has(self, media: Media) -> None:
        self.media = media
        media.on_closed(self._media_closed)

    async def _take_caller(self) -> None:
        assert self._hand_over is not None
        log.info("asked", call=self.call_id[:4])
        media: Media | None = None
        try:
            media = await self._ending.unless_over(self.offer.media((SLIN_8K,)))
        finally:
            if self._hand_over.came:
                self._hand_over = None
                self._give_back = media is None
        if media is None:
            return
        self._has(media)
        self._release()

    def _release(self) -> None:
        """Write the lines that were held until the caller came."""
        held, self._held = self._held or [], None
        for write in held:
            write()

    async def _talk(self) -> None:
        """Speak and pause, and write a line now and then."""
        chance = self._engine.chance
        while True:
            self.rest = Rest.SPEECH
            await asyncio.sleep(chance.uniform(0.3, 1.5))
            self.record(events.Trouble("said", "words"))
            self.rest = Rest.QUIET
            await asyncio.sleep(chance.uniform(0.2, 1.5))

    def close_down(self) -> None:
        asyncio.get_running_loop().call_later(2.0, self.end, "shutdown", "engine_stopped")

    def _media_closed(self, reason: str) -> None:
        self.end(_OUTCOMES.get(reason, "failed"), reason)

    async def _end(self, outcome: str, reason: str) -> None:
        self.end(outcome, reason)
        outcome, reason = self._ending.result
        if self._hand_over is not None:
            self._hand_over.failed(reason)
            outcome, reason = MOVED, STAYED
            self._held, self._closed = None, True
        self.state, self.rest = CallState.ENDING, Rest.BUSY
        self.result = outcome, reason
        log.info("ends", call=self.call_id[:4], outcome=outcome, reason=reason)
        if outcome not in ("transferred", MOVED):
            channel_id = self.offer.control.channel_id  # type: ignore[attr-defined]
            self._engine.world.ends[channel_id] = outcome, reason
            line = self.offer.control
            leave = give_back(line, "unavailable") if self._give_back else line.hangup()
            await step("hangup", leave, self._trouble)
        if self.media is not None:
            await step("media", self.media.close(), self._trouble)
        await step("line", self.offer.control.release(), self._trouble)
        self.record(events.Ended(outcome, reason, 0, None, ""))
        self._release()
        self._closed = True
        self.state = CallState.RECORDED


async def _wait(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)


class Registry:
    """The calls of an engine, as `CallRegistry` has them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.calls: dict[str, SimulatedCall] = {}
        self.stopping = self.draining = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def accepting(self) -> bool:
        return not self.stopping and not self.draining

    def offer(self, offer: Offer) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(offer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, offer: Offer) -> None:
        if offer.resumed is None and (not self.accepting or len(self.calls) >= MOST_CALLS):
            status = "busy" if self.accepting else "unavailable"
            self._engine.membership.refused(offer.call_id)
            await turn_away(offer, status, self._engine.internal_error)
            return
        await asyncio.sleep(0)
        call = self.calls[offer.call_id] = SimulatedCall(self._engine, offer)
        how = "new" if offer.resumed is None else f"from {offer.resumed.engine}"
        log.info("begins", call=call.call_id[:4], how=how)
        try:
            await call.run()
        finally:
            if self.calls.get(offer.call_id) is call:
                del self.calls[offer.call_id]

    async def drain(self, grace: float) -> None:
        self.stopping = True
        farewell = farewell_of(grace)
        if not await self._idle_within(grace - farewell):
            for call in tuple(self.calls.values()):
                call.close_down()
            await self._idle_within(farewell)
        for call in tuple(self.calls.values()):
            call.end("shutdown", "engine_stopped")
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _idle_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.calls:  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.05)
        return not self.calls


class Engine:
    """One start of an engine. Made, and run, in its own process."""

    def __init__(self, world: Any, node: str, config: Config, process: Process) -> None:
        self.world = world
        self.node = node
        self.config = config
        self.process = process
        self.chance: random.Random = random.Random(world.chance.random())
        self.folder: Path = config.calls.directory
        self.registry = Registry(self)
        self.membership = Membership(
            config,
            lambda: self.registry.calls,  # type: ignore[arg-type,return-value]
            self.standing,
            self.obey,
            self.internal_error,
            ServerPool(),
        )
        self.name = self.membership.member.instance
        connection = self.membership.member.bus.connection
        assert isinstance(connection, Connection)
        self.connection = connection
        self.sound = Sound(world.asterisk, process, rtp=world.rtp)
        self.source: AsteriskSource | None = None
        self.ordered_to_stop = asyncio.Event()
        self._leaves = False
        self.over = False
        """True once it has stopped in order."""

    def standing(self) -> Standing:
        calls = len(self.registry.calls)
        return Standing(max(0, MOST_CALLS - calls), calls, not self.registry.accepting)

    def obey(self, order: Order) -> None:
        self.registry.draining = order != "undrain"

    def order(self, order: Order) -> None:
        """Take an operator's order; one that is about to end hears none any more."""
        if not self._leaves:
            self.membership._order(order)

    def internal_error(self, where: str) -> None:
        self.world.internal_errors.append((self.name, where))

    @property
    def lives(self) -> bool:
        return not (self.process.killed or self.over)

    async def run(self) -> None:
        """Work until it is to stop, or others have replaced it; then stop in order."""
        membership, section = self.membership, self.config.asterisk
        assert section is not None
        await membership.start()
        instance = Instance(section, self.name)
        self.source = AsteriskSource(
            instance.config,
            self.sound,  # type: ignore[arg-type]
            self.registry.offer,
            on_internal_error=self.internal_error,
            instance=instance,
            in_doubt=membership.sharing.in_doubt,
            on_fenced=membership.sharing.on_fenced,
        )
        await self.source.start()
        listening = asyncio.create_task(self.sound.watch())
        membership.attach(self.source)
        either = [
            asyncio.create_task(each.wait()) for each in (membership.replaced, self.ordered_to_stop)
        ]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        for task in either:
            task.cancel()
        self.world.note(f"{self.name} stops, replaced: {membership.replaced.is_set()}")
        membership.hand_over_before_end(GRACE_SECONDS - farewell_of(GRACE_SECONDS))
        await self.registry.drain(GRACE_SECONDS)
        self._leaves = True
        await self.source.stop()
        await membership.close()
        listening.cancel()
        self.over = True
        self.connection.die()
        self.world.note(f"{self.name} has stopped")

    def serves(self, channel_id: str) -> list[SimulatedCall]:
        """Return the live calls with a caller."""
        return [
            call
            for call in self.registry.calls.values()
            if isinstance(call.offer.control, AsteriskLine)
            and call.offer.control.channel_id == channel_id
        ]
