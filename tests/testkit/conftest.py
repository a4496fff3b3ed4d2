"""Sounds and servers that the tests of the test kit share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
import pytest_asyncio

from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.timeline import RATE, Samples

DIALPLAN = """[from-test-extra]
exten => short,1,Answer()
 same => n,Wait(0.2)
 same => n,Hangup()
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def asterisk() -> AsyncIterator[AsteriskInstance]:
    """One Asterisk for all tests of this room; each test leaves it without channels."""
    async with AsteriskInstance(dialplan=DIALPLAN) as instance:
        yield instance


@pytest.fixture
def bursts() -> Callable[..., Samples]:
    """Makes noise bursts of 120 ms, one every 300 ms, different for each seed."""

    def make(count: int = 5, seed: int = 1, every: float = 0.3) -> Samples:
        sound = np.zeros(int(count * every * RATE), np.int16)
        noise = np.random.default_rng(seed)
        for index in range(count):
            start = int(index * every * RATE)
            sound[start : start + 960] = noise.normal(0, 4000, 960).clip(-30000, 30000)
        return sound

    return make
