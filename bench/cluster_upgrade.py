"""A rolling upgrade of three engines under calls: each is told to stop, hands its calls over, ends,
and is started again, while callers come and go.

    phones ──SIP, RTP──▶ Asterisk ──▶ engines a, b, c (processes), and a NATS server

Lost: callers whose call ended though they had not hung up. Refused: callers whom nobody answered.
The silence of a hand-over is the longest time without a packet at the phone around it; without one
it is 20 ms.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.engine_process import ROOT
from bench.options import Options
from bench.report import Report, Summary, Target, milliseconds
from cordboard.calls.history import ledgers
from cordboard.errors import CallOver, CallRefused, KitError
from cordboard.telephony.asterisk.dialplan import dialplan
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port, free_port_range
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.nats_server import NatsServer
from cordboard_testkit.sip import OutgoingCall, SipPhone

CALLS = 60
NODES = ("a", "b", "c")
NUMBER = "700"
TOKEN = "bench-bench-bench-bench"
GRACE = 60.0
"""Seconds that an engine has to hand its calls over."""
ARRIVAL = 0.15
"""Seconds between two callers at the beginning."""
CHANGE = 1.0
"""Seconds between two callers later: one comes, and the oldest hangs up."""
SETTLE = 3.0
AROUND = (0.3, 1.5)
"""Seconds before and after a hand-over in which the silence is looked for."""
FRAME = 0.02
RTP_PORTS = 900
PATIENCE = 90.0
_LOOK = 0.1

Progress = Callable[[str], None]


@dataclass
class Engine:
    """One start of an engine."""

    node: str
    folder: Path
    port: int
    process: asyncio.subprocess.Process

    async def health(self) -> dict[str, Any]:
        """Raises `OSError` while the port is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}"
            writer.write(f"GET /health HTTP/1.0\r\n{head}\r\n\r\n".encode())
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        found: dict[str, Any] = orjson.loads(body)
        return found

    def handed_over(self) -> Iterator[tuple[str, float]]:
        """Yield the caller and the wall-clock time of each call that was handed to it."""
        for path in ledgers(self.folder / "calls"):
            lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
            # The last one: earlier ones are of the engines that had it before.
            came = [each for each in lines if each["type"] == "call.adopted"][-1:]
            if came and came[0]["handed_over"]:
                began = datetime.datetime.fromisoformat(lines[0]["started_at"]).timestamp()
                yield lines[0]["caller_number"], began + came[0]["at_ms"] / 1000


@dataclass
class Stage:
    """Engines, Asterisk, NATS and the callers."""

    asterisk: AsteriskInstance
    nats: NatsServer
    phone: SipPhone
    folder: Path
    engines: dict[str, Engine] = field(default_factory=dict)
    ended: list[Engine] = field(default_factory=list)
    talking: dict[str, OutgoingCall] = field(default_factory=dict)
    """The callers who have not hung up, the oldest first."""
    done: dict[str, OutgoingCall] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    refused: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(4790000001))

    async def start(self, node: str, room: int) -> Engine:
        """Start an engine; returns before it is ready."""
        folder = self.folder / f"{node}-{len(self.ended)}"
        folder.mkdir()
        port = free_port()
        config = {
            "health": {"port": port},
            "admin": {"token": TOKEN},
            "audiosocket": {"port": free_port()},
            "calls": {
                "directory": str(folder / "calls"),
                "max_calls": room,
                "shutdown_grace_ms": round(GRACE * 1000),
            },
            "mcp": {"enabled": False},
            "providers": {"none": {"type": "openai_realtime", "api_key": "unused"}},
            "contexts": {"desk": {"provider": "none", "greeting": "Hello.", "tools": []}},
            "asterisk": {
                "url": self.asterisk.ari_url,
                "username": self.asterisk.ari_user,
                "password": self.asterisk.ari_password,
                "reconnect_max_ms": 500,
            },
            "cluster": {"node": node, "nats": {"servers": [self.nats.url]}},
        }
        (folder / "engine.yaml").write_bytes(orjson.dumps(config))
        process = await start_child(
            [sys.executable, "-m", "bench.cluster_upgrade_engine", str(folder / "engine.yaml")],
            folder=ROOT,
            output=folder / "engine.log",
        )
        engine = self.engines[node] = Engine(node, folder, port, process)
        return engine

    async def together(self) -> None:
        """Wait until all engines know each other, and the dialplan knows them. Raises
        `KitError`."""
        deadline = time.monotonic() + PATIENCE
        while not await self._together():
            if time.monotonic() > deadline:
                raise KitError("the engines have not found each other")
            await asyncio.sleep(_LOOK)

    async def _together(self) -> bool:
        for engine in self.engines.values():
            if engine.process.returncode is not None:
                log = (engine.folder / "engine.log").read_text(errors="replace")
                raise KitError(f"an engine ended: {log[-2000:]}")
        with suppress(OSError, ValueError, KeyError):
            states = [(await each.health())["cluster"] for each in self.engines.values()]
            said = await self.asterisk.cli("dialplan show globals")
            known = [f"CORDBOARD_ROOM_cordboard-{each['instance']}=" in said for each in states]
            return all(known) and all(each["engines"] == len(NODES) for each in states)
        return False

    async def call(self) -> None:
        """Have somebody call; note whether they are answered."""
        number = str(next(self.numbers))
        line = await self.phone.call(self.asterisk.sip_uri(NUMBER), caller_number=number)
        try:
            await line.answered()
        except (CallOver, CallRefused, TimeoutError):
            self.refused += 1
            return
        self.talking[number] = line

    def leave(self) -> None:
        """Have the oldest caller hang up."""
        number = next(iter(self.talking))
        line = self.talking.pop(number)
        if line.end is None:
            self.done[number] = line
            line.hangup()
        else:
            self.lost.append(number)

    async def come_and_go(self) -> None:
        """Change the callers, without end."""
        while True:
            await asyncio.sleep(CHANGE)
            await self.call()
            self.leave()


async def measure(progress: Progress, options: Options, report: Report) -> None:
    """`options.calls`: callers at a time (60). Raises `AsteriskMissing`, `KitError`."""
    calls = options.calls or CALLS
    wall = time.time() - time.monotonic()
    async with _stage() as stage:
        for node in NODES:
            await stage.start(node, 2 * calls)
        await stage.together()
        for _ in range(calls):
            await stage.call()
            await asyncio.sleep(ARRIVAL)
        await asyncio.sleep(SETTLE)
        progress(f"{len(stage.talking)} callers talk")
        changing = asyncio.create_task(stage.come_and_go())
        seconds = [await _upgrade(stage, node, calls, progress) for node in NODES]
        changing.cancel()
        await asyncio.wait((changing,))
        await asyncio.sleep(SETTLE)
        stage.lost += [number for number, line in stage.talking.items() if line.end is not None]
        moves = [
            (number, at - wall)
            for engine in (*stage.ended, *stage.engines.values())
            for number, at in engine.handed_over()
        ]
        gaps = [gap for number, at in moves if (gap := _silence(stage, number, at)) is not None]
    _report(report, stage, calls, seconds, gaps)


@asynccontextmanager
async def _stage() -> AsyncIterator[Stage]:
    lines = dialplan(["desk"], {NUMBER: "desk"}, shared=True)
    ports = free_port_range(RTP_PORTS)
    rtp = f"[general]\nrtpstart={ports[0]}\nrtpend={ports[-1]}\nstrictrtp=yes\nicesupport=no\n"
    extra = "\n[from-test-extra]\ninclude => from-internal\n"
    media = MediaThread()
    media.start()
    with NatsServer() as nats, tempfile.TemporaryDirectory(prefix="bench") as name:
        async with (
            AsteriskInstance(dialplan=extra + lines, files={"rtp.conf": rtp}) as asterisk,
            SipPhone(media=media) as phone,
        ):
            stage = Stage(asterisk, nats, phone, Path(name))
            try:
                yield stage
            finally:
                for engine in (*stage.ended, *stage.engines.values()):
                    if engine.process.returncode is None:
                        engine.process.kill()
                        await engine.process.wait()
                await media.stop()


async def _upgrade(stage: Stage, node: str, calls: int, progress: Progress) -> float:
    """Stop an engine and start its successor. Return the seconds until it had ended."""
    engine = stage.engines[node]
    began = time.monotonic()
    engine.process.terminate()
    async with asyncio.timeout(GRACE + PATIENCE):
        await engine.process.wait()
    seconds = time.monotonic() - began
    stage.ended.append(engine)
    await stage.start(node, 2 * calls)
    await stage.together()
    progress(f"{node} has handed its calls over and ended after {seconds:.1f} s")
    return seconds


def _silence(stage: Stage, number: str, at: float) -> float | None:
    """Return the longest time without a packet at a phone around a hand-over; None if they had hung
    up."""
    line = stage.talking.get(number) or stage.done.get(number)
    if line is None:
        return None
    before, after = AROUND
    passed = (frame.passed_at for frame in line.frames_heard())
    heard = [each for each in passed if at - before <= each <= at + after]
    gaps = [later - earlier for earlier, later in itertools.pairwise(heard)]
    return max(gaps) if gaps else None


def _report(
    report: Report, stage: Stage, calls: int, seconds: list[float], gaps: list[float]
) -> None:
    report.targets += [
        Target(f"rolling upgrade under {calls} calls: lost", len(stage.lost), 0, "calls"),
        Target(f"rolling upgrade under {calls} calls: refused", stage.refused, 0, "calls"),
    ]
    rows = [["until an engine had ended, s", str(len(seconds)), *_cells(seconds, "{:.1f}")]]
    if gaps:
        found = Summary.of(gaps)
        cells = [milliseconds(each) for each in (found.median, found.p95, found.most)]
        rows.append(["longest time without a packet, ms", str(found.count), *cells])
        report.targets.append(Target("silence of a hand-over, p95", 1000 * found.p95, 60, "ms"))
    report.table("Rolling upgrade", ["measured", "n", "median", "p95", "max"], rows)
    callers = len(stage.talking) + len(stage.done) + len(stage.lost)
    report.notes.append(f"{callers} callers, {len(gaps)} hand-overs")
    report.figures["upgrade"] = {
        "calls": calls,
        "callers": callers,
        "lost": len(stage.lost),
        "refused": stage.refused,
        "ended_after_s": seconds,
        "silence_s": gaps,
    }


def _cells(values: list[float], form: str) -> list[str]:
    found = Summary.of(values)
    return [form.format(each) for each in (found.median, found.p95, found.most)]
