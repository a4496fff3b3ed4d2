"""`cordboard emulate`: services of the cloud on this machine, for everybody without a key."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from cordboard.cli.options import require_test_kit, run_async

PORT = 15100


def command(
    vendors: Annotated[
        list[str], typer.Argument(help="openai, deepgram, gemini, elevenlabs, anthropic.")
    ],
    port: Annotated[
        int,
        typer.Option(min=1024, max=65_500, help="Port of the first service; the others follow."),
    ] = PORT,
) -> None:
    """Emulate cloud services on loopback until Ctrl-C, and print how to reach them.

    An emulator recognises the caller's words and speaks, offline, but it is no language model: it
    requests the tool whose name or description has the caller's words, says goodbye with
    hangup_call, and repeats everything else. It refuses what the service would refuse, and one
    call at a time is enough for it.
    """
    require_test_kit()
    from cordboard_testkit.emulators.stand_in import VENDORS

    for vendor in vendors:
        if vendor not in VENDORS:
            raise typer.BadParameter(f"{vendor!r} is not one of {', '.join(VENDORS)}")
    run_async(_emulate(list(dict.fromkeys(vendors)), port))


async def _emulate(vendors: list[str], port: int) -> None:
    from cordboard_testkit.emulators.stand_in import StandIns

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with StandIns(vendors, port, _print) as services:
        _print("For the shell of the engine, and its configuration:\n")
        for line in services.lines:
            _print(f"    {line}")
        _print("\nCtrl-C ends. What the services hear:\n")
        await stop.wait()
        for refusal in services.refusals:
            _print(refusal)


def _print(line: str) -> None:
    print(line, flush=True)
