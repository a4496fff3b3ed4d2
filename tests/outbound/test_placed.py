"""Single calls on the disk: a request that is sent again is the same call, whatever happened."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls.outbound_order import OutboundOrder, OutboundResult
from cordboard.errors import LineError, OutboundRefused
from cordboard.outbound import placed
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import CallWanted
from cordboard_testkit.child_process import start_child

from .test_placing import NOT_NOW, NUMBERS, Town

ID = "0f0e0d0c-0b0a-4908-8706-050403020100"
OTHER_ID = "1f0e0d0c-0b0a-4908-8706-050403020100"
WANTED = CallWanted(NUMBERS[0], "demo", call_id=ID)


async def test_a_call_is_known_by_its_id_to_the_next_engine(tmp_path: Path) -> None:
    town = Town(tmp_path / "c.db")
    assert await town.calls.place(WANTED) == ID
    await town.calls.ended(ID)
    await town.calls.close()

    after = Town(tmp_path / "c.db", outgoing={"hours": [NOT_NOW]})
    state = await after.calls.state(ID)
    assert state == OutboundResult(ID, "answered", "caller_hangup", "human", 20)
    assert await after.calls.place(CallWanted(NUMBERS[0], "demo", call_id=ID.upper())) == ID
    assert not after.dialled, "it was called twice"
    with pytest.raises(KeyError):
        await after.calls.state(str(uuid.uuid4()))


async def test_the_same_request_twice_at_once_is_one_call(tmp_path: Path) -> None:
    town = Town(tmp_path / "c.db")
    ids = await asyncio.gather(*(town.calls.place(WANTED) for _ in range(5)))
    assert (set(ids), town.dialled) == ({ID}, [NUMBERS[0]])


async def test_what_was_refused_or_found_no_line_may_be_sent_again(tmp_path: Path) -> None:
    town = Town(tmp_path / "c.db")

    def no_line(order: OutboundOrder, finished: Any) -> None:
        raise LineError("Asterisk cannot be reached now")

    for wrong, reason in (
        ({"_place": no_line}, "no_line"),
        ({"_config": lambda: town.config.model_copy(update={"contexts": {}})}, "unknown_context"),
    ):
        right = {name: getattr(town.calls, name) for name in wrong}
        for name, value in wrong.items():
            setattr(town.calls, name, value)
        with pytest.raises(OutboundRefused) as refused:
            await town.calls.place(WANTED)
        assert refused.value.reason == reason
        assert "demo" not in str(refused.value), "contexts are for those who may see them"
        with pytest.raises(KeyError):
            await town.calls.state(ID)
        assert not town.calls.live
        for name, value in right.items():
            setattr(town.calls, name, value)
    assert await town.calls.place(WANTED) == ID
    assert town.dialled == [NUMBERS[0]]


async def test_nothing_is_dialled_that_cannot_be_written_down(tmp_path: Path) -> None:
    town, file = Town(tmp_path / "c.db"), tmp_path / "c.db"
    assert await PlacedCalls(file).begin(str(uuid.uuid4()), "demo")
    with closing(sqlite3.connect(file)) as disk:
        disk.execute(
            "CREATE TRIGGER full BEFORE INSERT ON placed BEGIN"
            " SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        with pytest.raises(OutboundRefused, match="the disk is full") as refused:
            await town.calls.place(WANTED)
        assert (refused.value.reason, town.dialled, town.calls.live) == ("no_store", [], 0)
        disk.execute("DROP TRIGGER full")
        assert await town.calls.place(WANTED) == ID


async def test_the_newest_calls_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "MOST_CALLS", 3)
    book = PlacedCalls(tmp_path / "c.db")
    ids = [str(uuid.uuid4()) for _ in range(5)]
    for each in ids:
        assert await book.begin(each, "demo")
    assert not await book.begin(ids[-1], "demo")
    kept = []
    for each in ids:
        with suppress(KeyError):
            await book.find(each)
            kept.append(each)
    assert kept == ids[2:]


async def test_a_call_of_another_engine_lives_until_that_engine_is_gone(tmp_path: Path) -> None:
    one, other = Town(tmp_path / "c.db"), Town(tmp_path / "c.db")
    finish: list[Callable[[], None]] = []

    def talk(order: OutboundOrder, finished: Callable[[OutboundResult], None]) -> None:
        result = OutboundResult(order.call_id, "answered", "caller_hangup", "human", 20)
        finish.append(lambda: finished(result))

    one.calls._place = talk
    await one.calls.place(WANTED)
    assert await other.calls.state(ID) is None
    assert await other.calls.place(WANTED) == ID
    assert not other.dialled, "it was called twice"
    finish.pop()()
    await one.calls.close()
    state = await other.calls.state(ID)
    assert state is not None
    assert state.outcome == "answered"

    await one.calls.place(CallWanted(NUMBERS[0], "demo", call_id=OTHER_ID))
    assert await other.calls.state(OTHER_ID) is None
    await one.calls.close()  # the engine stops in the middle of the call
    assert await other.calls.state(OTHER_ID) == OutboundResult(
        OTHER_ID, "interrupted", "engine_killed"
    )


async def test_an_end_that_the_disk_refused_is_written_later(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    town, other = Town(file), Town(file)
    assert await PlacedCalls(file).begin(str(uuid.uuid4()), "demo")
    with closing(sqlite3.connect(file)) as disk:
        disk.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON placed BEGIN"
            " SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        await town.calls.place(WANTED)
        await town.calls.ended(ID)
        await asyncio.wait(town.calls._writing)
        assert await other.calls.state(ID) is None
        disk.execute("DROP TRIGGER full")
    await town.calls.close()
    state = await other.calls.state(ID)
    assert state is not None
    assert state.outcome == "answered"


@pytest.mark.parametrize("at", ["begin", "dial"])
async def test_the_id_of_a_call_that_was_given_up_is_free(tmp_path: Path, at: str) -> None:
    town, other = Town(tmp_path / "c.db"), Town(tmp_path / "c.db")
    if at == "begin":
        begun, go_on, begin = asyncio.Event(), asyncio.Event(), town.calls._book.begin

        async def slow(call_id: str, context: str) -> bool:
            is_new = await begin(call_id, context)
            begun.set()
            await go_on.wait()
            return is_new

        town.calls._book.begin = slow  # type: ignore[method-assign]
        placing = asyncio.create_task(town.calls.place(WANTED))
        await begun.wait()
        placing.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await placing
    else:
        right, town.calls._place = town.calls._place, broken
        with pytest.raises(ZeroDivisionError):
            await town.calls.place(WANTED)
        town.calls._place = right
    assert not town.dialled
    for calls in (town.calls, other.calls):
        with pytest.raises(KeyError):
            await calls.state(ID)
    assert await town.calls.place(WANTED) == ID
    assert town.dialled == [NUMBERS[0]]


def broken(order: OutboundOrder, finished: Callable[[OutboundResult], None]) -> None:
    raise ZeroDivisionError


async def test_a_number_that_is_blocked_while_its_call_is_written_down_is_not_dialled(
    tmp_path: Path,
) -> None:
    town = Town(tmp_path / "c.db")
    begin = town.calls._book.begin

    async def begin_and_block(call_id: str, context: str) -> bool:
        town.blocked.add(NUMBERS[0])
        return await begin(call_id, context)

    town.calls._book.begin = begin_and_block  # type: ignore[method-assign]
    with pytest.raises(OutboundRefused) as refused:
        await town.calls.place(WANTED)
    assert (refused.value.reason, town.dialled) == ("do_not_call", [])
    town.blocked.clear()
    town.calls._book.begin = begin  # type: ignore[method-assign]
    assert await town.calls.place(WANTED) == ID


async def test_a_table_of_an_earlier_version_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    with closing(sqlite3.connect(file)) as disk:
        disk.execute(
            "CREATE TABLE placed (id INTEGER PRIMARY KEY, call_id TEXT NOT NULL UNIQUE,"
            " began REAL NOT NULL, ended REAL, outcome TEXT NOT NULL DEFAULT '',"
            " answer TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',"
            " duration_ms INTEGER NOT NULL DEFAULT 0)"
        )
        disk.execute("INSERT INTO placed (call_id, began) VALUES (?, 1.0)", (OTHER_ID,))
        disk.commit()
    town = Town(file)
    state = await town.calls.state(OTHER_ID)
    assert state is not None
    assert state.outcome == "interrupted"
    assert await town.calls.place(WANTED) == ID


ENGINE = '''
import asyncio, pathlib, sys
from cordboard.calls.outbound_order import OutboundResult
from cordboard.config.load import read
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import CallWanted, OutboundCalls

folder = pathlib.Path(sys.argv[1])
config = read("""
contexts: {demo: {greeting: Hello.}}
outbound: {enabled: true, max_calls: 20}
firewall: {country: "NO", allow: ["+470*"]}
""", folder / "x.yaml", {}).config
dialled = open(folder / "dialled.txt", "a", buffering=1)

def place(order, finished):
    dialled.write(order.number + "\\n")
    loop = asyncio.get_running_loop()
    loop.call_later(0.005, finished, OutboundResult(order.call_id, "answered", "", "human", 20))

async def main():
    policy, path = Policy(config.firewall), folder / "c.db"
    blocked, book = CallbackQueue(path).is_blocked, PlacedCalls(path)
    calls = OutboundCalls(lambda: config, place, lambda: policy, Counts(), blocked, book)
    for line in (folder / "requests.txt").read_text().splitlines():
        call_id, number = line.split()
        await calls.place(CallWanted(number, "demo", call_id=call_id))
    await asyncio.Event().wait()

asyncio.run(main())
'''


async def test_a_killed_engine_calls_no_number_twice_when_all_is_sent_again(
    tmp_path: Path,
) -> None:
    requests = {str(uuid.uuid4()): f"+479{number:07d}" for number in range(1, 61)}
    lines = [f"{call_id} {number}\n" for call_id, number in requests.items()]
    (tmp_path / "requests.txt").write_text("".join(lines))
    (tmp_path / "engine.py").write_text(ENGINE)
    dice, dialled = random.Random(5), tmp_path / "dialled.txt"
    dialled.touch()
    for _ in range(4):
        command = [sys.executable, str(tmp_path / "engine.py"), str(tmp_path)]
        engine = await start_child(command, folder=tmp_path, output=tmp_path / "log.txt")
        before, until = len(dialled.read_text().split()), time.monotonic() + 60
        wanted = min(before + dice.randint(5, 14), len(requests) - 4)
        while len(dialled.read_text().split()) < wanted:
            assert time.monotonic() < until, (tmp_path / "log.txt").read_text()
            await asyncio.sleep(0.002)
        engine.send_signal(signal.SIGKILL)
        await engine.wait()
    called = Counter(dialled.read_text().split())
    assert max(called.values()) == 1, called.most_common(3)
    book = PlacedCalls(tmp_path / "c.db")
    for call_id, number in requests.items():
        try:
            state = await book.find(call_id)
        except KeyError:
            outcome = ""
        else:
            assert state is not None, "its engine was killed"
            outcome = state.outcome
        assert outcome in (("answered", "interrupted") if number in called else ("", "interrupted"))
