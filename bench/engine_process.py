"""The engine as a process of its own, as it runs in service: `cordboard run` on free ports.

A caller that measures must not share an interpreter with the engine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from cordboard.calls.history import CallHistory, ledgers, read_lines
from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.errors import KitError
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config/ai-agent.yaml"
"""The configuration of the demo; the benchmarks change ports and folders only."""
_POLL = 0.005


def demo_config() -> Config:
    """The demo's configuration. Raises `ConfigError`."""
    return load(CONFIG, os.environ).config


def as_file(config: Config, changes: Mapping[str, Any], path: Path) -> None:
    """Write a configuration with some top-level keys replaced. JSON is YAML."""
    document = config.model_dump(mode="json", exclude_unset=True, by_alias=True)
    path.write_bytes(orjson.dumps({**document, **changes}))


class EngineProcess:
    """A running `cordboard run`."""

    def __init__(self, folder: Path, http_port: int, audiosocket_port: int) -> None:
        self.folder = folder
        self.http_port = http_port
        self.audiosocket_port = audiosocket_port
        self.ready_after = 0.0
        """Seconds from exec until `GET /ready` returned 200."""
        self.process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        if self.process is None:
            raise KitError("the engine is not running")
        return self.process.pid

    async def get(self, path: str) -> tuple[int, bytes]:
        """One HTTP request: status and body. Raises `OSError` while the port is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    async def ready(self, *, tools: bool, timeout: float = 60.0) -> None:
        """Wait until `/ready` returns 200 and, with `tools`, until every MCP server is up too."""
        async with asyncio.timeout(timeout):
            while not await self._is_ready(tools):
                if self.process is not None and self.process.returncode is not None:
                    raise KitError(f"the engine ended: {self.log()[-2000:]}")
                await asyncio.sleep(_POLL)

    def log(self) -> str:
        return (self.folder / "engine.log").read_text(errors="replace")

    def histories(self) -> list[CallHistory]:
        """The recorded calls, in the order in which they were offered."""
        found = [
            CallHistory.from_lines(read_lines(path)) for path in ledgers(self.folder / "ledger")
        ]
        return sorted(found, key=lambda history: history.started_at)

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            async with asyncio.timeout(60):
                await self.process.wait()

    async def _is_ready(self, tools: bool) -> bool:
        try:
            status, _ = await self.get("/ready")
            if status != 200 or not tools:
                return status == 200
            _, body = await self.get("/health")
        except (OSError, IndexError):
            return False
        return bool(orjson.loads(body)["components"]["mcp"]["ready"])


@asynccontextmanager
async def running_engine(
    config: Config, changes: Mapping[str, Any] | None = None
) -> AsyncIterator[EngineProcess]:
    """Run `cordboard run` with `config` on free ports; yields it when it is ready."""
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        engine = EngineProcess(folder, free_port(), free_port())
        as_file(
            config,
            {
                "health": {"port": engine.http_port},
                **(changes or {}),
                "calls": {**(changes or {}).get("calls", {}), "directory": str(folder / "ledger")},
                "audiosocket": {
                    **(changes or {}).get("audiosocket", {}),
                    "port": engine.audiosocket_port,
                },
            },
            folder / "engine.yaml",
        )
        began = time.monotonic()
        engine.process = await start_child(
            [sys.executable, "-m", "cordboard", "run", "--config", str(folder / "engine.yaml")],
            folder=ROOT,
            output=folder / "engine.log",
        )
        try:
            await engine.ready(tools=False)
            engine.ready_after = time.monotonic() - began
            yield engine
        finally:
            await engine.stop()
