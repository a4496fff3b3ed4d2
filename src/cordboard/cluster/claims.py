"""Claims of the people of a campaign, when several engines have the same campaign.

A campaign is a list in a node's own file. Engines whose files have campaigns of the same name share
their people: before an engine dials a number, it claims it on the bus, and it writes there how the
attempt ended. So no person is called by two engines; and when a node is lost, the others go on with
its people. A person whom a dead engine was calling is not called again.

Without the bus there is no claim, and the campaign waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NoReturn

import structlog

from cordboard.calls.outbound_order import PersonTaken
from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.limit_wire import Claim, decode_claim, encode_claim
from cordboard.errors import BusAway, CampaignRefused, RevisionLost, WireUnreadable
from cordboard.firewall.counts import digest_of

log = structlog.get_logger()

KEPT_SECONDS = 30 * 86_400
"""Time for which the bus knows what became of a person."""
BUSY_SECONDS = 30.0
"""Time after which it is looked again whether another engine has called a person."""
RETRY_SECONDS = 1.0
INTERRUPTED = "interrupted"
_UNREADABLE = Claim("", 1, 0.0, "called_elsewhere", done=True)
"""Stands for an entry that cannot be read."""


class PeopleClaims:
    """One per engine (implements `outbound.campaigns.runner.PersonClaims`). Start `run` as a
    task: it sends what the bus has not taken at once."""

    def __init__(
        self,
        bucket: Bucket,
        instance: str,
        is_living: Callable[[str], bool | None],
        key: Callable[[], Awaitable[bytes]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`is_living` returns whether another instance lives, None if unknown. `key()` returns the
        cluster's key for digests, once it is known."""
        self._bucket = bucket
        self._instance = instance
        self._is_living = is_living
        self._key = key
        self._clock = clock
        self._held: dict[str, Claim] = {}
        """Claims of this engine, by their names on the bus."""
        self._unsent: dict[str, Claim] = {}
        self._changed = asyncio.Event()

    @property
    def unsent(self) -> int:
        """Number of people whose newest state is not on the bus."""
        return len(self._unsent)

    async def run(self) -> NoReturn:
        """Send the ends of attempts until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for name, claim in [*self._unsent.items()]:
                    await self._give(name, claim)
                    if self._unsent.get(name) is claim:
                        del self._unsent[name]
            except BusAway as error:
                log.debug("claims_not_sent", error=str(error))
                self._changed.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def take(self, campaign: str, number: str) -> PersonTaken:
        """Claim a person for an attempt that begins now. Raises `CampaignRefused` if the bus is
        away; a claim that it has taken all the same is given back."""
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                name = await self._name(campaign, number)
            while True:
                entry = await self._bucket.get(name)
                found, unsent = _read(entry), self._unsent.get(name)
                if unsent is not None and self._replaces(unsent, found):
                    found = unsent
                taken, claim = self._judged(found)
                if claim is None:
                    return taken
                last = entry.revision if entry is not None else 0
                if not claim.done:
                    self._held[name] = claim
                try:
                    await self._bucket.put(name, encode_claim(claim), last=last, ttl=KEPT_SECONDS)
                except RevisionLost:
                    self._held.pop(name, None)
                    continue
                except BusAway:
                    await self.give_back(campaign, number)
                    raise
                self._unsent.pop(name, None)
                return taken
        except (BusAway, TimeoutError) as error:
            raise CampaignRefused(f"the other engines cannot be asked: {error}") from None

    async def finish(
        self, campaign: str, number: str, outcome: str, again_at: float | None
    ) -> None:
        """Note how the attempt ended, and the Unix time of the next one; None: there is none."""
        held = self._held.pop(await self._name(campaign, number), Claim(""))
        end = Claim("", max(1, held.attempts), again_at or 0.0, outcome, again_at is None)
        await self._note(campaign, number, end)

    async def give_back(self, campaign: str, number: str) -> None:
        """Note that nothing was dialled: the claim has no outcome."""
        held = self._held.pop(await self._name(campaign, number), None)
        if held is not None:
            await self._note(
                campaign, number, replace(held, instance="", attempts=held.attempts - 1)
            )

    async def _note(self, campaign: str, number: str, claim: Claim) -> None:
        self._unsent[await self._name(campaign, number)] = claim
        self._changed.set()

    async def _name(self, campaign: str, number: str) -> str:
        return digest_of(f"{campaign}\n{number}", await self._key())

    def _judged(self, found: Claim | None) -> tuple[PersonTaken, Claim | None]:
        """Return what becomes of a person, and the claim to write."""
        if found is None:
            return PersonTaken("ours"), Claim(self._instance, 1)
        if found.done:
            return PersonTaken("done", found.attempts, found.outcome), None
        earlier = self._is_earlier(found.instance) and not self._is_living(found.instance)
        if found.instance in ("", self._instance) or earlier:
            made = found.attempts - (found.instance != "")
            wait = found.not_before - self._clock() if found.instance == "" else 0.0
            if wait > 0:
                return PersonTaken("later", made, found.outcome, wait), None
            return PersonTaken("ours", made, found.outcome), Claim(self._instance, made + 1)
        if self._is_living(found.instance) is not False:
            return PersonTaken("later", found.attempts, found.outcome, BUSY_SECONDS), None
        lost = Claim("", found.attempts, 0.0, INTERRUPTED, done=True)
        return PersonTaken("done", found.attempts, INTERRUPTED), lost

    def _is_earlier(self, instance: str) -> bool:
        """True for an earlier engine of this node; if it is dead, it died before it dialled: else
        its file, which is ours now, would say so."""
        return instance.rpartition("-")[0] == self._instance.rpartition("-")[0]

    def _replaces(self, unsent: Claim, there: Claim | None) -> bool:
        """True if the state of a person that waits here is newer than the one on the bus: no other
        engine has gone on with them. A claim may be given back that never was on the bus: then the
        end of another engine's attempt stays."""
        if there is None or there.instance == self._instance:
            return True
        return there.instance == "" and unsent.outcome != "" and there is not _UNREADABLE

    async def _give(self, name: str, claim: Claim) -> None:
        """Write the state of a person, unless another engine has gone on. Raises `BusAway`."""
        while True:
            entry = await self._bucket.get(name)
            if not self._replaces(claim, _read(entry)):
                return
            last = entry.revision if entry is not None else 0
            try:
                await self._bucket.put(name, encode_claim(claim), last=last, ttl=KEPT_SECONDS)
                return
            except RevisionLost:
                continue


def _read(entry: Entry | None) -> Claim | None:
    """Return the claim in an entry. One that cannot be read counts as done: in doubt no person
    is called."""
    if entry is None or entry.value is None:
        return None
    try:
        return decode_claim(entry.value)
    except WireUnreadable as error:
        log.warning("claim_unreadable", entry=entry.key, error=str(error))
        return _UNREADABLE
