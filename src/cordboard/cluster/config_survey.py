"""The configuration of a cluster, for a client that is no engine: `cordboard cluster config`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cordboard.cluster.bus import Bucket, Entry, listing
from cordboard.cluster.canary_statistic import Outcomes
from cordboard.cluster.config_follower import buckets_of
from cordboard.cluster.config_versions import (
    HEAD,
    ConfigVersions,
    counts_in,
    head_of,
    reports_in,
    shadows_in,
)
from cordboard.cluster.config_wire import ConfigHead, EngineReport, ShadowReport
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.survey import visit
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import BusAway


@dataclass(frozen=True, slots=True)
class ConfigSurvey:
    """The versions, and what the engines have."""

    head: ConfigHead
    engines: Mapping[str, EngineReport]
    """Engines that follow the versions, by instance."""
    before: Outcomes
    """Of the version in force, since a canary began."""
    after: Outcomes
    """Of the canary."""
    shadows: tuple[ShadowReport, ...] = ()
    """Comparisons of the draft that listens, by engine."""

    @property
    def settled(self) -> bool:
        """True if all engines have the version in force."""
        wanted = self.head.in_force
        return all(
            each.number == wanted and each.state == "in_force" for each in self.engines.values()
        )


@asynccontextmanager
async def config_versions(
    settings: Cluster, encryption: Encryption
) -> AsyncIterator[tuple[ConfigVersions, Bucket]]:
    """Connect for some requests; give the versions and the bucket of the state. Raises `BusAway`,
    `ClusterError` and `ExtraMissing`."""
    async with visit(settings) as connection:
        bus = NatsBus(connection, settings.name, settings.nats.replicas)
        await bus.make_config()
        state, texts = buckets_of(bus, encryption)
        yield ConfigVersions(state, texts), state


async def look(state: Bucket) -> ConfigSurvey:
    """Look at the versions and engines now. Raises `BusAway` and `WireUnreadable`."""
    return survey_of(await listing(state))


async def settled(state: Bucket, number: int, seconds: float) -> ConfigSurvey:
    """Look again and again until all engines have the version in force, one of them has said that
    it cannot take it, another version is in force, or the time is over; return the last look.
    Raises `BusAway` if the bus is away then."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        try:
            found = await look(state)
        except BusAway:  # for some seconds while the servers choose a leader
            if loop.time() > end:
                raise
            await asyncio.sleep(LOOK_SECONDS)
            continue
        refused = any(
            each.state == "refused" and each.wanted == number for each in found.engines.values()
        )
        over = found.settled or refused or found.head.in_force != number
        if over or loop.time() > end:
            return found
        await asyncio.sleep(LOOK_SECONDS)


LOOK_SECONDS = 0.5


def survey_of(entries: Mapping[str, Entry]) -> ConfigSurvey:
    """Raises `WireUnreadable`."""
    head, _ = head_of(entries.get(HEAD))
    counts = counts_in(entries, head.canary.number) if head.canary is not None else []
    return ConfigSurvey(
        head,
        reports_in(entries),
        sum((each.before for each in counts), Outcomes()),
        sum((each.after for each in counts), Outcomes()),
        tuple(shadows_in(entries, head.shadow)) if head.shadow is not None else (),
    )
