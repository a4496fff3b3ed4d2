"""A stand-in for met.no on the loopback interface, and the server as a real child process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

MODULE = "cordboard.mcp_servers.aviation_atis"


@dataclass
class FakeMetno:
    """Answers every GET with the present ``status``, ``headers`` and ``body``; notes requests."""

    port: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    release: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/weatherapi/tafmetar/1.0"

    def hold(self) -> None:
        """From now on requests are taken and left unanswered until ``release`` is set."""
        self.release.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := (await reader.readline()).decode():
                headers = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                self.requests.append((line.split()[1], headers))
                self.asked.set()
                await self.release.wait()
                writer.write(self._answer(headers))
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def icaos(self) -> list[str]:
        return [parse_qs(urlsplit(path).query)["icao"][0] for path, _ in self.requests]

    def _answer(self, headers: dict[str, str]) -> bytes:
        unchanged = headers.get("if-modified-since") == self.headers.get("Last-Modified", "none")
        status, body = (304, b"") if unchanged else (self.status, self.body.encode())
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
async def metno() -> AsyncIterator[FakeMetno]:
    fake = FakeMetno()
    fake.release.set()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    yield fake
    fake.release.set()
    server.close()


@dataclass
class AtisProcess:
    """How to start the server under test."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "atis.yaml"

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    def write(self, text: str) -> None:
        """Replace the settings file at once, as an editor does."""
        fresh = self.folder / "atis.yaml.new"
        fresh.write_text(text)
        fresh.replace(self.config)

    def write_live(self, url: str, more: str = "", metno: str = "") -> None:
        self.write(
            f"source: metno\nmetno: {{base_url: '{url}', user_agent: tests@example.org{metno}}}\n"
            f"{more}"
        )

    def start(self) -> subprocess.Popen[bytes]:
        """The bare process, for tests of its beginning and its end."""
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, "--config", str(self.config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},
        )

    @asynccontextmanager
    async def client(self, mode: str = "auto") -> AsyncIterator[Client]:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", MODULE, "--config", str(self.config)],
            env={"PATH": os.environ["PATH"]},
        )
        with (self.folder / "stderr.txt").open("w") as errlog:
            transport = stdio_client(parameters, errlog=errlog)
            async with Client(transport, read_timeout_seconds=30, mode=mode) as client:
                yield client


@pytest.fixture
def atis(tmp_path: Path) -> AtisProcess:
    return AtisProcess(tmp_path)
