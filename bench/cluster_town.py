"""Engines of a cluster as processes, at one real Asterisk and one real NATS server, and a phone."""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.cluster_engine import ORDER, SHOP
from bench.engine_process import ROOT
from cordboard.calls.history import ledgers
from cordboard.errors import KitError
from cordboard.telephony.asterisk.dialplan import dialplan
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.nats_server import NatsServer
from cordboard_testkit.sip import OutgoingCall, SipPhone

NUMBER = "700"
"""Extension whose callers an engine of the cluster answers. That of one engine is the name of its
application."""
TOKEN = "bench-bench-bench-bench"
_PATIENCE = 180.0
_POLL = 0.02
_DIALPLAN = """
[from-test-extra]
include => from-internal
exten => _solo-.,1,Stasis(${EXTEN})
 same => n,Hangup()
exten => _cordboard-.,1,Stasis(${EXTEN})
 same => n,Hangup()
"""


def configuration(
    node: str, asterisk: AsteriskInstance, nats: NatsServer | None, folder: Path
) -> dict[str, Any]:
    """The file of one engine; without `nats` it is alone, and its name is its Stasis
    application's. Its orders go to a file `orders` beside its folder."""
    counting = [sys.executable, "-m", "cordboard_testkit.mcp_servers.counting"]
    patient = {"caller_after_ms": 300_000, "agent_after_ms": 300_000}
    shop = {"greeting": "Bicycle shop.", "provider": "none", "tools": [ORDER], "silence": patient}
    own: dict[str, Any] = {
        "health": {"port": free_port()},
        "admin": {"token": TOKEN},
        "audiosocket": {"port": free_port()},
        "calls": {"directory": str(folder / "calls"), "max_calls": 200},
        "outbound": {"campaigns": str(folder / "campaigns.db")},
        "providers": {"none": {"type": "openai_realtime", "api_key": "unused"}},
        "contexts": {SHOP: shop, "desk": {**shop, "tools": []}},
        "default_context": SHOP,
        "tools": {
            ORDER: {
                "kind": "mcp",
                "server": "world",
                "tool": "order",
                "effects": "destructive",
                "approval": "none",
            }
        },
        "mcp": {
            "lock": "off",
            "servers": {"world": {"command": [*counting, str(folder.parent / "orders")]}},
        },
        "asterisk": {
            "url": asterisk.ari_url,
            "username": asterisk.ari_user,
            "password": asterisk.ari_password,
            "reconnect_max_ms": 500,
        },
    }
    if nats is None:
        own["asterisk"]["app"] = node
    else:
        own["cluster"] = {"node": node, "nats": {"servers": [nats.url]}}
    return own


@dataclass
class Engine:
    """One `bench.cluster_engine`."""

    node: str
    folder: Path
    port: int
    process: asyncio.subprocess.Process
    alone: bool = False
    instance: str = ""
    """Its name in the cluster; empty before it is ready, or alone."""

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    @property
    def calls(self) -> dict[str, Path]:
        """The ledgers by call id."""
        return {path.stem: path for path in ledgers(self.folder / "calls")}

    async def health(self) -> dict[str, Any]:
        """Raises `OSError` while the port is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            lines = (
                f"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            )
            writer.write(lines.encode())
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        found: dict[str, Any] = orjson.loads(body)
        return found

    async def kill(self) -> None:
        if self.alive:
            self.process.kill()
            await self.process.wait()


@dataclass
class Caller:
    """Somebody on the phone."""

    number: str
    line: OutgoingCall
    call_id: str = ""
    engine: Engine | None = None
    """The engine that answered."""


@dataclass
class Town:
    """The stage of one part of the benchmark."""

    asterisk: AsteriskInstance
    nats: NatsServer
    phone: SipPhone
    folder: Path
    engines: dict[str, Engine] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(4790000001))
    _starts: Iterator[int] = field(default_factory=itertools.count)

    async def start(
        self,
        node: str,
        agent: str = "desk",
        *,
        alone: bool = False,
        change: Callable[[dict[str, Any]], None] = lambda config: None,
        program: Sequence[str] = (sys.executable, "-m", "bench.cluster_engine"),
    ) -> Engine:
        """Start an engine in place of the node's last one; returns before it is ready. `change`
        changes its configuration."""
        folder = self.folder / f"{node}-{next(self._starts)}"
        folder.mkdir()
        config = configuration(node, self.asterisk, None if alone else self.nats, folder)
        change(config)
        (folder / "engine.yaml").write_bytes(orjson.dumps(config))
        process = await start_child(
            [*program, str(folder / "engine.yaml"), agent],
            folder=ROOT,
            output=folder / "engine.log",
        )
        engine = self.engines[node] = Engine(node, folder, config["health"]["port"], process, alone)
        return engine

    async def together(self) -> None:
        """Wait until all engines are ready and know each other, and the dialplan knows them."""

        async def whole() -> bool:
            for engine in self.engines.values():
                if not engine.alive:
                    log = (engine.folder / "engine.log").read_text(errors="replace")
                    raise KitError(f"an engine ended: {log[-2000:]}")
            try:
                states = [await each.health() for each in self.engines.values()]
            except (OSError, ValueError):
                return False
            if any(state["mcp_servers"]["world"]["state"] != "ready" for state in states):
                return False
            for engine, state in zip(self.engines.values(), states, strict=True):
                engine.instance = state.get("cluster", {}).get("instance", "")
            said = await self.asterisk.cli("dialplan show globals")
            joined = [engine for engine in self.engines.values() if not engine.alone]
            known = [
                engine.instance and f"CORDBOARD_ROOM_cordboard-{engine.instance}=" in said
                for engine in joined
            ]
            seen = [state["cluster"]["engines"] for state in states if "cluster" in state]
            return all(known) and seen == [len(joined)] * len(joined)

        await eventually(whole, "all engines know each other")

    async def dial(self, extension: str = NUMBER) -> Caller:
        """Call from a fresh number. Returns at once."""
        number = str(next(self._numbers))
        line = await self.phone.call(self.asterisk.sip_uri(extension), caller_number=number)
        return Caller(number, line)

    async def call(self, extension: str = NUMBER) -> Caller:
        """Call, hear the greeting to its end, and find the engine that answered. Raises
        `KitError`."""
        caller = await self.dial(extension)
        await caller.line.answered()
        await caller.line.hear_speech(after=-math.inf)
        await caller.line.hear_silence(300)
        found = self.where(caller.number)
        if found is None:
            raise KitError(f"no engine has a ledger of {caller.number}")
        caller.engine, caller.call_id = found
        return caller

    def where(self, number: str) -> tuple[Engine, str] | None:
        """Return the living engine that answered this caller, and the call's id."""
        for engine in self.engines.values():
            for call_id, path in engine.calls.items():
                with path.open("rb") as file:
                    line = file.readline()
                if line and orjson.loads(line).get("caller_number") == number:
                    return engine, call_id
        return None

    def orders(self) -> list[str]:
        """The ids of the calls that the world has got orders of, as often as it has."""
        path = self.folder / "orders"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [orjson.loads(line)["call"] for line in lines]


async def eventually(look: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look until it is so. Raises `KitError`."""
    deadline = time.monotonic() + _PATIENCE
    while not await look():
        if time.monotonic() > deadline:
            raise KitError(f"waited in vain: {what}")
        await asyncio.sleep(_POLL)


@asynccontextmanager
async def town() -> AsyncIterator[Town]:
    """A town without engines. Raises `AsteriskMissing` and `KitError`."""
    lines = dialplan([SHOP, "desk"], {NUMBER: SHOP, SHOP: SHOP, "desk": "desk"}, shared=True)
    with NatsServer() as nats, tempfile.TemporaryDirectory(prefix="bench") as name:
        async with AsteriskInstance(dialplan=_DIALPLAN + lines) as asterisk, SipPhone() as phone:
            made = Town(asterisk, nats, phone, Path(name))
            try:
                yield made
            finally:
                for engine in made.engines.values():
                    await engine.kill()
