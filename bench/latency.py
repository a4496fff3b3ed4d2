"""The caller's wait, measured at the caller: a SIP phone behind a real Asterisk.

    phone --SIP/RTP--> Asterisk --AudioSocket--> `cordboard run` (a process of its own)

Twenty turns in sixteen calls: twelve calls ask a complete question, four ask a vague one, hear
"Which aerodrome?" and answer it. The caller hangs up soon after each answer has begun, because an
ATIS takes half a minute to read. Also: the engine's own figures from its ledgers, the difference of
the two in each turn, and the delay of the same phone and Asterisk without an engine (Echo()).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.caller import spoken
from bench.engine_process import demo_config, running_engine
from bench.questions import ANSWERS, QUESTIONS, VAGUE
from bench.report import Report, Summary, Target, milliseconds
from cordboard.calls.history import CallHistory
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.sip import PhoneCall, SipPhone
from cordboard_testkit.timeline import RATE, Samples

CONTEXT = "demo"
ANSWER_HEARD = 0.8
"""Seconds of an answer that the caller hears before hanging up."""
BURSTS = 20
Progress = Callable[[str], None]


@dataclass(slots=True)
class Heard:
    """The measurements at the phone, in seconds."""

    greetings: list[float] = field(default_factory=list)
    calls: list[list[float]] = field(default_factory=list)
    """The waits of each call."""
    misses: list[str] = field(default_factory=list)
    """Turns that got no answer, or one while the caller was still speaking."""

    @property
    def waits(self) -> list[float]:
        return [wait for waits in self.calls for wait in waits]

    def apart_from(self, histories: Sequence[CallHistory]) -> list[float]:
        """Phone less ledger of each turn, in seconds, of the calls in which both saw every turn."""
        apart: list[float] = []
        for waits, history in zip(self.calls, histories, strict=True):
            told = [t.latency["total_ms"] / 1000 for t in history.caller_turns if t.latency]
            if len(told) == len(waits):
                apart += [wait - ledger for wait, ledger in zip(waits, told, strict=True)]
        return apart


async def measure(progress: Progress) -> Report:
    scripts = [[q.text] for q in QUESTIONS[:12]]
    scripts += [[vague, answer] for vague, answer in zip(VAGUE, ANSWERS, strict=True)]
    sounds = {text: spoken(text) for script in scripts for text in script}
    heard = Heard()
    async with AsteriskInstance() as asterisk:
        progress(f"Asterisk is up ({asterisk.boot_seconds:.1f} s)")
        floor = await _echo(asterisk)
        ari = {
            "url": asterisk.ari_url,
            "username": asterisk.ari_user,
            "password": asterisk.ari_password,
            "app": asterisk.app,
        }
        async with running_engine(demo_config(), {"asterisk": ari}) as engine:
            await engine.ready(tools=True)
            progress(f"the engine is ready; {len(scripts)} calls")
            async with SipPhone("caller") as phone:
                for script in scripts:
                    call = await phone.call(asterisk.sip_uri(f"ctx-{CONTEXT}"))
                    await _converse(call, script, sounds, heard)
                    last = f"{heard.waits[-1] * 1000:.0f} ms" if heard.waits else "none yet"
                    progress(f"{len(heard.waits)} turns; last wait {last}: {script[-1]}")
            await engine.stop()  # every ledger is complete
            histories = list(engine.histories())
    return _report(heard, floor, histories, sum(map(len, scripts)))


async def _echo(asterisk: AsteriskInstance) -> list[float]:
    """Tone bursts through Echo(): round trip of each, in seconds."""
    tone = np.sin(2 * np.pi * 440 * np.arange(RATE // 10) / RATE) * 8000
    burst = np.concatenate((tone, np.zeros(RATE // 5))).astype(np.int16)
    async with SipPhone("echo") as phone:
        call = await phone.call(asterisk.sip_uri("echo"))
        await call.answered()
        call.say(np.tile(burst, BURSTS))
        await call.said()
        await call.hear_silence(300)
        call.hangup()
    pairs = zip(call.spoken_segments(join=0.1), call.heard_segments(join=0.1), strict=True)
    return [back.start - said.start for said, back in pairs]


async def _converse(
    call: PhoneCall, script: list[str], sounds: dict[str, Samples], heard: Heard
) -> None:
    """One call: greeting, then each line and the beginning of its answer."""
    answered_at = await call.answered()
    heard.greetings.append(await call.hear_speech(after=answered_at) - answered_at)
    for text in script:
        await call.hear_silence(500)
        call.say(sounds[text])
        said_at = await call.said()
        try:
            await call.hear_speech(5.0, after=said_at)
            await call.hear_silence(500, timeout=ANSWER_HEARD)
        except TimeoutError:
            continue  # a long answer; a missing one has no latency below
    call.hangup()
    await call.ended()
    waits = [turn.seconds for turn in call.turn_latencies()]
    if len(waits) < len(script):
        heard.misses.append(f"{len(script) - len(waits)} of {' / '.join(script)}")
    heard.calls.append(waits)


def _row(name: str, summary: Summary) -> list[str]:
    cells = (summary.median, summary.p95, summary.least, summary.most)
    return [name, str(summary.count), *map(milliseconds, cells)]


def _report(
    heard: Heard, floor: list[float], histories: Sequence[CallHistory], asked: int
) -> Report:
    report = Report("latency")
    turns = [turn for history in histories for turn in history.caller_turns if turn.latency]
    apart = [abs(difference) for difference in heard.apart_from(histories)]
    waits, greetings = Summary.of(heard.waits), Summary.of(heard.greetings)
    rows = [
        _row("heard at the phone: last speech sample to first answer", waits),
        _row("heard at the phone: 200 OK to first greeting sample", greetings),
    ]
    stages: dict[str, list[float]] = {}
    for turn in turns:
        for name, value in turn.latency.items():
            stages.setdefault(name.removesuffix("_ms"), []).append(value / 1000)
    rows += [_row(f"ledger: {name}", Summary.of(values)) for name, values in stages.items()]
    rows.append(_row("phone and ledger apart, each turn", Summary.of(apart)))
    round_trip = statistics.median(floor) * 1000
    report.table("The caller's wait, ms", ["measured", "n", "median", "p95", "min", "max"], rows)
    report.notes.append(
        f"floor in the same run: Echo() round trip {round_trip:.1f} ms median, "
        f"{max(floor) * 1000:.1f} ms max of {len(floor)}"
    )
    report.notes += [
        f"turns without an answer, or with one over the caller: {miss}" for miss in heard.misses
    ]
    report.targets = [
        Target("turn, median", waits.median, 0.65, "s"),
        Target("turn, p95", waits.p95, 1.0, "s"),
        Target("turn, longest", waits.most, 1.2, "s"),
        Target("phone and ledger apart, p95", Summary.of(apart).p95, 0.04, "s"),
        Target("greeting, median", greetings.median, 0.3, "s"),
        Target("turns answered", waits.count, asked, "turns", at_least=True),
    ]
    report.figures = {
        "waits_s": heard.waits,
        "greetings_s": heard.greetings,
        "echo_s": floor,
        "ledger_stages_s": stages,
        "apart_s": heard.apart_from(histories),
        "fillers": sum(turn.filled for turn in turns),
        "heard": [turn.heard for turn in turns],
    }
    return report
