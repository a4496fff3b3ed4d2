"""An exchange with lines that call in, in virtual time: the registry of calls and all below it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from cordboard.agent_api.agent import Agent
from cordboard.calls.binding import Binding
from cordboard.calls.call_registry import CallRegistry
from cordboard.calls.history import CallHistory, ledgers, read
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.outbound_order import OutboundOrder
from cordboard.calls.services import CallServices
from cordboard.config.trunks import trunk_of_endpoint
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard_testkit.call_stage import FakeGeneration, stage_config
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.virtual_time import virtual_time


class Hall:
    """An exchange with lines that call in."""

    def __init__(
        self, directory: Path, open_agent: Callable[[Binding], Agent], max_calls: int = 100
    ) -> None:
        self.directory = directory
        config = stage_config()
        calls = config.calls.model_copy(update={"max_calls": max_calls})
        self.generation = FakeGeneration(config.model_copy(update={"calls": calls}))
        self.degradation = Degradation()
        self.metrics = Metrics()
        self.writer = LedgerWriter()
        self.registry = CallRegistry(
            lambda: self.generation,
            open_agent,
            CallServices(self.writer, self.metrics, directory),
            self.degradation,
        )
        self.lines: list[FakeLine] = []

    def configure(self, **sections: Any) -> None:
        """Put a configuration into force: sections as for `stage_config`."""
        self.generation = FakeGeneration(stage_config(**sections))

    def ring(self, line: FakeLine | None = None) -> FakeLine:
        line = line or FakeLine(str(UUID(int=len(self.lines) + 1)))
        self.lines.append(line)
        self.registry.offer(line.offer())
        return line

    def call_in(self, trunk: str = "", number: str = "4791234567") -> FakeLine:
        """A caller by this trunk."""
        line = FakeLine(str(UUID(int=len(self.lines) + 1)))
        line.trunk, line.number = trunk, number
        return self.ring(line)

    def call_out(self, endpoint: str, number: str = "+4722123456", **dialling: Any) -> FakeLine:
        """A call that the engine places."""
        line = FakeLine(str(UUID(int=len(self.lines) + 1)))
        line.trunk, line.number = trunk_of_endpoint(endpoint), number
        line.order = OutboundOrder(line.call_id, number, "demo", endpoint, trunk=line.trunk)
        for name, value in dialling.items():
            setattr(line, name, value)
        return self.ring(line)

    def histories(self) -> list[CallHistory]:
        self.writer.close()
        return [read(path) for path in ledgers(self.directory)]

    def refused(self) -> list[dict[str, Any]]:
        """The lines about refused offers, on disk."""
        self.writer.close()
        files = self.directory.glob("*/refused.jsonl")
        return [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]

    def metric(self, text: str) -> bool:
        return text in self.metrics.render().decode()


def play(
    tmp_path: Path,
    scenario: Callable[[Hall], Awaitable[None]],
    open_agent: Callable[[Binding], Agent] = lambda _: FakeAgent(),
    max_calls: int = 100,
) -> Hall:
    async def run() -> Hall:
        hall = Hall(tmp_path, open_agent, max_calls)
        await scenario(hall)
        await hall.registry.drain(0)
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        return hall

    with virtual_time() as loop:
        hall = loop.run_until_complete(run())
    assert not hall.registry.calls
    assert hall.generation.calls == 0
    assert all(line.released for line in hall.lines)
    assert hall.metric("ai_agent_active_calls 0.0")
    return hall


def hang_up(line: FakeLine) -> None:
    assert line.media is not None
    line.media.break_off("caller_hangup")
