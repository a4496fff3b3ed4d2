"""Make a campaign of a list, and read numbers for the do-not-call list. Blocks.

The terminal and the admin port do it by these functions alone.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from cordboard.calls.outbound_order import keys_problem
from cordboard.config.schema import Config
from cordboard.errors import CampaignRefused
from cordboard.firewall.numbers import caller_of
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns.hours import CallingHours, is_zone
from cordboard.outbound.campaigns.rows import BrokenLine, Row, read_rows
from cordboard.outbound.campaigns.store import CALLBACKS, CampaignSettings, CampaignStore
from cordboard.outbound.placing import MOST_MESSAGE, MOST_STEPS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


@dataclass(frozen=True, slots=True)
class CampaignMade:
    """A new campaign, which is not started."""

    people: int
    left_out: int
    """Number of broken lines."""


def make_campaign(
    path: Path,
    config: Config,
    name: str,
    settings: CampaignSettings,
    zone: str,
    lines: Iterable[bytes],
    leave_out: Callable[[BrokenLine], None],
) -> CampaignMade:
    """Make a campaign in the campaigns' file `path` of the lines of a CSV file (`read_rows`).

    `zone`: the time zone of numbers whose country has several, where a line names none. `leave_out`
    is called with each broken line; the other lines are taken. Raises `CampaignRefused`; then no
    campaign is made.
    """
    _check(config, name, settings, zone)
    left_out = 0

    def broken(line: BrokenLine) -> None:
        nonlocal left_out
        left_out += 1
        leave_out(line)

    with closing(CampaignStore(path)) as store:
        variables = config.contexts[settings.context].variables
        found = _whole(read_rows(lines, variables, Policy(config.firewall).dialled, zone), broken)
        first = [*islice(found, 1)]  # a list without a head is refused before there is a campaign
        campaign = store.add(name, settings)
        try:
            for twice in store.add_people(campaign, chain(first, found)):
                broken(BrokenLine(twice.line, "the number is there already"))
        except BaseException as error:  # also when a person interrupts the command
            with suppress(sqlite3.Error):
                store.discard(campaign)
            if not isinstance(error, sqlite3.Error):
                raise
            raise CampaignRefused(f"the campaigns' file {path} cannot be used: {error}") from error
        return CampaignMade(sum(store.status(name)[0]["people"].values()), left_out)


def numbers_to_block(written: Iterable[str], country: str | None) -> list[str]:
    """Return numbers in E.164, as campaigns have them. Raises `CampaignRefused` for the first one
    that cannot be read."""
    numbers: list[str] = []
    for each in filter(None, map(str.strip, written)):
        number = caller_of(each, country)
        if not number.startswith("+"):
            raise CampaignRefused(
                f"{each[:40]!r}: expected a number such as +4722000000, or as in `firewall.country`"
            )
        numbers.append(number)
    return numbers


def _check(config: Config, name: str, settings: CampaignSettings, zone: str) -> None:
    """Check name and settings before the list is read. Raises `CampaignRefused`."""
    if _NAME.fullmatch(name) is None:
        raise CampaignRefused(
            f"{name[:80]!r}: expected a name of letters, digits, spaces, `.`, `_` and `-`, at most "
            "64 characters",
            "name",
        )
    if name.lower().startswith(CALLBACKS):
        raise CampaignRefused(f"names with {CALLBACKS} are those of promised call-backs", "name")
    if settings.context not in config.contexts:
        known = ", ".join(config.contexts)
        raise CampaignRefused(f"no such context; there are: {known}", "context")
    problem = keys_problem(settings.keys)
    if len(settings.keys) > MOST_STEPS:
        problem = f"keys: expected at most {MOST_STEPS} steps"
    if problem:
        raise CampaignRefused(problem, "keys")
    for field in ("message", "consent"):
        if len(getattr(settings, field)) > MOST_MESSAGE:
            raise CampaignRefused(f"{field}: expected at most {MOST_MESSAGE} characters", field)
    if zone and not is_zone(zone):
        raise CampaignRefused(f"zone: there is no {zone[:64]!r}; expected Europe/Oslo, say", "zone")
    try:
        CallingHours.read(settings.hours, settings.days)
    except ValueError as error:
        raise CampaignRefused(str(error), str(error).partition(":")[0]) from None


def _whole(
    found: Iterator[Row | BrokenLine], leave_out: Callable[[BrokenLine], None]
) -> Iterator[Row]:
    """Yield the rows without the broken lines."""
    for each in found:
        if isinstance(each, BrokenLine):
            leave_out(each)
        else:
            yield each
