"""Many callers of the offline agent who ask within the same six seconds.

    callers --AudioSocket--> `cordboard run` (a process of its own)

Each crowd gets an engine of its own. All callers hear the greeting; then their questions end evenly
spread over `SPREAD` seconds. The wait runs from a caller's last sound to the answer; a filler is no
answer (`turn.answered` of the ledger). When all have been answered, one more caller comes: the
engine has recovered if that one is answered as quickly as the only caller of an idle engine.
Groups for `--only`: 1, 8, 16, 24.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench.caller import spoken
from bench.engine_process import EngineProcess, demo_config, running_engine
from bench.options import Options
from bench.questions import QUESTIONS
from bench.report import Report, Summary, Target, milliseconds
from cordboard.calls.history import CallHistory
from cordboard.errors import CallOver, CallRefused
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.timeline import RATE, Samples

CROWDS = {1: (0.65, 1.0), 8: (0.7, 1.9), 16: (1.2, 2.5), 24: (None, 4.0)}
"""Callers → targets for the median and the 95th percentile of the wait, in seconds."""
SPREAD = 6.0
"""Seconds within which all questions end."""
PATIENT = 15.0
"""Seconds after the last question in which answers still count."""
RECOVERY = 2.0
"""Seconds after the last answer, or after `PATIENT`, until one more caller asks."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Crowd:
    """One crowd and its waits."""

    callers: int
    waits: list[float] = field(default_factory=list)
    """Seconds until the answer of each caller who got one."""
    filled: int = 0
    """Callers who heard a filler first."""
    refused: int = 0
    late_caller: float | None = None
    """Wait of the caller after the crowd; None: refused, or not answered."""
    answers: list[str] = field(default_factory=list)


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `KitError`."""
    sounds = [spoken(question.text) for question in QUESTIONS[:12]]
    report, crowds = Report("crowd"), []
    for callers in CROWDS:
        if options.chosen(str(callers)):
            crowds.append(await _crowd(callers, sounds))
            progress(_words(crowds[-1]))
    _fill(report, crowds)
    return report


async def _crowd(callers: int, sounds: Sequence[Samples]) -> Crowd:
    crowd = Crowd(callers)
    changes = {
        "audiosocket": {"context": "demo", "calls_per_minute": 1000},
        "calls": {"max_calls": 100},
    }
    media = MediaThread()
    media.start()
    try:
        async with running_engine(demo_config(), changes) as engine, AsyncExitStack() as calls:
            await engine.ready(tools=True)
            await asyncio.sleep(5)  # the sentences rendered ahead are ready, and load counts
            asking = [_Caller(engine, media, calls) for _ in range(callers)]
            await asyncio.gather(*(caller.arrive() for caller in asking))
            crowd.refused = sum(caller.refused for caller in asking)
            begin = time.monotonic() + max(map(len, sounds)) / RATE
            for number, caller in enumerate(asking):
                sound = sounds[number % len(sounds)]
                end = begin + SPREAD * number / callers
                calls.push_async_callback(_ended, asyncio.create_task(caller.ask(sound, end)))
            await asyncio.sleep(begin + SPREAD + PATIENT - time.monotonic())
            for caller in asking:
                caller.hang_up()
            last = _Caller(engine, media, calls)
            await asyncio.sleep(RECOVERY)
            await last.arrive()
            if not last.refused:
                await last.ask(sounds[0], time.monotonic() + len(sounds[0]) / RATE + 0.3)
                await asyncio.sleep(4)
                last.hang_up()
            await engine.stop()
            _read(crowd, engine.histories(), late=not last.refused)
    finally:
        await media.stop()
    return crowd


class _Caller:
    """One caller of a crowd."""

    def __init__(self, engine: EngineProcess, media: MediaThread, calls: AsyncExitStack) -> None:
        self._line = SimulatedCaller("127.0.0.1", engine.audiosocket_port, media=media)
        self._calls = calls
        self.refused = False

    async def arrive(self) -> None:
        """Call, and hear the greeting to its end."""
        try:
            await self._calls.enter_async_context(self._line)
            await self._line.hear_speech(5.0)
            await self._line.hear_silence(600)
        except (CallOver, CallRefused, TimeoutError):
            self.refused = True
        self.refused = self.refused or self._line.end is not None

    async def ask(self, sound: Samples, end: float) -> None:
        """Ask so that the question ends at `end`, on the clock of `time.monotonic`."""
        if self.refused:
            return
        await asyncio.sleep(max(0.0, end - len(sound) / RATE - time.monotonic()))
        self._line.say(sound)

    def hang_up(self) -> None:
        self._line.hangup()


async def _ended(task: asyncio.Task[None]) -> None:
    await task


def _read(crowd: Crowd, histories: list[CallHistory], *, late: bool) -> None:
    """`late`: the last call, in the order in which they began, is of the caller after the crowd."""
    if late and len(histories) > crowd.callers:
        turns = histories.pop().caller_turns
        wait = turns[0].answer_ms if turns else None
        crowd.late_caller = None if wait is None else wait / 1000
    for history in histories:
        turns = history.caller_turns
        wait = turns[0].answer_ms if turns else None
        crowd.answers.append(turns[0].heard if turns else "")
        if wait is not None:
            crowd.waits.append(wait / 1000)
            crowd.filled += turns[0].filled


def _words(crowd: Crowd) -> str:
    waits = Summary.of(crowd.waits) if crowd.waits else None
    figures = f"median {waits.median:.2f}, p95 {waits.p95:.2f} s" if waits else "no answers"
    return f"{crowd.callers} callers: {figures}, {crowd.refused} refused"


def _fill(report: Report, crowds: Sequence[Crowd]) -> None:
    rows = []
    for crowd in crowds:
        if not crowd.waits:
            report.notes.append(f"{crowd.callers} callers: nobody was answered")
            continue
        waits = Summary.of(crowd.waits)
        late = crowd.late_caller
        cells = (*map(milliseconds, (waits.median, waits.p95, waits.most)), str(crowd.filled))
        then = "refused" if late is None else milliseconds(late)
        rows.append([str(crowd.callers), str(waits.count), *cells, str(crowd.refused), then])
        median, p95 = CROWDS[crowd.callers]
        name = f"{crowd.callers} callers"
        if median is not None:
            report.targets.append(Target(f"{name}, median", waits.median, median, "s"))
        report.targets.append(Target(f"{name}, p95", waits.p95, p95, "s"))
        report.targets.append(
            Target(f"{name}, answered", waits.count, crowd.callers, "calls", at_least=True)
        )
        report.targets.append(
            Target(f"{name}, the next one", late if late is not None else 99.0, 1.0, "s")
        )
        report.figures[str(crowd.callers)] = {
            "waits_s": crowd.waits,
            "heard": crowd.answers,
            "late_s": late,
        }
    heads = ["callers", "answered", "median", "p95", "longest", "fillers", "refused", "next one"]
    report.table(f"The wait for the answer, ms, within {SPREAD:.0f} s", heads, rows)
