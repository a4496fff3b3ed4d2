"""Recorders that are added while the caller is muted."""

from __future__ import annotations

import asyncio
from typing import Any

from cordboard.audio.format import ULAW_8K
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.recorder import Recorder


class Line:
    format = ULAW_8K

    def on_audio(self, take: Any) -> None:
        self.say = take

    def on_sent(self, take: Any) -> None: ...


async def test_who_begins_to_listen_within_a_muted_stretch_does_not_hear_its_rest() -> None:
    """A key after a secret input may sound for a moment after its message."""
    line: Any = Line()
    sound = CallSound(line)
    heard = bytearray()
    now = asyncio.get_running_loop().time()
    sound.mute(now - 1.5, now + 0.3)
    recorder = Recorder(ULAW_8K, now, lambda caller, _: heard.extend(caller))
    sound.add(recorder)
    for number in range(1, 31):
        recorder.hear_caller(b"\x01" * 160, now + number * 0.02)
    recorder.hand_over(now + 0.6, last=True)
    silent = bytes(heard[: round(0.3 * 8000)])
    assert silent == ULAW_8K.silence(300)[: len(silent)]
    assert heard[-160:] == b"\x01" * 160
