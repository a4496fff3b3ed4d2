"""Endpoints of campaigns (`cordboard.outbound.campaigns`): make one of a list, start, pause and
cancel it, see how far it is, and its results.

A campaign is within the scope of its context. Without the permission `personal` the numbers of its
people are masked; their variables are never shown.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import (
    UNRECORDED,
    Ask,
    Content,
    Done,
    Endpoint,
    Gives,
    Scope,
    Takes,
)
from cordboard.admin.history import exported
from cordboard.admin.outbound import context_of_body, has_campaigns, invalid, with_campaigns
from cordboard.errors import CampaignRefused, RequestRefused
from cordboard.history.export import written
from cordboard.history.masking import masked
from cordboard.outbound.campaigns.making import CampaignMade, make_campaign
from cordboard.outbound.campaigns.results import COLUMNS, iso_time, result_row
from cordboard.outbound.campaigns.rows import BrokenLine
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore

MOST_CSV = 2 * 1024 * 1024
"""Characters of a list: some 50,000 people. `cordboard campaign add` takes longer ones."""
MOST_BROKEN = 100
"""Broken lines in an answer; the others are only counted."""
_LINES_AT_ONCE = 50
_PAUSE_SECONDS = 0.001
_Text = Annotated[str, Field(max_length=1_000)]


class Campaign(Gives):
    name: str
    state: Literal["paused", "running", "cancelled"]
    context: str
    created: str
    hours: str
    """In the called person's time, such as `09:00-20:00`."""
    days: str
    attempts: int
    retry_minutes: int
    concurrency: int
    message: str
    keys: list[str]
    consent: str
    people: dict[str, int]
    """Number of people by how far they are: `pending`, `claimed`, `dialling`, and outcomes."""
    waits: str
    """Reason why a running campaign places no calls now, such as its hours or a cap of the
    firewall; empty if there is none."""


class Campaigns(Gives):
    campaigns: list[Campaign]
    """The newest first."""


class CampaignPage(Takes):
    limit: int = Field(50, ge=1, le=200)
    cursor: int = Field(0, ge=0)
    """`next` of the page before."""
    what: str = Field("", max_length=40)
    """Only people who are that far, as `people` counts them; empty: all."""


class CalledPerson(Gives):
    number: str
    """Masked to its last four digits without the grant `personal`."""
    zone: str
    state: Literal["pending", "claimed", "dialling", "done"]
    outcome: str
    """Of the last attempt."""
    answer: str
    """By a human, a voicemail or a machine, as in `call.answer`."""
    reason: str
    attempts: int
    call_id: str
    """Of the last attempt, in the history; empty before the first one."""
    began: str
    duration_ms: int | None


class OneCampaign(Gives):
    campaign: Campaign
    people: list[CalledPerson]
    """In the order of the list."""
    next: int | None
    """Cursor of the next page; null on the last one."""


class NewCampaign(Takes):
    name: str = Field(max_length=64)
    context: str = Field(max_length=100)
    csv: str = Field(max_length=MOST_CSV)
    """The list: its first line has the names of the columns, `number` among them."""
    zone: str = Field("", max_length=64)
    """For numbers of countries with several time zones, where a line names none."""
    hours: str = Field("09:00-20:00", max_length=20)
    """In the called person's time."""
    days: str = Field("mon-fri", max_length=40)
    attempts: int = Field(2, ge=1, le=10)
    retry_minutes: int = Field(120, ge=1, le=10_080)
    concurrency: int = Field(1, ge=1, le=1_000)
    """Calls at the same time."""
    message: _Text = ""
    """Left to a voicemail; empty: it is hung up on."""
    keys: list[Annotated[str, Field(max_length=40)]] = Field([], max_length=20)
    """Keys for a menu, step by step."""
    consent: _Text = ""
    """Spoken to a human before the greeting."""

    def facts(self) -> dict[str, Any]:
        """Return the size of the list."""
        return {"characters": len(self.csv)}

    def subject(self) -> str:
        """Return the name."""
        return self.name


class LineLeftOut(Gives):
    line: int
    problem: str


class NewCampaignMade(Gives):
    people: int
    left_out: int
    """Number of broken lines."""
    broken: list[LineLeftOut]
    """The first hundred of them."""


async def list_campaigns(ask: Ask) -> Campaigns:
    """List the campaigns, the newest first, with the number of people by how far they are."""
    if not await has_campaigns(ask):
        return Campaigns(campaigns=[])
    covers = ask.who.rights.covers
    found = await with_campaigns(ask, CampaignStore.status)
    return Campaigns(campaigns=[_shown(each) for each in found[::-1] if covers(each["context"])])


async def show_campaign(ask: Ask) -> OneCampaign:
    """Show a campaign, and a page of its people with the outcome of their last attempt."""
    name, asked, personal = ask.params["campaign"], ask.query, _sees_numbers(ask)

    def work(store: CampaignStore) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        people = store.results(name, asked.what, asked.cursor, asked.limit + 1)
        return store.status(name)[0], list(people)

    campaign, people = await with_campaigns(ask, work)
    page = people[: asked.limit]
    return OneCampaign(
        campaign=_shown(campaign),
        people=[_person(each, personal=personal) for each in page],
        next=page[-1]["id"] if len(people) > asked.limit else None,
    )


async def new_campaign(ask: Ask) -> NewCampaignMade:
    """Make a campaign of a list, which is not started. Broken lines are left out, and
    stand in the answer.

    One list at a time is read.
    """
    body: NewCampaign = ask.body
    config, reading = ask.services.config(), ask.services.reading_list
    settings = CampaignSettings(
        body.context,
        body.hours,
        body.days,
        body.attempts,
        body.retry_minutes,
        body.concurrency,
        body.message,
        tuple(body.keys),
        body.consent,
    )
    broken: list[LineLeftOut] = []

    def leave_out(line: BrokenLine) -> None:
        if len(broken) < MOST_BROKEN:
            broken.append(LineLeftOut(line=line.line, problem=line.problem))

    def work() -> CampaignMade:
        path, lines = ask.services.outbound.campaigns, _lines(body.csv)
        return make_campaign(path, config, body.name, settings, body.zone, lines, leave_out)

    if reading.locked():
        headers = {"Retry-After": "5"}
        raise RequestRefused(503, "busy", "another list is being read", headers=headers)
    async with reading:
        try:
            made = await ask.services.run(work)
        except CampaignRefused as error:
            raise invalid(error, error.field) from None
    return NewCampaignMade(people=made.people, left_out=made.left_out, broken=broken)


def _lines(csv: str) -> Iterator[bytes]:
    """Yield the lines. Their reader is stopped for a moment now and then: the sound of live calls
    is in another thread."""
    for number, line in enumerate(io.BytesIO(csv.encode("utf-8", "replace"))):
        if number % _LINES_AT_ONCE == 0:
            time.sleep(_PAUSE_SECONDS)
        yield line


async def start_campaign(ask: Ask) -> Done:
    """Start a campaign, or let it go on after a pause."""
    await with_campaigns(ask, CampaignStore.set_state, ask.params["campaign"], "running")
    return Done()


async def pause_campaign(ask: Ask) -> Done:
    """Place no more calls of a campaign; live ones go on."""
    await with_campaigns(ask, CampaignStore.set_state, ask.params["campaign"], "paused")
    return Done()


async def cancel_campaign(ask: Ask) -> Done:
    """End a campaign for good: people who wait are not called; live calls go on."""
    await with_campaigns(ask, CampaignStore.cancel, ask.params["campaign"])
    return Done()


async def export_results(ask: Ask) -> Response:
    """Export everybody of a campaign as CSV, with the end of the last call."""
    name, personal = ask.params["campaign"], _sees_numbers(ask)
    path = ask.services.outbound.campaigns

    def rows() -> Iterator[bytes]:
        with closing(CampaignStore(path)) as store:
            people = store.results(name)
            shown = people if personal else map(_masked, people)
            yield from written(map(result_row, shown), COLUMNS, "csv")

    return await exported(ask, rows(), f"campaign-{name}", "csv")


async def _context_of_campaign(ask: Ask) -> str | None:
    if not await has_campaigns(ask):
        return None
    return await with_campaigns(ask, CampaignStore.context_of, ask.params["campaign"])


def _sees_numbers(ask: Ask) -> bool:
    return ask.who.rights.may(Permission.PERSONAL)


def _masked(person: Mapping[str, Any]) -> dict[str, Any]:
    return {**person, "number": masked(person["number"])}


def _person(person: Mapping[str, Any], *, personal: bool) -> CalledPerson:
    shown = person if personal else _masked(person)
    return CalledPerson(**{**shown, "began": iso_time(person["began"])})


def _shown(status: Mapping[str, Any]) -> Campaign:
    return Campaign(
        name=status["name"],
        state=status["state"],
        created=iso_time(status["created"]),
        people=status["people"],
        waits=status["waits"],
        **status["settings"],
    )


_ONE = "/campaigns/{campaign}"
_LOOK = Endpoint(
    "GET",
    "/campaigns",
    may=Permission.CALLS_READ,
    scope=Scope.FILTERED,
    takes=None,
    gives=Campaigns,
    audit=UNRECORDED,
    does=list_campaigns,
)
ENDPOINTS = (
    _LOOK,
    replace(
        _LOOK,
        path=_ONE,
        scope=_context_of_campaign,
        asks=CampaignPage,
        gives=OneCampaign,
        does=show_campaign,
    ),
    replace(
        _LOOK,
        path=f"{_ONE}/results",
        may=Permission.CALLS_EXPORT,
        scope=_context_of_campaign,
        gives=Content(("text/csv",)),
        audit="campaign.results",
        does=export_results,
    ),
    Endpoint(
        "POST",
        "/campaigns",
        may=Permission.CALLS_PLACE,
        scope=context_of_body,
        takes=NewCampaign,
        gives=NewCampaignMade,
        audit="campaign.make",
        does=new_campaign,
        most_bytes=2 * MOST_CSV,
    ),
    *(
        Endpoint(
            "POST",
            f"{_ONE}/{act}",
            may=Permission.CALLS_PLACE,
            scope=_context_of_campaign,
            takes=None,
            gives=Done,
            audit=f"campaign.{act}",
            does=does,
        )
        for act, does in (
            ("start", start_campaign),
            ("pause", pause_campaign),
            ("cancel", cancel_campaign),
        )
    ),
)
