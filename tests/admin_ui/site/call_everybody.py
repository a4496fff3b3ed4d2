"""Makes the history that the tests of the interface see: real calls to the hotel, all at once.

    python call_everybody.py FOLDER

FOLDER gets `calls/` with ledgers and recordings, `admin/versions/` with the configuration of these
calls, and `lines/` with the sound of LINES, for callers in the tests.

An engine with the hotel's configuration takes the calls, behind a real Asterisk; the callers have
SIP phones and the engine's own voice. One interrupts, one waits for a slow tool, one meets a broken
tool, one is passed on to a second phone, one asks about the weather, and one is refused.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import wave
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from cordboard.agent_api.tts import Voice
from cordboard.calls.events import LedgerEvent, Offered
from cordboard.calls.history import CallHistory, find, read_lines
from cordboard.config.load import ConfigSource, load
from cordboard.runtime.engine import Engine
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.caller_voice import render_script
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.scenario import Conversation, ScriptLine
from cordboard_testkit.simulated_call import voice_of
from cordboard_testkit.sip import PhoneCall, SipPhone
from cordboard_testkit.timeline import RATE

SITE = Path(__file__).parent
REPOSITORY = SITE.parents[2]


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    number: str
    context: str
    says: tuple[str, ...]
    interrupts_after: float | None = None
    """Seconds into the answer to the first line, after which the second one begins."""


CALLERS = (
    Caller(
        *("Ida Jensen", "+4533112233", "reception"),
        ("When are you open?", "When is the restaurant open?", "Goodbye."),
        interrupts_after=1.5,
    ),
    Caller(
        *("Erik Holm", "+4520304050", "booking"),
        ("Do you have a room for two people?", "Thank you. Goodbye."),
    ),
    Caller(
        *("Maja Lund", "+4544556677", "booking"),
        ("Please send me my invoice.", "Goodbye."),
    ),
    Caller(
        *("Otto Berg", "+4930123456", "reception"),
        ("Please put me through to housekeeping.",),
    ),
    Caller(
        *("Anna Falk", "+46812345678", "weather"),
        ("What is the weather in Copenhagen?", "Thank you, goodbye."),
        interrupts_after=5.0,
    ),
)
LINES = (
    "When are you open?",
    "Do you have a room for two people?",
    "Please send me my invoice.",
    "What is the weather in Copenhagen?",
    "Goodbye.",
)


def write_site(folder: Path, changes: dict[str, str]) -> Path:
    """Copy the hotel's files into a folder, with some texts of the configuration replaced; return
    the configuration."""
    for file in SITE.glob("*.py"):
        shutil.copy(file, folder)
    shutil.copytree(REPOSITORY / "config" / "metar", folder / "metar", dirs_exist_ok=True)
    shutil.copy(REPOSITORY / "config" / "aviation_atis.yaml", folder)
    text = (SITE / "agent.yaml").read_text()
    for before in changes:
        if text.count(before) != 1:
            raise ValueError(f"{before!r} is not once in agent.yaml")
    # All at once: a new text, such as a port, may contain the next one to be replaced.
    path = folder / "agent.yaml"
    path.write_text(
        re.sub("|".join(map(re.escape, changes)), lambda found: changes[found[0]], text)
        if changes
        else text
    )
    return path


class Hotel:
    """The engine behind its Asterisk, and the ledgers of its calls by the caller's number."""

    def __init__(self, folder: Path) -> None:
        self._calls = folder / "calls"
        self._call_ids: dict[str, str] = {}

    def take(self, call_id: str, _: int, event: LedgerEvent) -> None:
        """The engine's listener."""
        if isinstance(event, Offered):
            self._call_ids[event.caller_number] = call_id

    async def talk(self, line: PhoneCall, caller: Caller, script: list[ScriptLine]) -> None:
        """Speak a script, each line after the answer to the one before."""

        async def owed() -> bool:
            path = find(self._calls, self._call_ids[caller.number])
            return path is not None and CallHistory.from_lines(read_lines(path)).answer_owed

        if caller.interrupts_after is not None:
            script[1] = replace(script[1], interrupts_after=caller.interrupts_after)
        await Conversation(line, patience=PATIENCE, owed=owed).run(script, wait_for_hangup=10)


async def write_lines(voice: Voice, folder: Path) -> None:
    """Write each of LINES as a file of 8 kHz, named by its number."""
    folder.mkdir()
    for number, line in enumerate(await render_script(voice, list(LINES))):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(line.sound.astype("<i2").tobytes())


async def main(folder: Path) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    hotel = Hotel(folder)
    async with AsyncExitStack() as stack:
        asterisk = await stack.enter_async_context(AsteriskInstance())
        ari = f"{{url: '{asterisk.ari_url}', password: {asterisk.ari_password}}}"
        changes = {
            "15000": "0",
            "8090": "0",
            "15001": "0",
            "directory: calls": f"directory: calls\n  max_calls: {len(CALLERS)}",
            "default_provider: local": f"default_provider: local\nasterisk: {ari}",
        }
        loaded = load(write_site(folder, changes), os.environ)
        source = ConfigSource(loaded.path, os.environ, loaded.digests, loaded.content)
        engine = Engine(loaded.config, hotel.take, source, sheds_load=False)
        await engine.start()
        stack.push_async_callback(engine.stop, 0.0)
        await engine.line_ready(PATIENCE)
        await engine.tools_settled(PATIENCE)
        housekeeping = await stack.enter_async_context(SipPhone("housekeeping"))
        await asterisk.connect_phone("6001", housekeeping.address)
        phone = await stack.enter_async_context(SipPhone())
        voice = voice_of(engine)
        await write_lines(voice, folder / "lines")
        scripts = [await render_script(voice, list(caller.says)) for caller in CALLERS]
        talks = []
        for caller, script in zip(CALLERS, scripts, strict=True):
            line = await phone.call(
                asterisk.sip_uri(f"ctx-{caller.context}"),
                caller_name=caller.name,
                caller_number=caller.number,
            )
            await line.answered()
            talks.append(asyncio.create_task(hotel.talk(line, caller, script)))
        one_too_many = asterisk.sip_uri("ctx-reception")
        refused = await phone.call(one_too_many, caller_name="Bo", caller_number="+4599887766")
        await (await housekeeping.incoming()).answered()
        await asyncio.gather(*talks)
        refused.hangup()
        await engine.calls_recorded()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve()))
