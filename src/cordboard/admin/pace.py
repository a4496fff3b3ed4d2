"""How often something may be done: token buckets, in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cordboard.errors import RequestRefused

MOST_BUCKETS = 10_000
"""Buckets kept; the one that was used longest ago is dropped for a new one. A crowd that fills them
is held back by the buckets of all together (`SIGN_IN_ALL`)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `burst` at once, and `burst` in each `seconds` in the long run."""

    name: str
    burst: int
    seconds: float


CHANGE = Pace("change", 60, 60)
SIGN_IN = Pace("sign_in", 5, 60)
"""For each address, and for each name."""
SIGN_IN_ALL = Pace("sign_in_all", 30, 60)
"""For all together: each takes 20 ms of a processor."""
PROVIDER = Pace("provider", 20, 60)
"""Sign-ins by the identity provider, for each address: an office may have one."""
PROVIDER_ALL = Pace("provider_all", 60, 60)
CHECK = Pace("check", 5, 1)
SAVE = Pace("save", 60, 60)
"""Drafts that a page saves by itself; they leave the pace of changes alone."""
TRY = Pace("try", 30, 60)
CHECK_PROVIDER = Pace("check_provider", 6, 60)
"""It asks services, which may cost money."""
SAMPLE = Pace("sample", 10, 60)
VERIFY = Pace("verify", 6, 60)
"""It reads the whole audit."""


class Paces:
    """The buckets of one port. Not for several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds that never go back."""
        self._clock = clock
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        """Tokens left, and when that was so. The one used last is at the end."""

    def take(self, pace: Pace, whose: str) -> None:
        """Take a token. Raises `RequestRefused` 429 with the time to wait when there is none."""
        now = self._clock()
        left, since = self._buckets.pop((pace.name, whose), (float(pace.burst), now))
        left = min(pace.burst, left + (now - since) * pace.burst / pace.seconds)
        short = left < 1
        self._buckets[(pace.name, whose)] = (left if short else left - 1, now)
        if len(self._buckets) > MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        if short:
            wait = math.ceil((1 - left) * pace.seconds / pace.burst)
            raise RequestRefused(
                429,
                "too_often",
                f"too often; try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
