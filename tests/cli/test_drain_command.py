"""`cordboard drain` and `cordboard undrain` beside a running engine."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from cordboard.api.administration import ServerOperations
from cordboard.api.app import create_app
from cordboard.api.server import HttpServer
from cordboard.cli import drain
from cordboard.config.schema import Health
from cordboard_testkit.fake_administration import FakeAdministration

from .commands import Done, typed


class Emptying:
    """An engine whose calls end one by one, each time somebody looks."""

    overloaded = False

    def __init__(self) -> None:
        self.calls: dict[str, object] = {"a": 1, "b": 2}
        self.draining_since: datetime.datetime | None = None
        self.undrained_by_another = False

    def begin_drain(self) -> None:
        self.draining_since = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)

    def end_drain(self) -> None:
        self.draining_since = None

    def readiness(self) -> dict[str, object]:
        return {}

    def health(self) -> dict[str, Any]:
        if self.undrained_by_another:
            self.draining_since = None
        self.calls.popitem()
        since = self.draining_since
        return {
            "active_calls": [{"call_id": each} for each in self.calls],
            "draining_since": since.isoformat() if since is not None else None,
        }


@pytest.fixture
def engine() -> Emptying:
    return Emptying()


@pytest.fixture
async def file(
    engine: Emptying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """The configuration of that engine."""
    monkeypatch.setattr(drain, "_LOOK", 0.01)
    application = create_app(
        engine,  # type: ignore[arg-type]
        loopback_only=True,
        administration=ServerOperations(FakeAdministration()),
        admission=engine,
        token=lambda: SecretStr("correct-horse"),
    )
    server = HttpServer(Health(port=0), application)
    await server.start()
    path = tmp_path / "agent.yaml"
    path.write_text(
        f"health: {{port: {server.port}}}\nadmin: {{token: '${{TOKEN}}'}}\n"
        "contexts: {demo: {}}\n"
    )
    with capture_logs():
        yield str(path)
        await server.close()


async def cordboard(*arguments: str, token: str = "correct-horse") -> Done:
    return await asyncio.to_thread(typed, *arguments, TOKEN=token)


async def test_drain_counts_down_to_the_last_call(engine: Emptying, file: str) -> None:
    done = await cordboard("drain", "-c", file)
    assert (done.status, done.out) == (0, "no new calls; 2 left\n")
    assert engine.draining_since is not None
    done = await cordboard("drain", "--wait", "-c", file)
    assert done.status == 0
    assert done.out.splitlines() == [
        "no new calls; 2 left", "no new calls; 1 left", "no new calls, and none left",
    ]  # fmt: skip
    done = await cordboard("undrain", "-c", file)
    assert (done.status, done.out) == (0, "the engine takes calls again\n")
    assert engine.draining_since is None


async def test_a_drain_that_another_ends_does_not_count_as_done(
    engine: Emptying, file: str
) -> None:
    engine.undrained_by_another = True
    done = await cordboard("drain", "--wait", "-c", file)
    assert (done.status, done.err) == (
        1, "cordboard: the drain was ended before the last call\n",
    )  # fmt: skip


async def test_a_drain_needs_the_token(engine: Emptying, file: str) -> None:
    done = await cordboard("drain", "-c", file, token="wrong-horse")
    assert done.status == 1
    assert "is another than the engine's" in done.err
    assert engine.draining_since is None
