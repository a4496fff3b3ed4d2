"""The queue of campaigns: attempts, pauses, hours, the do-not-call list, and an engine that is
killed at any moment."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cordboard.calls.outbound_order import OutboundResult
from cordboard.config.schema import Config
from cordboard.errors import CampaignRefused, StoreUnavailable
from cordboard.outbound.campaigns import store as store_module
from cordboard.outbound.campaigns.making import CampaignMade, make_campaign
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore, forget_person
from cordboard_testkit.child_process import start_child

MONDAY_NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
ALWAYS = {"hours": "00:00-23:59", "days": "mon-sun"}


def people(*numbers: int, zone: str = "Europe/Oslo") -> list[Row]:
    return [Row(number, f"+479{number:07d}", zone, {"name": "Kari"}) for number in numbers]


def running(store: CampaignStore, settings: CampaignSettings, rows: list[Row]) -> None:
    campaign = store.add("spring", settings)
    assert not list(store.add_people(campaign, rows))
    store.set_state("spring", "running")


def call(store: CampaignStore, outcome: str, now: float = MONDAY_NOON, answer: str = "") -> str:
    [claimed] = store.claim(1, now)
    assert store.begin(claimed.call_id)
    store.finish(OutboundResult(claimed.call_id, outcome, "", answer, 1000), now)
    return claimed.number


@pytest.mark.parametrize("error", [KeyboardInterrupt(), sqlite3.OperationalError("disk is full")])
def test_a_list_that_is_not_read_to_its_end_makes_no_campaign(
    tmp_path: Path, error: BaseException
) -> None:
    config = Config.model_validate({"contexts": {"demo": {}}, "firewall": {"country": "NO"}})
    path = tmp_path / "campaigns.sqlite3"

    def make(*end: bytes) -> CampaignMade:
        def lines() -> Iterator[bytes]:
            yield b"number\n"
            yield from (b"+4722%06d\n" % number for number in range(store_module.BATCH + 1))
            if not end:
                raise error
            yield from end

        return make_campaign(path, config, "spring", CampaignSettings("demo"), "", lines(), print)

    refused = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else CampaignRefused
    with pytest.raises(refused):
        make()
    with closing(CampaignStore(path)) as store:
        assert store.status() == []
    assert make(b"+4723000000\n") == CampaignMade(store_module.BATCH + 2, 0)


def test_who_does_not_answer_is_called_again_after_the_pause(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        running(store, CampaignSettings("demo", attempts=2, retry_minutes=60), people(1))
        call(store, "no_answer")
        assert not store.claim(5, MONDAY_NOON + 59 * 60)
        call(store, "busy", MONDAY_NOON + 61 * 60)
        assert not store.claim(5, MONDAY_NOON + 5 * 3600), "two attempts are all"
        [row] = store.results("spring")
        assert (row["state"], row["outcome"], row["attempts"]) == ("done", "busy", 2)


def test_an_answer_ends_it_and_a_second_number_is_refused(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        running(store, CampaignSettings("demo", attempts=3), people(1))
        twice = list(store.add_people(1, people(1, 2)))
        assert [row.number for row in twice] == ["+4790000001"]
        call(store, "answered", answer="voicemail")
        call(store, "answered", answer="human")
        assert not store.claim(5, MONDAY_NOON)
        with pytest.raises(CampaignRefused, match="already"):
            store.add("spring", CampaignSettings("demo"))


def test_a_cancelled_campaign_calls_nobody_any_more(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        settings = CampaignSettings("demo", attempts=3, concurrency=3)
        running(store, settings, people(1, 2, 3, 4))
        call(store, "busy")
        first, second = store.claim(2, MONDAY_NOON)
        assert store.begin(first.call_id)
        store.cancel("spring")
        assert not store.begin(second.call_id), "it was claimed only"
        store.finish(OutboundResult(first.call_id, "no_answer"), MONDAY_NOON)
        assert not store.claim(9, MONDAY_NOON + 86_400)
        assert [
            (row["state"], row["outcome"], row["reason"], bool(row["call_id"]))
            for row in store.results("spring")
        ] == [
            ("done", "busy", "", True),
            ("done", "no_answer", "", True),
            ("done", "not_called", "campaign_cancelled", False),
            ("done", "not_called", "campaign_cancelled", False),
        ]
        store.cancel("spring")
        with pytest.raises(CampaignRefused, match="is cancelled"):
            store.set_state("spring", "running")
        with pytest.raises(CampaignRefused, match="there is no campaign 'summer'"):
            store.cancel("summer")
        later = people(9)[0]
        assert store.promise("spring", settings, later, MONDAY_NOON)
        [promised] = store.claim(9, MONDAY_NOON)
        assert promised.number == later.number, "a promise made later is kept"


def test_a_call_that_is_refused_after_the_cancellation_waits_for_no_other(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "campaigns.sqlite3")) as store:
        running(store, CampaignSettings("demo", attempts=3, **ALWAYS), people(1, 2))
        [claimed] = store.claim(1, MONDAY_NOON)
        assert store.begin(claimed.call_id)
        store.cancel("spring")
        store.give_back(claimed.call_id, 30, MONDAY_NOON, "busy")
        assert store.status("spring")[0]["people"] == {"not_called": 2}


@pytest.mark.parametrize("state", ["paused", "cancelled"])
def test_nobody_is_called_after_a_pause_though_they_are_claimed(tmp_path: Path, state: str) -> None:
    with closing(CampaignStore(tmp_path / "campaigns.sqlite3")) as store:
        running(store, CampaignSettings("demo", concurrency=2, **ALWAYS), people(1, 2))
        first, second = store.claim(2, MONDAY_NOON)
        assert store.begin(first.call_id)
        store.set_state("spring", state)
        assert not store.begin(second.call_id)
        assert store.status("spring")[0]["people"] == {"dialling": 1, "pending": 1}
        if state == "paused":
            store.set_state("spring", "running")
            [again] = store.claim(2, MONDAY_NOON)
            assert (again.number, store.begin(again.call_id)) == (second.number, True)


def test_results_and_the_do_not_call_list_come_in_pages(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        running(store, CampaignSettings("demo", attempts=1), people(1, 2, 3, 4))
        called = [call(store, outcome) for outcome in ("busy", "answered", "busy")]
        [first] = store.results("spring", "busy", most=1)
        [second] = store.results("spring", "busy", after=first["id"])
        assert [first["number"], second["number"]] == [called[0], called[2]]
        [waiting] = store.results("spring", "pending")
        assert waiting["number"] == "+4790000004"
        [status] = store.status("spring")
        assert status["people"] == {"answered": 1, "busy": 2, "pending": 1}
        assert status["settings"]["hours"] == "09:00-20:00"
        store.block(f"+479{number:07d}" for number in range(5))
        page = store.blocked(3)
        rest = store.blocked(3, page[-1]["row"])
        numbers = [row["number"] for row in (*page, *rest)]
        assert numbers == [f"+479{number:07d}" for number in (4, 3, 2, 1, 0)]
        assert store.unblock("+4790000003")
        assert not store.unblock("+4790000003")
        assert not store.is_blocked("+4790000003")


def test_hours_concurrency_pause_and_the_do_not_call_list(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        settings = CampaignSettings("demo", concurrency=2)
        running(store, settings, [*people(1, 2, 3, 4), *people(5, zone="America/Los_Angeles")])
        store.block(["+4790000002"])
        first = store.claim(10, MONDAY_NOON)
        assert [each.number for each in first] == ["+4790000001", "+4790000002"]
        assert not store.claim(10, MONDAY_NOON), "two at a time"
        assert [store.begin(each.call_id) for each in first] == [True, False], "it is blocked"
        store.finish(OutboundResult(first[0].call_id, "answered"), MONDAY_NOON)
        [third] = store.claim(1, MONDAY_NOON)
        assert (third.number, store.begin(third.call_id)) == ("+4790000003", True)
        store.finish(OutboundResult(third.call_id, "answered"), MONDAY_NOON)
        store.set_state("spring", "paused")
        assert not store.claim(10, MONDAY_NOON)
        store.set_state("spring", "running")
        [fourth] = store.claim(10, MONDAY_NOON)
        store.give_back(fourth.call_id, 30, MONDAY_NOON)
        assert not store.claim(10, MONDAY_NOON + 20)
        [again] = store.claim(10, MONDAY_NOON + 31)
        assert again.number == "+4790000004"
        late = [each.number for each in store.claim(10, MONDAY_NOON + 6 * 3600)]
        assert late == ["+4790000005"], "it is morning in California, and evening in Norway"
        states = {row["number"]: (row["state"], row["reason"]) for row in store.results("spring")}
        assert states["+4790000002"] == ("done", "do_not_call")


def test_a_zone_that_this_machine_lacks_holds_up_nobody_of_others(tmp_path: Path) -> None:
    """The list was read where the newest time zones are; the engine runs elsewhere."""
    with closing(CampaignStore(tmp_path / "campaigns.sqlite3")) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(1, zone="Mars/Olympus"))
        other = store.add("other", CampaignSettings("demo", **ALWAYS))
        assert not list(store.add_people(other, people(2)))
        store.set_state("other", "running")
        assert [each.campaign for each in store.claim(5, MONDAY_NOON)] == ["other"]
        waits = store.status("spring", MONDAY_NOON)[0]["waits"]
        assert waits == "this machine does not know the time zone Mars/Olympus"


def test_promised_call_backs_come_before_campaigns(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        settings = CampaignSettings("demo", concurrency=3)
        running(store, settings, people(1, 2, 3))
        [promised] = people(9)
        assert store.promise("callbacks-demo", settings, promised, MONDAY_NOON)
        first = store.claim(2, MONDAY_NOON)
        assert [each.number for each in first] == [promised.number, "+4790000001"]
        assert not store.claim(1, MONDAY_NOON, {"spring"}), "it is put off"
        assert [each.campaign for each in store.claim(1, MONDAY_NOON)] == ["spring"]


@pytest.mark.parametrize("act", ["forget", "expire"])
def test_what_is_still_in_the_log_is_not_called_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    path, log, number = tmp_path / "c.db", tmp_path / "c.db-wal", "+4790000001"
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.02)
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
        call(store, "answered")

        def delete() -> None:
            if act == "forget":
                forget_person(path, number)
            else:
                store.expire(4e9)

        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT number FROM person").fetchall() == [(number,)]
            with pytest.raises(StoreUnavailable, match="still in its log"):
                delete()
            assert number.encode() in path.read_bytes() + log.read_bytes()
            reader.execute("COMMIT")
        delete()
        assert number.encode() not in path.read_bytes() + log.read_bytes()


def test_a_campaign_says_why_it_calls_nobody(tmp_path: Path) -> None:
    def waits(now: float = MONDAY_NOON) -> str:
        return str(store.status("spring", now)[0]["waits"])

    with closing(CampaignStore(tmp_path / "c.db")) as store:
        settings = CampaignSettings("demo", attempts=2, retry_minutes=60)
        running(store, settings, people(1) + people(2, zone="Asia/Tokyo"))
        assert waits() == "", "one is due"
        assert waits(MONDAY_NOON + 10 * 3600) == (
            "outside of its hours (09:00-20:00, mon-fri) in Asia/Tokyo, tue 07:00 and 1 other zones"
        )
        [claimed] = store.claim(1, MONDAY_NOON)
        assert waits() == "", "somebody is called"
        store.give_back(claimed.call_id, 30, MONDAY_NOON, "not_now: cap.trunk: live_calls")
        assert waits() == "not_now: cap.trunk: live_calls"
        call(store, "busy", MONDAY_NOON + 31)
        assert waits(MONDAY_NOON + 91) == "the next call is due in 59 min"
        store.set_state("spring", "paused")
        assert waits(MONDAY_NOON + 10 * 3600) == ""


def test_people_are_kept_no_longer_than_the_days_of_the_file(tmp_path: Path) -> None:
    path, then, later = tmp_path / "c.db", MONDAY_NOON, MONDAY_NOON + 8 * 86_400
    with closing(CampaignStore(path)) as store:
        for name in ("over", "called", "paused", "waits"):
            campaign = store.add(name, CampaignSettings("demo", attempts=1, **ALWAYS))
            assert not list(store.add_people(campaign, people(1)))
            store.set_state(name, "paused" if name == "paused" else "running")
            if name in ("over", "called"):
                call(store, "answered", then)
        for number in (5, 6, 7):
            row = people(number)[0]
            assert store.promise("callbacks-demo", CampaignSettings("demo"), row, then)
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE campaign SET created = ?, touched = ?", (then, then))
            file.execute("UPDATE campaign SET touched = ? WHERE name = 'called'", (later,))
            called = "UPDATE person SET state = 'done', not_before = ? WHERE number = ?"
            file.executemany(called, [(then, "+4790000005"), (later, "+4790000006")])
        assert store.expire(later - 86_400) == 2
        kept = {each["name"]: sum(each["people"].values()) for each in store.status()}
        assert kept == {"waits": 1, "called": 1, "callbacks-demo": 2}
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM attempt").fetchone() == (1,)


def test_a_file_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("ALTER TABLE campaign DROP COLUMN waits")
        file.execute("ALTER TABLE campaign DROP COLUMN touched")
        file.execute("UPDATE campaign SET created = 1, state = 'cancelled'")
    with closing(CampaignStore(path)) as store:
        assert not store.expire(time.time() - 86_400), "when it was last used is not known"


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path / "new" / "c.db")) as store:
        running(store, CampaignSettings("demo"), people(1))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(CampaignRefused, match="cannot be used"):
        CampaignStore(tmp_path / "c.db")


ENGINE = '''
import asyncio, pathlib, sys
from cordboard.calls.outbound_order import OutboundResult
from cordboard.config.load import read
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import OutboundCalls

folder = pathlib.Path(sys.argv[1])
config = read("""
contexts: {demo: {greeting: Hello., variables: [name]}}
outbound: {enabled: true, max_calls: 20}
firewall: {country: "NO", allow: ["+470*"]}
""", folder / "x.yaml", {}).config
dialled = open(folder / "dialled.txt", "a", buffering=1)

def place(order, finished):
    dialled.write(order.number + "\\n")
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, finished, OutboundResult(order.call_id, "answered", "", "human", 20))

async def main():
    policy = Policy(config.firewall)
    blocked = CallbackQueue(folder / "c.db").is_blocked
    book = PlacedCalls(folder / "c.db")
    calls = OutboundCalls(lambda: config, place, lambda: policy, Counts(), blocked, book)
    runner = CampaignRunner(lambda: folder / "c.db", calls, print, look_seconds=0.01)
    runner.start()
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
'''


async def test_a_killed_engine_calls_nobody_twice_and_loses_nobody(tmp_path: Path) -> None:
    numbers = range(1, 301)
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        settings = CampaignSettings("demo", concurrency=15, attempts=3, **ALWAYS)
        running(store, settings, people(*numbers))
    (tmp_path / "engine.py").write_text(ENGINE)
    dice, dialled = random.Random(4), tmp_path / "dialled.txt"
    dialled.touch()
    for _ in range(4):
        command = [sys.executable, str(tmp_path / "engine.py"), str(tmp_path)]
        engine = await start_child(command, folder=tmp_path, output=tmp_path / "log.txt")
        before, until = len(dialled.read_text().split()), time.monotonic() + 60
        wanted = before + dice.randint(10, 50)
        while len(dialled.read_text().split()) < wanted:
            assert time.monotonic() < until, (tmp_path / "log.txt").read_text()
            await asyncio.sleep(0.005)
        engine.send_signal(signal.SIGKILL)
        await engine.wait()
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        store.recover()
        results = {row["number"]: row for row in store.results("spring")}
        counts = Counter(row["state"] for row in results.values())
    called = Counter(dialled.read_text().split())
    assert max(called.values()) == 1, called.most_common(3)
    assert len(results) == len(numbers)
    assert set(counts) == {"pending", "done"}
    for number in called:
        assert results[number]["state"] == "done", results[number]
    pending = {number for number, row in results.items() if row["state"] == "pending"}
    interrupted = {n for n, row in results.items() if row["outcome"] == "interrupted"}
    assert not pending & set(called)
    assert pending | set(called) | interrupted == set(results)


def test_a_promised_call_is_due_at_its_time_and_once(tmp_path: Path) -> None:
    settings = CampaignSettings("demo", "09:00-17:00", "mon,tue", attempts=3, retry_minutes=15)
    [row] = people(1)
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        assert store.promise("callbacks-demo", settings, row, MONDAY_NOON + 600)
        assert not store.claim(5, MONDAY_NOON + 599)
        assert store.promise("callbacks-demo", settings, row, MONDAY_NOON + 3600), "asked again"
        assert not store.claim(5, MONDAY_NOON + 3599), "the later promise counts"
        [claimed] = store.claim(5, MONDAY_NOON + 3600)
        assert store.begin(claimed.call_id)
        assert not store.promise("callbacks-demo", settings, row, MONDAY_NOON + 7200), (
            "the number is being called now"
        )
        store.finish(OutboundResult(claimed.call_id, "answered"), MONDAY_NOON + 3700)
        assert not store.claim(5, MONDAY_NOON + 3 * 3600), "once"
        tuesday = MONDAY_NOON + 24 * 3600
        assert store.promise("callbacks-demo", settings, row, tuesday), "the next request"
        assert not store.claim(5, tuesday + 10 * 3600), "after the hours"
        [again] = store.claim(5, tuesday)
        assert again.call_id != claimed.call_id
        store.set_state("callbacks-demo", "paused")
        store.promise("callbacks-demo", settings, *people(2), MONDAY_NOON)
        assert not store.claim(5, tuesday), "an operator has paused them"
        store.block([row.number])
        assert (store.is_blocked(row.number), store.is_blocked("+4700000002")) == (True, False)


def test_a_call_back_that_a_killed_engine_was_making_is_not_made_again(tmp_path: Path) -> None:
    settings = CampaignSettings("demo", "09:00-17:00", attempts=3, concurrency=5)
    first, second = people(1, 2)
    with closing(CampaignStore(tmp_path / "c.db")) as store:
        for row in (first, second):
            assert store.promise("callbacks-demo", settings, row, MONDAY_NOON)
        dialled, claimed = store.claim(5, MONDAY_NOON)
        assert store.begin(dialled.call_id)
        assert store.recover() == 1
        assert not store.begin(claimed.call_id), "the killed engine's claim is void"
        [again] = store.claim(5, MONDAY_NOON + 3600)
        assert again.number == claimed.number, "who was not dialled is not lost"
        [interrupted] = store.results("callbacks-demo", "interrupted")
        assert interrupted["number"] == dialled.number
        assert store.promise("callbacks-demo", settings, first, MONDAY_NOON + 7200)
        [promised] = store.claim(5, MONDAY_NOON + 7200)
        assert promised.number == dialled.number, "the next promise to them counts"
