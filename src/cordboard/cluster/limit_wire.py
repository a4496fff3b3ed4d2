"""The messages about shared limits, as bytes. Pure. See `cluster.wire` for the rules of versions.

key        the cluster's key for digests of numbers
counted    what an engine has counted in one hour under some keys
now        its live calls, and which counts of the others it has seen
block      a number on the do-not-call list, or off it
claim      a person of a campaign
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cordboard.cluster.wire import decode_message, encode_message, is_count
from cordboard.errors import WireUnreadable
from cordboard.firewall.blocks import BlockChange
from cordboard.firewall.counts import Amounts, Key

VERSION = 1
_DIRECTIONS, _SCOPES = ("in", "out"), ("caller", "context", "trunk", "total")
_encode = partial(encode_message, version=VERSION)
_decode = partial(decode_message, version=VERSION)


@dataclass(frozen=True, slots=True)
class Counted:
    """The sums of one hour at one node."""

    node: str
    hour: str
    rows: Mapping[Key, Amounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MinuteCounts:
    """Calls under one key at this moment."""

    live: int = 0
    minute: int = 0
    """Number of the minute of `this_minute`, since 1970."""
    this_minute: int = 0
    last_minute: int = 0


@dataclass(frozen=True, slots=True)
class NowCounts:
    """The state of one engine. Its reader has read all `Counted` that were written before."""

    node: str
    instance: str
    place: str
    """Stands for the Asterisk of the engine (`wire.place_of`)."""
    number: int
    """Grows with each message of the instance."""
    waits_for: int = 0
    """Number of the message that the others are to confirm; 0: none."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """Newest number that was read of each other instance."""
    calls: int = 0
    """Live calls of any kind."""
    rows: Mapping[Key, MinuteCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """A person of a campaign, and who calls them."""

    instance: str
    """Instance that calls them now; empty: none does."""
    attempts: int = 0
    """Attempts so far, the one that is being made included."""
    not_before: float = 0.0
    """Unix time of the next attempt; meaningless when done."""
    outcome: str = ""
    """Of the last attempt."""
    done: bool = False


def encode_key(salt: bytes) -> bytes:
    return _encode("key", {"key": salt.hex()})


def decode_key(data: bytes) -> bytes:
    """Raises `WireUnreadable`."""
    with _Reading("key"):
        return bytes.fromhex(_text(_decode("key", data)["key"]))


def encode_counted(counted: Counted) -> bytes:
    rows = [
        [*key, amounts.calls, amounts.seconds, amounts.cost]
        for key, amounts in counted.rows.items()
    ]
    return _encode("counted", {"node": counted.node, "hour": counted.hour, "rows": rows})


def decode_counted(data: bytes) -> Counted:
    """Raises `WireUnreadable`."""
    with _Reading("counted"):
        found = _decode("counted", data)
        rows = {
            _key(row): Amounts(_count(row[3]), _amount(row[4]), _amount(row[5]))
            for row in found["rows"]
        }
        return Counted(_text(found["node"]), _text(found["hour"]), rows)


def encode_now(now: NowCounts) -> bytes:
    rows = [
        [*key, each.live, each.minute, each.this_minute, each.last_minute]
        for key, each in now.rows.items()
    ]
    return _encode(
        "now",
        {
            "node": now.node,
            "instance": now.instance,
            "place": now.place,
            "number": now.number,
            "waits_for": now.waits_for,
            "seen": now.seen,
            "calls": now.calls,
            "rows": rows,
        },
    )


def decode_now(data: bytes) -> NowCounts:
    """Raises `WireUnreadable`."""
    with _Reading("now"):
        found = _decode("now", data)
        seen = {_text(name): _count(number) for name, number in found["seen"].items()}
        rows = {_key(row): MinuteCounts(*map(_count, row[3:7])) for row in found["rows"]}
        return NowCounts(
            _text(found["node"]),
            _text(found["instance"]),
            _text(found["place"]),
            _count(found["number"]),
            _count(found.get("waits_for", 0)),
            seen,
            _count(found.get("calls", 0)),
            rows,
        )


def encode_block(block: BlockChange) -> bytes:
    return _encode("block", {"number": block.number, "at": block.at, "blocked": block.blocked})


def decode_block(data: bytes) -> BlockChange:
    """Raises `WireUnreadable`."""
    with _Reading("block"):
        found = _decode("block", data)
        blocked = _flag(found["blocked"])
        return BlockChange(_text(found["number"]), _amount(found["at"]), blocked)


def encode_claim(claim: Claim) -> bytes:
    return _encode(
        "claim",
        {
            "instance": claim.instance,
            "attempts": claim.attempts,
            "not_before": claim.not_before,
            "outcome": claim.outcome,
            "done": claim.done,
        },
    )


def decode_claim(data: bytes) -> Claim:
    """Raises `WireUnreadable`."""
    with _Reading("claim"):
        found = _decode("claim", data)
        return Claim(
            _text(found["instance"]),
            _count(found["attempts"]),
            _amount(found["not_before"]),
            _text(found["outcome"]),
            _flag(found["done"]),
        )


class _Reading:
    """Turns each mistake in a message into `WireUnreadable`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if isinstance(error, (KeyError, IndexError, TypeError, ValueError, AttributeError)):
            raise WireUnreadable(f"{self._kind}: {error!r}"[:200]) from None


def _checked(value: Any, check: Callable[[Any], bool], what: str) -> Any:
    if not check(value):
        raise ValueError(f"expected {what}")
    return value


def _text(value: Any) -> str:
    found: str = _checked(value, lambda each: isinstance(each, str), "a text")
    return found


def _flag(value: Any) -> bool:
    found: bool = _checked(value, lambda each: isinstance(each, bool), "true or false")
    return found


def _count(value: Any) -> int:
    found: int = _checked(value, is_count, "a count")
    return found


def _amount(value: Any) -> float:
    checked = _checked(
        value,
        lambda each: isinstance(each, (int, float)) and not isinstance(each, bool) and each >= 0,
        "an amount",
    )
    return float(checked)


def _key(row: Any) -> Key:
    direction, scope, name = row[0], row[1], _text(row[2])
    if direction not in _DIRECTIONS or scope not in _SCOPES:
        raise ValueError("an unknown scope")
    return direction, scope, name
