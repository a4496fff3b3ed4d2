"""The caller's wait in a call from the browser, against the same call by AudioSocket.

    page   --websocket of the admin port--> `cordboard run` (a process of its own)
    caller --AudioSocket-->                  the same engine

Each asks the same complete questions in turn, one call after the other, so that both see the same
machine. The page is the test kit's: it plays from a jitter buffer of 60 ms, which is part of the
wait, as in a browser. The loudspeaker and the microphone of a machine are not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.caller import spoken
from bench.engine_process import demo_config, running_engine
from bench.questions import QUESTIONS
from bench.report import Report, Summary, Target, milliseconds
from cordboard.accounts import passwords
from cordboard.accounts.rights import EVERYWHERE, Permission, Role
from cordboard.accounts.store import Accounts
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.browser_page import BrowserPage
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.timeline import Samples
from cordboard_testkit.voice_line import VoiceLine

CONTEXT = "demo"
CALLS = 12
APART_MS = 80
"""Target: by this much the page's median wait may be longer."""
ANSWER_HEARD = 0.8
"""Seconds of an answer that the caller hears before hanging up."""
Progress = Callable[[str], None]


async def measure(progress: Progress) -> Report:
    waits: dict[str, list[float]] = {"audiosocket": [], "slin16": [], "ulaw": []}
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        headers = {"Authorization": f"Bearer {_key(Path(name))}"}
        port = free_port()
        changes = {
            "admin": {"ui": {"enabled": True, "port": port, "data": name}},
            "audiosocket": {"context": CONTEXT, "calls_per_minute": 600},
        }
        async with running_engine(demo_config(), changes) as engine:
            await engine.ready(tools=True)
            for question in QUESTIONS[:CALLS]:
                sound = spoken(question.text)
                for line in waits:
                    caller: SimulatedCaller | BrowserPage
                    if line == "audiosocket":
                        caller = SimulatedCaller("127.0.0.1", engine.audiosocket_port)
                    else:
                        address = f"http://127.0.0.1:{port}"
                        caller = BrowserPage(address, headers, context=CONTEXT, format=line)
                    async with caller:
                        await _ask(caller, sound)
                    waits[line] += [turn.seconds for turn in caller.turn_latencies()]
                progress(question.text)
    return _report(waits)


def _key(folder: Path) -> str:
    """Return the key of a program that may make calls."""
    accounts = Accounts(folder)
    accounts.add("bench", Role.OPERATOR, (), EVERYWHERE)
    accounts.use_link(accounts.reset("bench"), passwords.hashed("a bench has no password"))
    _, token = accounts.add_key("bench", "page", {Permission.TRY_CALL}, EVERYWHERE, 3_600)
    accounts.close()
    return token


async def _ask(caller: VoiceLine, sound: Samples) -> None:
    """Hear the greeting, ask, and hear the beginning of the answer."""
    await caller.hear_speech(after=0.0)
    await caller.hear_silence(500)
    caller.say(sound)
    said_at = await caller.said()
    try:
        await caller.hear_speech(5.0, after=said_at)
        await caller.hear_silence(500, timeout=ANSWER_HEARD)
    except TimeoutError:
        return  # a long answer; a missing one has no latency


def _report(waits: dict[str, list[float]]) -> Report:
    report = Report("browser")
    found = {line: Summary.of(values) for line, values in waits.items()}
    rows = [
        [line, str(s.count), *map(milliseconds, (s.median, s.p95, s.least, s.most))]
        for line, s in found.items()
    ]
    report.table("Wait at the caller", ["line", "n", "median", "p95", "min", "max"], rows)
    floor = found["audiosocket"].median
    report.targets = [
        Target(f"{line}: longer than by AudioSocket", (s.median - floor) * 1000, APART_MS, "ms")
        for line, s in found.items()
        if line != "audiosocket"
    ]
    report.figures = {f"{line}_s": values for line, values in waits.items()}
    return report
