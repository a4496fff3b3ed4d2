"""Verdicts, edits and differences of texts, for the endpoints of the configuration's file.

These functions run in the process of `admin.config_process`. Answers come back as JSON: to turn
thousands of keys into it would hold up the calls, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from cordboard.accounts.rights import Rights
from cordboard.admin.config_process import Desk
from cordboard.admin.endpoint import Gives
from cordboard.admin.engine import Problem
from cordboard.config.edit.edits import Edit
from cordboard.config.files import digest_of
from cordboard.config.review import Review
from cordboard.config.workspace import Sheet
from cordboard.config.yaml_document import dotted
from cordboard.errors import ConfigProblem
from cordboard.tools.known_secrets import KnownSecrets

_OUTSIDE = (
    "the value that this takes from outside of the file is not in order; `cordboard check` on the "
    "engine's machine says why"
)


class Change(Gives):
    key: str
    takes_effect: Literal["now", "idle", "restart"]
    """`now`: for the next call; `idle`: once no call is active; `restart`: of the engine."""


class Checked(Gives):
    in_order: bool
    """False: a reload would refuse it."""
    problems: list[Problem]
    changes: list[Change]
    """Differences from the configuration in force; empty unless it is in order."""
    tree: dict[str, Any]
    """The values as they are written: references and holes are not replaced. Empty for a text that
    is not YAML."""
    places: dict[str, tuple[int, int, int, int]]
    """Line, column, end line and end column of each key, from 1; the end is behind the last
    character."""


class Configuration(Checked):
    text: str
    """Empty for a file in which no secrets can be found, because it is not YAML, and for a limited
    scope."""
    digest: str
    """SHA-256 of the file: the `base` of drafts."""
    writable: bool
    reason: str
    """Why it cannot be published from here."""
    version: str
    """Digest of the file that is in force."""
    generation: int
    lock: str
    """SHA-256 of the lock file of the MCP servers' tools; empty if there is none."""


class Edited(Checked):
    text: str
    touched: list[tuple[int, int]]
    """First and last line of each part of the text that is new."""


def shown(desk: Desk, rights: Rights, around: dict[str, Any]) -> tuple[str, bytes]:
    """Return a digest of all that a `Configuration` depends on, and its JSON. `around` are the
    fields that do not come from the text. Raises as `Workspace.sheet` does."""
    sheet = desk.workspace.sheet(desk.running)
    parts = (sheet.digest, sheet.review.problems, sheet.review.changes, around, rights.scopes)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    if not rights.everywhere:
        sheet = _within(rights, sheet)
    checked = _checked(desk, sheet.review, hides_outside=True)
    return digest, _json(Configuration(**checked, **around, text=sheet.text, digest=sheet.digest))


def checked_file(desk: Desk) -> bytes:
    """Return the verdict on the file as it is. Raises as `Workspace.sheet` does."""
    found = desk.workspace.sheet(desk.running).review
    return _json(Checked(**_checked(desk, found, hides_outside=False)))


def checked_draft(desk: Desk, text: str, base: str, *, may_publish: bool) -> bytes:
    """Return the verdict on a draft; an empty base is the file. Raises as `Workspace.review`
    does."""
    found = _review(desk, text, base, may_publish=may_publish)
    return _json(Checked(**_checked(desk, found, hides_outside=True, draft=text)))


def edited(desk: Desk, text: str, base: str, edits: Sequence[Edit], *, may_publish: bool) -> bytes:
    """Return a draft with the edits, and the verdict. Raises as `Workspace.edited` and `review`
    do."""
    after, touched = desk.workspace.edited(text, edits)
    found = _review(desk, after, base, may_publish=may_publish)
    checked = _checked(desk, found, hides_outside=True, draft=after)
    return _json(Edited(**checked, text=after, touched=touched))


def difference(desk: Desk, text: str, base: str, against: str, *, may_publish: bool) -> list[str]:
    """Return the lines of `Workspace.difference`; an empty base is the file."""
    base = base or _digest(desk)
    return desk.workspace.difference(text, base, against, may_publish=may_publish)


def between(desk: Desk, old: str, new: str) -> list[str]:
    """Return the lines of `Workspace.between`."""
    return desk.workspace.between(old, new)


def version_text(desk: Desk, digest: str) -> str:
    """Return `Workspace.shown_version`."""
    return desk.workspace.shown_version(digest)


def filled(desk: Desk, text: str, base: str) -> str:
    """Return `Workspace.filled`."""
    return desk.workspace.filled(text, base)


def patch(desk: Desk, text: str, base: str) -> str:
    """Return `Workspace.patch`."""
    return desk.workspace.patch(text, base)


def tree(desk: Desk) -> dict[str, Any]:
    """Return the values of the file as they are written."""
    return dict(desk.workspace.sheet(desk.running).review.tree)


def problem_of(
    problem: ConfigProblem, environment: KnownSecrets, *, hides_outside: bool
) -> Problem:
    """Return a problem without any value of the environment, or a part of one."""
    hidden = hides_outside and problem.from_outside
    return Problem(
        file=problem.file,
        line=problem.line,
        column=problem.column,
        end_line=problem.end_line,
        end_column=problem.end_column,
        key=problem.key,
        message=_OUTSIDE if hidden else environment.text(problem.message),
        fatal=problem.fatal,
    )


def _digest(desk: Desk) -> str:
    return digest_of(desk.workspace.content())


def _review(desk: Desk, text: str, base: str, *, may_publish: bool) -> Review:
    base = base or _digest(desk)
    return desk.workspace.review(text, base, desk.running, may_publish=may_publish)


def _checked(desk: Desk, review: Review, *, hides_outside: bool, draft: str = "") -> dict[str, Any]:
    # A value that the author wrote stays: to mask it would tell that the guess was right.
    environment = KnownSecrets(value for value in desk.environ.values() if value not in draft)
    return {
        "in_order": review.usable,
        "problems": [
            problem_of(each, environment, hides_outside=hides_outside) for each in review.problems
        ],
        "changes": [
            Change(key=each.key, takes_effect=each.takes_effect) for each in review.changes
        ],
        "tree": dict(review.tree),
        "places": {dotted(path): tuple(place) for path, place in review.places.items() if path},
    }


def _within(rights: Rights, sheet: Sheet) -> Sheet:
    """Return the values of the contexts within a scope, and the problems with them."""
    review, contexts = sheet.review, sheet.review.tree.get("contexts")
    known = contexts if isinstance(contexts, dict) else {}
    own = {name: value for name, value in known.items() if rights.covers(name)}
    keys = tuple(f"contexts.{name}." for name in own)

    def is_own(key: str) -> bool:
        return f"{key}.".startswith(keys)

    found = Review(
        tuple(each for each in review.problems if is_own(each.key)),
        tuple(each for each in review.changes if is_own(each.key)),
        review.usable,
        tree={"contexts": own},
    )
    return replace(sheet, text="", digest="", review=found)


def _json(answer: Gives) -> bytes:
    return answer.model_dump_json(warnings=False).encode()
