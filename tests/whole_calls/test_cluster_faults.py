"""Faults of a cluster with real engines at a real Asterisk and NATS: their clocks are 20 s apart,
Asterisk restarts, one is stopped and still accepts callers, one is cut off from the bus and one
from Asterisk, and one is killed while a tool changes the world. Their agents need no models."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from bench.cluster_engine import SHOP
from bench.cluster_town import Caller, Engine, Town, eventually, town
from tests.cluster.nats_server import bus

from cordboard.calls.history import read_lines
from cordboard.cli.run import REPLACED
from cordboard.cluster.events import story_of
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE

from .split import Relay

pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="session")]

SKEW = {"a": 10, "b": 0, "c": -10}
"""Seconds by which the wall clocks are wrong."""
MOST = 200
"""Calls of an engine, as `bench.cluster_town` configures it."""
SKEWED = Path(__file__).with_name("skewed_engine.py")


@dataclass
class Faults:
    """A town whose engines have wrong clocks and relays that may be cut."""

    town: Town
    bus: Relay
    asterisk: Relay

    async def whole(self) -> None:
        """Start what is missing of three engines, and wait until all know each other."""
        for node in "abc":
            if node not in self.town.engines or not self.town.engines[node].alive:
                program = (sys.executable, str(SKEWED), str(SKEW[node]))
                await self.town.start(node, change=self._change, program=program)
        await self.town.together()

    def _change(self, config: dict[str, Any]) -> None:
        config["asterisk"]["url"] = f"http://127.0.0.1:{self.asterisk.port}"
        config["cluster"]["nats"]["servers"] = [f"nats://127.0.0.1:{self.bus.port}"]
        config["cluster"]["lease_ms"] = 4_000  # it outlives the stalls of a busy machine
        config["mcp"]["servers"]["world"]["command"].append("3")  # seconds until the answer

    async def one_each(self) -> dict[str, Caller]:
        """A caller of each engine, by its node."""
        found: dict[str, Caller] = {}
        await self._rooms_known(found)
        for _ in range(3):
            caller = await self.town.call("desk")
            found[engine_of(caller).node] = caller
            await self._rooms_known(found)  # the next call goes by that
        assert sorted(found) == ["a", "b", "c"]
        return found

    async def _rooms_known(self, callers: Collection[str]) -> None:
        """Wait until the dialplan knows the room of each engine: it is one less in the nodes that
        have a caller."""
        rooms = [
            f"ROOM_cordboard-{engine.instance}={MOST - (node in callers)}|"
            for node, engine in self.town.engines.items()
        ]

        async def known() -> bool:
            said = await self.town.asterisk.cli("dialplan show globals")
            return all(room in said for room in rooms)

        await eventually(known, f"the dialplan has {rooms}")

    async def end(self, *callers: Caller) -> None:
        """All hang up, and nothing is left in Asterisk."""
        for caller in callers:
            caller.line.hangup()
        await assert_line_clean(self.town.asterisk)

    async def adopter(self, caller: Caller, since: float) -> Engine:
        """Wait until a caller hears another engine than the first one; return it."""
        await caller.line.hear_speech(after=since)
        others = [each for each in self.town.engines.values() if each is not caller.engine]
        found: list[Engine] = []

        async def adopted() -> bool:
            found[:] = [each for each in others if caller.call_id in each.calls]
            return len(found) == 1 and "call.adopted" in [
                line["type"] for line in lines_of(found[0], caller)
            ]

        await eventually(adopted, "one engine has adopted the call")
        return found[0]


def engine_of(caller: Caller) -> Engine:
    assert caller.engine is not None
    return caller.engine


def lines_of(engine: Engine, caller: Caller) -> list[dict[str, Any]]:
    """The ledger of a call in an engine."""
    return [dict(line) for line in read_lines(engine.calls[caller.call_id])]


async def replaced(engine: Engine) -> None:
    """Wait until an engine has ended because others have taken its calls."""
    assert await asyncio.wait_for(engine.process.wait(), PATIENCE) == REPLACED


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_faults() -> AsyncIterator[Faults]:
    async with (
        town() as place,
        Relay("127.0.0.1", place.nats.port) as bus,
        Relay("127.0.0.1", place.asterisk.http_port) as asterisk,
    ):
        yield Faults(place, bus, asterisk)


@pytest_asyncio.fixture(loop_scope="session")
async def faults(shared_faults: Faults) -> AsyncIterator[Faults]:
    await shared_faults.whole()
    yield shared_faults
    shared_faults.bus.mend()
    shared_faults.asterisk.mend()
    for line in shared_faults.town.phone.calls.values():
        line.hangup()


async def test_asterisk_restarts_and_every_engine_comes_back_as_it_was(faults):
    callers = await faults.one_each()
    instances = {node: engine.instance for node, engine in faults.town.engines.items()}
    await faults.town.asterisk.kill()

    async def ended() -> bool:
        return all(
            lines_of(engine_of(caller), caller)[-1]["type"] == "call.ended"
            for caller in callers.values()
        )

    await eventually(ended, "the calls have ended with their Asterisk")
    await faults.town.asterisk.start()
    await faults.town.together()
    assert {n: engine.instance for n, engine in faults.town.engines.items()} == instances
    for caller in callers.values():
        caller.line.hangup()
        assert lines_of(engine_of(caller), caller)[-1]["reason"] == "asterisk_lost"
    await faults.end(await faults.town.call("desk"))


async def test_a_caller_whom_a_stopped_engine_accepts_is_answered_by_another(faults):
    """Its application still accepts: such a caller rings until the others know that it is gone."""
    callers = await faults.one_each()
    stopped = engine_of(callers["b"])
    stopped.process.send_signal(signal.SIGSTOP)
    late = [await faults.town.dial("desk") for _ in range(3)]  # one for each, by their room
    began = time.monotonic()
    for caller in late:
        await caller.line.answered()
        await caller.line.hear_speech(after=-1.0)
    for caller in late:
        found = faults.town.where(caller.number)
        assert found is not None
        assert found[0] is not stopped
    await faults.adopter(callers["b"], began)
    stopped.process.send_signal(signal.SIGCONT)
    await replaced(stopped)
    assert {caller.line.state for caller in [*late, *callers.values()]} == {"answered"}
    await faults.end(*late, *callers.values())


async def test_an_engine_without_its_bus_and_one_without_its_asterisk_lose_their_callers(faults):
    """The third takes over those of both: one cannot keep its lease, the other gives it up. While
    nobody knows of the latter, it may be the first whose turn it is to take the former's caller."""
    callers = await faults.one_each()
    no_bus, no_asterisk = engine_of(callers["b"]), engine_of(callers["c"])
    began = time.monotonic()
    faults.bus.cut(no_bus.process.pid)
    faults.asterisk.cut(no_asterisk.process.pid)
    assert (await faults.adopter(callers["b"], began)).node == "a"
    await replaced(no_bus)

    async def withdrawn() -> bool:
        said = await faults.town.asterisk.cli("dialplan show globals")
        [engines] = [line for line in said.splitlines() if "CORDBOARD_ENGINES_" in line]
        return no_asterisk.instance not in engines

    await eventually(withdrawn, "the dialplan sends nobody to the engine without Asterisk")
    late = await faults.town.call("desk")
    assert engine_of(late).node == "a"
    assert (await faults.adopter(callers["c"], began)).node == "a"
    await replaced(no_asterisk)
    faults.bus.mend()
    faults.asterisk.mend()
    assert {caller.line.state for caller in [late, *callers.values()]} == {"answered"}
    await faults.end(late, *callers.values())


async def test_what_was_asked_of_a_destructive_tool_is_not_asked_twice_by_the_next_engine(faults):
    """The engine is killed while the tool works; the next agent asks for it at once again."""
    caller = await faults.town.call(SHOP)

    async with bus(faults.town.nats.settings, "cordboard") as seen:

        async def ordered() -> bool:
            lines = story_of(await seen.events.read(caller.call_id)).lines
            is_known = any(b'"type":"tool.asked"' in line for line in lines)
            return is_known and caller.call_id in faults.town.orders()

        await eventually(ordered, "the world has got the order, and the bus knows of it")
    began = time.monotonic()
    await engine_of(caller).kill()
    adopter = await faults.adopter(caller, began)

    async def refused() -> bool:
        rules = [line.get("rule") for line in lines_of(adopter, caller)]
        return "repeated" in rules

    await eventually(refused, "the firewall has refused a repetition")
    await faults.end(caller)
    assert faults.town.orders().count(caller.call_id) == 1
    lines = lines_of(adopter, caller)
    adopted = [line["type"] for line in lines].index("call.adopted")
    times = [line["at_ms"] for line in lines]
    assert min(times[adopted:]) >= max(times[:adopted]), "no clock turns the time back"
