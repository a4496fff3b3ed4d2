"""The limits that hold for all engines of a cluster together: caps, calls, do-not-call, campaigns.

Imported only where the configuration has `cluster`; `docs/cluster-limits.md` describes the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cordboard.cluster.bus import Bucket
from cordboard.cluster.claims import PeopleClaims
from cordboard.cluster.member import Member
from cordboard.cluster.sealed_bus import SealedBucket
from cordboard.cluster.shared_blocks import SharedBlocks
from cordboard.cluster.shared_counts import SharedCounts
from cordboard.cluster.wire import place_of
from cordboard.firewall.counts import Counts
from cordboard.outbound.campaigns.blocks import BlockJournal


class SharedLimits:
    """One per engine; it works from the start of the member to its stop."""

    def __init__(
        self,
        member: Member,
        node: str,
        asterisk: str,
        counts: Counts,
        live_calls: Callable[[], int],
        has_caps: Callable[[], bool],
        campaigns: Path,
    ) -> None:
        """`asterisk`: `host:port` of the engine's Asterisk; `live_calls()` returns the number of
        its calls, `has_caps()` True if the firewall has any, `campaigns`: the campaigns' file."""

        def sealed(bucket: Bucket) -> Bucket:
            return bucket if member.seal is None else SealedBucket(bucket, member.seal)

        self.counts = SharedCounts(
            sealed(member.bus.counts),
            counts,
            node,
            member.instance,
            lambda: member.roster.others,
            place_of(asterisk),
            live_calls,
            has_caps,
        )
        self.blocks = SharedBlocks(
            sealed(member.bus.blocks), BlockJournal(campaigns), self.counts.key
        )
        self.claims = PeopleClaims(
            sealed(member.bus.claims), member.instance, self.counts.is_living, self.counts.key
        )
        member.parts += (self.counts.run, self.blocks.run, self.claims.run)

    def health(self) -> Mapping[str, Any]:
        """Return the limits' part of `/health`."""
        return {
            "engines": self.counts.engines,
            "last_share": self.counts.away,
            "unsent_blocks": self.blocks.unsent,
            "unsent_claims": self.claims.unsent,
        }
