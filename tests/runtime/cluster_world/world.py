"""A simulated cluster: three nodes, a bus, an Asterisk, callers, and what goes wrong with them.

Everything that happens follows from the seed.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from cordboard.calls.call import CallState
from cordboard.cluster import member
from cordboard.cluster.bus import Entry
from cordboard.cluster.lease import Lease
from cordboard.cluster.wire import CallRecord, decode_record, encode_record
from cordboard.config.schema import Config
from cordboard.telephony.asterisk import ari, instance, source

from .asterisk import FAMILY, Asterisk, Channel
from .bus import ANSWER_SECONDS, Bus, Connection, ProcessBus
from .engine import Engine
from .processes import PROCESS, Process, ProcessLoop, here, later

NODES = "abc"
UNKIND = ("caller_hangup", "media_lost", "line_failed", "internal_error")
"""Reasons for which no caller may be hung up here."""


class NoNotes:
    """In place of `UnsentNotes`: no process here comes back to its directory."""

    def __init__(self, *_: Any) -> None: ...
    def lock(self) -> bool:
        return True

    def put(self, *_: Any) -> None: ...
    def remove(self, *_: Any) -> None: ...
    def close(self) -> None: ...


class World:
    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.bus = Bus(self.chance)
        self.rtp = self.chance.random() < 0.3
        self.asterisk = Asterisk(self._sound_begins, rtp=self.rtp)
        self.asterisk.lost_media = self._sound_lost
        self.engines: list[Engine] = []
        """All there ever were."""
        self.notes: list[str] = []
        self.triggers: dict[str, list[Callable[[Process], None]]] = {}
        """What is to happen when an engine logs an event."""
        self.ends: dict[str, tuple[str, str]] = {}
        """Outcome and reason of the last call that has ended, by caller."""
        self.internal_errors: list[tuple[str, str]] = []
        self.healed = False
        self._starting: set[str] = set()
        self._configs = {node: self._config(node, folder) for node in NODES}

    def _config(self, node: str, folder: Path) -> Config:
        return Config.model_validate(
            {
                "contexts": {"demo": {}},
                "default_context": "demo",
                "asterisk": {"url": "http://pbx:8088", "password": "shared"},
                "calls": {"directory": folder / node, "max_calls": 6},
                "cluster": {"node": node, "nats": {"servers": ["nats://127.0.0.1:1"]}},
            }
        )

    def note(self, text: str) -> None:
        self.notes.append(f"{asyncio.get_running_loop().time() - 1000:9.3f} {text}")

    def logged(self, _: Any, __: str, entry: Any) -> Any:
        """Take an entry of the log (a processor of structlog)."""
        name, process = entry.pop("event"), PROCESS.get()
        if process is not None:
            entry.pop("exc_info", None)
            self.note(f"    [{process.name}] {name} {entry}"[:300])
            for act in self.triggers.pop(name, ()):
                act(process)
        raise structlog.DropEvent

    # Processes

    def engine(self, node: str) -> Engine | None:
        """Return the living engine of a node."""
        living = [each for each in self.engines if each.node == node and each.lives]
        return living[-1] if living else None

    def start(self, node: str) -> None:
        process = Process(node)

        async def body() -> None:
            engine = Engine(self, node, self._configs[node], process)
            process.name = engine.name
            self.engines.append(engine)
            self.note(f"{engine.name} starts")
            await engine.run()

        process.spawn(body())

    @property
    def living(self) -> list[Engine]:
        return [each for each in self.engines if each.lives]

    async def restart_nodes(self) -> None:
        """Start again what has ended, as a service manager does; some have none until all is
        well again."""
        if self.chance.random() < 0.2:
            while not self.healed:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.5)
        while True:
            for node in NODES:
                if self.engine(node) is None and node not in self._starting:
                    self._starting.add(node)
                    later(self.chance.uniform(0.5, 8.0), self._restart, node)
            await asyncio.sleep(0.5)

    def _restart(self, node: str) -> None:
        self._starting.discard(node)
        if self.engine(node) is None:
            self.start(node)

    def kill(self, engine: Engine) -> None:
        engine.process.stop()
        engine.process.killed = True
        engine.connection.die()
        self.asterisk.killed(engine.process)

    def freeze(self, engine: Engine, seconds: float) -> None:
        engine.process.stop()
        later(seconds, self.thaw, engine)

    def thaw(self, engine: Engine) -> None:
        if not engine.process.killed and engine.process.stopped:
            self.note(f"{engine.name} goes on")
            engine.process.go_on()

    def cut_bus(self, engine: Engine, seconds: float) -> None:
        engine.connection.cut_off()
        later(seconds, engine.connection.mend)

    def lose_answers(self, engine: Engine, seconds: float) -> None:
        engine.connection.loses_answers = True
        later(seconds, setattr, engine.connection, "loses_answers", False)

    def slow_bus(self, engine: Engine, seconds: float) -> None:
        engine.connection.way_seconds = self.chance.choice((0.1, 0.25, 0.4))
        later(seconds, setattr, engine.connection, "way_seconds", ANSWER_SECONDS)

    def cut_asterisk(self, engine: Engine, seconds: float, *, sound: bool = True) -> None:
        self.asterisk.cut_off(engine.process, sound=sound)
        later(seconds, self.asterisk.mend, engine.process)

    def heal(self) -> None:
        self.healed = True
        for engine in self.engines:
            self.thaw(engine)
            engine.connection.loses_answers = False
            engine.connection.way_seconds = ANSWER_SECONDS
            if engine.connection.cut:
                engine.connection.mend()
            if self.asterisk.is_cut(engine.process):
                self.asterisk.mend(engine.process)
            if engine.lives:
                engine.process.do(engine.order, "undrain")

    def leave_record(self, owner: str, channel_id: str) -> None:
        """Have the bus store a call of an engine that is dead, with a caller."""
        record = CallRecord(
            str(uuid.uuid4()), owner, asterisk="pbx:8088", caller_channel=channel_id, epoch=1
        )
        revision = self.bus.calls.next_revision()
        self.bus.calls.store(Entry(record.call_id, encode_record(record), revision))
        for engine in self.living:
            engine.process.do(engine.membership.member.adopt_again, owner)

    def story(self, found: list[str]) -> str:
        """Return what has happened, with what is wrong at the end."""
        return "\n".join([f"seed {self.seed}", *self.notes, *found])

    # Sound

    def _of(self, process: Process) -> Engine:
        return next(each for each in self.engines if each.process is process)

    def _sound_begins(self, process: Process, channel_id: str) -> None:
        process.do(self._of(process).sound.begins, channel_id)

    def _sound_lost(self, process: Process, channel_id: str) -> None:
        if process not in self.asterisk.cut:
            process.do(self._of(process).sound.lost, channel_id)

    # What must hold

    def problems(self) -> list[str]:
        """Return what is wrong once all faults have healed."""
        return [
            *self._of_callers(),
            *self._of_hang_ups(),
            *self._of_calls(),
            *self._of_dead_engines(),
            *self._of_living_engines(),
            *self._of_tasks(),
        ]

    def left_behind(self) -> list[str]:
        """Return what is left once all engines have stopped in order."""
        asterisk, found = self.asterisk, [f"{each.name} goes on" for each in self.living]
        things = (*asterisk.channels, *asterisk.bridges, *asterisk.wires, *asterisk.users)
        found += [f"Asterisk has {each}" for each in things if each != FAMILY]
        for engine in self.engines:
            tasks = [each for each in engine.process.tasks if not each.done()]
            if tasks and not engine.process.killed:
                found.append(f"{engine.name} has {tasks}")
        return found

    def _of_callers(self) -> Iterator[str]:
        for channel in self.asterisk.callers.values():
            if channel.ended:
                continue
            serving = [each for each in self.living if each.serves(channel.id)]
            names = [each.name for each in serving]
            if len(serving) != 1:
                yield f"{channel.id} in {channel.app!r} is served by {names}"
                continue
            (engine,) = serving
            (call,) = engine.serves(channel.id)
            if call.state is not CallState.TALKING or engine.process.stopped:
                yield f"the call of {channel.id} at {engine.name} is {call.state}"
            elif channel.app != f"{FAMILY}-{engine.name}":
                yield f"{channel.id} is in {channel.app}, its call at {engine.name}"
            elif not self._hears(channel, engine):
                yield f"{channel.id} hears nothing of {engine.name}"
            else:
                yield from self._of_record(engine, call.call_id, channel.id)

    def _of_hang_ups(self) -> Iterator[str]:
        """An engine that stops, or has been cut off for long, may hang up."""
        for channel in self.asterisk.callers.values():
            _, reason = self.ends.get(channel.id, ("", ""))
            if channel.ended.startswith("by ") and reason in UNKIND:
                yield f"{channel.id} was hung up {channel.ended}: {reason}"

    def _hears(self, channel: Channel, engine: Engine) -> bool:
        return bool(channel.bridge) and any(
            media.is_open
            and (end := self.asterisk.channels.get(name)) is not None
            and end.bridge == channel.bridge
            for name, media in engine.sound.open.items()
        )

    def _of_record(self, engine: Engine, call_id: str, caller: str) -> Iterator[str]:
        entry = self.bus.calls.entries.get(call_id)
        if entry is None or entry.value is None:
            yield f"the call {call_id[:4]} of {caller} at {engine.name} has no record"
            return
        record = decode_record(entry.value)
        if record.owner != engine.name or record.handing_over_to:
            yield (
                f"the record of {call_id[:4]} ({caller} at {engine.name}) says {record.owner}, "
                f"handing over to {record.handing_over_to!r}"
            )
        kept = engine.membership.record_of(call_id)
        if kept is None:
            yield f"{engine.name} has no record of its call {call_id[:4]}"

    def _of_calls(self) -> Iterator[str]:
        for engine in self.living:
            for call in engine.registry.calls.values():
                channel_id = call.offer.control.channel_id  # type: ignore[attr-defined]
                if self.asterisk.callers[channel_id].ended:
                    yield f"{engine.name} has a call {call.state} of {channel_id}, who is gone"
        living = {each.name: each for each in self.living}
        for call_id, entry in self.bus.calls.entries.items():
            if entry.value is not None:
                record = decode_record(entry.value)
                engine = living.get(record.owner)
                if engine is None:
                    yield f"the record of {call_id[:4]} belongs to {record.owner}, which is gone"
                elif call_id not in engine.registry.calls:
                    yield f"the record of {call_id[:4]} at {engine.name} has no call"

    def _of_dead_engines(self) -> Iterator[str]:
        names = {f"{FAMILY}-{each.name}" for each in self.living}
        for channel in self.asterisk.channels.values():
            if channel.app and channel.app not in names:
                yield f"channel {channel.id} is in {channel.app}, which is gone"
        made = [
            *self.asterisk.bridges,
            *(k for k, v in self.asterisk.channels.items() if v.media_of),
        ]
        for name in made:
            owner = next((each for each in names if name.startswith(f"{FAMILY}-{each}-")), None)
            if owner is None:
                yield f"{name} is left of an engine that is gone"
            elif not any(
                name.startswith(f"{FAMILY}-{owner}-{call_id}")
                for each in self.living
                for call_id in each.registry.calls
            ):
                yield f"{name} belongs to no call"
        for user in self.asterisk.users:
            if user != FAMILY and user not in names:
                yield f"the user {user} of an engine that is gone"

    def _of_living_engines(self) -> Iterator[str]:
        names = {f"{FAMILY}-{each.name}" for each in self.living}
        for engine in self.living:
            state = engine.membership.member.lease.state
            if state != "held" or engine.source is None or not engine.source.ready:
                yield f"{engine.name} goes on: lease {state}"
            others = {each.name for each in self.living} - {engine.name}
            if set(engine.membership.member.roster.others) != others:
                yield f"{engine.name} knows {sorted(engine.membership.member.roster.others)}"
            listed = self.asterisk.variables.get(f"CORDBOARD_ENGINES_{FAMILY}", "").split(",")
            if set(listed) != names:
                yield f"the dialplan has {listed}"
            room = self.asterisk.variables.get(f"CORDBOARD_ROOM_{FAMILY}-{engine.name}", "")
            if int(room.partition("|")[0] or "0") != engine.standing().free_slots:
                yield f"the dialplan has the room {room!r} of {engine.name}"

    def _of_tasks(self) -> Iterator[str]:
        if self.internal_errors:
            yield f"internal errors: {self.internal_errors}"
        for engine in self.living:
            membership, source_ = engine.membership, engine.source
            adoption = membership.member._adoption
            assert adoption is not None
            assert source_ is not None
            counts = {
                "membership": len(membership._tasks) - 2,
                "adoption": len(adoption._tasks),
                "giver": len(membership._giver._giving),
                "taker": len(membership._taker._tasks) + len(membership._taker._expected),
                "source": len(source_._tasks),
                "adopted": len(membership._adopted),
                "lines": len(source_.lines) - len(engine.registry.calls),
                "events": engine.membership.member.events.unsent_calls - len(engine.registry.calls),
            }
            for name, count in counts.items():
                if count > 0:
                    yield f"{engine.name} has {count} left in {name}"


@contextmanager
def simulated(seed: int, folder: Path) -> Iterator[tuple[World, ProcessLoop]]:
    """A world whose doors stand in for those of the machine."""
    loop = ProcessLoop()
    asyncio.set_event_loop(loop)
    state = random.getstate()
    random.seed(seed)
    world = World(seed, folder)
    names = random.Random(seed)

    async def to_thread(work: Any, *args: Any, **more: Any) -> Any:
        return work(*args, **more)

    def fresh_id() -> uuid.UUID:
        return uuid.UUID(int=names.getrandbits(128), version=4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "to_thread", to_thread)
        patch.setattr(secrets, "token_hex", lambda n: f"{names.getrandbits(8 * n):0{2 * n}x}")
        patch.setattr(uuid, "uuid4", fresh_id)
        patch.setattr(source, "uuid4", fresh_id)
        patch.setattr(instance, "hashed", str)
        patch.setattr(ari, "connect", world.asterisk.connect)
        patch.setattr(member, "require_nats", lambda: None)
        patch.setattr(member, "NatsConnection", lambda *_: Connection(world.bus, here()))
        patch.setattr(member, "NatsBus", ProcessBus)
        patch.setattr(member, "Lease", partial(Lease, clock=loop.time))
        patch.setattr(member, "UnsentNotes", NoNotes)
        patch.setattr(member, "abandoned", lambda directory: [])
        logging = structlog.get_config()
        structlog.configure(processors=[world.logged])
        try:
            yield world, loop
        finally:
            _end(loop, world)
            structlog.configure(**logging)
            random.setstate(state)
            asyncio.set_event_loop(None)
            loop.close()


def _end(loop: ProcessLoop, world: World) -> None:
    """Cancel everything, also in the processes that were killed."""

    async def end() -> None:
        for _ in range(3):
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            for engine in world.engines:
                engine.process.go_on()
            if tasks:
                await asyncio.wait(tasks, timeout=30)

    loop.run_until_complete(end())
