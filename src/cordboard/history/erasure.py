"""Erases calls: by id, or all calls of a caller's number. First a plan (a dry run), then the deed.

Every file that holds words of the call goes: ledger, recording, peaks, notes, pending and failed
post-call jobs, lines about refused offers, and the rows and words of the index. Before that, the
call is put on the list of erased calls (`erased`), so that an erasure that is cut short, or undone
by a restored backup, is repeated by the indexer. Outside are: the logs of the engine and of
Asterisk, files made by commands, systems that received post-call steps, PostgreSQL's own backups.
Everything here blocks.
"""

from __future__ import annotations

import glob
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import structlog

from cordboard import private_files
from cordboard.calls.history import CallHistory, parse_lines
from cordboard.calls.ledger_file import REFUSED_OFFERS
from cordboard.errors import HistoryError, KeyUnusable
from cordboard.history.call_files import (
    DAYS,
    LEDGERS,
    DeletedFile,
    blank_refused,
    delete_call,
    files_of,
    read_ledger,
    refused_offers,
)
from cordboard.history.erased import ErasedCalls, hash_of, key_of
from cordboard.history.indexer import Indexer
from cordboard.history.query import MOST_ROWS, milliseconds, parse_query
from cordboard.history.store import HistoryStore
from cordboard.privacy.sealed_file import PLAIN, Vault
from cordboard.version import __version__

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The calls that an erasure is about."""

    ledgers: tuple[Path, ...]
    files: tuple[Path, ...]
    """All files that will be deleted, the ledgers among them."""
    refused: tuple[str, ...]
    """Ids of refused offers whose lines will be overwritten."""
    running: tuple[str, ...]
    """Calls that have not ended. They are not erased: try again afterwards."""


@dataclass(frozen=True, slots=True)
class ErasedCall:
    """One call in a certificate."""

    call: str
    """Hash of its day and id, as in the list of erased calls (`erased`)."""
    deleted: tuple[DeletedFile, ...]


@dataclass(frozen=True, slots=True)
class ErasureCertificate:
    """The proof of an erasure: no number, name or word of anyone but of who erased."""

    id: str
    at: str
    """ISO 8601, UTC."""
    by: str
    calls: tuple[ErasedCall, ...]
    refused_offers: int
    """Lines about refused offers that were overwritten."""
    running: int
    """Calls that had not ended and were left out."""
    removed_from: tuple[str, ...]
    not_covered: tuple[str, ...]

    def encode(self) -> bytes:
        """Return it as JSON, with the SHA-256 of the same JSON without that field."""
        fields: dict[str, Any] = {**asdict(self), "cordboard": __version__}
        digest = sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return orjson.dumps({**fields, "sha256": digest}, option=orjson.OPT_INDENT_2) + b"\n"

    def path_in(self, directory: Path) -> Path:
        """Return its path in a directory of calls."""
        return directory / CERTIFICATES / f"{self.at[:10]}-{self.id}.json"

    def keep(self, directory: Path) -> None:
        """Write it, over an earlier state of it. Raises `OSError`."""
        path = self.path_in(directory)
        private_files.make_folder(path.parent)
        private_files.replace(path, self.encode(), sync=True)


CERTIFICATES = "certificates"
_FROM_FILES = (
    "ledgers, recordings, peaks and notes of the calls, and the keys of encrypted calls",
    "pending and failed steps after the calls",
    "lines about refused offers",
)
_FROM_INDEX = ("rows and words of the calls in the index, scrubbed from the database's file",)
_INDEX_FOLLOWS = ("rows and words of the calls in the index, which go when it is next updated",)
_OF_NUMBER = (
    "views of the calls that were saved with the number",
    "people with the number in campaigns, and the firewall's counts of it",
)
_NOT_COVERED = (
    "logs of the engine and of Asterisk",
    "files that commands and people exported",
    "systems to which tools and steps after calls have sent data",
    "backups of calls that were not encrypted",
    "the do-not-call list, so that nobody calls a number on it",
)


class Erasure:
    """Erases calls of one directory, and of its index."""

    def __init__(
        self,
        directory: Path,
        store: HistoryStore,
        catch_up: Callable[[], object] | None = None,
        vault: Vault = PLAIN,
    ) -> None:
        """`catch_up` brings the index up to date (`IndexKeeper.catch_up` beside calls). `vault`
        decrypts calls and has their keys."""
        self._vault = vault
        self._directory = directory
        self._store = store
        self._catch_up = catch_up or Indexer(directory, store, vault=vault).catch_up

    def of_call(self, call_id: str) -> ErasurePlan:
        """Plan the erasure of one call or refused offer. Raises `HistoryError` if there is none of
        that id, and `OSError`."""
        numbered = re.compile(re.escape(call_id) + r"(-\d+)?\.jsonl")
        named = self._directory.glob(f"{DAYS}/{glob.escape(call_id)}*{LEDGERS}")
        ledgers = [
            path
            for path in named
            if numbered.fullmatch(path.name)
            and path.name != REFUSED_OFFERS
            and stat.S_ISREG(path.lstat().st_mode)
            and (path.stem == call_id or self._call_id(path) == call_id)
        ]
        plan = self._plan(ledgers, lambda line: line.get("call_id") == call_id)
        if not (plan.ledgers or plan.refused or plan.running):
            raise HistoryError(f"there is no call {call_id}")
        return plan

    def of_number(self, number: str) -> ErasurePlan:
        """Plan the erasure of all calls of a caller, by exactly this number. Raises `HistoryError`
        for an empty number, and `OSError`."""
        if not number:
            raise HistoryError("expected the number of a caller")
        query = parse_query({"number": [number]})
        self._catch_up()
        ledgers, cursor = [], ""
        while True:
            page = self._store.find(query, MOST_ROWS, cursor)
            ledgers += [self._directory / row.file for row in page.rows]
            cursor = page.next
            if not cursor:
                break
        ledgers = [path for path in ledgers if path.name != REFUSED_OFFERS]
        return self._plan(ledgers, lambda line: line.get("caller_number") == number)

    def carry_out(
        self, plan: ErasurePlan, by: str = "", *, number_removed: bool = False
    ) -> ErasureCertificate:
        """Erase, write the proof of it, and return it; `by` is who erased. With `number_removed`,
        views, campaigns and the firewall's counts have been erased already. Raises `HistoryError`
        and `OSError`; what is missing then is done by repeating it, or by the indexer. If only the
        index cannot be changed, the proof says so."""
        contents = {path: self._content(path) for path in plan.ledgers if path.exists()}
        calls = {
            key_of(path, path.stem): milliseconds(_history(path, content).started_at)
            for path, content in contents.items()
            if content
        }
        refused: set[Path] = set()
        for path in self._refused_files() if plan.refused else ():
            for line in refused_offers(path, lambda line: line.get("call_id") in plan.refused):
                calls[key_of(path, line["call_id"])] = milliseconds(line["started_at"])
                refused.add(path)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if calls:
            ErasedCalls(self._directory).add(calls, now)
        for path in refused:
            blank_refused(path, lambda line: line.get("call_id") in plan.refused)
        erased = [
            ErasedCall(
                hash_of(key_of(path, path.stem)),
                tuple(delete_call(self._directory, path, content, self._vault)),
            )
            for path, content in contents.items()
        ]
        removed_from = _FROM_FILES + (_OF_NUMBER if number_removed else ())
        not_covered = _NOT_COVERED + (() if number_removed else _OF_NUMBER)
        certificate = ErasureCertificate(
            uuid4().hex, now, by, tuple(erased), len(plan.refused), len(plan.running),
            removed_from, _INDEX_FOLLOWS + not_covered,
        )  # fmt: skip
        certificate.keep(self._directory)
        try:
            self._catch_up()
            self._store.scrub()
        except (HistoryError, OSError) as error:
            log.warning("erased_calls_still_in_index", error=str(error))
            return certificate
        certificate = replace(
            certificate, removed_from=removed_from + _FROM_INDEX, not_covered=not_covered
        )
        certificate.keep(self._directory)
        return certificate

    def _plan(self, ledgers: list[Path], refused: Callable[[dict[str, Any]], bool]) -> ErasurePlan:
        ended, files, running = [], [], []
        for path in sorted(ledgers):
            content = self._content(path)
            if content and _history(path, content).ended_ms is None:
                running.append(path.stem)
                continue
            ended.append(path)
            files += files_of(self._directory, path, content)
        offers = [
            str(line["call_id"])
            for path in self._refused_files()
            for line in refused_offers(path, refused)
        ]
        return ErasurePlan(tuple(ended), tuple(files), tuple(offers), tuple(running))

    def _call_id(self, ledger: Path) -> str:
        content = self._content(ledger)
        return _history(ledger, content).call_id if content else ""

    def _content(self, ledger: Path) -> bytes:
        """Return the content of a ledger; nothing if it cannot be decrypted, which must not keep it
        from being erased."""
        try:
            return read_ledger(ledger, self._vault)
        except KeyUnusable:
            return b""

    def _refused_files(self) -> Iterator[Path]:
        yield from sorted(self._directory.glob(f"{DAYS}/{REFUSED_OFFERS}"))


def _history(ledger: Path, content: bytes) -> CallHistory:
    """Return the history in a ledger. Raises `HistoryError` if it is not the ledger of a call."""
    try:
        history = CallHistory.from_lines(parse_lines(content))
        milliseconds(history.started_at)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise HistoryError(f"{ledger} is not the ledger of a call") from None
    return history
