"""The versions of a cluster's configuration, as people change them.

One entry, the head, has the whole state. It is changed by compare-and-set: of two people who
publish at the same time, one gets the error that the other was faster. A text is stored before a
head names it, under its digest, so that a publication that breaks off leaves no more than a text
that no version names.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.config_wire import (
    FULL_SHARE,
    MOST_VERSIONS,
    CanaryCounts,
    CanaryOrder,
    ConfigHead,
    EngineReport,
    PublishedVersion,
    ShadowOrder,
    ShadowReport,
    decode_counts,
    decode_head,
    decode_report,
    decode_shadow,
    decode_text,
    encode_head,
    encode_text,
)
from cordboard.cluster.wire import MOST_BYTES
from cordboard.errors import BusAway, ClusterError, NotThere, RevisionLost, WireUnreadable

HEAD = "head"
ENGINE = "engine."
COUNTS = "counts."
SHADOW = "shadow."
_MOST_WORDS = 1_000
"""Characters of a note or a reason."""


class ConfigChanged(ClusterError):
    """The cluster's configuration has been changed meanwhile; nothing was done."""


@dataclass(frozen=True, slots=True)
class Share:
    """Calls that a canary gets."""

    share: int
    """Of `FULL_SHARE`."""
    contexts: tuple[str, ...] = ()
    """Their contexts; empty: all."""


class ConfigVersions:
    """The versions on the bus. Every method raises `BusAway`, and `WireUnreadable` for a state that
    a later program has written."""

    def __init__(self, state: Bucket, texts: Bucket) -> None:
        self._state = state
        self._texts = texts

    async def head(self) -> tuple[ConfigHead, int]:
        """Return the head and its revision; an empty one with 0 before the first version."""
        return head_of(await self._state.get(HEAD))

    async def text(self, digest: str) -> str:
        """Return the text of a version. Raises `NotThere` if it is not kept, or damaged."""
        entry = await self._texts.get(digest)
        if entry is None or entry.value is None:
            raise NotThere(f"the text {digest[:12]} is not on the bus any more")
        text = decode_text(entry.value)
        if _digest(text) != digest:
            raise NotThere(f"the text {digest[:12]} on the bus is damaged")
        return text

    async def text_of(self, number: int) -> str:
        """Return the text of a version. Raises `NotThere`."""
        return await self.text(_known((await self.head())[0], number).digest)

    async def publish(
        self, text: str, author: str, note: str, base: int | None, canary: Share | None = None
    ) -> PublishedVersion:
        """Make a checked text the newest version: for all calls, or as a canary. `base`: number of
        the version that it was made from; None: whatever is the newest now.

        Raises `ConfigChanged` if another version is the newest, and `ClusterError` if a canary
        runs, there is nothing to compare a canary with, or the text is too long.
        """
        head, revision = await self.head()
        if base is not None and base != head.newest:
            raise _changed(head)
        _refuse_beside_a_canary(head)
        if canary is not None and not head.in_force:
            raise ClusterError("there is no version yet to compare a canary with: publish one")
        encoded = encode_text(text)
        if len(encoded) > MOST_BYTES:
            raise ClusterError(f"the text is longer than the bus takes, {MOST_BYTES:,} bytes")
        version = PublishedVersion(
            head.newest + 1, _digest(text), author, _short(note), _now(), "published"
        )
        await self._store(version.digest, encoded)
        if canary is None:
            head = replace(head, in_force=version.number)
        else:
            version = replace(version, state="canary")
            order = CanaryOrder(version.number, canary.share, canary.contexts, version.at)
            head = replace(head, canary=order)
        before = head.versions
        head = _shortened(replace(head, versions=(version, *before)))
        await self._write(head, revision)
        for each in before:
            if each not in head.versions:
                await self._remove_unnamed(each.digest, head)
        return version

    async def rollback(self, number: int, author: str, note: str = "") -> PublishedVersion:
        """Publish the text of an earlier version again, as the newest. Raises `NotThere`,
        `ConfigChanged` and `ClusterError`."""
        head, _ = await self.head()
        text = await self.text(_known(head, number).digest)
        note = f"version {number} again" + (f": {note}" if note else "")
        return await self.publish(text, author, note, head.newest)

    async def promote(self, author: str) -> PublishedVersion:
        """Put the canary into force for all calls. Raises `ClusterError` if there is none."""
        head, revision = await self.head()
        order = _canary_of(head)
        why = f"promoted by {author}" if author else "promoted"
        version = replace(_known(head, order.number), state="published", why=why)
        head = replace(head, in_force=order.number, canary=None)
        await self._write(_with(head, version), revision)
        return version

    async def withdraw(self, why: str, expected: CanaryOrder | None = None) -> PublishedVersion:
        """Take the canary back from all new calls. `expected`: only if it is still this one.
        Raises `ClusterError` if there is none, and `ConfigChanged`."""
        head, revision = await self.head()
        order = _canary_of(head)
        if expected is not None and order != expected:
            raise _changed(head)
        version = replace(_known(head, order.number), state="withdrawn", why=_short(why))
        await self._write(_with(replace(head, canary=None), version), revision)
        return version

    async def begin_shadow(
        self, text: str, author: str, context: str, share: int, turns: int
    ) -> ShadowOrder:
        """Let a checked draft listen to a share of the live calls of a context, in place of any
        other draft. Raises `ConfigChanged`, and `ClusterError` for a text that is too long."""
        head, revision = await self.head()
        former = head.shadow
        encoded = encode_text(text)
        if len(encoded) > MOST_BYTES:
            raise ClusterError(f"the text is longer than the bus takes, {MOST_BYTES:,} bytes")
        order = ShadowOrder(_digest(text), context, share, turns, author, _now("milliseconds"))
        await self._store(order.digest, encoded)
        head = replace(head, shadow=order)
        await self._write(head, revision)
        if former is not None:
            await self._remove_unnamed(former.digest, head)
        return order

    async def end_shadow(self) -> None:
        """End the listening of a draft. Raises `ClusterError` if none listens, and
        `ConfigChanged`."""
        head, revision = await self.head()
        order = head.shadow
        if order is None:
            raise ClusterError("no draft listens")
        head = replace(head, shadow=None)
        await self._write(head, revision)
        await self._remove_unnamed(order.digest, head)

    async def note_look(self, order: CanaryOrder, verdict: str) -> None:
        """Note that the outcomes of a canary were looked at. One engine succeeds; the others get
        `ConfigChanged`."""
        head, revision = await self.head()
        if head.canary != order:
            raise _changed(head)
        order = replace(order, looks=order.looks + 1, verdict=_short(verdict))
        await self._write(replace(head, canary=order), revision)

    async def _store(self, digest: str, encoded: bytes) -> None:
        entry = await self._texts.get(digest)
        if entry is None or entry.value != encoded:  # removed, or damaged
            with suppress(RevisionLost):  # another person stores the same text
                last = entry.revision if entry is not None else 0
                await self._texts.put(digest, encoded, last=last)

    async def _write(self, head: ConfigHead, revision: int) -> None:
        try:
            await self._state.put(HEAD, encode_head(head), last=revision)
        except RevisionLost:
            raise _changed((await self.head())[0]) from None
        except BusAway:
            if (await self.head())[0] != head:  # it may have been written all the same
                raise

    async def _remove_unnamed(self, digest: str, head: ConfigHead) -> None:
        """Remove a text, unless a version or a draft has it."""
        named = {each.digest for each in head.versions}
        if digest not in named and (head.shadow is None or head.shadow.digest != digest):
            await self._remove_text(digest)

    async def _remove_text(self, digest: str) -> None:
        with suppress(RevisionLost, BusAway):
            entry = await self._texts.get(digest)
            if entry is not None and entry.value is not None:
                await self._texts.remove(digest, last=entry.revision)


def head_of(entry: Entry | None) -> tuple[ConfigHead, int]:
    """Return the head in an entry and its revision. Raises `WireUnreadable`."""
    if entry is None:
        return ConfigHead(), 0
    return (ConfigHead() if entry.value is None else decode_head(entry.value)), entry.revision


def reports_in(entries: Mapping[str, Entry]) -> dict[str, EngineReport]:
    """Return the engines that follow the cluster's configuration, by instance."""
    return _read(entries, ENGINE, decode_report)


def counts_in(entries: Mapping[str, Entry], canary: int) -> list[CanaryCounts]:
    """Return the counts of all engines about a canary, also of those that have stopped."""
    found = _read(entries, COUNTS, decode_counts)
    return [each for each in found.values() if each.canary == canary]


def shadows_in(entries: Mapping[str, Entry], order: ShadowOrder) -> list[ShadowReport]:
    """Return the reports of all engines about a draft that listens."""
    found = _read(entries, SHADOW, decode_shadow)
    return [each for _, each in sorted(found.items()) if each.at == order.at]


Form = TypeVar("Form")


def _read(
    entries: Mapping[str, Entry], prefix: str, decode: Callable[[bytes], Form]
) -> dict[str, Form]:
    found: dict[str, Form] = {}
    for key, entry in entries.items():
        if key.startswith(prefix) and entry.value is not None:
            with suppress(WireUnreadable):  # of a later program
                found[key.removeprefix(prefix)] = decode(entry.value)
    return found


def share_of(percent: str) -> int:
    """Return a share such as `10%` or `0.5%`, of `FULL_SHARE`. Raises `ValueError`."""
    number = float(percent.strip().removesuffix("%"))
    if not 0.01 <= number <= 50:
        raise ValueError("expected a share from 0.01% to 50%")
    return round(number * FULL_SHARE / 100)


def _known(head: ConfigHead, number: int) -> PublishedVersion:
    version = head.version(number)
    if version is None:
        raise NotThere(f"there is no version {number}; see `cordboard cluster config history`")
    return version


def _canary_of(head: ConfigHead) -> CanaryOrder:
    if head.canary is None:
        raise ClusterError("no canary runs")
    return head.canary


def _refuse_beside_a_canary(head: ConfigHead) -> None:
    if head.canary is not None:
        raise ClusterError(
            f"version {head.canary.number} runs as a canary: promote or withdraw it first"
        )


def _shortened(head: ConfigHead) -> ConfigHead:
    """Return a head with the newest versions, and in any case the one in force."""
    versions, in_force = head.versions[:MOST_VERSIONS], head.version(head.in_force)
    if in_force is not None and in_force not in versions:
        versions = (*versions[:-1], in_force)
    return replace(head, versions=versions)


def _with(head: ConfigHead, version: PublishedVersion) -> ConfigHead:
    versions = (version if each.number == version.number else each for each in head.versions)
    return replace(head, versions=tuple(versions))


def _short(words: str) -> str:
    """Return the first words of a text, as UTF-8 has them: a terminal may send other bytes."""
    return words[:_MOST_WORDS].encode("utf-8", "replace").decode("utf-8")


def _changed(head: ConfigHead) -> ConfigChanged:
    newest = head.versions[0] if head.versions else None
    who = f" by {newest.author}" if newest is not None and newest.author else ""
    when = f" at {newest.at}" if newest is not None else ""
    return ConfigChanged(
        f"the cluster's configuration has been changed meanwhile: the newest version is "
        f"{head.newest}{who}{when}; look at it, and publish again"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _now(precision: str = "seconds") -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec=precision)
