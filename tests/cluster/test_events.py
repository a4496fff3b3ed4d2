"""Events of calls to the bus: each once, in order, whatever happens to the bus and the engine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.fake_bus import FakeJournal
from tests.cluster.nats_server import NatsServer, bus

from cordboard.cluster.bus import Journal, Message
from cordboard.cluster.events import LONGEST_LINE, EventSink, Story, story_of
from cordboard.cluster.unsent import UnsentNotes, abandoned
from cordboard.cluster.wire import EventBatch, encode_batch
from cordboard.errors import BusAway
from cordboard_testkit.patience import until


class Call:
    """A call with its ledger on disk, as `cordboard.calls.ledger` writes it."""

    def __init__(self, sink: EventSink, directory: Path, call_id: str = "c1") -> None:
        self.call_id = call_id
        self.path = directory / "2026-11-24" / f"{call_id}.jsonl"
        self.path.parent.mkdir(exist_ok=True, parents=True)
        self.lines: list[bytes] = []
        self._sink = sink

    def open(self, epoch: int | None = 5, story: Story | None = None) -> Call:
        self._sink.open(self.call_id, lambda: self.path, story)
        if story is not None:
            self.lines += story.lines
            self.path.write_bytes(b"".join(story.lines))
        if epoch is not None:
            self._sink.owned(self.call_id, epoch)
        return self

    def say(self, count: int = 1, *, size: int = 10) -> None:
        for _ in range(count):
            line = b'{"at_ms":%d,"text":"%s"}\n' % (len(self.lines), b"x" * size)
            self.lines.append(line)
            with self.path.open("ab") as file:
                file.write(line)
            self._sink.take(self.call_id, line)

    def end(self) -> None:
        self.say()
        self._sink.close(self.call_id)


@asynccontextmanager
async def sinking(
    journal: Journal,
    directory: Path,
    instance: str = "a-1",
    fenced: Callable[[str], None] = lambda call_id: None,
    most_waiting: int = 16_000_000,
) -> AsyncIterator[EventSink]:
    notes = UnsentNotes(directory, instance)
    assert notes.lock()
    sink = EventSink(journal, notes, fenced=fenced, most_waiting=most_waiting)
    task = asyncio.create_task(sink.run())
    try:
        yield sink
    finally:
        task.cancel()
        await asyncio.wait([task])
        notes.close()


async def idle(sink: EventSink) -> None:
    async with asyncio.timeout(60):
        await sink.idle()


async def test_what_is_said_together_leaves_together(tmp_path: Path) -> None:
    journal = FakeJournal()
    async with sinking(journal, tmp_path) as sink:
        calls = [Call(sink, tmp_path, f"c{number}").open() for number in range(3)]
        for call in calls:
            call.say(5)
        assert (tmp_path / "unsent").is_dir()
        await until(lambda: len(journal.messages) == 3)
        assert [len(messages) for messages in journal.messages.values()] == [1, 1, 1]
        for call in calls:
            call.end()
        await idle(sink)
        for call in calls:
            assert (await sink.read(call.call_id)).lines == tuple(call.lines)
        assert sink.waiting_bytes == sink.unsent_calls == 0
    assert not list((tmp_path / "unsent").iterdir())


async def test_an_urgent_line_does_not_wait_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool with effects is asked: an engine that dies a moment later has told the others."""
    monkeypatch.setattr("cordboard.cluster.events.BATCH_SECONDS", 3_600)
    async with sinking(FakeJournal(), tmp_path) as sink:
        call = Call(sink, tmp_path).open()
        call.say(2)
        sink.hurry()
        await idle(sink)
        assert (await sink.read("c1")).lines == tuple(call.lines)
        call.say(1)
        call.end()
        await asyncio.sleep(0.05)
        assert len((await sink.read("c1")).lines) == 2
        sink.hurry()
        await idle(sink)
        assert (await sink.read("c1")).lines == tuple(call.lines)


async def test_lines_wait_until_the_bus_knows_the_owner(tmp_path: Path) -> None:
    journal = FakeJournal()
    async with sinking(journal, tmp_path) as sink:
        call = Call(sink, tmp_path).open(epoch=None)
        call.say(3)
        await asyncio.sleep(0.5)
        assert journal.messages == {}
        sink.owned("c1", 7)
        call.end()
        await idle(sink)
        assert await sink.read("c1") == Story(tuple(call.lines), 1, 7)


async def test_a_lost_answer_stores_nothing_twice(tmp_path: Path) -> None:
    journal = FakeJournal()
    async with sinking(journal, tmp_path) as sink:
        call = Call(sink, tmp_path).open()
        journal.loses_answers = True
        call.say(3)
        await until(lambda: bool(journal.messages))
        call.say(3)
        await asyncio.sleep(0.8)
        journal.loses_answers = False
        call.end()
        await idle(sink)
        assert (await sink.read("c1")).lines == tuple(call.lines)
        assert sum(map(len, journal.messages.values())) == 2


async def test_beyond_the_memory_lines_are_read_from_the_ledger_again(tmp_path: Path) -> None:
    journal = FakeJournal()
    journal.away = True
    async with sinking(journal, tmp_path, most_waiting=1_000) as sink:
        calls = [Call(sink, tmp_path, f"c{number}").open() for number in range(3)]
        for _ in range(40):
            for call in calls:
                call.say()
        await asyncio.sleep(0.5)
        for call in calls:
            call.say(1_200)
        assert sink.waiting_bytes <= 1_000
        journal.away = False
        for call in calls:
            call.end()
        await idle(sink)
        for call in calls:
            assert (await sink.read(call.call_id)).lines == tuple(call.lines)
        assert sink.waiting_bytes == 0


async def test_a_line_that_no_message_can_carry_is_replaced(tmp_path: Path) -> None:
    journal = FakeJournal()
    journal.away = True
    async with sinking(journal, tmp_path, most_waiting=100) as sink:
        call = Call(sink, tmp_path).open()
        call.say(2)
        call.say(size=LONGEST_LINE)
        call.say(2)
        call.say(size=3 * LONGEST_LINE)
        journal.away = False
        call.end()
        await idle(sink)
        lines = (await sink.read("c1")).lines
        assert [len(line) > 1_000 for line in call.lines].count(True) == 2
        assert len(lines) == len(call.lines)
        for sent, written in zip(lines, call.lines, strict=True):
            assert sent == written if len(written) < 1_000 else b"ledger.gap" in sent


async def test_the_new_owner_goes_on_and_the_old_one_is_fenced(tmp_path: Path) -> None:
    journal = FakeJournal()
    fenced: list[str] = []
    async with (
        sinking(journal, tmp_path, "a-1", fenced.append) as old,
        sinking(journal, tmp_path / "elsewhere", "b-1") as new,
    ):
        call = Call(old, tmp_path).open(epoch=5)
        call.say(10)
        await idle(old)
        story = await new.read("c1")
        adopted = Call(new, tmp_path / "elsewhere").open(epoch=9, story=story)
        adopted.say(5)
        await idle(new)
        call.say(5)  # it wakes, and does not know yet
        await until(lambda: fenced == ["c1"])
        await idle(old)
        adopted.end()
        await idle(new)
        assert (await new.read("c1")).lines == tuple(adopted.lines)
        assert old.waiting_bytes == 0
    assert not list((tmp_path / "unsent").iterdir())


async def test_what_an_old_owner_wrote_after_the_new_one_had_read_does_not_count() -> None:
    def batch(epoch: int, first: int, *lines: bytes) -> Message:
        text = b"".join(line + b"\n" for line in lines)
        return Message(encode_batch(EventBatch("c", epoch, first, len(lines), 0, 9, text)), first)

    late = batch(5, 3, b"late", b"later")
    messages = [batch(5, 1, b"one", b"two"), late, batch(9, 3, b"three"), batch(5, 5, b"latest")]
    assert story_of([*messages, batch(9, 4, b"four")]).lines == (
        b"one\n", b"two\n", b"three\n", b"four\n",
    )  # fmt: skip
    assert story_of(messages).lines == (b"one\n", b"two\n", b"three\n")
    poisoned = [messages[0], Message(b"poison", 7), batch(5, 4, b"four"), batch(5, 10**12, b"far")]
    assert [b"ledger.gap" in line for line in story_of(poisoned).lines] == [
        False, False, True, False,
    ]  # fmt: skip


async def test_the_next_engine_sends_the_rest_of_calls_that_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.cluster.events.OVER_SECONDS", 0.2)
    journal = FakeJournal()
    async with sinking(journal, tmp_path) as sink:
        calls = [Call(sink, tmp_path, f"c{number}").open() for number in range(4)]
        for call in calls:
            call.say(10)
        await idle(sink)
        journal.away = True
        for call in calls:
            call.say(700)
        await asyncio.sleep(0.5)
    # The engine was killed. The ledgers have got their ends; c3 was adopted, c2's ledger is erased.
    journal.away = False
    for call in calls:
        call.lines.append(b'{"type":"call.ended"}\n')
        with call.path.open("ab") as file:
            file.write(call.lines[-1])
    calls[2].path.unlink()
    adopters = encode_batch(EventBatch("c3", 9, 11, 1, 0, 9, b"{}\n"))
    await journal.append("c3", adopters, last=journal.messages["c3"][-1].revision)
    async with sinking(journal, tmp_path, "a-2") as sink:
        left = list(abandoned(tmp_path))
        assert len(left) == 1
        over = {"c0", "c2", "c3"}

        async def is_over(call_id: str) -> bool:
            return call_id in over

        recovering = asyncio.create_task(sink.recover(left, is_over))
        await until(lambda: len(journal.messages["c0"]) >= 3)
        await idle(sink)
        assert (await sink.read("c0")).lines == tuple(calls[0].lines)
        assert (await sink.read("c2")).lines == tuple(calls[2].lines[:10])
        assert len((await sink.read("c3")).lines) == 11
        assert len((await sink.read("c1")).lines) == 10
        over.add("c1")
        await recovering
        await idle(sink)
        assert (await sink.read("c1")).lines == tuple(calls[1].lines)
        for each in left:
            each.close()
    assert not list((tmp_path / "unsent").iterdir())


async def test_a_living_engine_in_the_same_directory_is_left_alone(tmp_path: Path) -> None:
    async with sinking(FakeJournal(), tmp_path) as sink:
        Call(sink, tmp_path).open().say()
        await idle(sink)
        assert list(abandoned(tmp_path)) == []


async def test_full_disks_do_not_keep_lines_from_the_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    async with sinking(FakeJournal(), tmp_path) as sink:
        monkeypatch.setattr("cordboard.private_files.replace", full)
        call = Call(sink, tmp_path).open()
        call.say(3)
        call.end()
        await idle(sink)
        assert (await sink.read("c1")).lines == tuple(call.lines)


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


async def talk(calls: list[Call], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until_then = loop.time() + seconds
    while loop.time() < until_then:
        for call in calls:
            call.say()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("fault", ["stop", "kill"])
async def test_six_seconds_without_a_real_server(
    server: NatsServer, tmp_path: Path, fault: str
) -> None:
    async with (
        bus(server.settings, patient=False) as found,
        sinking(found.events, tmp_path) as sink,
    ):
        calls = [Call(sink, tmp_path, f"c{number}").open() for number in range(5)]
        await talk(calls, 0.5)
        server.stop() if fault == "stop" else server.kill()
        await talk(calls, 6)
        assert sink.unsent_calls == 5
        server.go_on() if fault == "stop" else server.start()
        await talk(calls, 0.5)
        for call in calls:
            call.end()
        await idle(sink)
        for call in calls:
            assert (await sink.read(call.call_id)).lines == tuple(call.lines)


async def test_fifty_random_outages_lose_and_repeat_nothing(
    server: NatsServer, tmp_path: Path
) -> None:
    """Stopped or killed at any moment, for up to 0.2 s; memory for some lines only."""
    dice = random.Random(20261124)
    async with (
        bus(server.settings, patient=False) as found,
        sinking(found.events, tmp_path, most_waiting=3_000) as sink,
    ):
        calls = [Call(sink, tmp_path, f"c{number}").open() for number in range(5)]
        for _ in range(50):
            await talk(calls, dice.uniform(0, 0.15))
            killed = dice.random() < 0.3
            server.kill() if killed else server.stop()
            await talk(calls, dice.uniform(0, 0.2))
            await asyncio.to_thread(server.start) if killed else server.go_on()
        for call in calls:
            call.end()
        await idle(sink)
        for call in calls:
            assert (await sink.read(call.call_id)).lines == tuple(call.lines)


async def test_a_server_that_is_behind_is_not_believed(tmp_path: Path) -> None:
    journal = FakeJournal()
    async with sinking(journal, tmp_path) as sink:
        Call(sink, tmp_path).open().say()
        await idle(sink)
        journal.behind = 1
        with pytest.raises(BusAway, match="behind"):
            await sink.read("c1")


async def test_reading_says_when_the_bus_is_away(tmp_path: Path) -> None:
    journal = FakeJournal()
    journal.away = True
    async with sinking(journal, tmp_path) as sink:
        with pytest.raises(BusAway):
            await sink.read("c1")
