"""Endpoints of the notes, tags and review of a recorded call.

They are in a file beside the call's ledger. Each change names the revision that was shown, so that
of two people who change them at once the second is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import Ask, Endpoint, Gives, Takes
from cordboard.admin.history import (
    ONE,
    context_of_ledger,
    from_disk,
    invalid,
    keeper_of,
    ledger_of,
)
from cordboard.errors import HistoryError, RequestRefused
from cordboard.history.notes import (
    MOST_NOTES,
    MOST_TAG,
    MOST_TAGS,
    MOST_TEXT,
    Note,
    Notes,
    NotesChanged,
    read_notes,
    write_notes,
)


class NotesNow(Gives):
    notes: Notes
    revision: str
    """For the next change."""


class _OfRevision(Takes):
    revision: str = Field(max_length=64)
    """Of the notes that were shown; empty if there were none."""


class GivenNote(Takes):
    text: str = Field(min_length=1, max_length=MOST_TEXT)
    at: str = Field("", max_length=40)
    """Empty, and `by` too, for a new note."""
    by: str = Field("", max_length=100)


class GivenNotes(_OfRevision):
    notes: list[GivenNote] = Field(max_length=MOST_NOTES)
    """All that shall be there. One's own may be left out; those of others stay as they are."""

    def facts(self) -> dict[str, Any]:
        """Return how many notes there are now."""
        return {"notes": len(self.notes)}


class GivenTags(_OfRevision):
    tags: list[Annotated[str, Field(max_length=MOST_TAG)]] = Field(max_length=MOST_TAGS)

    def facts(self) -> dict[str, Any]:
        """Return the tags."""
        return {"tags": self.tags}


class GivenReview(_OfRevision):
    review: Literal["", "good", "bad"]
    why: str = Field("", max_length=MOST_TEXT)

    def facts(self) -> dict[str, Any]:
        """Return the review without its reason."""
        return {"review": self.review}


async def write_call_notes(ask: Ask) -> NotesNow:
    """Replace the notes of a call; one may change one's own only."""
    given, who = ask.body.notes, ask.who.name
    now = datetime.now(UTC).isoformat(timespec="seconds")

    def change(before: Notes) -> Notes:
        new = [Note(now, who, each.text) for each in given if not (each.at or each.by)]
        kept = [Note(each.at, each.by, each.text) for each in given if each.at or each.by]
        gone = [note for note in before.notes if note not in kept]
        if any(note not in before.notes for note in kept) or any(note.by != who for note in gone):
            raise RequestRefused(403, "not_yours", "notes of others cannot be changed")
        return replace(before, notes=(*kept, *new))

    return await _change_notes(ask, change)


async def tag_call(ask: Ask) -> NotesNow:
    """Replace the tags of a call."""
    tags = tuple(dict.fromkeys(tag.strip() for tag in ask.body.tags))
    return await _change_notes(ask, lambda before: replace(before, tags=tags))


async def review_call(ask: Ask) -> NotesNow:
    """Say whether a call was good or bad, and why."""
    body = ask.body
    who = ask.who.name if body.review else ""
    return await _change_notes(
        ask,
        lambda before: replace(before, review=body.review, review_why=body.why, reviewed_by=who),
    )


async def _change_notes(ask: Ask, change: Callable[[Notes], Notes]) -> NotesNow:
    ledger, revision, vault = ledger_of(ask), ask.body.revision, keeper_of(ask).vault

    def work() -> NotesNow:
        notes = change(read_notes(ledger, vault)[0])
        return NotesNow(notes=notes, revision=write_notes(ledger, notes, revision, vault))

    try:
        changed = await from_disk(ask, work)
    except NotesChanged as error:
        raise RequestRefused(409, "conflict", str(error)) from None
    except HistoryError as error:
        raise invalid(error) from None
    keeper_of(ask).look_now()
    return changed


def _put(path: str, does: Any, takes: type[Takes], audit: str) -> Endpoint:
    return Endpoint(
        "PUT",
        path,
        may=Permission.CALLS_NOTE,
        scope=context_of_ledger,
        takes=takes,
        gives=NotesNow,
        audit=audit,
        does=does,
        forwards=True,
        kept=True,
    )


ENDPOINTS = (
    _put(f"{ONE}/notes", write_call_notes, GivenNotes, "call.note"),
    _put(f"{ONE}/tags", tag_call, GivenTags, "call.tag"),
    _put(f"{ONE}/review", review_call, GivenReview, "call.review"),
)
