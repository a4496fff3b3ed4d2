"""Whole calls through a real Asterisk, a hundred at a time, and five hundred one after the other.

    sipp ──SIP, RTP──▶ Asterisk ──audiosocket | websocket | rtp──▶ the engine (its own process)

For each transport: ten calls, then a hundred and one, all echoed by the agent; one of them is a
SIP phone of our own that measures the round trip of its audio. Then the soak: short calls with
the offline agent and its greeting; afterwards the process must hold the same resources as before.
Groups for `--only`: audiosocket, websocket, rtp, soak.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench.engine_process import ROOT
from bench.frames import without_pauses
from bench.load import sipp
from bench.options import Options
from bench.report import Report, Summary, Target
from cordboard.errors import KitError
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.free_ports import free_port_range
from cordboard_testkit.sip import SipPhone
from cordboard_testkit.timeline import FRAME_SECONDS, RATE, Samples

TRANSPORTS = ("audiosocket", "websocket", "rtp")
FEW, MANY = 10, 100
STAY = 26.0
"""Seconds that a caller stays: until all have arrived and been measured."""
A_SECOND = 20.0
SECONDS = 6.0
SETTLE = 2.0
BURSTS = 16
SOAK_CALLS, SOAK_AT_ONCE, SOAK_SECONDS = 500, 3, 1.5
"""Complete calls of the offline agent, at the rate that two cores can greet and understand: with 25
at once the engine turned most of them away as overloaded, as it should (386 of 500, measured)."""
SOAK_LASTS = 500
"""Seconds within which they are done."""
WARM_UP = 60
RTP_PORTS = 900
CONTEXT = "load"
Progress = Callable[[str], None]


@dataclass(slots=True)
class Crowded:
    """A transport with a hundred calls and one."""

    transport: str
    counted: dict[str, Any]
    """The engine's counts, see `bench.load.server`."""
    round_trips: list[float]
    """Seconds; the phone's tone bursts."""
    bursts_lost: int
    cores: dict[str, float]
    """Processor seconds per second: engine, its event loop, Asterisk, the callers."""
    kb_a_call: float


class Server:
    """A process that answers each line with one of JSON, such as `bench.load.server`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def ask(self, order: str = "") -> dict[str, Any]:
        """Send a command, if any, and return its next line of output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if order:
            self._process.stdin.write(order.encode() + b"\n")
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        if not line:
            raise KitError("a process of the benchmark ended by itself")
        answer: dict[str, Any] = orjson.loads(line)
        return answer


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `AsteriskMissing`, `KitError`."""
    report = Report("load")
    if not sipp.has_sipp():
        report.notes.append(sipp.MISSING)
        progress(sipp.MISSING)
    sound = without_pauses()
    chosen = [transport for transport in TRANSPORTS if options.chosen(transport)]
    crowds = [await _crowd(transport, sound, progress) for transport in chosen]
    if crowds:
        _report_crowds(report, crowds)
    if options.chosen("soak"):
        await _soak(sound, report, progress)
    return report


@asynccontextmanager
async def _running(transport: str, agent: str) -> AsyncIterator[tuple[AsteriskInstance, Server]]:
    """Asterisk and the engine, connected."""
    ports = free_port_range(RTP_PORTS)
    rtp = f"[general]\nrtpstart={ports[0]}\nrtpend={ports[-1]}\nstrictrtp=yes\nicesupport=no\n"
    async with AsteriskInstance(files={"rtp.conf": rtp}) as asterisk:
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            file = Path(name) / "engine.yaml"
            file.write_bytes(orjson.dumps(_configuration(asterisk, transport, name)))
            async with serving(file, agent) as server:
                yield asterisk, server


def _configuration(asterisk: AsteriskInstance, transport: str, folder: str) -> dict[str, Any]:
    hello = {"intents": {"hello": {"sentences": ["hello"], "say": "Hello."}}}
    context = {"provider": "local", "greeting": "Hello there.", "tools": [], "rules": hello}
    return {
        "health": {"port": 0},
        "audiosocket": {"port": 0},
        "calls": {"directory": f"{folder}/ledger", "max_calls": 200},
        "mcp": {"enabled": False},
        "providers": {"local": {"type": "pipeline"}},
        "contexts": {CONTEXT: context},
        "asterisk": {
            "url": asterisk.ari_url,
            "username": asterisk.ari_user,
            "password": asterisk.ari_password,
            "app": asterisk.app,
            "media": transport,
        },
    }


def serving(file: Path, agent: str) -> AbstractAsyncContextManager[Server]:
    """A `bench.load.server` with this configuration and agent, ready for calls."""
    return module_process("bench.load.server", str(file), agent)


@asynccontextmanager
async def module_process(module: str, *arguments: str) -> AsyncIterator[Server]:
    """A module of the benchmark as a process that takes commands, once it has said its first line.
    The end of its input stops it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=1 << 22,
    )
    try:
        server = Server(process)
        await server.ask()
        yield server
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(15):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _crowd(transport: str, sound: Samples, progress: Progress) -> Crowded:
    async with _running(transport, "echo") as (asterisk, server):
        crowds: list[sipp.Crowd] = []
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            weights: list[float] = []
            try:
                for calls in (FEW, MANY - FEW):
                    crowds.append(
                        await sipp.call(
                            asterisk.sip_port,
                            f"ctx-{CONTEXT}",
                            calls=calls,
                            at_once=calls,
                            a_second=A_SECOND,
                            seconds=STAY,
                            sound=sound,
                            folder=Path(name),
                        )
                    )
                    await asyncio.sleep(calls / A_SECOND + SETTLE)
                    weights.append((await server.ask("weigh"))["rss_kb"])
                pids = {"engine": server.pid, "Asterisk": asterisk.pid}
                pids |= {f"callers {number}": crowd.pid for number, crowd in enumerate(crowds)}
                counted, trips, cores = await _with_phone(asterisk, server, pids)
            except KitError as problem:
                raise KitError(f"{problem}\n{crowds[-1].says() if crowds else ''}") from problem
            finally:
                for crowd in crowds:
                    await crowd.stop()
        progress(
            f"{transport}: {counted['calls']} calls, {counted['frames']} frames, "
            f"{counted['late']} late, {counted['lost']} lost, "
            f"the engine takes {cores['engine']:.0%} of a core"
        )
    kb = (weights[1] - weights[0]) / (MANY - FEW)
    return Crowded(transport, counted, trips, BURSTS - len(trips), cores, kb)


async def _with_phone(
    asterisk: AsteriskInstance, server: Server, pids: dict[str, int]
) -> tuple[dict[str, Any], list[float], dict[str, float]]:
    """Our own phone calls too; counting runs while it speaks."""
    tone = np.sin(2 * np.pi * 440 * np.arange(RATE // 10) / RATE) * 8000
    burst = np.concatenate((tone, np.zeros(RATE // 5))).astype(np.int16)
    async with SipPhone("measured") as phone:
        call = await phone.call(asterisk.sip_uri(f"ctx-{CONTEXT}"))
        await call.answered()
        await asyncio.sleep(0.5)
        await server.ask("start")
        before = {name: spent(pid) for name, pid in pids.items()}
        began = asyncio.get_running_loop().time()
        call.say(np.tile(burst, BURSTS))
        await call.said()
        await asyncio.sleep(max(0.5, SECONDS - len(burst) * BURSTS / RATE))
        seconds = asyncio.get_running_loop().time() - began
        after = {name: spent(pid) for name, pid in pids.items()}
        counted = await server.ask("stop")
        call.hangup()
        await call.ended()
    cores = {name: (after[name][0] - before[name][0]) / seconds for name in pids}
    cores["event loop"] = (after["engine"][1] - before["engine"][1]) / seconds
    said, back = call.spoken_segments(join=0.1), call.heard_segments(join=0.1)
    return counted, _round_trips([s.start for s in said], [s.start for s in back]), cores


def _round_trips(said: list[float], back: list[float]) -> list[float]:
    """Round trip of each burst; a burst without one within 0.25 s is lost."""
    trips = []
    for start in said:
        found = next((at for at in back if 0 <= at - start < 0.25), None)
        if found is not None:
            trips.append(found - start)
    return trips


def spent(pid: int) -> tuple[float, float]:
    """Processor seconds of a process: all of its threads, and the first."""
    tasks = {
        int(task.name): int((task / "schedstat").read_text().split()[0]) / 1e9
        for task in Path(f"/proc/{pid}/task").iterdir()
    }
    return sum(tasks.values()), tasks[pid]


async def _soak(sound: Samples, report: Report, progress: Progress) -> None:
    """Hundreds of short calls: resources at the end and at the beginning."""
    async with _running("audiosocket", "pipeline") as (asterisk, server):
        weights: list[dict[str, Any]] = []
        failed = 0
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            for calls in (WARM_UP, SOAK_CALLS):
                crowd = await sipp.call(
                    asterisk.sip_port,
                    f"ctx-{CONTEXT}",
                    calls=calls,
                    at_once=SOAK_AT_ONCE,
                    a_second=SOAK_AT_ONCE / SOAK_SECONDS,
                    seconds=SOAK_SECONDS,
                    sound=sound,
                    folder=Path(name),
                )
                try:
                    if await crowd.done(SOAK_LASTS):
                        failed += crowd.failed()
                finally:
                    await crowd.stop()
                await asyncio.sleep(SETTLE)
                weights.append(await server.ask("weigh"))
                progress(f"soak: {calls} calls of {SOAK_SECONDS} s: {weights[-1]}")
        left = await asterisk.channels()
    before, after = weights
    rows = [[name, str(before[name]), str(after[name])] for name in before]
    report.table(f"{SOAK_CALLS} short calls", ["held by the engine", "before", "after"], rows)
    report.notes.append(f"soak: channels left in Asterisk: {len(left)}")
    report.targets.append(Target("soak, calls that failed", failed, 0, f"of {SOAK_CALLS}"))
    for name in ("tasks", "handles", "rss_kb"):
        growth = 100 * (after[name] - before[name]) / before[name]
        report.targets.append(Target(f"soak, more {name}", growth, 5, "%"))
    report.figures["soak"] = {"before": before, "after": after, "channels_left": left}


def _report_crowds(report: Report, crowds: list[Crowded]) -> None:
    rows = []
    for crowd in crowds:
        counted = crowd.counted
        lag = Summary.of(counted["lags"])
        trips = [trip * 1000 for trip in crowd.round_trips]
        callers = sum(v for name, v in crowd.cores.items() if name.startswith("callers"))
        frames = (MANY + 1) / FRAME_SECONDS
        rows.append(
            [
                crowd.transport,
                str(counted["calls"]),
                f"{counted['late']} / {counted['lost']}",
                f"{counted['ticks_late']} / {counted['ticks_skipped']}",
                f"{statistics.median(trips):.1f}" if trips else "none",
                f"{max(trips):.1f}" if trips else "none",
                f"{crowd.cores['engine'] * 100:.0f} ({crowd.cores['event loop'] * 100:.0f})",
                f"{crowd.cores['engine'] / frames * 1e6:.0f}",
                f"{crowd.cores['Asterisk'] * 100:.0f}",
                f"{callers * 100:.0f}",
                f"{lag.p99 * 1000:.1f}",
                f"{lag.most * 1000:.1f}",
                f"{crowd.kb_a_call:.0f}",
            ]
        )
        report.targets += [
            Target(f"{crowd.transport}: calls", counted["calls"], MANY + 1, "", at_least=True),
            Target(
                f"{crowd.transport}: lost, or due and not sent within 20 ms",
                counted["lost"] + counted["ticks_late"] + counted["ticks_skipped"],
                0,
                f"frames of {counted['frames']}",
            ),
            Target(f"{crowd.transport}: memory of a further call", crowd.kb_a_call, 1024, "kB"),
        ]
        if crowd.bursts_lost:
            report.notes.append(f"{crowd.transport}: {crowd.bursts_lost} bursts not heard again")
    heads = ["transport", "calls", "in late / lost", "out late / skipped", "round trip ms", "max"]
    heads += ["engine % (loop)", "us/frame", "Asterisk %", "callers %", "lag p99 ms", "max"]
    report.table(f"{MANY} callers and a measured one", [*heads, "kB a call"], rows)
    report.figures["crowds"] = [
        {
            "transport": crowd.transport,
            "counted": crowd.counted,
            "round_trips_s": crowd.round_trips,
            "cores": crowd.cores,
            "kb_a_call": crowd.kb_a_call,
        }
        for crowd in crowds
    ]
