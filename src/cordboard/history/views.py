"""Saved views of the list of calls: filters and columns under a name, of one person or shared.

They can be made from nothing else, so they are in a file of the admin port's data, apart from the
index of calls, which may be deleted. All methods block.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from cordboard import private_files
from cordboard.errors import NotThere, StoreUnavailable

MOST_VIEWS = 100
"""Views of one person."""
_MOST_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class View:
    """One saved view."""

    id: str
    owner: str
    """A user's name, or `key:` and the id of a key."""
    name: str
    shared: bool
    """True if everybody may use it; only its owner can change it."""
    filters: Mapping[str, Sequence[str]]
    """As `query.parse_query` takes them."""
    columns: Sequence[str]
    """Names of fields of `CallRow`, in order; empty: the usual ones."""

    def is_seen_by(self, person: str) -> bool:
        """Return True for its owner, and for everybody if it is shared."""
        return self.shared or self.owner == person


class Views:
    """The views in one file. Several threads and processes may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seen_by(self, person: str) -> list[View]:
        """Return a person's views, and those that others share, by name. Raises
        `StoreUnavailable`."""
        found = [view for view in self._read().values() if view.is_seen_by(person)]
        return sorted(found, key=lambda view: (view.name, view.id))

    def put(self, view: View) -> None:
        """Add a view, or replace the owner's one of that id. Raises `NotThere` if it is another's,
        `ValueError` if the owner has too many, `StoreUnavailable`."""

        def change(views: dict[str, View]) -> None:
            _check_owner(views, view.id, view.owner)
            own = sum(each.owner == view.owner for each in views.values())
            if view.id not in views and own >= MOST_VIEWS:
                raise ValueError(f"there are {MOST_VIEWS} views already; delete one first")
            views[view.id] = view

        self._change(change)

    def delete(self, view_id: str, person: str) -> None:
        """Delete a person's view. Raises `NotThere`, `StoreUnavailable`."""

        def change(views: dict[str, View]) -> None:
            _check_owner(views, view_id, person)
            if views.pop(view_id, None) is None:
                raise NotThere(f"you have no view {view_id}")

        self._change(change)

    def forget(self, number: str) -> None:
        """Delete the views of all owners that look for a caller's number: the number is to be
        erased. Raises `StoreUnavailable`."""
        digits = _digits(number)

        def change(views: dict[str, View]) -> None:
            for view in [*views.values()]:
                values = (value for given in view.filters.values() for value in given)
                if any(_digits(value) == digits for value in values):
                    del views[view.id]

        if digits and self._path.exists():
            self._change(change)

    def _change(self, change: Callable[[dict[str, View]], None]) -> None:
        try:
            with self._locked():
                views = self._read()
                change(views)
                content = orjson.dumps([asdict(view) for view in views.values()])
                private_files.replace(self._path, content, sync=True)
        except OSError as error:
            raise self._unusable(error) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_files.make_folder(self._path.parent)
        descriptor = private_files.open_lock(self._path.with_suffix(".lock"))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, View]:
        try:
            found = orjson.loads(private_files.read(self._path, _MOST_BYTES))
            return {each["id"]: View(**each) for each in found}
        except FileNotFoundError:
            return {}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> StoreUnavailable:
        reason = getattr(error, "strerror", None) or error
        return StoreUnavailable(f"the views in {self._path} cannot be used: {reason}")


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _check_owner(views: Mapping[str, View], view_id: str, person: str) -> None:
    known = views.get(view_id)
    if known is not None and known.owner != person:
        raise NotThere(f"the view {view_id} is not yours; choose another id")
