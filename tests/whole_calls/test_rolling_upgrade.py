"""Engines that are stopped for an upgrade: their calls go on in others, in a pause of speech, and
the callers notice nothing. Real engines, Asterisk and NATS; recogniser and model are emulated."""

from __future__ import annotations

import asyncio
import math
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from tests.cluster.nats_server import NatsServer

from cordboard.telephony.asterisk.dialplan import dialplan
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.child_process import start_child
from cordboard_testkit.emulators.deepgram.listen import DeepgramListenEmulator
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Script
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone

from .configuration import REPOSITORY
from .conftest import Speech, eventually, http_request
from .test_cluster import CORDBOARD, NUMBER, Call, EngineProcess, Town, configuration

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]

SLOW_NUMBER = "701"
"""Its agent starts when the file `UpgradeTown.gate` is there: a look-up before the call waits for
it."""
KEY = "key-of-the-tests"
SCRIPT = Script(
    answers=(
        Answer("Thank you, Ada, I have noted your name.", heard="My name is Ada."),
        Answer("You have told me that you are Ada.", heard="What is my name?"),
    ),
    otherwise=Answer("I have nothing more to say.", heard="And now?"),
)
SAID = ("agent.audio_started", "agent.audio_ended", "agent.interrupted", "call.ended")
"""Events of the ledger: the agent begins to be heard, or has come to an end."""
QUESTION = "What is my name, please?"
"""What the recogniser understands is in the script."""


@dataclass
class UpgradeTown(Town):
    """Engines with an emulated recogniser and model."""

    listen: DeepgramListenEmulator = field(kw_only=True)
    think: OpenAITextEmulator = field(kw_only=True)
    speech: Speech = field(kw_only=True)

    @property
    def gate(self) -> Path:
        return self.folder.with_name("gate")

    async def _start(self, node: str) -> EngineProcess:
        folder = self.folder / f"{node}-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        config = configuration(node, self.asterisk, self.nats, folder)
        config["calls"]["shutdown_grace_ms"] = 30_000
        config["providers"]["local"] |= {
            "stt": {"type": "deepgram", "base_url": self.listen.url, "api_key": KEY},
            "brain": {"type": "openai_chat", "base_url": self.think.url, "api_key": KEY},
        }
        desk = {**config["contexts"]["desk"], "prompt": "You are a desk."}
        del desk["rules"]
        config["contexts"] = {
            "desk": desk,
            "slow": {
                **desk,
                "prompt": "You are a desk. {found}",  # so the agent waits for it
                "pre_call": [
                    {"tool": "look", "arguments": {"path": str(self.gate)}, "save_as": "found"}
                ],
                "pre_call_timeout_ms": 30_000,
            },
        }
        config["mcp"] = {
            "servers": {
                "patience": {
                    "command": [
                        sys.executable,
                        "-m",
                        "cordboard_testkit.mcp_servers.faulty",
                        "good",
                    ],
                    "start_timeout_ms": 60_000,
                    "defaults": {"timeout_ms": 60_000},
                    "tools": [{"name": "waits_for_file", "expose_as": "look"}],
                }
            }
        }
        (folder / "engine.yaml").write_bytes(orjson.dumps(config))
        process = await start_child(
            [*CORDBOARD, "run", "--config", str(folder / "engine.yaml")],
            folder=REPOSITORY,
            output=folder / "engine.log",
        )
        return EngineProcess(node, folder, config["health"]["port"], process)

    async def whole(self) -> None:
        await super().whole()

        async def tools_are_there() -> bool:
            states = [await each.health() for each in self.engines.values()]
            return all(each["mcp_servers"]["patience"]["state"] == "ready" for each in states)

        await eventually(tools_are_there, "the look-ups")

    async def greeted(self, number: str = NUMBER) -> Call:
        """Call, and hear the greeting to its end."""
        caller = str(next(self.numbers))
        line = await self.phone.call(self.asterisk.sip_uri(number), caller_number=caller)
        await line.hear_speech(after=-math.inf)
        engine = await self.engine_of(caller)
        call = Call(caller, line, engine, engine.call_of(caller))
        await self.hear_out(call)
        return call

    async def ask(self, call: Call) -> None:
        """Ask something, and hear the answer to its end."""
        call.line.say(await self.speech.say(QUESTION))
        await call.line.hear_speech(after=await call.line.said())
        await self.hear_out(call)

    async def hear_out(self, call: Call) -> None:
        """Until no engine speaks in a call, by its ledger, and the phone has heard that, however
        long the agent pauses in between."""

        async def silent() -> bool:
            for engine in self.engines.values():
                heard = [
                    each for each in kinds(engine.calls().get(call.call_id, [])) if each in SAID
                ]
                if heard and heard[-1] == SAID[0]:
                    return False
            return True

        while True:
            await eventually(silent, f"the end of the answer to {call.number}")
            await call.line.hear_silence(700)
            if await silent():
                return

    async def command(self, engine: EngineProcess, *words: str) -> str:
        """Run a command of the program with the configuration of an engine."""
        process = await asyncio.create_subprocess_exec(
            *CORDBOARD,
            *words,
            "--config",
            str(engine.folder / "engine.yaml"),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        return said.decode()

    async def owner(self, call: Call) -> EngineProcess | None:
        """The engine that has a call, by its record; None if none of them has."""
        owners = {record.call_id: record.owner for record in await self.records()}
        for engine in self.engines.values():
            if engine.alive:
                instance = (await engine.health())["cluster"]["instance"]
                if owners.get(call.call_id) == instance:
                    return engine
        return None

    async def moved(self, call: Call) -> EngineProcess:
        """Wait until another engine has a call, and its first one has not; return it."""
        found: list[EngineProcess] = []

        async def elsewhere() -> bool:
            engine = await self.owner(call)
            if engine is None or engine is call.engine:
                return False
            found.append(engine)
            lines = call.engine.calls()[call.call_id]
            return lines[-1]["type"] == "call.ended"

        await eventually(elsewhere, "the call goes on in another engine")
        return found[-1]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_town(
    tmp_path_factory: pytest.TempPathFactory, speech: Speech
) -> AsyncIterator[UpgradeTown]:
    lines = dialplan(["desk", "slow"], {NUMBER: "desk", SLOW_NUMBER: "slow"}, shared=True)
    extra = "\n[from-test-extra]\ninclude => from-internal\n"
    with NatsServer() as nats:
        async with (
            AsteriskInstance(dialplan=extra + lines) as asterisk,
            SipPhone() as phone,
            DeepgramListenEmulator(SCRIPT, key=KEY) as listen,
            OpenAITextEmulator(SCRIPT, key=KEY) as think,
        ):
            folder = tmp_path_factory.mktemp("upgrade")
            town = UpgradeTown(
                asterisk, nats, folder, phone, listen=listen, think=think, speech=speech
            )
            try:
                yield town
            finally:
                for engine in town.engines.values():
                    await engine.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def town(shared_town: UpgradeTown) -> UpgradeTown:
    """Three engines that take calls; one that a failed test has left in another state is
    replaced."""
    for line in shared_town.phone.calls.values():  # of a failed test, too
        line.hangup()
    for engine in shared_town.engines.values():
        if engine.alive and (await http_request(engine.port, "/ready", "GET", {}))[0] != 200:
            await engine.kill()
    await shared_town.whole()
    return shared_town


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [line["type"] for line in lines]


async def test_a_call_goes_on_elsewhere_in_a_pause_and_its_caller_hears_no_word_of_it(town):
    call = await town.greeted()
    await town.ask(call)
    old = call.engine
    instance = (await old.health())["cluster"]["instance"]
    said = await town.command(old, "cluster", "drain", old.node, "--hand-over", "--wait")
    assert "takes no new calls" in said
    new = await town.moved(call)
    assert (await old.health())["active_calls"] == []
    await town.ask(call)
    # The model has the whole conversation, and nothing else was said.
    messages = town.think.asked[-1]["messages"]
    words = [str(each["content"]) for each in messages if each["role"] != "system"]
    assert any("Ada, I have noted" in each for each in words)
    assert not any("dropped" in str(each) for each in messages)
    record = next(each for each in await town.records() if each.call_id == call.call_id)
    assert record.handing_over_to == ""
    left = await town.asterisk.cli("core show channels concise")
    assert f"cordboard-cordboard-{instance}-{call.call_id}" not in left
    await town.end([call])

    first, whole = old.ledger(call), new.ledger(call)
    lines = [orjson.loads(line) for line in whole]
    begins = kinds(lines).index("call.adopted")
    assert lines[begins]["engine"] == instance
    assert lines[begins]["handed_over"]
    assert lines[begins]["epoch"] > 0
    assert whole[:begins] == first[:begins]
    assert lines[begins]["at_ms"] >= max(each["at_ms"] for each in lines[:begins])
    spoken = [each["text"] for each in lines if each["type"] == "agent.text"]
    assert spoken[0].startswith("Good day")
    assert len(spoken) == 3
    assert "dropped" not in " ".join(spoken)
    assert "agent.cut_off" not in kinds(lines)
    ended = orjson.loads(first[-1])
    assert (ended["outcome"], ended["reason"]) == ("moved", "handed_over")
    assert lines[-1]["reason"] == "caller_hangup"
    await town.has_story(call, whole)
    await town.command(old, "cluster", "undrain", old.node)


async def test_an_engine_that_is_told_to_stop_hands_its_calls_over_and_ends(town):
    calls = [await town.greeted() for _ in range(3)]
    stopped = calls[0].engine
    theirs = [call for call in calls if call.engine is stopped]
    instance = (await stopped.health())["cluster"]["instance"]
    stopped.send(signal.SIGTERM)
    assert await asyncio.wait_for(stopped.process.wait(), PATIENCE) == 0
    for call in theirs:
        new = await town.moved(call)
        assert kinds(new.calls()[call.call_id]).count("call.adopted") == 1
    assert [call.line.state for call in calls] == ["answered"] * 3
    await town.nothing_left_of(instance)
    for call in theirs:
        await town.ask(call)
    await town.end(calls)


async def test_a_caller_stays_whose_next_engine_dies_while_it_makes_itself_ready(town):
    town.gate.touch()
    call = await town.greeted(SLOW_NUMBER)
    town.gate.unlink()
    old = call.engine
    order = asyncio.create_task(town.command(old, "cluster", "drain", old.node, "--hand-over"))
    others = [each for each in town.engines.values() if each is not old]
    found: list[EngineProcess] = []

    async def makes_ready() -> bool:
        for each in others:
            active = (await each.health())["active_calls"]
            if call.call_id in [one["call_id"] for one in active]:
                found.append(each)
        return bool(found)

    await eventually(makes_ready, "an engine makes the call ready")
    died = found[0]
    await died.kill()
    town.gate.touch()
    await order
    assert call.line.state == "answered"
    assert not died.call_of(call.number), "it has written nothing of a call that never came"
    new = await town.moved(call)
    assert new is not died
    await town.ask(call)
    assert kinds(new.calls()[call.call_id]).count("call.adopted") == 1
    await town.command(old, "cluster", "undrain", old.node)
    await town.end([call])
