"""Endpoints of the saved views of the call history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.errors import HistoryError, RequestRefused
from cordboard.history.masking import personal_filters
from cordboard.history.query import CallRow, parse_query
from cordboard.history.views import View

_COLUMNS = frozenset(each.name for each in fields(CallRow))


class GivenView(Takes):
    name: str = Field(min_length=1, max_length=100)
    shared: bool = False
    filters: dict[str, list[str]] = Field({}, max_length=50)
    """By the names of the filters of `GET /calls`."""
    columns: list[str] = Field([], max_length=50)


class SavedView(Gives):
    id: str
    owner: str
    name: str
    shared: bool
    filters: Mapping[str, Sequence[str]]
    columns: Sequence[str]


class SavedViews(Gives):
    views: list[SavedView]


async def list_views(ask: Ask) -> SavedViews:
    """List one's own views, and those that others share."""
    return SavedViews(views=await _seen(ask))


async def show_view(ask: Ask) -> SavedView:
    """Show a view of one's own, or a shared one."""
    for view in await _seen(ask):
        if view.id == ask.params["view_id"]:
            return view
    raise RequestRefused(404, "not_there", "there is no such view")


async def save_view(ask: Ask) -> SavedView:
    """Save a view under an id of one's choice, or replace one's own."""
    body: GivenView = ask.body
    try:
        _ = parse_query(body.filters).terms
    except HistoryError as error:
        raise RequestRefused(422, "invalid", f"filters: {error}") from None
    if unknown := sorted(set(body.columns) - _COLUMNS):
        raise RequestRefused(422, "invalid", f"columns: there is no {unknown[0]!r:.50}")
    view_id = ask.params["view_id"]
    if len(view_id) > 64 or not view_id.replace("-", "").replace("_", "").isalnum():
        raise RequestRefused(422, "invalid", "the id: expected up to 64 letters, digits, - and _")
    view = View(view_id, _owner(ask), body.name, body.shared, body.filters, tuple(body.columns))
    try:
        await ask.services.run(ask.services.views.put, view)
    except ValueError as error:
        raise RequestRefused(409, "refused", str(error)) from None
    return _saved(view)


async def delete_view(ask: Ask) -> Done:
    """Delete a view of one's own."""
    await ask.services.run(ask.services.views.delete, ask.params["view_id"], _owner(ask))
    return Done()


async def _seen(ask: Ask) -> list[SavedView]:
    views = await ask.services.run(ask.services.views.seen_by, _owner(ask))
    return [_saved(view) for view in views if view.owner == _owner(ask) or _may_see(ask, view)]


def _may_see(ask: Ask, view: View) -> bool:
    """Return False for a shared view that names numbers, words or contexts which the caller may not
    know."""
    rights, query = ask.who.rights, parse_query(view.filters)
    contexts = query.columns.get("context", frozenset())
    hidden = personal_filters(query) and not rights.may(Permission.PERSONAL)
    return not hidden and all(map(rights.covers, contexts))


def _owner(ask: Ask) -> str:
    """Return the person; a key has the views of its owner."""
    who = ask.who
    return who.key.owner.name if who.key is not None else who.name


def _saved(view: View) -> SavedView:
    return SavedView(
        id=view.id,
        owner=view.owner,
        name=view.name,
        shared=view.shared,
        filters=view.filters,
        columns=view.columns,
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/views",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=SavedViews,
        audit=UNRECORDED,
        does=list_views,
    ),
    Endpoint(
        "GET",
        "/views/{view_id}",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=SavedView,
        audit=UNRECORDED,
        does=show_view,
    ),
    Endpoint(
        "PUT",
        "/views/{view_id}",
        may=Permission.CALLS_READ,
        scope=Scope.NONE,
        takes=GivenView,
        gives=SavedView,
        audit="view.save",
        does=save_view,
    ),
    Endpoint(
        "DELETE",
        "/views/{view_id}",
        may=Permission.CALLS_READ,
        scope=Scope.NONE,
        takes=None,
        gives=Done,
        audit="view.delete",
        does=delete_view,
    ),
)
