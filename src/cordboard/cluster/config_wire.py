"""The configuration of a cluster on its bus, as bytes. Pure.

    head                 versions, the one in force, canary and shadow; one entry, written by CAS
    engine.<instance>    what one engine has in force; expires with the engine
    counts.<instance>    outcomes of the calls of one engine while a canary runs
    shadow.<instance>    what one engine has compared while a draft listens
    text.<sha256>        the text of a version, in a part of the bucket that is not watched

The forms and their versions are as in `cluster.wire`: a reader ignores fields that it does not
know, and refuses a higher version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from cordboard.cluster.canary_statistic import Outcomes
from cordboard.cluster.wire import decode_message, encode_message, is_count
from cordboard.errors import WireUnreadable

VERSION = 1
MOST_VERSIONS = 50
"""Versions whose texts are kept; older ones are removed."""
FULL_SHARE = 10_000

VersionState: TypeAlias = Literal["published", "canary", "withdrawn"]
EngineState: TypeAlias = Literal["in_force", "waiting", "applying", "refused"]

_encode = partial(encode_message, version=VERSION)
_decode = partial(decode_message, version=VERSION)


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """One version in the history of a cluster."""

    number: int
    digest: str
    """SHA-256 of its text."""
    author: str = ""
    note: str = ""
    at: str = ""
    """ISO 8601 with zone."""
    state: str = "published"
    """`VersionState`."""
    why: str = ""
    """Reason why it was withdrawn."""


@dataclass(frozen=True, slots=True)
class CanaryOrder:
    """A version that a share of the new calls gets."""

    number: int
    share: int
    """Of `FULL_SHARE`."""
    contexts: tuple[str, ...] = ()
    """Contexts whose calls it gets; empty: all."""
    at: str = ""
    looks: int = 0
    """Looks at its outcomes that were taken."""
    verdict: str = ""
    """Words on the last look."""


@dataclass(frozen=True, slots=True)
class ShadowOrder:
    """A draft that listens to a share of the live calls of a context."""

    digest: str
    """SHA-256 of its text."""
    context: str
    share: int
    """Of `FULL_SHARE`."""
    turns: int
    """Turns that each engine compares at most."""
    author: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class ShadowExample:
    """One turn in which a draft decided otherwise. Texts are as in ledgers, redacted."""

    call_id: str
    turn: int
    verdict: str
    heard: str
    live: str
    """Tools and words of the live agent."""
    draft: str


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """Comparisons of one engine."""

    instance: str
    at: str
    """`ShadowOrder.at` of the order that it is about."""
    same: int = 0
    other_tool: int = 0
    other_arguments: int = 0
    other_words: int = 0
    failed: int = 0
    """Turns in which the draft failed, or took too long."""
    skipped: int = 0
    """Turns that were left out: the engine was busy, or too many waited."""
    problem: str = ""
    """Why the draft does not listen here."""
    examples: tuple[ShadowExample, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigHead:
    """The state of a cluster's configuration."""

    in_force: int = 0
    """Number of the version that all engines should have; 0: none is published."""
    versions: tuple[PublishedVersion, ...] = ()
    """The newest first."""
    canary: CanaryOrder | None = None
    shadow: ShadowOrder | None = None

    @property
    def newest(self) -> int:
        return self.versions[0].number if self.versions else 0

    def version(self, number: int) -> PublishedVersion | None:
        return next((each for each in self.versions if each.number == number), None)


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The configuration of one engine."""

    instance: str
    number: int = 0
    """Version in force; 0: its own file."""
    wanted: int = 0
    """Version that it has in force, waits for, applies, or could not apply."""
    state: str = "waiting"
    """`EngineState`, of `wanted`."""
    problem: str = ""
    canary: int = 0
    """Version that a share of its calls gets; 0: none."""
    canary_problem: str = ""


@dataclass(frozen=True, slots=True)
class CanaryCounts:
    """Outcomes that one engine has counted since a canary began."""

    instance: str
    canary: int
    """Number of the canary's version."""
    before: Outcomes = field(default_factory=Outcomes)
    """Of the version in force."""
    after: Outcomes = field(default_factory=Outcomes)
    """Of the canary."""


def encode_head(head: ConfigHead) -> bytes:
    return _encode("config_head", asdict(head))


def decode_head(data: bytes) -> ConfigHead:
    """Raises `WireUnreadable`."""
    found = _decode("config_head", data)
    canary, shadow = found.get("canary"), found.get("shadow")
    return ConfigHead(
        _count(found, "in_force"),
        tuple(map(_version, _list(found, "versions"))),
        None if canary is None else _canary(canary),
        None if shadow is None else _shadow(shadow),
    )


def encode_report(report: EngineReport) -> bytes:
    return _encode("config_engine", asdict(report))


def decode_report(data: bytes) -> EngineReport:
    """Raises `WireUnreadable`."""
    found = _decode("config_engine", data)
    return EngineReport(
        _text(found, "instance"),
        _count(found, "number"),
        _count(found, "wanted"),
        _text(found, "state"),
        _text(found, "problem"),
        _count(found, "canary"),
        _text(found, "canary_problem"),
    )


def encode_counts(counts: CanaryCounts) -> bytes:
    return _encode("config_counts", asdict(counts))


def decode_counts(data: bytes) -> CanaryCounts:
    """Raises `WireUnreadable`."""
    found = _decode("config_counts", data)
    return CanaryCounts(
        _text(found, "instance"),
        _count(found, "canary"),
        _outcomes(found.get("before")),
        _outcomes(found.get("after")),
    )


def encode_shadow(report: ShadowReport) -> bytes:
    return _encode("config_shadow", asdict(report))


def decode_shadow(data: bytes) -> ShadowReport:
    """Raises `WireUnreadable`."""
    found = _decode("config_shadow", data)
    return ShadowReport(
        _text(found, "instance"),
        _text(found, "at"),
        _count(found, "same"),
        _count(found, "other_tool"),
        _count(found, "other_arguments"),
        _count(found, "other_words"),
        _count(found, "failed"),
        _count(found, "skipped"),
        _text(found, "problem"),
        tuple(map(_example, _list(found, "examples"))),
    )


def encode_text(text: str) -> bytes:
    return _encode("config_text", {"text": text})


def decode_text(data: bytes) -> str:
    """Raises `WireUnreadable`."""
    return _text(_decode("config_text", data), "text")


def _version(found: Any) -> PublishedVersion:
    _object(found, "versions")
    return PublishedVersion(
        _count(found, "number"),
        _text(found, "digest"),
        _text(found, "author"),
        _text(found, "note"),
        _text(found, "at"),
        _text(found, "state") or "published",
        _text(found, "why"),
    )


def _canary(found: Any) -> CanaryOrder:
    _object(found, "canary")
    contexts = _list(found, "contexts")
    if not all(isinstance(each, str) for each in contexts):
        raise _wrong("contexts")
    return CanaryOrder(
        _count(found, "number"),
        min(_count(found, "share"), FULL_SHARE),
        tuple(contexts),
        _text(found, "at"),
        _count(found, "looks"),
        _text(found, "verdict"),
    )


def _shadow(found: Any) -> ShadowOrder:
    _object(found, "shadow")
    return ShadowOrder(
        _text(found, "digest"),
        _text(found, "context"),
        min(_count(found, "share"), FULL_SHARE),
        _count(found, "turns"),
        _text(found, "author"),
        _text(found, "at"),
    )


def _example(found: Any) -> ShadowExample:
    _object(found, "examples")
    return ShadowExample(
        _text(found, "call_id"),
        _count(found, "turn"),
        _text(found, "verdict"),
        _text(found, "heard"),
        _text(found, "live"),
        _text(found, "draft"),
    )


def _outcomes(found: Any) -> Outcomes:
    _object(found, "outcomes")
    waits = _list(found, "waits")
    if not all(map(is_count, waits)):
        raise _wrong("waits")
    return Outcomes(
        _count(found, "calls"), _count(found, "failed"), _count(found, "hung_up"), tuple(waits)
    )


def _object(found: Any, name: str) -> None:
    if not isinstance(found, dict):
        raise _wrong(name)


def _get(found: Mapping[str, Any], name: str, default: Any, fits: Callable[[Any], bool]) -> Any:
    value = found.get(name, default)
    if not fits(value):
        raise _wrong(name)
    return value


def _text(found: Mapping[str, Any], name: str) -> str:
    text: str = _get(found, name, "", lambda value: isinstance(value, str))
    return text


def _count(found: Mapping[str, Any], name: str) -> int:
    count: int = _get(found, name, 0, is_count)
    return count


def _list(found: Mapping[str, Any], name: str) -> list[Any]:
    items: list[Any] = _get(found, name, [], lambda value: isinstance(value, list))
    return items


def _wrong(name: str) -> WireUnreadable:
    return WireUnreadable(f"{name}: a value of another type")
