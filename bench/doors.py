"""A stranger on the machine who tries to get into other people's calls by the AudioSocket port.

    stranger ──every open HTTP path──▶ the engine ◀──AudioSocket, up to 0.5 s late── calls
             ──AudioSocket, often────▶ (a process)

`late`: a thousand calls of a simulated Asterisk, each of which must hear its own echo; the stranger
connects as fast as possible. `asterisk`: two hundred calls of SIP phones through a real Asterisk,
its connections delayed likewise, and ten thousand attempts spread over that time. The stranger is a
process of its own and stops when the calls are over.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.parser import text_string_to_metric_families

from bench.engine_process import ROOT
from bench.frames import without_pauses
from bench.load import serving, sipp
from bench.options import Options
from bench.report import Report, Target
from cordboard.calls.history import CallHistory, read
from cordboard.calls.history import ledgers as recorded
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.late_asterisk import LateAsterisk, late_connections

HOST, HELD_BACK = "127.0.0.1", "127.0.0.2"
"""Both are this machine; connections to the second are delayed."""
CONTEXT = "doors"
LATE = 0.5
CALLS, AT_ONCE = 1000, 20
SIP_CALLS, SIP_AT_ONCE, SIP_SECONDS = 200, 20, 4.0
ATTEMPTS_A_CALL = 50
"""Ten thousand for two hundred calls."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """The outcome of one part."""

    name: str
    calls: int
    reached: int = 0
    """Callers who reached an agent of their own."""
    spoils: dict[str, Any] = field(default_factory=dict)
    """See `cordboard_testkit.stranger.Spoils`."""
    histories: list[CallHistory] = field(default_factory=list)
    turned_away: Counter[str] = field(default_factory=Counter)
    """Connections, by reason."""
    refused: int = 0
    """Callers, by the engine."""

    @property
    def of_strangers(self) -> int:
        """Calls that a stranger's connection became or reached."""
        bare = sum(history.source != "asterisk" for history in self.histories)
        return max(bare, len(self.spoils["heard"]))

    @property
    def not_reached(self) -> int:
        return self.calls - self.reached


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `AsteriskMissing`, `KitError`."""
    report = Report("doors")
    outcomes = []
    if options.chosen("late"):
        outcomes.append(await _late(options.calls or CALLS))
        progress(_said(outcomes[-1]))
    if options.chosen("asterisk"):
        outcomes.append(await _through_asterisk(options.calls or SIP_CALLS))
        progress(_said(outcomes[-1]))
    _report(report, outcomes)
    return report


def _delays() -> Iterator[float]:
    chance = random.Random(500)
    while True:
        yield chance.uniform(0, LATE)


async def _late(calls: int) -> Outcome:
    outcome = Outcome("late", calls)
    async with LateAsterisk(_delays()) as asterisk:
        ari = {"url": asterisk.url, "password": "not asked for"}
        async with _attacked(outcome, ari, HOST, free_port()):
            places = asyncio.Semaphore(AT_ONCE)

            async def one() -> None:
                async with places:
                    call = await asterisk.call()
                    if await call.reached_itself():
                        outcome.reached += 1
                        await call.hang_up()

            await asyncio.gather(*(one() for _ in range(calls)))
    return outcome


async def _through_asterisk(calls: int) -> Outcome:
    outcome = Outcome("asterisk", calls)
    port = free_port()
    at_once = min(SIP_AT_ONCE, calls)
    lasts = calls / at_once * (SIP_SECONDS + LATE)
    async with AsteriskInstance() as asterisk, late_connections(_delays(), HELD_BACK, port, HOST):
        ari = {
            "url": asterisk.ari_url,
            "username": asterisk.ari_user,
            "password": asterisk.ari_password,
            "app": asterisk.app,
        }
        a_second = calls * ATTEMPTS_A_CALL / lasts
        with tempfile.TemporaryDirectory(prefix="bench") as folder:
            async with _attacked(outcome, ari, HELD_BACK, port, a_second):
                crowd = await sipp.call(
                    asterisk.sip_port,
                    f"ctx-{CONTEXT}",
                    calls=calls,
                    at_once=at_once,
                    a_second=at_once / SIP_SECONDS,
                    seconds=SIP_SECONDS,
                    sound=without_pauses(),
                    folder=Path(folder),
                )
                try:
                    failed = crowd.failed() if await crowd.done(60 + 5 * lasts) else 0
                finally:
                    await crowd.stop()
                await asyncio.sleep(1)  # the last callers hang up
    ended = [h for h in outcome.histories if h.source == "asterisk" and h.connected_ms is not None]
    completed = sum(history.outcome == "completed" for history in ended)
    outcome.reached = min(completed, calls - failed)
    return outcome


@asynccontextmanager
async def _attacked(
    outcome: Outcome, ari: dict[str, Any], advertise_host: str, port: int, a_second: float = 0.0
) -> AsyncIterator[None]:
    """The engine and an attacking stranger; the records of both go into the outcome."""
    http_port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        ledgers = Path(name) / "ledger"
        file = Path(name) / "engine.yaml"
        configuration = {
            "health": {"port": http_port},
            "audiosocket": {"port": port, "advertise_host": advertise_host},
            "calls": {"directory": str(ledgers), "max_calls": 200},
            "mcp": {"enabled": False},
            "contexts": {CONTEXT: {}},
            "asterisk": ari,
        }
        file.write_bytes(orjson.dumps(configuration))
        async with serving(file, "echo"):
            stranger = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "cordboard_testkit.stranger",
                HOST, str(port), str(http_port), str(a_second),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
            )  # fmt: skip
            try:
                assert stranger.stdout is not None
                await stranger.stdout.readline()  # it has started
                yield
            finally:
                said, _ = await stranger.communicate(b"")  # the end of its input stops it
            outcome.spoils = orjson.loads(said)
            await _count(outcome, http_port)
        outcome.histories = [read(path) for path in recorded(ledgers)]


async def _count(outcome: Outcome, http_port: int) -> None:
    """Return the engine's counters."""
    reader, writer = await asyncio.open_connection(HOST, http_port)
    writer.write(f"GET /metrics HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
    page = (await reader.read()).partition(b"\r\n\r\n")[2].decode()
    writer.close()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == "ai_agent_audiosocket_turned_away_total":
                outcome.turned_away[sample.labels["reason"]] += int(sample.value)
            elif sample.name == "ai_agent_refused_offers_total":
                outcome.refused += int(sample.value)


def _said(outcome: Outcome) -> str:
    return (
        f"{outcome.name}: {outcome.reached} of {outcome.calls} callers reached, "
        f"{outcome.spoils['attempts']} attempts of a stranger, {outcome.of_strangers} calls of "
        f"theirs, {outcome.refused} callers refused"
    )


def _report(report: Report, outcomes: list[Outcome]) -> None:
    heads = ["part", "calls", "reached", "attempts", "silent", "UUIDs read"]
    heads += ["strangers' calls", "callers refused", "connections turned away"]
    rows = []
    for one in outcomes:
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(one.turned_away.items()))
        found = len(one.spoils["found"])
        rows.append(
            [one.name]
            + [str(n) for n in (one.calls, one.reached, one.spoils["attempts"])]
            + [str(n) for n in (one.spoils["silent"], found, one.of_strangers, one.refused)]
            + [reasons]
        )
        report.targets += [
            Target(f"{one.name}: calls made of strangers' connections", one.of_strangers, 0, ""),
            Target(f"{one.name}: callers who did not reach their agent", one.not_reached, 0, ""),
        ]
        if one.name == "asterisk":
            wanted, made = one.calls * ATTEMPTS_A_CALL, one.spoils["attempts"]
            report.targets.append(Target("asterisk: attempts", made, wanted, "", at_least=True))
        report.figures[one.name] = {
            "calls": one.calls,
            "reached": one.reached,
            "of_strangers": one.of_strangers,
            "callers_refused": one.refused,
            "turned_away": dict(one.turned_away),
            "spoils": one.spoils,
        }
    report.table("A stranger at the AudioSocket port", heads, rows)
