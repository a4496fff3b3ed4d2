"""The door of the call history: an index of ledgers that is written by one side, read by others.

The ledgers stay the truth. A store holds only what can be made from them again, so it may be
deleted at any time; `history.indexer` fills it. All methods block: call them in threads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cordboard.history.measured import Measured
from cordboard.history.query import CallQuery, CallRow, Facets, Page
from cordboard.history.series import Series, SeriesQuery
from cordboard.privacy.sealed_file import CallSeal


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a ledger when it was read; another state means: read it again."""

    size: int
    """Bytes that were read."""
    modified_ns: int
    notes_ns: int = 0
    """Time of the last change of its notes; 0 without notes."""
    is_open: bool = False
    """True if the call had not ended."""
    unreadable: str = ""
    """Reason why the file could not be read when it was last tried; empty if it was read."""


@dataclass(frozen=True, slots=True)
class IndexedCall:
    """A row, and the words to find it by."""

    row: CallRow
    caller_words: tuple[str, ...] = ()
    """As `query.words_of` returns them."""
    agent_words: tuple[str, ...] = ()
    measured: Measured | None = None
    """Its numbers; None until it has ended."""
    seal: CallSeal | None = None
    """Encrypts what is personal in the row; None for a plain call. The words of an encrypted call
    must be left out."""


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A ledger, or the refused offers of a day, as they shall be in the index."""

    file: str
    """Path, relative to `calls.directory`."""
    state: FileState
    calls: Sequence[IndexedCall]
    """Empty for a file that is not a ledger. Those of a file that is `unreadable` now stay as they
    were."""
    after: int = 0
    """If not 0: these calls come to those that the index has of this many bytes of the file."""


class HistoryStore(Protocol):
    """An index. Every method raises `IndexUnavailable` when it cannot be read or written, and
    `IndexDamaged` when it must be made anew."""

    @property
    def node(self) -> str:
        """The node whose rows this store writes, in an index that the engines of a cluster share:
        it reads those of all. Empty for the index of one engine."""

    def open(self) -> str:
        """Connect, and create the index if it is missing or of another version. Return a value that
        each created index has for itself: with another one, begin from an empty index. Cheap when
        there is nothing to do."""

    def recreate(self, *, take_over: bool = False) -> str:
        """Delete everything and begin with an empty index, however damaged the old one is; of a
        shared one, only the rows of this node. `take_over`: also if they are of another directory
        of calls. Return the same as `open`."""

    def days(self) -> Collection[str]:
        """Return the folders of the files in the index, `2026-11-22`."""

    def states(self, day: str) -> Mapping[str, FileState]:
        """Return the state of the files of one day's folder."""

    def open_files(self) -> Collection[str]:
        """Return the files of calls that had not ended, and those that could not be read."""

    def unreadable(self) -> Mapping[str, str]:
        """Return the reason for each file that could not be read."""

    def put(self, files: Sequence[IndexedFile]) -> Collection[str]:
        """Replace what the index has of these files, or add to it, all or nothing. Return the files
        that were left out, because another process has read more or less of them: they must be read
        whole."""

    def remove(self, files: Collection[str]) -> None:
        """Remove files whose ledgers are gone."""

    def needs_scrub(self) -> bool:
        """True if files were removed since the last `scrub`, by whatever process."""

    def scrub(self) -> None:
        """Remove the remains of removed calls from the disk: freed pages, logs, old words."""

    def find(self, query: CallQuery, limit: int = 50, cursor: str = "") -> Page:
        """Return a page of at most `limit` rows (1 to `MOST_ROWS`). Where encrypted calls must be
        opened, a page may have few rows or none, and a next one. Raises `HistoryError` for a
        wrong limit or cursor."""

    def contexts(self) -> Collection[str]:
        """Return the contexts of all calls; empty for offers that were refused."""

    def facets(self, query: CallQuery) -> Facets:
        """Return how many calls have which values, without those that `leaves_out`."""

    def leaves_out(self, query: CallQuery) -> bool:
        """True if encrypted calls are not counted, because only `find` looks into them: for their
        words, and the beginning of their numbers."""

    def elsewhere(self, query: CallQuery) -> Mapping[str, int | None]:
        """Return how many calls that match other nodes have, for those that have some. None: it
        cannot be said, as numbers of their encrypted calls are hashed with a key that is not
        here."""

    def series(self, query: SeriesQuery) -> Series:
        """Return a measure over time, from the rollups. Raises `HistoryError` for a wrong query."""

    def totals(self, query: SeriesQuery) -> Mapping[str, Series]:
        """Return the whole of every measure, with the period and filters of a query; its own
        measure and step do not count. Raises `HistoryError` for a wrong query."""

    def recent(self, since_ms: int) -> Sequence[tuple[str, Measured]]:
        """Return the calls by telephone that have ended here, and the offers that were refused,
        since then: ids and numbers, the oldest first."""

    def close(self) -> None:
        """Disconnect. Idempotent."""
