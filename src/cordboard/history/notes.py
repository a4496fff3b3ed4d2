"""Notes, tags and the review that people add to a call afterwards.

They have no other home, so they are not in the index but in a file beside the ledger,
`{date}/{call id}.notes.json`: a backup of the calls has them, erasing a call takes them along, and
the index, which lists calls by tag and review, can still be made anew from files. All functions
that take a path block.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.errors import HistoryError
from cordboard.privacy.sealed_file import PLAIN, Vault

SUFFIX = ".notes.json"
MOST_TEXT = 10_000
"""Characters of one note, or of the reason of a review."""
MOST_NOTES = 1_000
_MOST_BYTES = 100_000_000
MOST_TAGS = 50
MOST_TAG = 60
"""Characters of a tag."""
REVIEWS = ("", "good", "bad")


@dataclass(frozen=True, slots=True)
class Note:
    """One note."""

    at: str
    """ISO 8601 with zone."""
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class Notes:
    """All that was added to one call."""

    notes: tuple[Note, ...] = ()
    tags: tuple[str, ...] = ()
    review: str = ""
    """`good`, `bad`, or empty: not reviewed."""
    review_why: str = ""
    reviewed_by: str = ""

    def check(self) -> None:
        """Raise `HistoryError` for what no call may have."""
        if self.review not in REVIEWS:
            raise HistoryError(f"review: expected good, bad or nothing, found {self.review!r}")
        if len(self.notes) > MOST_NOTES or len(self.tags) > MOST_TAGS:
            raise HistoryError(f"expected at most {MOST_NOTES} notes and {MOST_TAGS} tags")
        if any(not 0 < len(tag.strip()) <= MOST_TAG for tag in self.tags):
            raise HistoryError(f"tags: expected 1 to {MOST_TAG} characters each")
        if any(len(text) > MOST_TEXT for text in (self.review_why, *(n.text for n in self.notes))):
            raise HistoryError(f"expected at most {MOST_TEXT} characters of text")


NONE = Notes()


def notes_path(ledger: Path) -> Path:
    """Return the file of the notes of a call."""
    return ledger.with_name(ledger.stem + SUFFIX)


def read_notes(ledger: Path, vault: Vault = PLAIN) -> tuple[Notes, str]:
    """Return the notes of a call, and their revision for `write_notes`. Raises `HistoryError` for
    a damaged file, and `OSError`."""
    path = notes_path(ledger)
    try:
        content = vault.read(path, _MOST_BYTES)
    except FileNotFoundError:
        return NONE, ""
    return _decode(content, path), _revision(content)


def write_notes(ledger: Path, notes: Notes, revision: str, vault: Vault = PLAIN) -> str:
    """Write the notes of a call, if they are still those of `revision`; return the new revision.
    Those of an encrypted call are encrypted.

    Raises `NotesChanged` if another person was faster, `HistoryError` for wrong notes or a call
    that does not exist, and `OSError`.
    """
    notes.check()
    path = notes_path(ledger)
    if not ledger.parent.is_dir():
        raise HistoryError(f"there is no folder {ledger.parent}")
    with private_files.alone(ledger.parent):  # `call_files.delete_call` too
        if not ledger.is_file():
            raise HistoryError(f"there is no call {ledger.stem}")
        if read_notes(ledger, vault)[1] != revision:
            raise NotesChanged("the notes were changed meanwhile; read them again")
        if notes == NONE:
            path.unlink(missing_ok=True)
            return ""
        content = orjson.dumps(asdict(notes), option=orjson.OPT_INDENT_2)
        seal = vault.seal_of(ledger)
        written = content if seal is None else seal.whole("notes", content)
        private_files.replace(path, written, sync=True)
        return _revision(content)


class NotesChanged(HistoryError):
    """The notes are no longer those that the writer has read."""


def _revision(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _decode(content: bytes, path: Path) -> Notes:
    try:
        found: dict[str, Any] = orjson.loads(content)
        notes = tuple(Note(**each) for each in found.pop("notes"))
        tags = tuple(str(each) for each in found.pop("tags"))
        decoded = Notes(notes=notes, tags=tags, **found)
        decoded.check()
    except (AttributeError, KeyError, TypeError, ValueError, HistoryError) as error:
        raise HistoryError(f"{path} does not hold notes: {error}") from None
    return decoded
