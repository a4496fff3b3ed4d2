"""The judgement of a canary: are its calls worse than those of the version in force? Pure.

Three measures are compared, of calls of the same contexts in the same time:

    failed     share of calls that failed                          Fisher's exact test, one-sided
    hung up    share of callers who hung up within `EARLY_SECONDS`  Fisher's exact test, one-sided
    waits      median wait for an answer in each call              Mann-Whitney U, one-sided

The outcomes are looked at when the canary has had `LOOKS[0]`, `LOOKS[1]`, ... calls, and at no
other time. With `LOOKS` looks at three measures there are 18 tests, each at the level `ALPHA` / 18
(Bonferroni): the probability that a canary is returned though it is no worse is at most `ALPHA`
for all looks together, however the tests depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import NormalDist

ALPHA = 0.05
"""Probability, at most, that a canary that is no worse is returned."""
LOOKS = (10, 20, 40, 80, 160, 320)
"""Calls of the canary at which its outcomes are looked at. Each look doubles the calls: a version
that fails for everybody is found by the first one, small differences by the last ones."""
MEASURES = 3
LEVEL = ALPHA / (MEASURES * len(LOOKS))
"""Level of one test."""
EARLY_SECONDS = 10.0
"""A caller who hangs up sooner after the answer did not get what they called for."""
LEAST_WAITS = 20
"""Calls with a wait, on each side, from which on waits are compared: the normal approximation of
the U test is good from there on."""
WAIT_BOUNDS_MS = tuple(round(200 * 1.25**step) for step in range(24))
"""Upper bounds of the buckets of waits, 0.2 to 34 s; above the last one there is one more."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of the calls of one version. Sums of several engines are made with `+`."""

    calls: int = 0
    failed: int = 0
    hung_up: int = 0
    """Callers who hung up within the first seconds."""
    waits: tuple[int, ...] = ()
    """Number of calls by their median wait for an answer, in the buckets of `WAIT_BOUNDS_MS`."""

    def __add__(self, other: Outcomes) -> Outcomes:
        length = max(len(self.waits), len(other.waits))
        left, right = (each + (0,) * (length - len(each)) for each in (self.waits, other.waits))
        return Outcomes(
            self.calls + other.calls,
            self.failed + other.failed,
            self.hung_up + other.hung_up,
            tuple(map(sum, zip(left, right, strict=True))),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one look."""

    worse: bool
    words: str
    """The compared shares and waits, for people."""


def wait_bucket(wait_ms: float) -> int:
    """Return the bucket of a wait."""
    return next((i for i, bound in enumerate(WAIT_BOUNDS_MS) if wait_ms <= bound), _LAST)


_LAST = len(WAIT_BOUNDS_MS)


def is_due(looks: int, before: Outcomes, after: Outcomes) -> bool:
    """Return True if it is time for the next look, after so many. The version in force needs as
    many calls as the canary."""
    return looks < len(LOOKS) and min(before.calls, after.calls) >= LOOKS[looks]


def judge(before: Outcomes, after: Outcomes) -> Verdict:
    """Compare the canary (`after`) with the version in force (`before`) at one look."""
    measures = (
        ("failed calls", _share_test(before, after, before.failed, after.failed)),
        ("early hang-ups", _share_test(before, after, before.hung_up, after.hung_up)),
        ("waits", _wait_test(before, after)),
    )
    found = [(name, p, words) for name, (p, words) in measures]
    worst = [f"{name} {words} (p={p:.1g})" for name, p, words in found if p < LEVEL]
    if worst:
        return Verdict(True, f"worse: {'; '.join(worst)}, {after.calls} calls")
    said = ", ".join(f"{name} {words}" for name, _, words in found if words)
    return Verdict(False, f"no worse in {after.calls} calls: {said}")


def _share_test(before: Outcomes, after: Outcomes, old: int, new: int) -> tuple[float, str]:
    p = fisher_greater(old, before.calls, new, after.calls)
    return p, f"{_percent(new, after.calls)} (before {_percent(old, before.calls)})"


def _wait_test(before: Outcomes, after: Outcomes) -> tuple[float, str]:
    if min(sum(before.waits), sum(after.waits)) < LEAST_WAITS:
        return 1.0, ""
    old, new = _median(before.waits), _median(after.waits)
    return mann_whitney_greater(before.waits, after.waits), f"up to {new} ms (before {old} ms)"


def fisher_greater(bad_before: int, before: int, bad_after: int, after: int) -> float:
    """Return the probability of at least so many bad ones among `after`, if both have the same
    share: one-sided p of Fisher's exact test. 1.0 if nothing was bad."""
    bad, total = bad_before + bad_after, before + after
    most = min(bad, after)
    if not bad_after or not after:
        return 1.0
    whole = _log_choose(total, after)
    logs = [
        _log_choose(bad, each) + _log_choose(total - bad, after - each) - whole
        for each in range(bad_after, most + 1)
        if after - each <= total - bad
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


def mann_whitney_greater(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the one-sided p of the Mann-Whitney U test that the second sample tends to greater
    values, by the normal approximation with corrections for ties and continuity. Both are numbers
    of values in each bucket, in order."""
    length = max(len(before), len(after))
    first, second = ([*each, *[0] * (length - len(each))] for each in (before, after))
    m, n = sum(first), sum(second)
    if not m or not n:
        return 1.0
    below = [0, *accumulate(first)]
    u = sum(
        count * (low + (high - low) / 2)
        for count, (low, high) in zip(second, pairwise(below), strict=True)
    )
    total = m + n
    ties = sum((a + b) ** 3 - (a + b) for a, b in zip(first, second, strict=True))
    variance = m * n / 12 * ((total + 1) - ties / (total * (total - 1))) if total > 1 else 0.0
    if variance <= 0:
        return 1.0
    z = (u - m * n / 2 - 0.5) / math.sqrt(variance)
    return 1.0 - NormalDist().cdf(z)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _median(waits: Sequence[int]) -> int:
    """Return the upper bound of the bucket with the median."""
    half, seen = sum(waits) / 2, 0
    for bucket, count in enumerate(waits):
        seen += count
        if seen >= half:
            return WAIT_BOUNDS_MS[min(bucket, _LAST - 1)]
    return 0
