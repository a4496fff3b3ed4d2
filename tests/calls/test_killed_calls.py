"""Ledgers that a killed engine has left: ended at the next start, and the steps after them done."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from cordboard.calls import events
from cordboard.calls.history import read, read_lines
from cordboard.calls.killed_calls import end_killed_calls
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.open_calls import OpenCall, OpenCalls, abandoned
from cordboard.calls.phases import CallPhases
from cordboard.calls.post_call.job import PostCallJob
from cordboard.config.schema import Config
from cordboard.errors import CordboardError
from cordboard.history.ledger_rows import call_of
from cordboard.history.notes import NONE
from cordboard.observe.metrics import Metrics
from cordboard_testkit.call_stage import CallStage, stage_config
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.patience import until

STEP = {"tool": "tell", "arguments": {"how": "{call.outcome} {call.reason}, {call.caller_name}"}}
CONFIG = Config.model_validate({"contexts": {"demo": {"post_call": [STEP]}}})

KILLED = """
import os, signal, sys
from pathlib import Path
from cordboard.calls import events
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.open_calls import OpenCall, OpenCalls
directory = Path(sys.argv[1])
writer = LedgerWriter(OpenCalls(directory))
started = "2026-11-22T12:00:00.250+00:00"
for name, kind in (("a", "call"), ("b", "call"), ("c", "chat"), ("d", "try"), ("e", "call")):
    ledger = Ledger(writer, directory / "2026-11-22" / f"{name}.jsonl", 0.0)
    variables = {"call_id": name, "caller_name": name.upper()}
    ledger.note(OpenCall(kind, name, "demo", "local", started, variables))
    ledger.record(events.Offered(name, started, "asterisk", "1", "", "2"), at=0.0)
    ledger.record(events.AgentUsed("local", "m", {"seconds": 1.0}, 0.25, "EUR"), at=1.0)
    ledger.record(events.Answering(0, "Good morning."), at=2.0)
    if name in ("b", "e"):
        ledger.record(events.Ended("completed", "caller_hangup", 2500), at=2.5)
        ledger.close()
    if name == "e":
        ledger.settle()
writer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
NAMES = ["a", "b", "c", "d"]
"""The calls that the killed engine has left; of `b` only the steps were not in the queue yet."""


def kill(directory: Path) -> None:
    """Leave what an engine leaves that is killed in its calls."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory)], check=False)
    assert done.returncode == -signal.SIGKILL


class Queue:
    """Remembers the jobs."""

    def __init__(self, *, written: bool = True) -> None:
        self.jobs: list[PostCallJob] = []
        self._written = written

    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        self.jobs += jobs
        return self._written


class Killed(BaseException):
    """Stands for the end of an engine in the middle of something."""


def end_all(directory: Path, metrics: Metrics | None = None) -> list[PostCallJob]:
    queue = Queue()
    ending = end_killed_calls(directory, CONFIG.contexts, queue, metrics or Metrics())
    asyncio.run(ending)
    return queue.jobs


def left(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "open").rglob("*.json"))


def test_each_ledger_is_ended_and_its_steps_are_in_the_queue(tmp_path: Path) -> None:
    kill(tmp_path)
    assert left(tmp_path) == [f"2026-11-22.{name}.json" for name in NAMES]
    metrics = Metrics()
    jobs = end_all(tmp_path, metrics)
    for name in "acd":
        lines = read_lines(tmp_path / "2026-11-22" / f"{name}.jsonl")
        assert [line["type"] for line in lines] == [
            "call.offered", "agent.used", "agent.text", "call.ended",
        ]  # fmt: skip
        assert lines[-1] == {
            "at_ms": 2000, "type": "call.ended", "outcome": "killed", "reason": "engine_killed",
            "duration_ms": 2000, "cost": 0.25, "currency": "EUR",
        }  # fmt: skip
    for name in "be":
        history = read(tmp_path / "2026-11-22" / f"{name}.jsonl")
        assert (history.outcome, history.ended_ms) == ("completed", 2500)
    assert {job.call_id: job.arguments["how"] for job in jobs} == {
        "a": "killed engine_killed, A",
        "b": "completed caller_hangup, B",
        "c": "killed engine_killed, C",
    }
    killed = 'ai_agent_calls_total{context="demo",outcome="killed",provider="local"} 1.0'
    page = metrics.render().decode()
    assert killed in page, "conversations in writing are not counted among the calls"
    assert "ai_agent_active_calls 0.0" in page
    assert not list((tmp_path / "open").iterdir())
    assert end_all(tmp_path) == [], "once is enough"


def test_jobs_have_the_same_keys_when_the_next_engine_is_killed_too(tmp_path: Path) -> None:
    kill(tmp_path)
    first = Queue()

    async def broken_off(jobs: Iterable[PostCallJob]) -> bool:
        first.jobs += jobs
        raise Killed

    first.put = broken_off  # type: ignore[method-assign]
    with pytest.raises(Killed):
        asyncio.run(end_killed_calls(tmp_path, CONFIG.contexts, first, Metrics()))
    second = end_all(tmp_path)
    assert {job.call_id for job in second} == {"a", "b", "c"}
    [again] = [job for job in second if job.call_id == first.jobs[0].call_id]
    assert (again.name, again.ask_id) == (first.jobs[0].name, first.jobs[0].ask_id)
    types = [line["type"] for line in read_lines(tmp_path / "2026-11-22" / "a.jsonl")]
    assert types.count("call.ended") == 1


def test_a_call_that_another_engine_went_on_with_is_not_ended_twice(tmp_path: Path) -> None:
    kill(tmp_path)
    queue, metrics = Queue(), Metrics()

    async def is_adopted(call_id: str, moves: int) -> bool:
        return call_id == "a"

    ending = end_killed_calls(tmp_path, CONFIG.contexts, queue, metrics, is_adopted=is_adopted)
    asyncio.run(ending)
    path = tmp_path / "2026-11-22" / "a.jsonl"
    history = read(path)
    assert (history.outcome, history.reason) == ("moved", "engine_killed")
    assert {job.call_id for job in queue.jobs} == {"b", "c"}, "its steps are the other engine's"
    assert left(tmp_path) == []
    assert 'outcome="killed"' not in metrics.render().decode()
    call, is_open = call_of("2026-11-22/a.jsonl", path.read_bytes(), NONE)
    assert call is not None
    assert (call.row.outcome, call.measured, is_open) == ("moved", None, False)


def test_steps_of_a_call_that_ended_here_and_goes_on_elsewhere_are_not_run(tmp_path: Path) -> None:
    """An engine that was cut off from everything ended it, and left the steps to this start."""
    kill(tmp_path)
    queue = Queue()

    async def is_adopted(call_id: str, moves: int) -> bool:
        assert moves == 0
        return call_id == "b"  # its ledger has an end

    ending = end_killed_calls(tmp_path, CONFIG.contexts, queue, Metrics(), is_adopted=is_adopted)
    asyncio.run(ending)
    assert {job.call_id for job in queue.jobs} == {"a", "c"}
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("reason", "in_doubt", "waits"),
    [
        ("asterisk_lost", True, True),
        ("media_lost", True, True),
        ("asterisk_lost", False, False),
        ("caller_hangup", True, False),
    ],
)
async def test_steps_wait_for_the_next_start_if_another_engine_may_have_the_call(
    reason: str, in_doubt: bool, waits: bool
) -> None:
    settled: list[bool] = []
    ending = SimpleNamespace(
        services=SimpleNamespace(in_doubt=lambda: in_doubt, post_call=None),
        binding=SimpleNamespace(context=SimpleNamespace(post_call=())),
        variables={"call_id": "a"},
        ledger=SimpleNamespace(settle=lambda: settled.append(True)),
    )
    await CallPhases.post_call(ending, events.Ended("failed", reason, 1), {})  # type: ignore[arg-type]
    assert settled == ([] if waits else [True]), "a call that is not settled stays noted"


def test_a_call_of_which_nobody_knows_yet_is_left_for_the_next_start(tmp_path: Path) -> None:
    kill(tmp_path)

    async def is_adopted(call_id: str, moves: int) -> bool:
        raise CordboardError("the bus is away")

    ending = end_killed_calls(tmp_path, CONFIG.contexts, Queue(), Metrics(), is_adopted=is_adopted)
    asyncio.run(ending)
    assert read(tmp_path / "2026-11-22" / "a.jsonl").outcome == ""
    assert "2026-11-22.a.json" in left(tmp_path)
    end_all(tmp_path)
    assert read(tmp_path / "2026-11-22" / "a.jsonl").outcome == "killed"


def test_killed_calls_stay_noted_while_the_disk_takes_no_jobs(tmp_path: Path) -> None:
    kill(tmp_path)
    first = Queue(written=False)
    asyncio.run(end_killed_calls(tmp_path, CONFIG.contexts, first, Metrics()))
    assert left(tmp_path) == [f"2026-11-22.{name}.json" for name in "abc"]
    assert [job.name for job in end_all(tmp_path)] == [job.name for job in first.jobs]
    assert left(tmp_path) == []


async def test_a_call_stays_noted_while_the_disk_takes_no_jobs(tmp_path: Path) -> None:
    queue = Queue(written=False)
    config = stage_config({"post_call": [{"tool": "tell", "arguments": {}}]})
    stage = CallStage(tmp_path, FakeAgent(), config, post_call=queue)
    await until(lambda: stage.line.media is not None)
    assert stage.line.media is not None
    stage.line.media.break_off("caller_hangup")
    await stage.over()
    await asyncio.to_thread(stage.writer.flush)
    assert (len(queue.jobs), len(left(tmp_path))) == (1, 1)


def test_a_killed_call_whose_context_is_gone_is_told(tmp_path: Path) -> None:
    kill(tmp_path)
    queue = Queue()
    with capture_logs() as logs:
        asyncio.run(end_killed_calls(tmp_path, {}, queue, Metrics()))
    gone = [line for line in logs if line["event"] == "killed_call_context_gone"]
    assert [line["context_name"] for line in gone] == ["demo"] * 4
    assert (queue.jobs, left(tmp_path)) == ([], [])


def test_half_a_line_at_the_end_becomes_a_gap(tmp_path: Path) -> None:
    kill(tmp_path)
    path = tmp_path / "2026-11-22" / "a.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at_ms":2100,"type":"agent.te')
    end_all(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert path.read_bytes().startswith(whole)
    assert [line["type"] for line in lines][3:] == ["ledger.gap", "call.ended"]
    assert lines[3] == {"at_ms": 2000, "type": "ledger.gap", "lost": 1, "since_ms": 2000}


@contextmanager
def living(directory: Path) -> Iterator[Ledger]:
    """An engine that lives, and a call of it."""
    writer = LedgerWriter(OpenCalls(directory))
    ledger = Ledger(writer, directory / "2026-11-22" / "live.jsonl", 0.0)
    ledger.note(OpenCall("call", "live", "demo", "local", "2026-11-22T12:00:00.000+00:00"))
    ledger.record(events.Connected())
    writer.flush()
    try:
        yield ledger
    finally:
        writer.close()


def test_the_calls_of_an_engine_that_lives_are_left_alone(tmp_path: Path) -> None:
    kill(tmp_path)
    with living(tmp_path) as ledger:
        jobs = end_all(tmp_path)
        assert {job.call_id for job in jobs} == {"a", "b", "c"}
        assert left(tmp_path) == ["2026-11-22.live.json"]
        assert [line["type"] for line in read_lines(ledger.path)] == ["call.connected"]
        ledger.close()
        ledger.settle()
    assert not list((tmp_path / "open").iterdir()), "it has stopped in order"


def test_what_cannot_be_understood_stays_and_is_told(tmp_path: Path) -> None:
    kill(tmp_path)
    (folder,) = (tmp_path / "open").iterdir()
    (folder / "2026-11-22.a.json").write_text("{")
    elsewhere = {"ledger": "../../etc/passwd", "kind": "call", "call_id": "x", "context": "demo"}
    elsewhere |= {"provider": "local", "started_at": ""}
    (folder / "x.json").write_text(json.dumps(elsewhere))
    (folder / "y.json").write_text(json.dumps(elsewhere | {"ledger": "2026-11-22/d.jsonl"}))
    (tmp_path / "2026-11-22" / "d.jsonl").write_text('{"at_ms": 1}\n5\n')
    odd = {**elsewhere, "started_at": "2026-11-22T10:00:00+00:00", "variables": 5}
    (folder / "0.json").write_text(json.dumps(odd | {"ledger": "2026-11-22/0.jsonl"}))
    (tmp_path / "2026-11-22" / "0.jsonl").write_text('{"at_ms": 1, "type": "call.connected"}\n')
    with capture_logs() as logs:
        jobs = end_all(tmp_path)
    assert {job.call_id for job in jobs} == {"b", "c"}
    assert [entry["event"] for entry in logs].count("killed_call_not_ended") == 5
    names = ["2026-11-22.a.json", "2026-11-22.d.json", "x.json", "y.json"]
    assert left(tmp_path) == ["0.json", *names]


def test_of_an_erased_call_nothing_stays(tmp_path: Path) -> None:
    kill(tmp_path)
    (folder,) = (tmp_path / "open").iterdir()
    (tmp_path / "2026-11-22" / "a.jsonl").unlink()
    (tmp_path / "2026-11-22" / "b.jsonl").unlink()
    (folder / "2026-11-22.b.json").write_text("of a key that was erased, too")
    with capture_logs() as logs:
        jobs = end_all(tmp_path)
    assert {job.call_id for job in jobs} == {"c"}
    assert [entry["event"] for entry in logs].count("killed_call_erased") == 2
    assert not list((tmp_path / "open").iterdir())


def test_odd_entries_are_told_and_hold_up_no_other_calls(tmp_path: Path) -> None:
    kill(tmp_path)
    odd = tmp_path / "open"
    (odd / "+file").touch()  # it comes before the names that engines give
    (odd / "+locked" / ".lock").mkdir(parents=True)
    (odd / "+more" / "folder").mkdir(parents=True)
    (odd / "+more" / ".lock").touch()
    with capture_logs() as logs:
        jobs = end_all(tmp_path)
    assert {job.call_id for job in jobs} == {"a", "b", "c"}
    assert sorted(path.name for path in odd.iterdir()) == ["+file", "+locked", "+more"]
    told = [entry["event"] for entry in logs if entry["log_level"] == "error"]
    assert told == ["killed_calls_not_read"] * 2 + ["killed_calls_not_removed"]


def test_a_folder_that_another_engine_has_just_removed_is_done(tmp_path: Path) -> None:
    kill(tmp_path)
    (calls,) = abandoned(tmp_path)
    (folder,) = (tmp_path / "open").iterdir()
    shutil.rmtree(folder)
    assert list(calls) == []
    calls.remove()
    calls.release()


def test_two_engines_that_start_at_once_do_not_do_the_same(tmp_path: Path) -> None:
    kill(tmp_path)
    (first,) = abandoned(tmp_path)
    assert list(abandoned(tmp_path)) == []
    first.release()
    (again,) = abandoned(tmp_path)
    again.release()


def test_a_folder_deleted_while_the_engine_runs_is_made_again(tmp_path: Path) -> None:
    with living(tmp_path) as ledger:
        (folder,) = (tmp_path / "open").iterdir()
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        ledger.note(OpenCall("call", "live", "demo", "local", "2026-11-22T12:00:00.000+00:00"))
        ledger._writer.flush()
        assert left(tmp_path) == ["2026-11-22.live.json"]
        assert list(abandoned(tmp_path)) == []


async def test_a_call_is_noted_until_its_steps_are_in_the_queue(tmp_path: Path) -> None:
    """And the same job comes of it, whether the engine lives on or is killed just then."""
    noted: list[dict[str, Any]] = []
    jobs: list[PostCallJob] = []

    class Slow:
        async def put(self, new: Iterable[PostCallJob]) -> bool:
            jobs.extend(new)
            noted.extend(json.loads(path.read_bytes()) for path in open_calls())
            return True

    def open_calls() -> list[Path]:
        return list((tmp_path / "open").rglob("*.json"))

    step = {"tool": "tell", "arguments": {"how": "{call.reason}"}}
    config = stage_config({"post_call": [step]})
    stage = CallStage(tmp_path, FakeAgent(), config, post_call=Slow())
    await until(lambda: stage.line.media is not None)
    assert stage.line.media is not None
    stage.line.media.break_off("caller_hangup")
    await stage.over()
    await asyncio.to_thread(stage.writer.flush)
    assert open_calls() == []
    ((found,), (job,)) = noted, jobs
    assert found["ledger"] == str(stage.call._ledger.path.relative_to(tmp_path))
    # Had the engine been killed just then, the next one would have found this.
    folder = tmp_path / "open" / "dead"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / "1.json").write_text(json.dumps(found))
    queue = Queue()
    await end_killed_calls(tmp_path, config.contexts, queue, Metrics())
    (again,) = queue.jobs
    assert (again.name, again.ask_id, again.arguments) == (job.name, job.ask_id, job.arguments)
    stage.check()
