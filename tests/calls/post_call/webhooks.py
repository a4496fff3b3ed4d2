"""A receiver of webhooks on loopback that fails as it is told, and remembers what came."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Delivery:
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


@dataclass
class Receiver:
    """`statuses`: one for each delivery, the last for all further ones; 0 = never answers."""

    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [200])
    body: bytes = b""
    """Of every answer; JSON."""
    deliveries: list[Delivery] = field(default_factory=list)
    came: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def wait_for(self, count: int) -> None:
        """Until so many deliveries have come."""
        async with asyncio.timeout(20), self.came:
            await self.came.wait_for(lambda: len(self.deliveries) >= count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.strip().split("\r\n")[1:]
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
            raw = await reader.readexactly(int(headers.get("content-length", "0")))
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            async with self.came:
                self.deliveries.append(Delivery(headers, raw))
                self.came.notify_all()
            if status:
                head = f"HTTP/1.1 {status} Words\r\ncontent-length: {len(self.body)}\r\n"
                writer.write(head.encode() + b"connection: close\r\n\r\n" + self.body)
                await writer.drain()
            else:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    found = Receiver(statuses=list(statuses) or [200])
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found
