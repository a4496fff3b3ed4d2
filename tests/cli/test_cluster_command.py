"""`cordboard cluster` beside a real NATS server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.nats_server import NatsServer

from cordboard.cli import cluster
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.cluster.orders import Obeyed
from cordboard.cluster.survey import Survey
from cordboard.cluster.wire import CallRecord, EngineLease, encode_lease, encode_record
from cordboard.errors import BusAway

from .commands import typed


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


def config(tmp_path: Path, server: NatsServer, more: str = "") -> str:
    file = tmp_path / "ai-agent.yaml"
    file.write_text(
        "contexts: {demo: {}}\n"
        f"cluster: {{node: a, nats: {{servers: ['{server.url}']{more}}}}}\n"
    )
    return str(file)


async def fill(server: NatsServer) -> None:
    bus = NatsBus(NatsConnection(server.settings, "a-test"), "cordboard")
    running = asyncio.create_task(bus.run())
    await bus.ready()
    for lease in (
        EngineLease("a-1", "a", "1.0", ("gpu",), "Oslo", 7, 1),
        EngineLease("b-1", "b", "1.0", free_slots=0, draining=True),
        EngineLease("old-1", "old", revoked_by="a-1"),
    ):
        await bus.leases.put(lease.instance, encode_lease(lease), last=0)
    await bus.leases.put("x-1", b'{"v":2,"kind":"lease"}', last=0)
    for call in (
        CallRecord("c1", "a-1", caller_number="+4722\x1b[31m", state="talking"),
        CallRecord("c2", "old-1"),
    ):
        await bus.calls.put(call.call_id, encode_record(call), last=0)
    running.cancel()
    await asyncio.wait([running])


def test_an_empty_bus(tmp_path: Path, server: NatsServer) -> None:
    done = typed("cluster", "status", "--config", config(tmp_path, server))
    assert (done.status, done.out) == (0, "0 engines, 0 calls, room for 0 more\n")


def test_engines_and_calls(tmp_path: Path, server: NatsServer) -> None:
    asyncio.run(fill(server))
    file = config(tmp_path, server)
    done = typed("cluster", "status", "-c", file)
    assert done.status == 1
    assert done.out.splitlines() == [
        "2 engines, 2 calls, room for 7 more",
        "b-1 drains",
        "1 calls have no engine: c2",
    ]
    assert "none.x-1: lease: of version 2, and this engine reads up to 1: update it" in done.err
    told = json.loads(typed("cluster", "status", "-c", file, "--json").out)
    assert told["without_engine"] == ["c2"]

    done = typed("cluster", "nodes", "-c", file)
    assert [line.split()[0] for line in done.out.splitlines()] == ["instance", "a-1", "b-1"]
    assert "draining" in done.out
    assert [
        each["node"] for each in json.loads(typed("cluster", "nodes", "-c", file, "--json").out)
    ] == ["a", "b"]

    done = typed("cluster", "calls", "-c", file)
    assert "+4722" in done.out
    assert "\x1b" not in done.out
    assert json.loads(typed("cluster", "calls", "-c", file, "--json").out)[1]["owner"] == "old-1"


@pytest.mark.parametrize("lives", [True, False])
def test_an_engine_whose_lease_is_away_for_a_moment_has_not_left(
    monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    """As after each time in which the bus was away."""
    busy = Survey((EngineLease("a-1", "a", live_calls=2, draining=True),), (), ())
    idle = Survey((EngineLease("a-1", "a", live_calls=0, draining=True),), (), ())
    nothing = Survey((), (), ())
    away = [None] * 4
    found = iter([busy, *away, nothing, nothing, busy, *([idle] if lives else [nothing] * 5)])

    def look(config: Path) -> Survey:
        survey = next(found)
        if survey is None:
            raise BusAway("the bus does not answer")
        return survey

    monkeypatch.setattr(cluster, "_LOOK", 0)
    monkeypatch.setattr(cluster, "_look", look)
    monkeypatch.setattr(cluster, "_order", lambda *_: Obeyed("a-1", True, 2))
    done = typed("cluster", "drain", "a", "--wait")
    left = "a-1 takes no new calls; 0 left\n" if lives else "a-1 has left the cluster\n"
    assert (done.status, done.out) == (0, left)
    assert [*found] == []

    found = iter([busy, *[None] * 5])
    done = typed("cluster", "drain", "a", "--wait")
    assert (done.status, done.err) == (1, "cordboard: the bus does not answer\n")


def test_what_is_wrong_is_told(tmp_path: Path, server: NatsServer) -> None:
    alone = tmp_path / "alone.yaml"
    alone.write_text("contexts: {demo: {}}\n")
    done = typed("cluster", "nodes", "--config", str(alone))
    assert done.status == 1
    assert "has no section `cluster`: the engine is alone" in done.err
    missing = typed("cluster", "nodes", "-c", config(tmp_path, server, ", tls: {ca: none.pem}"))
    assert missing.status == 1
    assert "cluster.nats.tls: " in missing.err
    server.kill()
    away = typed("cluster", "nodes", "--config", config(tmp_path, server))
    assert away.status == 1
    assert "the bus cannot be reached: nats://127.0.0.1:" in away.err
    assert "Connection refused" in away.err
