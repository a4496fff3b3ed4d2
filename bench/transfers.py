"""Attended transfers through a real Asterisk, timed at the phones of the caller and the human.

    caller ──SIP──▶ Asterisk ──AudioSocket──▶ `cordboard run` (a process of its own)
    human  ◀──SIP──────┘

A caller presses a key and waits with music. A human answers at once, hears the briefing and decides
by a key: half of them in the middle of it, half after its end. Each briefing has words of its own,
as the caller's concern would be.

    briefing   from the human's 200 OK to the first sample of speech
    talk       from the end of the key 1 until each hears the other, the slower of the two
    back       from the end of the key 2 to the first sample of speech at the caller

A few are introduced to each other first (`warm`): of those there is no time of the talk.

The music is a noise, and so is the voice of caller and human: every frame tells where it is from.
`bench.music` looks for music in and between the frames of speech.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.engine_process import running_engine
from bench.music import Music, heard_from
from bench.options import Options
from bench.report import Report, Summary, Target, milliseconds
from cordboard.audio import g711
from cordboard.config.schema import Config
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.sip import PhoneCall, SipPhone
from cordboard_testkit.sip.incoming import IncomingCall
from cordboard_testkit.timeline import RATE, Samples

CALLS = 20
"""Transfers that are taken without an introduction, and as many that are declined."""
KEY_SECONDS = 0.12
"""Length of a key of the phone."""
MUSIC_SECONDS = 20
TALK_SECONDS = 1.5
EARLY_SECONDS = 1.0
LONGEST_WAIT = 30.0
NUMBER = "6001"
Kind = Literal["taken", "declined", "warm"]
Progress = Callable[[str], None]


@dataclass(slots=True)
class Timed:
    """The measurements of all transfers, in seconds."""

    briefing: list[float] = field(default_factory=list)
    talk: list[float] = field(default_factory=list)
    back: list[float] = field(default_factory=list)
    music: list[Music] = field(default_factory=list)
    """What the callers heard of it."""
    at_humans: list[Music] = field(default_factory=list)


def noise(seed: int, seconds: float) -> Samples:
    """Noise as a line carries it, the same for the same seed."""
    sound = np.random.default_rng(seed).normal(0, 3_000, int(seconds * RATE))
    pcm = sound.clip(-30_000, 30_000).astype("<i2").tobytes()
    return np.frombuffer(g711.ulaw_to_linear(g711.linear_to_ulaw(pcm)), "<i2").astype(np.int16)


MUSIC, CALLER, HUMAN = 1, 2, 3
"""Seeds."""


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `AsteriskMissing`, `KitError`, and `ValueError` if callers heard no music."""
    calls = options.calls or CALLS
    kinds: list[Kind] = [kind for _ in range(calls) for kind in ("taken", "declined")]
    kinds += ["warm"] * (calls // 4)
    timed = Timed()
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        ulaw = g711.linear_to_ulaw(noise(MUSIC, MUSIC_SECONDS).astype("<i2").tobytes())
        (folder / "noise.ulaw").write_bytes(ulaw)
        files = {"musiconhold.conf": f"[default]\nmode=files\ndirectory={folder}\n"}
        async with SipPhone("caller") as caller, SipPhone("human", answers=False) as human:
            phones = {NUMBER: human.address}
            async with (
                AsteriskInstance(files=files, phones=phones) as asterisk,
                running_engine(_config(kinds), _changes(asterisk)) as engine,
            ):
                await engine.ready(tools=False)
                for number, kind in enumerate(kinds):
                    uri = asterisk.sip_uri(f"ctx-desk{number}")
                    await _transfer(caller, human, uri, kind, number % 4 < 2, timed)
                    progress(f"{number + 1} of {len(kinds)}: {kind}; {_latest(timed)}")
    return _report(timed)


def _latest(timed: Timed) -> str:
    latest = {"briefing": timed.briefing, "talk": timed.talk, "back": timed.back}
    return ", ".join(f"{name} {values[-1]:.3f} s" for name, values in latest.items() if values)


def _config(kinds: list[Kind]) -> Config:
    """A desk for each call, whose key 1 transfers. Every briefing is another one: none has been
    spoken before."""
    places = {
        f"desk{number}": {
            "target": NUMBER,
            "context": "internal",
            "mode": "warm" if kind == "warm" else "attended",
            "endpoint": f"PJSIP/phone-{NUMBER}",
            "briefing": f"A caller asks for order {100 + 37 * number}. Press 1 or 2.",
        }
        for number, kind in enumerate(kinds)
    }
    contexts = {
        name: {
            "provider": "local",
            "greeting": "Order desk.",
            "tools": ["hangup_call"],
            "rules": {},
            "keys": {"prompt": "Press 1.", "options": {"1": {"transfer": name}}},
        }
        for name in places
    }
    return Config.model_validate(
        {
            "mcp": {"enabled": False},
            "providers": {"local": {"type": "pipeline"}},
            "contexts": contexts,
            "tools": {"transfer": {"destinations": places}},
        }
    )


def _changes(asterisk: AsteriskInstance) -> dict[str, Any]:
    ari = {
        "url": asterisk.ari_url,
        "username": asterisk.ari_user,
        "password": asterisk.ari_password,
        "app": asterisk.app,
    }
    return {"asterisk": ari}


async def _transfer(
    caller: SipPhone, human: SipPhone, uri: str, kind: Kind, early: bool, timed: Timed
) -> None:
    """One call; `early`: the human decides in the middle of the briefing."""
    call = await caller.call(uri)
    await call.hear_speech(after=await call.answered())
    await call.hear_silence(500)
    call.press("1")
    there = await human.incoming()
    there.answer()
    answered_at = await there.answered()
    timed.briefing.append(await there.hear_speech(after=answered_at) - answered_at)
    if early:
        await asyncio.sleep(EARLY_SECONDS)
    else:
        await there.hear_silence(700)
    decided = time.monotonic() + KEY_SECONDS
    there.press("2" if kind == "declined" else "1")
    if kind == "declined":
        await there.ended()
        await _spoken_out(call, decided)
    else:
        call.say(noise(CALLER, TALK_SECONDS))
        there.say(noise(HUMAN, TALK_SECONDS))
        await asyncio.gather(call.said(), there.said())
        await there.hear_silence(300)
    call.hangup()
    there.hangup()
    await asyncio.to_thread(_judge, call, there, kind, decided, timed)


async def _spoken_out(call: PhoneCall, since: float) -> None:
    """Until the agent has spoken to the caller: the music is over, and then a sentence is."""
    async with asyncio.timeout(LONGEST_WAIT):
        while (await call.hear_silence(1_500)) < since:
            await call.hear_speech()


def _judge(call: PhoneCall, there: IncomingCall, kind: Kind, decided: float, timed: Timed) -> None:
    music = noise(MUSIC, MUSIC_SECONDS)
    at_caller = Music.of(call.frames_heard(), music)
    if not at_caller.frames:
        raise ValueError("a caller heard no music on hold")
    timed.music.append(at_caller)
    timed.at_humans.append(Music.of(there.frames_heard(), music))
    if kind == "declined":
        timed.back.append(at_caller.sound_after(decided) - decided)
    elif kind == "taken":
        heard = (
            heard_from(there.frames_heard(), noise(CALLER, TALK_SECONDS)),
            heard_from(call.frames_heard(), noise(HUMAN, TALK_SECONDS)),
        )
        timed.talk.append(max(heard) - decided)


def _report(timed: Timed) -> Report:
    report = Report("transfers")
    measured = {
        "200 OK of the human to the briefing": (timed.briefing, 0.5),
        "end of the key 1 until both hear each other": (timed.talk, 0.3),
        "end of the key 2 until the caller hears the agent": (timed.back, 0.7),
    }
    rows = []
    for name, (values, limit) in measured.items():
        found = Summary.of(values)
        cells = (found.median, found.p95, found.least, found.most)
        rows.append([name, str(found.count), *map(milliseconds, cells)])
        report.targets.append(Target(f"{name}, p95", found.p95, limit, "s"))
    report.table("At the phones, ms", ["measured", "n", "median", "p95", "min", "max"], rows)
    under = sum(each.under_speech for each in (*timed.music, *timed.at_humans))
    at_humans = sum(each.frames for each in timed.at_humans)
    heard = sum(each.frames for each in timed.music)
    report.notes.append(f"callers heard {heard} frames of music in {len(timed.music)} calls")
    report.targets += [
        Target("frames with music under speech, or speech between music", under, 0, ""),
        Target("frames of music at the humans", at_humans, 0, ""),
    ]
    report.figures = {
        "briefing_s": timed.briefing,
        "talk_s": timed.talk,
        "back_s": timed.back,
        "music_frames": heard,
        "under_speech_frames": under,
        "music_frames_at_humans": at_humans,
    }
    return report
