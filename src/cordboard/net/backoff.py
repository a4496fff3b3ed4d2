"""The pause before the next attempt after a failure. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

_MOST_DOUBLINGS = 40
"""Beyond these a float gains nothing: every pause has reached `most` long before."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double with each failure: `first`, twice `first`, and so on up to `most` seconds.

    Chance shortens each pause by up to the share `jitter`, so that clients which lost the same peer
    at the same time do not reconnect at the same moment. The longest possible pause is therefore
    `most`.
    """

    first: float
    most: float
    jitter: float = 0.2
    chance: Callable[[], float] = random.random
    """Source of numbers from 0 to 1."""

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after `failures` earlier failures in a row; 0 gives the first
        pause."""
        doublings = min(max(failures, 0), _MOST_DOUBLINGS)
        whole = min(self.first * 2.0**doublings, self.most)
        return whole * (1 - self.jitter * self.chance())
