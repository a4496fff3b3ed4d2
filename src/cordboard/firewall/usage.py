"""The caps of a policy beside what is used of them, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from cordboard.config.sections.firewall import Caps
from cordboard.firewall.counts import NOTHING_USED, Counts, Direction, Scope, Used
from cordboard.firewall.policy import Policy


@dataclass(frozen=True, slots=True)
class CapUsage:
    """One scope in one direction."""

    direction: Direction
    scope: Scope
    name: str
    """The context or trunk. Empty for `total`, and for `caller`: callers are not named, and of
    them there are only the caps."""
    caps: Caps
    used: Used


def cap_usage(policy: Policy, counts: Counts, contexts: Iterable[str]) -> list[CapUsage]:
    """Return the caps of callers, contexts, trunks and all calls: the trunks that the policy names,
    and those that have counts."""
    now = policy.now()
    trunks = sorted({*policy.rules.trunks, *counts.names("trunk")})
    found: list[CapUsage] = []
    for direction in get_args(Direction):
        named = [*((context, "") for context in contexts), *(("", trunk) for trunk in trunks)]
        scopes = list(policy.caps(direction, "", "", ""))
        wanted = [each for each in scopes if each.scope in ("caller", "total")]
        for context, trunk in named:
            kind = "trunk" if trunk else "context"
            every = policy.caps(direction, "", context, trunk)
            wanted += [each for each in every if each.scope == kind]
        for scope, name, caps in wanted:
            is_caller = scope == "caller"
            used = NOTHING_USED if is_caller else counts.used(direction, scope, name, now)
            found.append(CapUsage(direction, scope, name, caps, used))
    return found
