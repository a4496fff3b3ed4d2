"""`cordboard run` as a program of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.calls.post_call.webhooks import receiver

from cordboard.audio.wav import write_mono
from cordboard.calls.history import read
from cordboard.runtime.doors import NO_WAY_IN
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

from .commands import program

ROOT = Path(__file__).parents[2]


def test_sighup_reloads_the_file_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path, log = tmp_path / "ai-agent.yaml", tmp_path / "log"
    tree: dict[str, Any] = {
        "contexts": {"demo": {}},
        "health": {"port": 0},
        "audiosocket": {"port": 0},
        "calls": {"directory": str(tmp_path / "calls")},
        "reload": {"watch": False},
    }
    path.write_text(json.dumps(tree))
    with _program(path, log) as engine:
        _logged(log, "engine_ready")
        path.write_text("contexts:\n  demo: {greetin: x}\n")
        engine.send_signal(signal.SIGHUP)
        refused = _logged(log, "reload_refused")
        assert (refused["why"], refused["level"]) == ("SIGHUP", "error")
        assert f"{path}:2: contexts.demo.greetin: unknown key" in refused["problems"][0]
        path.write_text(json.dumps({**tree, "contexts": {"demo": {"greeting": "New."}}}))
        engine.send_signal(signal.SIGHUP)
        reloaded = _logged(log, "reloaded")
        assert (reloaded["generation"], reloaded["changed"]) == (2, ["contexts.demo.greeting"])
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(PATIENCE) == 0


async def test_a_refused_call_gives_the_reason_in_words(tmp_path: Path) -> None:
    path, wav, port = tmp_path / "ai-agent.yaml", tmp_path / "line.wav", free_port()
    write_mono(wav, bytes(2 * 8000), 8000)
    tree: dict[str, Any] = {
        "contexts": {"demo": {}},
        "health": {"port": free_port()},
        "audiosocket": {"port": port, "context": "demo"},
        "calls": {"directory": str(tmp_path / "calls"), "max_calls": 1},
    }
    path.write_text(json.dumps(tree))
    place = ("call", "-c", str(path), "--wav", str(wav), "--target", f"127.0.0.1:{port}")
    with _program(path, tmp_path / "log") as engine:
        _logged(tmp_path / "log", "engine_ready")
        async with SimulatedCaller("127.0.0.1", port) as caller:
            await caller.hear_speech(PATIENCE)
            busy = await asyncio.to_thread(program, *place)
        engine.send_signal(signal.SIGTERM)
        assert engine.wait(PATIENCE) == 0
    assert busy.status == 1
    words = "the call was refused; its engine logs the reason (offer_refused): it has as many calls"
    assert words in busy.err


def test_a_call_to_an_engine_without_a_way_in_says_what_it_lacks(tmp_path: Path) -> None:
    path, wav = tmp_path / "ai-agent.yaml", tmp_path / "line.wav"
    write_mono(wav, bytes(2 * 8000), 8000)
    tree: dict[str, Any] = {
        "contexts": {"demo": {}},
        "health": {"port": free_port()},
        "calls": {"directory": str(tmp_path / "calls")},
    }
    path.write_text(json.dumps(tree))
    with _program(path, tmp_path / "log"):
        _logged(tmp_path / "log", "engine_ready")
        target = f"127.0.0.1:{free_port()}"
        done = program("call", "-c", str(path), "--wav", str(wav), "--target", target)
    assert done.status == 1
    assert f"no AudioSocket server at {target}" in done.err
    assert f"the engine of {path} says: {NO_WAY_IN}" in done.err


async def test_the_next_engine_ends_the_calls_of_one_that_was_killed(tmp_path: Path) -> None:
    path, calls, port = tmp_path / "ai-agent.yaml", tmp_path / "calls", free_port()
    async with receiver() as hook:
        note = {
            "kind": "http",
            "method": "POST",
            "url": hook.url,
            "allow_private": True,
            "parameters": {"reason": {"type": "string"}, "said": {"type": "string"}},
            "body": {"reason": "{reason}", "said": "{said}"},
        }
        arguments = {"reason": "{call.reason}", "said": "{call.transcript_text}"}
        tree: dict[str, Any] = {
            "contexts": {
                "demo": {
                    "greeting": "Good morning.",
                    "post_call": [{"tool": "note", "arguments": arguments}],
                }
            },
            "tools": {"note": note},
            "health": {"port": 0},
            "audiosocket": {"port": port, "context": "demo"},
            "calls": {"directory": str(calls)},
            "reload": {"watch": False},
        }
        path.write_text(json.dumps(tree))
        with _program(path, tmp_path / "first.log") as engine:
            await asyncio.to_thread(_logged, tmp_path / "first.log", "engine_ready")
            async with SimulatedCaller("127.0.0.1", port):
                await asyncio.to_thread(_until_said, calls)
                engine.kill()
                await asyncio.to_thread(engine.wait, PATIENCE)
        (ledger,) = calls.glob("*/*.jsonl")
        assert read(ledger).outcome == ""
        log = tmp_path / "second.log"
        with _program(path, log) as engine:
            await asyncio.to_thread(_logged, log, "post_call_delivered")
            ended = _logged(log, "killed_call_ended")
            engine.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(engine.wait, PATIENCE) == 0
        log = tmp_path / "third.log"
        with _program(path, log) as engine:
            await asyncio.to_thread(_logged, log, "engine_ready")
            engine.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(engine.wait, PATIENCE) == 0
    history = read(ledger)
    assert (history.outcome, history.reason) == ("killed", "engine_killed")
    assert ended["call_id"] == history.call_id
    (delivery,) = hook.deliveries
    assert delivery.body == {"reason": "engine_killed", "said": "agent: Good morning."}
    assert "killed_call_ended" not in log.read_text()
    assert not list((calls / "open").iterdir())
    others = [each for each in calls.rglob("*") if each.stat().st_mode & 0o077]
    assert not others, "what another user may read"


def _until_said(calls: Path) -> None:
    def said() -> bool:
        return any("agent.text" in path.read_text() for path in calls.glob("*/*.jsonl"))

    _until(said, calls.parent / "first.log")


@contextmanager
def _program(path: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "cordboard", "run", "--log-json", "-c", str(path)]
    with log.open("w") as output, subprocess.Popen(command, stderr=output, cwd=ROOT) as engine:
        try:
            yield engine
        finally:
            engine.kill()


def _logged(log: Path, event: str) -> dict[str, Any]:
    """The first line of that event, once it is there."""

    def found() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    _until(lambda: found() != [], log)
    return found()[0]


def _until(reached: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 3 * PATIENCE
    while not reached():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
