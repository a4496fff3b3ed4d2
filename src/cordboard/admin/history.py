"""Endpoints of the call history: find, count, export, show one call.

All of it needs the index of calls (`calls.index`). Without the permission `personal`, numbers are
masked, and what was said is left out; nor may one search by them, as that would reveal them.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from pydantic import BeforeValidator, Field
from starlette.responses import Response, StreamingResponse

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import (
    UNRECORDED,
    Ask,
    Content,
    Endpoint,
    Gives,
    Scope,
    Takes,
    lacks,
)
from cordboard.admin.other_engines import Place
from cordboard.calls.history import find as find_ledger
from cordboard.calls.resumption import MOVED
from cordboard.errors import HistoryError, RequestRefused
from cordboard.history.bundle import bundle
from cordboard.history.call_files import read_ledger
from cordboard.history.call_record import CallOnDisk, CallRecord, read_call, refused_offer
from cordboard.history.export import Format, all_rows, export
from cordboard.history.keeper import IndexKeeper
from cordboard.history.ledger_rows import REFUSED
from cordboard.history.masking import masked_row, personal_filters
from cordboard.history.notes import (
    notes_path,
)
from cordboard.history.query import MOST_ROWS, CallQuery, CallRow, Facets, parse_query
from cordboard.history.scenario import NAME, keep_scenario, scenario_of

P = ParamSpec("P")
Result = TypeVar("Result")
_ROWS_AT_ONCE = 200
_OFF = (
    "the history of calls is off; set calls.index.enabled: true (or leave it out) and restart the "
    "engine"
)
Values = Annotated[
    list[Annotated[str, Field(max_length=200)]],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    Field(max_length=100),
]
"""Alternatives: the key may be repeated."""
_Text = Annotated[str | None, Field(max_length=500)]
_Whole = Annotated[int | None, Field(ge=0, lt=10**15)]


class Filters(Takes):
    """As `docs/history.md` describes them. Those of one key are alternatives."""

    node: str = Field("", max_length=63)
    """Node whose history it is; left out: that of the engine that answers, or of all nodes if they
    share the index."""

    text: _Text = None
    who: Literal["caller", "agent"] | None = None
    id: _Text = None
    number: _Text = None
    number_prefix: _Text = None
    number_last4: _Text = None
    called: _Text = None
    since: _Text = None
    until: _Text = None
    waited_over_ms: _Whole = None
    longer_ms: _Whole = None
    shorter_ms: _Whole = None
    cost_over: Annotated[str | None, Field(max_length=20)] = None
    context: Values | None = None
    provider: Values | None = None
    source: Values | None = None
    direction: Values | None = None
    outcome: Values | None = None
    reason: Values | None = None
    interrupted: Values | None = None
    recorded: Values | None = None
    review: Values | None = None
    config: Values | None = None
    tool: Values | None = None
    tool_failed: Values | None = None
    trouble: Values | None = None
    tag: Values | None = None


class PageOf(Filters):
    limit: int = Field(50, ge=1, le=MOST_ROWS)
    cursor: str = Field("", max_length=1_000)
    """`next` of the page before, with the same filters."""


class ExportOf(Filters):
    format: Format = "csv"


class CallPage(Gives):
    rows: list[CallRow]
    """The newest first."""
    next: str
    """Cursor of the next page; empty on the last one."""
    took_ms: int
    up_to_date: bool
    """False while the index is made, or cannot be brought up to date: calls may be missing."""
    unreadable: int
    """Calls that cannot be read: they are missing, or as they were before."""
    searched_to_ms: int | None
    """Start of the last encrypted call that was opened to find these rows, ms since 1970: older
    ones are looked at for the next page, and this one may have few rows or none. None if all were
    looked at, or none had to be opened."""


class CallFacets(Gives):
    facets: dict[str, dict[str, int]]
    """Number of calls by filter and value; each filter is counted as if it were not set."""
    partial: bool
    """True if encrypted calls are not counted, because they would all have to be opened for the
    words, or for the beginning of the number."""
    shared: bool
    """True if the index is that of all nodes of the cluster: `node` is then a filter."""


class RecordedCall(Gives):
    call: CallRecord
    live: bool
    personal: bool
    """False: numbers are masked and words left out, as the caller lacks the grant `personal`."""
    you: str
    """The caller's name in the notes of this call: `otto`, and `otto@a` if the call is on another
    node than a, where otto is signed in."""
    recording_kept_days: int | None = None
    """Days for which recordings of its context are kept by the configuration in force; 0: for ever.
    None if the context is not there any more."""


class ScenarioName(Takes):
    name: str = Field(pattern=f"^{NAME}$")
    """Of the scenario; its file is `NAME.yaml`."""

    def facts(self) -> dict[str, Any]:
        """Return the name."""
        return {"name": self.name}


class ScenarioFile(Gives):
    name: str
    file: str
    """Path on the engine's machine."""
    text: str
    """YAML."""


# What the endpoints share.


def keeper_of(ask: Ask) -> IndexKeeper:
    """Return the index. Raises `RequestRefused` 409 if it is off, 503 while the engine starts."""
    keeper = ask.services.history()
    if keeper is not None:
        return keeper
    if ask.services.config().keeps_index:
        headers = {"Retry-After": "1"}
        raise RequestRefused(503, "index_unavailable", "the engine is starting", headers=headers)
    raise RequestRefused(409, "no_index", _OFF)


async def from_disk(
    ask: Ask, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """Do work on files in a thread. Raises `RequestRefused` 404 for a file that is gone, 503 for
    one that cannot be used."""
    try:
        return await ask.services.run(work, *args, **kwargs)
    except FileNotFoundError:
        raise RequestRefused(404, "not_there", "the call was deleted meanwhile") from None
    except OSError as error:
        reason = error.strerror or error
        message = f"the files of the call cannot be used: {reason}"
        raise RequestRefused(503, "store_unavailable", message) from None


async def context_of_call(ask: Ask) -> str | None:
    """Find the call or refused offer that the path names, live or not; the scope of an endpoint.
    One of another node, in an index that all share, is served there."""
    call_id, keeper = ask.params["call_id"], keeper_of(ask)
    is_live = call_id in ask.services.calls()
    shared = bool(keeper.store.node)
    only_here = shared and (bool(ask.who_node) or is_live)
    row: CallRow | None = None
    if only_here or (shared and not ask.endpoint.forwards):  # such as erasing: first our own part
        row = await from_disk(ask, _row_of, keeper, call_id, is_live, here=True)
    if row is None and not only_here:
        row = await from_disk(ask, _row_of, keeper, call_id, is_live)
    ask.subject = row
    if row is None:
        return None
    if row.node != keeper.store.node and ask.who.rights.covers(row.context):
        ask.elsewhere = await _place_of(ask, row)
    return row.context


async def _place_of(ask: Ask, row: CallRow) -> Place:
    """Return the engine that has the files of a call. Raises `RequestRefused` 409 for what only
    that engine does for its own people, 503 if it is away."""
    if not ask.endpoint.forwards:
        message = f"the call is on node {row.node}: do it there"
        raise RequestRefused(409, "on_other_node", message)
    others = ask.services.others
    place = await others.node(row.node) if others is not None else None
    if place is None:
        message = f"the files of the call are on node {row.node}, which is away"
        raise RequestRefused(503, "node_gone", message, headers={"Retry-After": "2"})
    return replace(place, context=row.context)


def _row_of(
    keeper: IndexKeeper, call_id: str, is_live: bool, *, here: bool = False
) -> CallRow | None:
    """Return the newest call of an id, `here`: only of this node. Of one that moved, where it went
    on, if that is on record. One that has just begun may not be in the index yet."""
    query = CallQuery(id=call_id)
    if here:
        query = replace(query, columns={"node": frozenset({keeper.store.node})})
    found = _newest(keeper, query)
    if found is not None:
        found = _went_on(keeper, query, found)
    if not is_live or (found is not None and found.outcome != MOVED):
        return found
    ledger = find_ledger(keeper.directory, call_id)
    if ledger is None:
        return found
    file = str(ledger.relative_to(keeper.directory))
    row = read_call(keeper.directory, file, keeper.vault).row
    return replace(row, node=keeper.store.node)


def _newest(keeper: IndexKeeper, query: CallQuery) -> CallRow | None:
    """Return the newest row of an id; of calls that moved, only where there is no other."""
    found = keeper.store.find(query, 1).rows
    if not found and keeper.store.node:
        found = keeper.store.find(replace(query, moved=True), 1).rows
    return found[0] if found else None


def _went_on(keeper: IndexKeeper, query: CallQuery, row: CallRow) -> CallRow:
    """Return the last part of a call that moved: one that came back to an engine has further
    ledgers there, whose names have numbers."""
    number = 2
    while row.outcome == MOVED:
        found = _newest(keeper, replace(query, id=f"{query.id}-{number}"))
        if found is None or found.started_ms != row.started_ms:
            break
        row, number = found, number + 1
    return row


async def context_of_ledger(ask: Ask) -> str | None:
    """The same for endpoints that need a ledger, which a refused offer has not."""
    context = await context_of_call(ask)
    is_call = ask.subject is not None and ask.subject.outcome != REFUSED
    return context if is_call else None


async def context_in_words(ask: Ask) -> str | None:
    """The same for endpoints that need the grant `personal` besides their permission."""
    ask.need(Permission.PERSONAL)
    return await context_of_ledger(ask)


def ledger_of(ask: Ask) -> Path:
    """Return the ledger of the call that the scope has found."""
    file: str = ask.subject.file
    return keeper_of(ask).directory / file


async def call_on_disk(ask: Ask) -> CallOnDisk:
    """Return the call that the scope has found."""
    keeper = keeper_of(ask)
    return await from_disk(ask, CallOnDisk.read, keeper.directory, ask.subject.file, keeper.vault)


def is_personal(ask: Ask) -> bool:
    """Return True if the caller may see numbers and words."""
    return ask.who.rights.may(Permission.PERSONAL)


async def streamed(
    ask: Ask, pieces: Iterator[bytes], kind: str, *, status: int = 200, **headers: str
) -> Response:
    """Return an answer whose pieces are made in threads. The first is made at once, so that its
    errors are answers, too; later ones cut the connection."""

    def following() -> bytes | None:
        return next(pieces, None)

    first = await from_disk(ask, following)

    async def body() -> AsyncIterator[bytes]:
        piece = first
        while piece is not None:
            yield piece
            piece = await ask.services.run(following)

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return StreamingResponse(body(), status, named, kind)


async def exported(ask: Ask, rows: Iterator[bytes], name: str, form: Format) -> Response:
    """Return rows as a file, whose name and form these are."""

    def pieces() -> Iterator[bytes]:
        while some := b"".join(islice(rows, _ROWS_AT_ONCE)):
            yield some

    kind = "text/csv; charset=utf-8" if form == "csv" else "application/x-ndjson"
    disposition = attachment(f"{name}.{form}")
    return await streamed(ask, pieces(), kind, content_disposition=disposition)


def attachment(name: str) -> str:
    """Return the header that makes browsers save an answer. Only plain characters of the name are
    used: a dialplan may have chosen a call's id."""
    return f'attachment; filename="{re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]}"'


# Many calls.


async def list_calls(ask: Ask) -> CallPage:
    """List calls and refused offers that match, the newest first."""
    began, asked, keeper = time.monotonic(), ask.query, keeper_of(ask)
    query = await _query(ask, keeper)
    try:
        page = await ask.services.run(keeper.store.find, query, asked.limit, asked.cursor)
    except HistoryError as error:
        raise invalid(error) from None
    rows = page.rows if is_personal(ask) else map(masked_row, page.rows)
    return CallPage(
        rows=list(rows),
        next=page.next,
        took_ms=round((time.monotonic() - began) * 1000),
        up_to_date=keeper.up_to_date,
        unreadable=keeper.unreadable,
        searched_to_ms=page.searched_to_ms,
    )


async def count_calls(ask: Ask) -> CallFacets:
    """Count calls and refused offers by the values of each filter."""
    keeper = keeper_of(ask)
    query = await _query(ask, keeper)
    found: Facets = await ask.services.run(keeper.store.facets, query)
    return CallFacets(
        facets={name: dict(values) for name, values in found.items()},
        partial=await ask.services.run(keeper.store.leaves_out, query),
        shared=bool(keeper.store.node),
    )


async def export_calls(ask: Ask) -> Response:
    """Export all calls that match, as CSV or JSON lines."""
    keeper, form = keeper_of(ask), ask.query.format
    query = await _query(ask, keeper)
    if not keeper.up_to_date:
        await ask.services.run(keeper.catch_up)
    rows: Iterator[CallRow] = all_rows(keeper.store, query)
    if not is_personal(ask):
        rows = map(masked_row, rows)
    return await exported(ask, export(rows, form), "calls", form)


async def _query(ask: Ask, keeper: IndexKeeper) -> CallQuery:
    """Return the query that the filters mean, within the caller's scope. Raises `RequestRefused`
    422, and 403 for filters that reveal what the caller may not see."""
    given: dict[str, Sequence[str]] = {}
    left_out = {"node"} if not (keeper.store.node and ask.query.node) else set()
    for name in Filters.model_fields.keys() - left_out:
        value = getattr(ask.query, name)
        if value is not None:
            given[name] = value if isinstance(value, list) else [str(value)]
    try:
        query = parse_query(given)
        _ = query.terms
    except HistoryError as error:
        raise invalid(error) from None
    rights = ask.who.rights
    if personal_filters(query) and not is_personal(ask):
        raise lacks(Permission.PERSONAL)
    if rights.everywhere:
        return query
    contexts = await ask.services.run(keeper.store.contexts)
    return replace(query, within=frozenset(filter(rights.covers, contexts)))


def invalid(error: HistoryError) -> Exception:
    """Return the refusal of a wrong query; other errors stay."""
    if type(error) is HistoryError:
        return RequestRefused(422, "invalid", str(error))
    return error


# One call.


async def show_call(ask: Ask) -> RecordedCall:
    """Show one call in full: turns, waits by stage, tools, marks, usage, recording, notes.

    A running call is shown as far as it is. Of a refused offer there is only the row.
    """
    row: CallRow = ask.subject
    live = not {row.id, ask.params["call_id"]}.isdisjoint(ask.services.calls())
    personal, you = is_personal(ask), ask.who.name
    if row.outcome == REFUSED:
        call = refused_offer(row if personal else masked_row(row))
        return RecordedCall(call=call, live=False, personal=personal, you=you)
    state = await from_disk(ask, _state, ledger_of(ask))
    ask.unchanged(f"{state}-{personal:d}{live:d}-{you.encode().hex()}")
    found = await call_on_disk(ask)
    call = await ask.services.run(found.record, personal=personal)
    call = replace(call, row=replace(call.row, node=row.node))
    context = ask.services.config().contexts.get(row.context)
    kept_days = context.recording.keep_days if context is not None else None
    return RecordedCall(
        call=call, live=live, personal=personal, you=you, recording_kept_days=kept_days
    )


def _state(ledger: Path) -> str:
    """Return a text that differs when ledger, notes or recording have changed."""
    paths = (ledger, notes_path(ledger), ledger.parent)
    states = [path.stat() for path in paths if path is ledger or path.exists()]
    return "-".join(f"{each.st_mtime_ns:x}.{each.st_size:x}" for each in states)


async def show_ledger(ask: Ask) -> Response:
    """Give the ledger as it is, JSON lines. The lines are full of words and numbers."""
    ask.need(Permission.CALLS_READ)
    return Response(
        await from_disk(ask, read_ledger, ledger_of(ask), keeper_of(ask).vault),
        media_type="application/x-ndjson",
    )


async def draw_picture(ask: Ask) -> Response:
    """Draw a call as SVG: both voices, tools, and each wait stage by stage.

    With the permission `recordings.play` it has the voices of the recording.
    """
    found, sound = await call_on_disk(ask), ask.who.rights.may(Permission.RECORDINGS_PLAY)
    async with ask.services.drawing:
        drawn = await ask.services.run(found.picture, personal=is_personal(ask), sound=sound)
    return Response(drawn, media_type="image/svg+xml")


async def bundle_call(ask: Ask) -> Response:
    """Give a call as a ZIP file: the call, its picture, its ledger, the change of configuration
    before it, and its sound.

    The ledger needs the permission `personal`, the sound `recordings.play`; else they are left out.
    """
    services, found = ask.services, await call_on_disk(ask)
    configured = None
    if services.source and services.versions and ask.who.rights.everywhere:
        configured = services.versions, services.source
    async with services.drawing:
        pieces = await from_disk(
            ask,
            bundle,
            keeper_of(ask).directory,
            found,
            configured,
            personal=is_personal(ask),
            sound=ask.who.rights.may(Permission.RECORDINGS_PLAY),
        )
    name = attachment(f"call-{ask.subject.id}.zip")
    return await streamed(ask, pieces, "application/zip", content_disposition=name)


async def make_scenario(ask: Ask) -> ScenarioFile:
    """Make a test of a call: a file with the caller's lines and the tools' answers, redacted, that
    `cordboard call --scenario` plays. Needs `personal` too."""
    folder, name = ask.services.scenarios, ask.body.name
    found = await call_on_disk(ask)

    def work() -> tuple[Path, str]:
        return keep_scenario(folder, scenario_of(found.history, ask.subject.id, name))

    try:
        path, text = await from_disk(ask, work)
    except HistoryError as error:
        if type(error) is HistoryError:
            raise RequestRefused(409, "refused", str(error)) from None
        raise
    return ScenarioFile(name=name, file=str(path), text=text)


def _get(path: str, does: Any, gives: Any, **more: Any) -> Endpoint:
    facts = {"may": Permission.CALLS_READ, "audit": UNRECORDED, "takes": None} | more
    facts["forwards"] = "{call_id}" in path or "node" in getattr(
        facts.get("asks"), "model_fields", ()
    )
    facts["kept"] = "{call_id}" in path
    return Endpoint("GET", path, does=does, gives=gives, **facts)


ONE = "/calls/{call_id}"
_EXPORT = {"may": Permission.CALLS_EXPORT}
TABLE = Content(("text/csv", "application/x-ndjson"))
_LEDGER = Content(("application/x-ndjson",))
_PICTURE = Content(("image/svg+xml",))
_ZIP = Content(("application/zip",))
ENDPOINTS = (
    _get("/calls", list_calls, CallPage, scope=Scope.FILTERED, asks=PageOf),
    _get("/calls/facets", count_calls, CallFacets, scope=Scope.FILTERED, asks=Filters),
    _get(
        "/calls/export", export_calls, TABLE, scope=Scope.FILTERED, asks=ExportOf,
        audit="calls.export", **_EXPORT,
    ),
    _get(ONE, show_call, RecordedCall, scope=context_of_call),
    _get(f"{ONE}/ledger", show_ledger, _LEDGER, scope=context_of_ledger, may=Permission.PERSONAL),
    _get(f"{ONE}/picture", draw_picture, _PICTURE, scope=context_of_ledger),
    _get(
        f"{ONE}/bundle", bundle_call, _ZIP, scope=context_of_ledger, audit="call.export",
        **_EXPORT,
    ),
    Endpoint(
        "POST",
        f"{ONE}/scenario",
        may=Permission.EVALUATIONS_EDIT,
        scope=context_in_words,
        takes=ScenarioName,
        gives=ScenarioFile,
        audit="call.scenario",
        does=make_scenario,
    ),
)  # fmt: skip
