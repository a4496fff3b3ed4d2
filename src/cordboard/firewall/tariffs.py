"""The price of a call on its trunk, by `firewall.tariffs`. Pure; times are Unix seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cordboard.config.sections.firewall import Tariff
from cordboard.firewall.counts import Direction
from cordboard.firewall.numbers import Number


def tariff_for(
    tariffs: Sequence[Tariff], direction: Direction, trunk: str, number: Number | None
) -> Tariff | None:
    """Return the first tariff that fits a call with this number on the other side; None if none
    does. An extension has no price."""
    if number is not None and number.kind == "extension":
        return None
    for tariff in tariffs:
        if tariff.direction == direction and _fits(tariff, trunk, number):
            return tariff
    return None


def _fits(tariff: Tariff, trunk: str, number: Number | None) -> bool:
    if tariff.trunks and trunk not in tariff.trunks:
        return False
    if tariff.classes and (number is None or number.kind not in tariff.classes):
        return False
    return not tariff.countries or (number is not None and number.country in tariff.countries)


@dataclass(slots=True)
class Meter:
    """The charge of the trunk for one call so far."""

    tariff: Tariff | None = None
    """None: nothing is charged."""
    answered_at: float | None = None

    def cost(self, now: float) -> float:
        """Return the cost at this time: the connection, and each begun step since the answer; zero
        until the answer."""
        if self.tariff is None or self.answered_at is None:
            return 0.0
        step = self.tariff.step_ms / 1000
        # Less than a microsecond is the inaccuracy of a float.
        steps = max(1, math.ceil(max(0.0, now - self.answered_at) / step - 1e-6))
        return self.tariff.connection + steps * step / 60 * self.tariff.per_minute
