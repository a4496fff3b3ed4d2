"""Log-bucketed histograms of durations: mergeable, and percentiles that are off by at most 2.5 %.

Each bucket is 5 % wider than the one before it. A histogram is a mapping of bucket to count, so the
sum of two is that of all their values; percentiles of several hours follow from the sum of their
histograms, which averages of percentiles could not give. Pure.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Histogram = Mapping[int, int]
"""Counts by bucket."""

GROWTH = 1.05
MOST_MS = 7 * 86_400_000
"""Longer durations count as a week."""
_LOG = math.log(GROWTH)
BUCKETS = 2 + int(math.log(MOST_MS) / _LOG)
"""Bucket 0 holds durations below 1 ms, bucket n those from 1.05^(n-1) to 1.05^n ms."""


def bucket_of(ms: float) -> int:
    """Return the bucket of a duration."""
    return 0 if ms < 1 else min(BUCKETS - 1, 1 + int(math.log(ms) / _LOG + 1e-9))


def middle_of(bucket: int) -> float:
    """Return the duration in ms that stands for a bucket: it differs from each duration in it by at
    most 2.5 %, and by 1 ms in bucket 0."""
    return 0.0 if bucket == 0 else GROWTH ** (bucket - 1) * (2 * GROWTH / (1 + GROWTH))


def histogram(durations: Iterable[float]) -> Counter[int]:
    """Return the histogram of durations in ms."""
    return Counter(map(bucket_of, durations))


def encode(counts: Histogram) -> bytes:
    """Return a histogram as pairs of 32-bit numbers, bucket and count; zeros are left out."""
    numbers = [each for pair in sorted(counts.items()) if pair[1] for each in pair]
    return struct.pack(f"<{len(numbers)}i", *numbers)


def decode(content: bytes) -> dict[int, int]:
    """Return the histogram of `encode`."""
    numbers = iter(struct.unpack(f"<{len(content) // 4}i", content))
    return dict(zip(numbers, numbers, strict=True))


def sums(encoded: Sequence[bytes], groups: Sequence[int], count: int) -> NDArray[np.int64]:
    """Return the sum of the histograms of each group, as an array of groups by buckets.

    `groups` has the group (0 to `count` - 1) of each histogram. In numpy, because a year of cells
    has 300,000 pairs.
    """
    pairs = np.frombuffer(b"".join(encoded), "<i4").reshape(-1, 2)
    lengths = np.array([len(each) // 8 for each in encoded], np.int64)
    rows = np.repeat(np.array(groups, np.int64), lengths)
    found = np.bincount(
        rows * BUCKETS + pairs[:, 0], weights=pairs[:, 1], minlength=count * BUCKETS
    )
    return found.astype(np.int64).reshape(count, BUCKETS)


def percentile(counts: NDArray[np.int64], share: float) -> float | None:
    """Return the duration that `share` (0 to 1) of all do not exceed; None without any. It is the
    nearest rank: for p95 of 20 durations, the 19th."""
    total = int(counts.sum())
    if total == 0:
        return None
    rank = max(1, math.ceil(round(share * total, 9)))
    return middle_of(int(np.searchsorted(np.cumsum(counts), rank)))


def dense(counts: Histogram) -> NDArray[np.int64]:
    """Return a histogram as `percentile` takes it."""
    found: NDArray[np.int64] = sums([encode(counts)], [0], 1)[0]
    return found
