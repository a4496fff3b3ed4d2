"""A script gets its sound from any voice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import numpy as np

from cordboard_testkit.caller_voice import render_script


class CountingVoice:
    """Speaks each word as ten samples of its length, a chunk for each."""

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        assert rate == 8000
        for word in text.split():
            yield np.full(10, len(word), "<i2").tobytes()

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        del texts, rate


async def test_every_line_has_all_of_its_sound() -> None:
    script = await render_script(CountingVoice(), ["good morning", ""])
    assert [line.text for line in script] == ["good morning", ""]
    assert script[0].sound.tolist() == [4] * 10 + [7] * 10
    assert script[0].sound.dtype == np.int16
    assert len(script[1].sound) == 0
