"""Runs in the environment that has the plug-in: prints as JSON what each door gives.

python parrot_call.py FILE FOLDER
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from cordboard.agents.making import make_with_key
from cordboard.agents.providers import Providers
from cordboard.audio.format import SLIN_8K
from cordboard.audio.pacer import Pacer
from cordboard.calls.events import Answering, Heard, ToolAnswered, ToolCalled
from cordboard.config.load import load
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Asterisk, Config, Health
from cordboard.runtime.engine import Engine
from cordboard.telephony.asterisk.transport import plugin_path
from cordboard_testkit.call_stage import CallStage
from cordboard_testkit.virtual_time import virtual_time


async def call(config: Config, folder: Path) -> dict[str, Any]:
    """A call: the caller presses 5, then #, and hangs up."""
    agent = Providers(config, None).open("demo", "bird")
    stage = CallStage(folder, agent, config)
    await asyncio.sleep(3)
    for key in "5#":
        stage.line.media.press(key)
        await asyncio.sleep(3)
    stage.line.media.break_off("caller_hangup")
    await stage.over()
    stage.check()
    return {
        "said": [event.text for event in stage.of(Answering)],
        "pressed": [event.text for event in stage.of(Heard)],
        "asked": [(event.name, event.tool) for event in stage.of(ToolCalled)],
        "answered": [(event.status, event.message) for event in stage.of(ToolAnswered)],
        "heard_ms": stage.line.media.heard_ms,
    }


async def voice(config: Config) -> int:
    """Samples of three words, from the voice of a pipeline."""
    whistler = config.providers["whistler"]
    assert isinstance(whistler, PipelineProvider)
    part = make_with_key("tts", whistler.tts, None, {})
    return sum([len(pcm) // 2 async for pcm in part.speak("one two three")])


async def transport(config: Config) -> list[str]:
    """What comes back of what is written."""
    assert config.asterisk is not None
    path = plugin_path(config.asterisk, Pacer(asyncio.get_running_loop()))
    await path.start()
    arrival = await path.prepare([SLIN_8K])
    media = await arrival.media()
    back: list[str] = []
    media.on_audio(lambda pcm: back.append(pcm.decode()))
    media.write(b"hello")
    await media.close()
    await path.stop()
    return back


async def readiness(config: Config, folder: Path) -> dict[str, Any]:
    """The components of a running engine."""
    calls = config.calls.model_copy(update={"directory": folder / "engine"})
    given = config.model_copy(update={"health": Health(port=0), "calls": calls})
    engine = Engine(given, sheds_load=False)
    await engine.start()
    try:
        return {
            name: (state.ready, state.required, state.detail)
            for name, state in engine.view.readiness().items()
            if name in ("agents", "plugins", "media", "mcp")
        }
    finally:
        await engine.stop(0)


def main(file: Path, folder: Path) -> None:
    config = load(file, {}).config
    told: dict[str, Any] = {}
    with virtual_time() as loop:
        told["call"] = loop.run_until_complete(call(config, folder / "calls"))
    told["samples"] = asyncio.run(voice(config))
    asterisk = Asterisk.model_validate({"password": "x", "media": "parrot"})
    told["back"] = asyncio.run(transport(config.model_copy(update={"asterisk": asterisk})))
    told["ready"] = asyncio.run(readiness(config, folder))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
