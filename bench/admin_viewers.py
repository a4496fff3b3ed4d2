"""The viewers of `admin`, a process of its own: `python -m bench.admin_viewers ADDRESS KEY TEXT`.

Viewers of the live feed, each with the topics calls, engine and two calls; and a person who, once a
second, searches the history and checks the configuration in the file TEXT. It prints
`{"ready": true}` and answers each line on standard input:

    watch N P    N viewers have all rows; with P=1 a person works too. Those before are gone
    start        counts from now on
    stop         see `Seen`

The delay of an event is from the time that its ledger gives it (the call's offer by the wall clock,
and `at_ms`) until the frame is here, by the same clock of the same machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import itertools
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from bench.frames_server import say
from cordboard.admin.application import BASE
from cordboard.admin.live import PROTOCOL
from cordboard.cli.options import run_async

FOLLOWED = 2
"""Calls that each viewer follows, besides all rows."""
PERIOD = 1.0
WORDS = ("kakaka", "kakalo", "kal*", "mimisu kaloka")
"""Searches; the generated ledgers have these words."""
_ROWS, _ENGINE, _FIRST_CALL = range(3)


@dataclass(slots=True)
class Seen:
    """All that viewers and person have seen since `start`."""

    rows_ms: list[float] = field(default_factory=list)
    """Delays of the last words in the rows."""
    events_ms: list[float] = field(default_factory=list)
    """Delays of the events of followed calls."""
    size: int = 0
    """Bytes of all frames."""
    frames: int = 0
    restarts: int = 0
    searches_ms: list[float] = field(default_factory=list)
    checks_ms: list[float] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    """Requests of the person, by what they asked for and the status."""


class Viewer:
    """One page with live calls."""

    def __init__(self, socket: ClientConnection, crowd: Crowd) -> None:
        self._socket = socket
        self._crowd = crowd
        self._began: dict[str, float] = {}
        """Wall-clock time of each call's offer."""
        self._followed: dict[int, str] = {}

    async def begin(self) -> None:
        """Subscribe, and wait for all rows. Raises `TimeoutError`."""
        await self._subscribe(_ROWS, topic="calls")
        await self._subscribe(_ENGINE, topic="engine")
        async with asyncio.timeout(20):
            while not self._began:
                self._take(await self._socket.recv())
        for which, call in enumerate([*self._began][:FOLLOWED], _FIRST_CALL):
            self._followed[which] = call
            await self._subscribe(which, topic="call", call=call)

    async def watch(self) -> None:
        """Take frames until the connection is closed. Raises `ConnectionClosed`."""
        while True:
            self._take(await self._socket.recv())

    async def _subscribe(self, which: int, **topic: str) -> None:
        await self._socket.send(orjson.dumps({"id": which, **topic}).decode())

    def _take(self, text: str | bytes) -> None:
        now, seen = time.time(), self._crowd.seen
        frame: dict[str, Any] = orjson.loads(text)
        if "error" in frame:
            raise ValueError(f"the feed refused: {frame['error']}")
        seen.size += len(text)
        seen.frames += 1
        seen.restarts += bool(frame.get("restart"))
        if frame["id"] == _ROWS:
            for row in frame.get("snapshot", ()):
                self._offered(row)
            for row in frame.get("rows", ()):
                self._offered(row)
                if row.get("last") is not None:
                    at = self._began[row["call_id"]] + row["last"]["at_ms"] / 1000
                    seen.rows_ms.append(1000 * (now - at))
        elif frame["id"] >= _FIRST_CALL:
            began = self._began[self._followed[frame["id"]]]
            seen.events_ms += [
                1000 * (now - began) - event["at_ms"] for event in frame.get("events", ())
            ]

    def _offered(self, row: dict[str, Any]) -> None:
        if "started_at" in row:
            at = datetime.datetime.fromisoformat(row["started_at"])
            self._began[row["call_id"]] = at.timestamp()


class Crowd:
    """The viewers and the person of one measurement."""

    def __init__(self, address: str, key: str, text: str) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {key}"}
        self._text = text
        self.seen = Seen()

    @asynccontextmanager
    async def watching(self, viewers: int, *, person: bool) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            watching = []
            for _ in range(viewers):
                viewer = Viewer(await stack.enter_async_context(self._connected()), self)
                await viewer.begin()
                watching.append(tasks.create_task(viewer.watch()))
            if person:
                watching.append(tasks.create_task(self._work()))
            yield
            for task in watching:
                task.cancel()

    def _connected(self) -> connect:
        url = f"{self._address.replace('http', 'ws', 1)}{BASE}/live"
        protocols = [Subprotocol(PROTOCOL)]
        return connect(
            url, additional_headers=self._headers, subprotocols=protocols, compression=None
        )

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        async with httpx2.AsyncClient(
            base_url=f"{self._address}{BASE}", headers=self._headers, trust_env=False, timeout=30
        ) as client:
            due = loop.time()
            for words in itertools.cycle(WORDS):
                began = loop.time()
                self._note("search", await client.get("/calls", params={"text": words}), began)
                began = loop.time()
                check = await client.post("/config/check", json={"text": self._text})
                self._note("check", check, began)
                due = max(due + PERIOD, loop.time())
                await asyncio.sleep(due - loop.time())

    def _note(self, what: str, answer: httpx2.Response, began: float) -> None:
        took = 1000 * (asyncio.get_running_loop().time() - began)
        if answer.status_code != 200:
            refused, name = self.seen.refused, f"{what} {answer.status_code}"
            refused[name] = refused.get(name, 0) + 1
        elif what == "search":
            self.seen.searches_ms.append(took)
        else:
            self.seen.checks_ms.append(took)


async def _serve(address: str, key: str, text: str) -> None:
    crowd, loop = Crowd(address, key, text), asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    say({"ready": True})
    order = (await lines.readline()).split()
    while order:
        _, viewers, person = order  # `watch` comes first
        async with crowd.watching(int(viewers), person=person == b"1"):
            say({})
            while (order := (await lines.readline()).split()) and order[0] != b"watch":
                if order[0] == b"start":
                    crowd.seen = Seen()
                    say({})
                else:
                    say(dataclasses.asdict(crowd.seen))


if __name__ == "__main__":
    run_async(_serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text(encoding="utf-8")))
