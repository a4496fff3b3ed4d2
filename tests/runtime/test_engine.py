"""The engine by itself, without a telephone."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import cordboard.calls
from cordboard.agent_api.workers import Workers
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Config
from cordboard.history.query import CallQuery
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.supervision.status import ServerState
from cordboard.observe.degradation import RAISE_AFTER
from cordboard.observe.metrics import Metrics
from cordboard.runtime.doors import NO_WAY_IN
from cordboard.runtime.engine import Engine
from cordboard.runtime.overload_monitor import SETTLING, OverloadMonitor
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.mcp_servers import FAULTY_SERVER
from cordboard_testkit.patience import PATIENCE, until

EXAMPLE = Path(cordboard.calls.__file__).with_name("example_ledger.jsonl")


def offline(tmp_path: Path, **more: Any) -> Config:
    return Config.model_validate(
        {
            "contexts": {"demo": {}},
            "health": {"port": 0},
            "audiosocket": {"port": 0},
            "calls": {"directory": str(tmp_path)},
            **more,
        }
    )


async def test_an_engine_that_waits_for_asterisk_says_so_and_is_ready_later(tmp_path: Path) -> None:
    nobody = {"url": "http://127.0.0.1:9", "password": "secret"}
    engine = Engine(offline(tmp_path, asterisk=nobody))
    with capture_logs() as log:
        await engine.start()
        await engine.stop(grace=0)
    (started,) = [entry for entry in log if entry["event"] in ("engine_started", "engine_ready")]
    assert started["event"] == "engine_started"
    assert list(started["waiting_for"]) == ["ari"]


async def test_an_engine_is_ready_when_ready_says_so(tmp_path: Path) -> None:
    engine = Engine(offline(tmp_path))
    with capture_logs() as log:
        await engine.start()
        missing = [
            name for name, s in engine.view.readiness().items() if s.required and not s.ready
        ]
        await engine.stop(grace=0)
    assert missing == []
    assert [e["event"] for e in log if e["event"].startswith("engine_r")] == ["engine_ready"]


@pytest.mark.usefixtures("lent_models")
async def test_missing_keys_are_shown_and_keep_it_only_from_what_they_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    providers = {"live": {"type": "openai_realtime"}, "local": {"type": "pipeline"}}
    contexts: dict[str, Any] = {"demo": {"provider": "live"}, "other": {"provider": "local"}}
    engine = Engine(offline(tmp_path, providers=providers, contexts=contexts))
    await engine.start()
    try:
        state = engine.view.readiness()["agents"]
        assert (state.ready, state.detail) == (
            False,
            "live: no key: set OPENAI_API_KEY, or api_key",
        )
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-shown")
        assert engine.view.readiness()["agents"].ready
        assert "sk-not-shown" not in json.dumps(engine.view.health())
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_who_has_no_token_is_told_states_and_numbers_and_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    engine = Engine(
        offline(
            tmp_path,
            admin={"token": "open-sesame"},
            contexts={"bank_desk": {"provider": "costly"}},
            providers={"costly": {"type": "openai_realtime"}},
            mcp={"servers": {"ledgers": {"command": [sys.executable, "-c", "exit(3)"]}}},
        )
    )
    await engine.start()
    try:
        await engine.tools_settled(PATIENCE)
        told = {path: await _get(engine, path) for path in ("/health", "/ready")}
        for path, (status, body) in told.items():
            assert status == (503 if path == "/ready" else 200)
            assert not [n for n in ("bank_desk", "costly", "ledgers") if n in json.dumps(body)]
            assert body["components"]["agents"]["ready"] is False
        assert told["/health"][1]["active_calls"] == 0
        status, health = await _get(engine, "/health", Authorization="Bearer open-sesame")
        assert (status, health["active_calls"]) == (200, [])
        assert "ledgers" in health["mcp_servers"]
        assert "costly" in health["components"]["agents"]["detail"]
    finally:
        await engine.stop(grace=0)


async def _get(engine: Engine, path: str, **headers: str) -> tuple[int, Any]:
    def get() -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", engine.http_port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(get)


@pytest.mark.parametrize("sheds", [True, False])
async def test_being_late_while_everything_starts_is_no_overload(sheds: bool) -> None:
    """Afterwards it is, unless the engine is to take calls however busy it is."""
    now = 1000.0

    def nothing() -> None:
        """Nobody looks."""

    load = OverloadMonitor(
        Metrics(), lambda: None, nothing, nothing, sheds=sheds, clock=lambda: now
    )

    def late_for(seconds: float) -> None:
        nonlocal now
        for _ in range(round(seconds * 2)):
            now += 0.5
            load.measure(0.3)

    late_for(60)
    load.started()
    late_for(SETTLING - 0.5)
    assert load.degradation.level == 0
    late_for(RAISE_AFTER + 2)
    assert load.degradation.level == (1 if sheds else 0)


async def test_overload_is_noticed_though_a_transport_cannot_report() -> None:
    """A transport may be of a plug-in."""
    now = 1000.0

    def broken() -> None:
        raise ZeroDivisionError

    load = OverloadMonitor(Metrics(), lambda: None, broken, lambda: None, clock=lambda: now)
    load.started()
    now += SETTLING
    for _ in range(round(RAISE_AFTER) * 2 + 4):
        now += 0.5
        with pytest.raises(ZeroDivisionError):
            load.measure(0.3)
    assert load.degradation.level == 1


async def test_threads_at_work_are_counted() -> None:
    metrics, workers = Metrics(), Workers(1)
    begun, finish = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        finish.wait(PATIENCE)

    def nothing() -> None:
        """Nobody looks."""

    load = OverloadMonitor(metrics, lambda: workers, nothing, nothing)
    future = workers.begin(work)
    try:
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        load.measure(0.0)
        assert b"\nai_agent_worker_busy 1.0\n" in metrics.render()
        finish.set()
        await asyncio.wrap_future(future)
    finally:
        finish.set()
        await workers.close()
    load.measure(0.0)
    assert b"\nai_agent_worker_busy 0.0\n" in metrics.render()


async def test_an_engine_whose_calls_do_not_end_in_order_leaves_no_port_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    engine = Engine(offline(tmp_path))
    await engine.start()
    monkeypatch.setattr(engine.registry, "drain", wrong)
    with pytest.raises(ZeroDivisionError):
        await engine.stop(grace=0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", engine.http_port)


async def test_an_engine_stopped_twice_stops_once(tmp_path: Path) -> None:
    engine = Engine(offline(tmp_path))
    with capture_logs() as log:
        starting = asyncio.create_task(engine.start())
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.gather(engine.stop(), engine.stop(grace=0))
    events = [entry["event"] for entry in log]
    assert events.count("engine_stopping") == 1
    assert events.count("engine_stopped") == 1


async def test_what_is_given_up_is_shown(tmp_path: Path) -> None:
    engine = Engine(offline(tmp_path))
    engine.load.degradation.level = 2
    shown = engine.view.health()["degradation"]
    assert shown["given_up"] == ["speculative recognition", "the end-of-turn model"]
    await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_the_collector_is_spared_the_libraries_while_the_engine_runs(tmp_path: Path) -> None:
    """A full collection holds the event loop; afterwards, all is as it was before."""
    engine = Engine(offline(tmp_path))
    before = gc.get_freeze_count()
    await engine.start()
    try:
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        await engine.stop(grace=0)
    assert gc.get_freeze_count() <= before


def faulty(*behaviour: str, **settings: Any) -> dict[str, Any]:
    return {"command": [sys.executable, str(FAULTY_SERVER), *behaviour], **settings}


@pytest.mark.usefixtures("lent_models")
async def test_twenty_servers_five_broken_ones_among_them_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None can be ready before the engine is: each waits until calls can come in, and then for a
    file that is written afterwards."""
    gate = tmp_path / "gate"
    servers = {
        f"good{number}": faulty("lists", str(gate), start_timeout_ms=120_000)
        for number in range(15)
    }
    once = {"enabled": False}
    servers |= {
        "ghost": {"command": ["no-such-program-anywhere"]},
        "exits": faulty("exits", restart=once),
        "mute": faulty("mute", start_timeout_ms=600_000, stop_grace_ms=100),
        "deaf": faulty("deaf", start_timeout_ms=600_000, stop_grace_ms=100),
        "bad": faulty("bad-list", restart=once),
    }
    missing: list[dict[str, str]] = []
    really_open = ServerPool.open

    def watched(pool: ServerPool) -> None:
        missing.append(engine.view.missing())
        really_open(pool)

    monkeypatch.setattr(ServerPool, "open", watched)
    engine = Engine(offline(tmp_path, mcp={"servers": servers}))
    try:
        await asyncio.wait_for(engine.start(), PATIENCE)
        fleet = engine.reloader.generation.fleet
        assert engine.view.missing() == {}, "the engine is ready"
        assert ServerState.READY not in {status.state for status in fleet.status()}
        gate.write_text("[]")
        for name in servers:
            if name.startswith("good"):
                assert await fleet.servers[name].wait_ready(PATIENCE), fleet.servers[name].status()
        assert missing == [{}], "they began to start when calls could come in"
        detail = engine.view.readiness()["mcp"].detail
        assert "ghost is failed" in detail
        assert "mute is starting" in detail
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_a_required_server_is_waited_for(tmp_path: Path) -> None:
    """The first caller after a start does not hear an apology in place of a tool's answer."""
    gate = tmp_path / "gate.json"
    waits = faulty("lists", str(gate), start_timeout_ms=120_000, required=True)
    off = faulty(required=True, enabled=False)
    mute = faulty("mute", start_timeout_ms=600_000, stop_grace_ms=100)
    servers = {"shop": waits, "mute": mute, "off": off}
    engine = Engine(offline(tmp_path, mcp={"servers": servers}))
    try:
        await asyncio.wait_for(engine.start(), PATIENCE)
        assert list(engine.view.missing()) == ["mcp"]
        assert "shop is starting" in engine.view.missing()["mcp"]
        gate.write_text("[]")
        fleet = engine.reloader.generation.fleet
        assert await fleet.servers["shop"].wait_ready(PATIENCE)
        assert engine.view.missing() == {}, "the mute one is not required"
        state = engine.view.readiness()["mcp"]
        assert (state.ready, state.required) == (True, True)
        assert "mute is starting" in state.detail, "shown all the same"
        await fleet.servers["shop"].stop()
        assert "shop is stopped" in engine.view.missing()["mcp"], "also later"
    finally:
        await engine.stop(grace=0)


def internal_errors(engine: Engine, where: str) -> int:
    name = f'ai_agent_internal_errors_total{{where="{where}"}} '.encode()
    lines = engine.view.series.render().splitlines()
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


@pytest.mark.usefixtures("lent_models")
async def test_servers_start_although_the_remains_of_an_earlier_engine_cannot_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> None:
        raise ValueError("a line of /proc that nobody expected")

    monkeypatch.setattr("cordboard.runtime.engine.sweep_orphans", unreadable)
    engine = Engine(offline(tmp_path, mcp={"servers": {"shop": faulty()}}))
    try:
        with capture_logs() as log:
            await asyncio.wait_for(engine.start(), PATIENCE)
            assert await engine.reloader.generation.fleet.servers["shop"].wait_ready(PATIENCE)
        (told,) = [entry for entry in log if "/proc" in str(entry)]
        assert (told["log_level"], told["exc_info"]) == ("error", True)
        assert internal_errors(engine, "mcp_orphans") == 1
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_recordings_are_still_deleted_after_a_day_on_which_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = threading.Event()
    days: list[str] = []

    def sweeps(*_: object) -> int:
        days.append("a day")
        if len(days) == 1:
            raise RecursionError("a file that nobody expected")
        again.set()
        return 0

    monkeypatch.setattr("cordboard.runtime.engine.sweep", sweeps)
    monkeypatch.setattr("cordboard.runtime.engine.INTERVAL", 0.01)
    engine = Engine(offline(tmp_path))
    try:
        await asyncio.wait_for(engine.start(), PATIENCE)
        assert await asyncio.to_thread(again.wait, PATIENCE)
        assert internal_errors(engine, "retention") == 1
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_tools_that_are_not_offered_are_shown_and_cost_no_readiness(tmp_path: Path) -> None:
    servers = {"shop": faulty(), "hostile": faulty("hostile")}
    engine = Engine(offline(tmp_path, mcp={"lock": "off", "servers": servers}))
    try:
        await asyncio.wait_for(engine.start(), PATIENCE)
        assert await engine.tools_settled(PATIENCE)
        state = engine.view.readiness()["mcp"]
        assert not state.ready
        assert "mcp.servers.hostile: the tool 'remote' is not offered: " in state.detail
        assert "mcp.servers.shop" not in state.detail
        assert engine.view.missing() == {}
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_a_reload_reaches_what_is_not_read_from_the_generation(tmp_path: Path) -> None:
    path = tmp_path / "ai-agent.yaml"

    def write(**tree: Any) -> None:
        settings = {"health": {"port": 0}, "calls": {"directory": str(tmp_path)}}
        settings |= {"admin": {"ui": {"data": str(tmp_path / "admin")}}}
        path.write_text(json.dumps({"reload": {"watch": False}, **settings, **tree}))

    write(contexts={"one": {}}, audiosocket={"port": 0, "context": "one"})
    source = ConfigSource(path, os.environ)
    engine = Engine(source.load().config, source=source)
    await engine.start()
    try:
        port = engine.audiosocket_port
        write(
            contexts={"two": {"recording": {"enabled": True}, "variables": ["ORDER"]}},
            audiosocket={"port": 0, "advertise_host": "10.1.2.3", "context": "two"},
            asterisk={"password": "x"},
        )
        report = await engine.administration.reload()
        assert [(item.what, item.until) for item in report.deferred] == [
            ("asterisk", "the engine is restarted")
        ]
        assert engine.doors.audiosocket.address == f"10.1.2.3:{port}"
        assert engine.doors.audiosocket._config.context == "two"
        assert "recordings" in engine.view.readiness()
        assert "ari" not in engine.view.readiness(), "which is not connected"
        assert not engine.registry.bare.has_ari, "calls without ARI keep all places"
        health = engine.view.health()
        assert health["generation"] == 2
        assert health["deferred"] == [{"what": "asterisk", "until": "the engine is restarted"}]
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_ledgers_that_cannot_be_written_are_shown_and_keep_nobody_from_calling(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "calls"
    blocked.write_text("not a folder")
    engine = Engine(offline(blocked))
    await engine.start()
    try:
        state = engine.view.readiness()["ledger"]
        assert (state.ready, state.required) == (False, False)
        assert "calls are not recorded" in state.detail
        page = (await engine.view.metrics()).decode()
        assert 'ai_agent_component_ready{component="ledger"} 0.0' in page
        assert 'ai_agent_component_ready{component="media"} 1.0' in page
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_a_directory_of_calls_that_others_may_enter_is_shown(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    engine = Engine(offline(tmp_path))
    await engine.start()
    try:
        state = engine.view.readiness()["ledger"]
        assert state.ready
        assert f"chmod 700 {tmp_path}" in state.detail
    finally:
        await engine.stop(grace=0)


async def connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize(
    ("tree", "is_open"),
    [
        ({}, False),
        ({"audiosocket": {"context": None}}, False),
        ({"asterisk": {"media": "websocket"}}, False),
        ({"asterisk": {"media": "rtp"}}, False),
        ({"asterisk": {"media": "audiosocket"}}, True),
        ({"audiosocket": {"context": "demo"}}, True),
        ({"audiosocket": {"context": "demo"}, "asterisk": {"media": "websocket"}}, True),
    ],
    ids=["nothing", "null", "websocket", "rtp", "audiosocket", "bare calls", "both"],
)
@pytest.mark.usefixtures("lent_models")
async def test_the_audiosocket_port_is_open_only_when_calls_can_come_by_it(
    tmp_path: Path, tree: dict[str, Any], is_open: bool
) -> None:
    port = free_port()
    tree = {**tree, "audiosocket": {"port": port, **tree.get("audiosocket", {})}}
    if "asterisk" in tree:
        tree["asterisk"] |= {"url": "http://127.0.0.1:9", "password": "secret"}
    engine = Engine(offline(tmp_path, **tree))
    await engine.start()
    try:
        assert await connects(port) is is_open
        media = engine.view.readiness()["media"]
        assert media.ready
        assert media.detail == ("" if is_open or "asterisk" in tree else NO_WAY_IN)
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_a_reload_opens_and_shuts_the_audiosocket_port(tmp_path: Path) -> None:
    path, port = tmp_path / "ai-agent.yaml", free_port()

    def write(**audiosocket: Any) -> None:
        fixed = {"health": {"port": 0}, "calls": {"directory": str(tmp_path)}}
        fixed |= {"contexts": {"demo": {}}, "reload": {"watch": False}}
        fixed |= {"admin": {"ui": {"data": str(tmp_path / "admin")}}}
        path.write_text(json.dumps({**fixed, "audiosocket": {"port": port, **audiosocket}}))

    write()
    source = ConfigSource(path, os.environ)
    engine = Engine(source.load().config, source=source)

    async def reload(**audiosocket: Any) -> None:
        write(**audiosocket)
        await engine.administration.reload()
        await engine.doors.settled()

    await engine.start()
    try:
        assert not await connects(port)
        await reload(context="demo")
        assert await connects(port)
        _, live = await asyncio.open_connection("127.0.0.1", port)
        await reload()
        assert not await connects(port)
        assert engine.view.readiness()["media"].detail == NO_WAY_IN
        live.close()
        with socket.create_server(("127.0.0.1", port)):
            await reload(context="demo")
            media = engine.view.readiness()["media"]
            assert not media.ready
            assert f"{port} cannot be opened" in media.detail
        await reload()
        await reload(context="demo")
        assert await connects(port), "the other program has let it go"
        assert engine.view.readiness()["media"].ready
    finally:
        await engine.stop(grace=0)
    assert not await connects(port)


@pytest.mark.usefixtures("lent_models")
async def test_the_index_of_calls_follows_the_ledgers_while_the_engine_runs(tmp_path: Path) -> None:
    (tmp_path / "2026-11-20").mkdir()
    (tmp_path / "2026-11-20" / "a.jsonl").write_bytes(EXAMPLE.read_bytes())
    calls = {"directory": str(tmp_path), "index": {"enabled": True}}
    engine = Engine(offline(tmp_path, calls=calls))
    await engine.start()
    try:
        keeper = engine.view.history
        assert keeper is not None
        await until(lambda: bool(keeper.passes))
        state = engine.view.readiness()["history"]
        assert (state.ready, state.required) == (True, False)
    finally:
        await engine.stop(grace=0)
    assert "cordboard-history" not in {thread.name for thread in threading.enumerate()}
    store = SqlHistoryStore(tmp_path)
    store.open()
    assert [row.id for row in store.find(CallQuery()).rows] == ["a"]
    store.close()


@pytest.mark.usefixtures("lent_models")
@pytest.mark.parametrize("enabled", [None, False])
async def test_the_admin_port_brings_the_index_of_calls_unless_it_is_switched_off(
    tmp_path: Path, enabled: bool | None
) -> None:
    admin = {"ui": {"enabled": True, "port": 0, "data": str(tmp_path / "admin")}}
    calls = {"directory": str(tmp_path / "calls"), "index": {"enabled": enabled}}
    engine = Engine(offline(tmp_path, calls=calls, admin=admin))
    await engine.start()
    try:
        assert (engine.view.history is not None) == (enabled is None)
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_an_index_that_cannot_be_made_is_shown_and_keeps_no_one_from_calling(
    tmp_path: Path,
) -> None:
    (tmp_path / "history").write_text("not a folder")
    calls = {"directory": str(tmp_path), "index": {"enabled": True}}
    engine = Engine(offline(tmp_path, calls=calls))
    await engine.start()
    try:
        keeper = engine.view.history
        assert keeper is not None
        await until(lambda: bool(keeper.trouble))
        state = engine.view.readiness()["history"]
        assert (state.ready, state.required) == (False, False)
        assert f"the index {tmp_path}/history/index.sqlite3 cannot be made" in state.detail
    finally:
        await engine.stop(grace=0)


@pytest.mark.usefixtures("lent_models")
async def test_old_ledgers_are_deleted_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "2020-01-01").mkdir()
    old = tmp_path / "2020-01-01" / "a.jsonl"
    old.write_bytes(EXAMPLE.read_bytes())
    os.utime(old, (0, 0))
    engine = Engine(offline(tmp_path, calls={"directory": str(tmp_path), "keep_days": 30}))
    await engine.start()
    try:
        await until(lambda: not old.exists())
    finally:
        await engine.stop(grace=0)


def test_an_engine_without_an_index_imports_no_database() -> None:
    code = "import sys, cordboard.runtime.engine; assert 'sqlalchemy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
