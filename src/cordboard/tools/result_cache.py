"""A cache of successful tool results, bounded by entries and bytes.

For tools that only read. A result is kept as serialised JSON, so no user of it can change it for
the next one. A result that is not JSON, is larger than `MAX_ENTRY_BYTES` or has flags for the agent
(`ToolResult.control`) is not kept. The least recently used entry is removed first. Pure: the time
is an argument, and all users of a cache must use the same clock. All operations are O(1) in the
number of entries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from cordboard.tools.schema.safety import weight_of
from cordboard.tools.tool import Effects, JsonObject, Status, ToolResult, ToolSpec

MAX_ENTRIES = 1_000
MAX_BYTES = 16 * 1024 * 1024
MAX_ENTRY_BYTES = 256 * 1024
MAX_OWN_ENTRIES = 100
MAX_OWN_BYTES = 1024 * 1024
"""Answers that one call keeps for itself."""
_MAX_WEIGHT = 8_000
"""Maximum values (or 64 characters of text) of a result that is considered at all."""
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS

CacheKey = tuple[str, str, bytes]
"""Internal id and exposed name of the tool, canonical arguments."""


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    message: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data) + 4 * len(self.message) + 200


class ResultCache:
    """Kept results: one instance per call, and one for all calls of a generation."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._kept: OrderedDict[CacheKey, _Kept] = OrderedDict()
        self.bytes = 0
        """Approximate memory of all results."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: CacheKey, now: float) -> ToolResult | None:
        """Return the result kept under the key, if it has not expired."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now >= kept.until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return ToolResult(Status.OK, kept.message, orjson.loads(kept.data))

    def put(self, key: CacheKey, result: ToolResult, now: float, ttl: float) -> None:
        """Keep a successful result for `ttl` seconds, if possible."""
        if result.status is not Status.OK or result.control or ttl <= 0:
            return
        data = _as_json(result.data)
        if data is None:
            return
        if key in self._kept:
            self._drop(key)
        kept = self._kept[key] = _Kept(now + ttl, result.message, data)
        self.bytes += kept.size
        while len(self._kept) > self._max_entries or self.bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Remove everything."""
        self._kept.clear()
        self.bytes = 0

    def _drop(self, key: CacheKey) -> None:
        self.bytes -= self._kept.pop(key).size


class CallAnswers:
    """The kept answers that one call may be given: its own, and those for all calls."""

    def __init__(self, shared: ResultCache | None, clock: Callable[[], float]) -> None:
        """`shared` keeps answers for all calls; without one they are kept for this call only."""
        self._shared = shared
        self._own: ResultCache | None = None
        self._clock = clock

    def find(self, spec: ToolSpec, asked: tuple[str, bytes]) -> ToolResult | None:
        """The kept answer of a tool. `asked`: its exposed name and `canonical_arguments`."""
        cache = self._cache(spec)
        if cache is None:
            return None
        return cache.get(cache_key(spec.origin, *asked), self._clock())

    def keep(self, spec: ToolSpec, asked: tuple[str, bytes], result: ToolResult) -> None:
        """Keep an answer, if the tool's rules and the answer allow it."""
        if (cache := self._cache(spec)) is not None:
            ttl = spec.limits.cache_ttl_ms / 1000
            cache.put(cache_key(spec.origin, *asked), result, self._clock(), ttl)

    def _cache(self, spec: ToolSpec) -> ResultCache | None:
        if spec.limits.cache_ttl_ms <= 0 or spec.effects is not Effects.READ_ONLY:
            return None
        if spec.limits.cache_scope == "all" and self._shared is not None:
            return self._shared
        if self._own is None:
            self._own = ResultCache(MAX_OWN_ENTRIES, MAX_OWN_BYTES)
        return self._own


def cache_key(origin: str, name: str, canonical: bytes) -> CacheKey:
    """Return the key for a tool and its arguments (`canonical_arguments`)."""
    return origin, name, canonical


def canonical_arguments(arguments: JsonObject) -> bytes:
    """Serialise arguments, which are valid JSON; equal arguments give equal bytes in any order."""
    return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def _as_json(data: object) -> bytes | None:
    try:
        if weight_of(data, _MAX_WEIGHT) > _MAX_WEIGHT:
            return None
        written = orjson.dumps(data, option=_STRICT)
    except TypeError:
        return None
    return written if len(written) <= MAX_ENTRY_BYTES else None
