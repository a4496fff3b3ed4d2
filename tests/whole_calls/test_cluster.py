"""Several engines, each `cordboard run` in a process of its own, at one Asterisk and one NATS:
killed, stopped and woken, drained, and without their bus."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from tests.cluster.nats_server import NatsServer, bus

from cordboard.calls.history import ledgers, read_lines
from cordboard.cluster.bus import listing
from cordboard.cluster.events import story_of
from cordboard.cluster.wire import CallRecord, decode_record
from cordboard.telephony.asterisk.dialplan import dialplan
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import PhoneCall, SipPhone

from .configuration import REPOSITORY, TOKEN
from .conftest import eventually, http_request, wait_ready

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

NUMBER = "700"
CORDBOARD = (sys.executable, "-m", "cordboard")
REPLACED = 75


def configuration(node: str, asterisk: AsteriskInstance, nats: NatsServer, folder: Path) -> Any:
    """The file of one engine: a desk that greets, and listens."""
    # A busy machine is slow: its filler would be one more thing that is said.
    silence = {"caller_after_ms": 120_000, "agent_after_ms": 120_000, "filler_after_ms": 0}
    desk = {"greeting": f"Good day, this is the desk of {node}.", "rules": {}, "silence": silence}
    return {
        "default_context": "desk",
        "default_provider": "local",
        "health": {"port": free_port()},
        "admin": {"token": TOKEN},
        "asterisk": {
            "url": asterisk.ari_url,
            "password": asterisk.ari_password,
            "reconnect_max_ms": 500,
        },
        "audiosocket": {"port": free_port(), "connect_timeout_ms": 30_000},
        "calls": {"directory": str(folder / "calls"), "max_calls": 10, "shutdown_grace_ms": 1_000},
        "providers": {
            "local": {"type": "pipeline", "stt": "whisper", "brain": "rules", "tts": "hibari"}
        },
        "contexts": {"desk": desk},
        # A lease outlives the stalls of a busy machine.
        "cluster": {"node": node, "lease_ms": 4_000, "nats": {"servers": [nats.url]}},
    }


@dataclass
class EngineProcess:
    """One `cordboard run`."""

    node: str
    folder: Path
    port: int
    process: asyncio.subprocess.Process

    @property
    def log(self) -> str:
        return (self.folder / "engine.log").read_text(errors="replace")

    async def health(self) -> Any:
        """What it says of itself to the operator."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        status, body = await http_request(self.port, "/health", "GET", headers)
        assert status == 200, self.log
        return orjson.loads(body)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def calls(self) -> dict[str, list[dict[str, Any]]]:
        """The ledgers: call id → events."""
        found = {}
        for path in ledgers(self.folder / "calls"):
            lines = [dict(line) for line in read_lines(path)]
            if lines:
                found[lines[0]["call_id"]] = lines
        return found

    def call_of(self, number: str) -> str:
        """The id of this caller's call; empty if it has had none."""
        found = [k for k, lines in self.calls().items() if lines[0]["caller_number"] == number]
        return found[0] if found else ""

    def ledger(self, call: Call) -> list[bytes]:
        """The lines of a call here."""
        [path] = (self.folder / "calls").glob(f"*/{call.call_id}.jsonl")
        return path.read_bytes().splitlines(keepends=True)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        if self.alive:
            self.process.kill()
            await self.process.wait()


@dataclass
class Call:
    """Somebody on the phone."""

    number: str
    line: PhoneCall
    engine: EngineProcess
    """The engine that answered."""
    call_id: str


@dataclass
class Town:
    """Engines, Asterisk, NATS, and the people who call."""

    asterisk: AsteriskInstance
    nats: NatsServer
    folder: Path
    phone: SipPhone
    engines: dict[str, EngineProcess] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(4790000001))

    async def whole(self) -> None:
        """Start what is missing of three engines, and wait until all know each other."""
        missing = [n for n in "abc" if n not in self.engines or not self.engines[n].alive]
        for node in missing:
            self.engines[node] = await self._start(node)
        for node in missing:  # three engines start at once
            await wait_ready(self.engines[node].port, seconds=3 * PATIENCE)

        seen: list[object] = []

        async def together() -> bool:
            states = [(await each.health())["cluster"] for each in self.engines.values()]
            said = await self.asterisk.cli("dialplan show globals")
            rooms = [said.count(f"ROOM_cordboard-{each['instance']}=10|") for each in states]
            listed = re.search("CORDBOARD_ENGINES_cordboard=(.*)", said)
            apps = sorted(f"cordboard-{state['instance']}" for state in states)
            seen[:] = [states, said]
            return (
                all(s["engines"] == 3 and s["lease"] == "held" for s in states)
                and rooms == [1, 1, 1]
                and listed is not None
                and listed[1].split(",") == apps
            )

        await eventually(together, "all engines know each other, and the dialplan knows them", seen)

    async def _start(self, node: str) -> EngineProcess:
        folder = self.folder / f"{node}-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        config = configuration(node, self.asterisk, self.nats, folder)
        (folder / "engine.yaml").write_bytes(orjson.dumps(config))
        process = await start_child(
            [*CORDBOARD, "run", "--config", str(folder / "engine.yaml")],
            folder=REPOSITORY,
            output=folder / "engine.log",
        )
        return EngineProcess(node, folder, config["health"]["port"], process)

    async def call(self) -> Call:
        """Call, and hear the greeting begin."""
        number = str(next(self.numbers))
        line = await self.phone.call(self.asterisk.sip_uri(NUMBER), caller_number=number)
        await line.hear_speech(after=-math.inf)
        engine = await self.engine_of(number)
        return Call(number, line, engine, engine.call_of(number))

    async def engine_of(self, number: str, but: EngineProcess | None = None) -> EngineProcess:
        """Wait until one engine has the ledger of this caller; `but` does not count."""
        others = [each for each in self.engines.values() if each is not but]
        found: list[EngineProcess] = []

        async def one() -> bool:
            found[:] = [each for each in others if each.call_of(number)]
            return len(found) == 1

        await eventually(one, f"one engine has the call of {number}", found)
        return found[0]

    async def one_each(self) -> dict[str, Call]:
        """A call in each engine, by its node."""
        calls = {}
        for _ in range(3):
            call = await self.call()
            calls[call.engine.node] = call
            await self.has_room(call.engine, 9)  # the next call goes by that
        assert sorted(calls) == ["a", "b", "c"]
        return calls

    async def has_room(self, engine: EngineProcess, calls: int) -> None:
        """Wait until the dialplan knows for how many more calls an engine has room."""
        instance = (await engine.health())["cluster"]["instance"]

        async def known() -> bool:
            said = await self.asterisk.cli("dialplan show globals")
            return f"ROOM_cordboard-{instance}={calls}|" in said

        await eventually(known, f"the dialplan knows that {engine.node} has room for {calls}")

    async def end(self, calls: Collection[Call]) -> None:
        """All hang up; nothing is left of any call, in Asterisk and on the bus."""
        for call in calls:
            call.line.hangup()
        await assert_line_clean(self.asterisk)

        async def no_records() -> bool:
            return not await self.records()

        await eventually(no_records, "no call has a record")

    async def records(self) -> list[CallRecord]:
        async with bus(self.nats.settings, "cordboard") as seen:
            entries = (await listing(seen.all_calls)).values()
            return [decode_record(entry.value) for entry in entries if entry.value is not None]

    async def has_story(self, call: Call, lines: list[bytes]) -> None:
        """Wait until the bus has exactly these lines of a call."""
        async with bus(self.nats.settings, "cordboard") as seen:

            async def complete() -> bool:
                return list(story_of(await seen.events.read(call.call_id)).lines) == lines

            await eventually(complete, "the bus has the whole ledger")

    async def hears_another(self, call: Call, since: float) -> EngineProcess:
        """Wait until a caller hears another engine than the first one; return it."""
        await call.line.hear_speech(after=since)
        engine = await self.engine_of(call.number, but=call.engine)
        assert engine.call_of(call.number) == call.call_id
        return engine

    async def nothing_left_of(self, instance: str) -> None:
        """Wait until Asterisk has nothing of an instance any more."""

        async def nothing() -> bool:
            channels = await self.asterisk.cli("core show channels concise")
            bridges = await self.asterisk.cli("bridge show all")
            users = await self.asterisk.cli("ari show users")
            return (
                f"cordboard-cordboard-{instance}" not in channels + bridges
                and instance not in users
            )

        await eventually(nothing, f"nothing of {instance} is left")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_town(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    lines = dialplan(["desk"], {NUMBER: "desk"}, shared=True)
    extra = "\n[from-test-extra]\ninclude => from-internal\n"
    with NatsServer() as nats:
        async with AsteriskInstance(dialplan=extra + lines) as asterisk, SipPhone() as phone:
            town = Town(asterisk, nats, tmp_path_factory.mktemp("town"), phone)
            try:
                yield town
            finally:
                for engine in town.engines.values():
                    await engine.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def town(shared_town: Town) -> Town:
    """Three engines that know each other, and the dialplan that knows them."""
    await shared_town.whole()
    return shared_town


async def test_calls_spread_and_that_of_a_killed_engine_goes_on_in_another(town):
    calls = await town.one_each()
    mine = calls["a"]
    instance = (await mine.engine.health())["cluster"]["instance"]
    await mine.line.hear_silence(1_000)  # after the greeting
    await mine.engine.kill()
    adopter = await town.hears_another(mine, time.monotonic() + 0.3)
    assert adopter.node in ("b", "c")
    adopted_by = (await adopter.health())["cluster"]["instance"]
    await town.nothing_left_of(instance)
    owners = {record.call_id: record.owner for record in await town.records()}
    assert owners.keys() == {call.call_id for call in calls.values()}
    assert owners[mine.call_id] == adopted_by
    await mine.line.hear_silence(1_000)
    await town.end(calls.values())

    # One ledger: what the first engine wrote, what the second one wrote, and the same on the bus.
    first, whole = mine.engine.ledger(mine), adopter.ledger(mine)
    begins = [orjson.loads(line)["type"] for line in whole].index("call.adopted")
    assert 3 < begins <= len(first)
    assert whole[:begins] == first[:begins]
    assert orjson.loads(whole[begins])["engine"] == instance
    assert orjson.loads(whole[-1])["reason"] == "caller_hangup"
    await town.has_story(mine, whole)


async def test_an_engine_that_slept_does_nothing_when_it_wakes_and_ends(town):
    calls = await town.one_each()
    asleep = calls["b"].engine
    instance = (await asleep.health())["cluster"]["instance"]
    asleep.send(signal.SIGSTOP)
    adopter = await town.hears_another(calls["b"], time.monotonic() + 0.3)
    before = await town.asterisk.channels()
    asleep.send(signal.SIGCONT)
    assert await asyncio.wait_for(asleep.process.wait(), PATIENCE) == REPLACED
    assert await town.asterisk.channels() == before
    assert calls["b"].call_id in [c["call_id"] for c in (await adopter.health())["active_calls"]]
    ended = asleep.calls()[calls["b"].call_id][-1]
    assert (ended["type"], ended["reason"]) in [
        ("call.ended", "fenced"),
        ("call.ended", "handed_over"),
    ]
    await town.nothing_left_of(instance)
    await town.end(calls.values())


async def test_calls_go_on_without_the_bus_and_their_events_come_later_once_and_in_order(town):
    calls = await town.one_each()
    town.nats.stop()
    late = await town.call()
    calls["c"].line.hangup()
    await asyncio.sleep(6)  # longer than leases live
    for call in (calls["a"], calls["b"], late):
        assert call.line.state == "answered"

    async def in_doubt() -> bool:
        states = [(await each.health())["cluster"]["lease"] for each in town.engines.values()]
        return states == ["in_doubt"] * 3

    await eventually(in_doubt, "all engines doubt their leases")
    town.nats.go_on()

    async def held() -> bool:
        states = [(await each.health())["cluster"] for each in town.engines.values()]
        return all(state["lease"] == "held" and state["engines"] == 3 for state in states)

    await eventually(held, "all engines see each other again")
    assert [each.alive for each in town.engines.values()] == [True] * 3
    await town.end([*calls.values(), late])
    for call in (*calls.values(), late):
        lines: list[bytes] = []

        async def ended(call: Call = call, lines: list[bytes] = lines) -> bool:
            lines[:] = call.engine.ledger(call)
            return lines[-1].endswith(b"\n") and orjson.loads(lines[-1])["type"] == "call.ended"

        await eventually(ended, f"the ledger of {call.number} is whole")
        await town.has_story(call, lines)


async def test_a_drained_engine_keeps_its_calls_and_gets_no_new_ones(town):
    calls = await town.one_each()
    drained = calls["c"].engine
    config = str(drained.folder / "engine.yaml")

    async def command(*words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *CORDBOARD, *words, "--config", config, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        return said.decode()

    await command("cluster", "drain", "c")

    instance = (await drained.health())["cluster"]["instance"]

    async def withdrawn() -> bool:
        said = await town.asterisk.cli("dialplan show globals")
        return re.search(rf"ROOM_cordboard-{instance}=\d", said) is None

    await eventually(withdrawn, "the dialplan knows that c takes no calls")
    assert "drain" in await command("cluster", "status")
    more = [await town.call() for _ in range(3)]
    assert "c" not in [call.engine.node for call in more]
    assert calls["c"].line.state == "answered"
    await command("cluster", "undrain", "c")
    await town.end([*calls.values(), *more])
    await town.whole()
