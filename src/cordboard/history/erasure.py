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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import structlog

from cordboard import private_files
from cordboard.calls import open_calls
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
    key_of_file,
    read_ledger,
    refused_offers,
)
from cordboard.history.erased import ErasedCalls, hash_of, key_of
from cordboard.history.indexer import Indexer
from cordboard.history.query import MOST_ROWS, CallQuery, milliseconds, normal_number, parse_query
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
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Files that cannot be read, relative to the directory of calls, and why. Their calls may be
    among those that shall be erased: the erasure is not complete until they are read or erased."""
    elsewhere: Mapping[str, int | None] = field(default_factory=dict)
    """Calls of other nodes by node, as `HistoryStore.elsewhere`. They are not erased here."""


@dataclass(frozen=True, slots=True)
class ErasedCall:
    """One call in a certificate."""

    call: str
    """Hash of its day and id, as in the list of erased calls (`erased`)."""
    deleted: tuple[DeletedFile, ...]
    left: str = ""
    """Reason why not all of its files and its key were deleted; empty if they were."""
    key: str = ""
    """Id of its key if that was not there to be deleted: it may be elsewhere, as in a folder that
    is not mounted, and open every copy of the call."""


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
    unreadable: tuple[str, ...]
    """Hashes of the files that could not be looked at, as those of calls."""
    index: str
    """Reason why the index may still have rows and words of the calls; empty if it has none."""
    complete: bool
    """False if files of the calls or their keys are left, or calls have not ended or could not be
    looked at, or other nodes have some, or the index may still have words of them."""
    removed_from: tuple[str, ...]
    not_covered: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    """Calls of other nodes of the cluster, which are not erased, such as `3 calls on node b`."""

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

    @property
    def problem(self) -> str:
        """Reason why the erasure is not complete; empty if it is."""
        if self.complete:
            return ""
        problems = []
        if left := [call.left for call in self.calls if call.left and not call.key]:
            problems.append(f"files of {len(left)} calls could not be deleted ({left[0]})")
        if self.unreadable:
            problems.append(f"{len(self.unreadable)} calls could not be read")
        keys = sum(1 for call in self.calls if call.key)
        if not (problems or keys or self.running or self.index or self.elsewhere):
            problems.append("lines about refused offers could not be overwritten")
        found = [f"{' and '.join(problems)}; repeat it when that is mended"] if problems else []
        if self.index:
            found.append(
                f"the index may still have rows and words of the calls ({self.index}); they go "
                "when it is next updated"
            )
        if self.elsewhere:
            found.append(f"{' and '.join(self.elsewhere)}: repeat it there")
        if self.running:
            found.append(f"{self.running} calls have not ended; repeat it afterwards")
        if keys:
            found.append(
                f"the keys of {keys} calls were not there; delete them where they are (the "
                "certificate has their ids), or they open every copy of the calls"
            )
        return f"the erasure is not complete: {'; '.join(found)}"


CERTIFICATES = "certificates"
_KEY_AWAY = "its key was not there"
_FROM_FILES = (
    "ledgers, recordings, peaks and notes of the calls",
    "pending and failed steps after the calls",
    "lines about refused offers",
)
_KEYS = ("the keys of encrypted calls",)
_FROM_INDEX = ("rows and words of the calls in the index, scrubbed from the database's file",)
_INDEX_FOLLOWS = ("rows and words of the calls in the index, which go when it is next updated",)
_NOT_UPDATED = "it was not updated yet"
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
    "other nodes of a cluster, and what its bus keeps for up to 30 days",
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
        ]
        unread: dict[str, str] = {}
        ledgers = [path for path in ledgers if self._is_of(path, call_id, unread)]
        plan = self._plan(ledgers, lambda line: line.get("call_id") == call_id, unread)
        elsewhere = self._store.elsewhere(CallQuery(id=call_id, moved=True))
        if not (plan.ledgers or plan.refused or plan.running or unread):
            if elsewhere:
                raise HistoryError(f"{' and '.join(told(elsewhere))}: erase it there")
            raise HistoryError(f"there is no call {call_id}")
        return replace(plan, elsewhere=elsewhere)

    def of_number(self, number: str) -> ErasurePlan:
        """Plan the erasure of all calls of a caller, by exactly this number. Raises `HistoryError`
        for an empty number, and `OSError`."""
        if not number:
            raise HistoryError("expected the number of a caller")
        query = replace(parse_query({"number": [number]}), moved=True)
        self._catch_up()
        elsewhere = self._store.elsewhere(query)
        query = replace(query, columns={"node": frozenset({self._store.node})})
        ledgers, cursor = [], ""
        while True:
            page = self._store.find(query, MOST_ROWS, cursor)
            ledgers += [self._directory / row.file for row in page.rows]
            cursor = page.next
            if not cursor:
                break
        ledgers = [path for path in ledgers if path.name != REFUSED_OFFERS]
        unread = self._store.unreadable()
        same = normal_number(number)
        plan = self._plan(
            ledgers, lambda line: normal_number(str(line.get("caller_number"))) == same, unread
        )
        return replace(plan, elsewhere=elsewhere)

    def others_of(self, forms: Iterable[str]) -> list[str]:
        """Return the forms of a number by which there are calls on record: `of_number` takes
        exactly one. Raises `HistoryError`."""
        return [each for each in forms if self._store.find(parse_query({"number": [each]}), 1).rows]

    def carry_out(
        self, plan: ErasurePlan, by: str = "", *, number_removed: bool = False
    ) -> ErasureCertificate:
        """Erase, write the proof of it, and return it; `by` is who erased. With `number_removed`,
        views, campaigns and the firewall's counts have been erased already. A call that cannot be
        deleted does not keep the others from it: the proof says what is left, and the indexer tries
        again. If only the index cannot be changed, the proof says so. Raises `HistoryError` and
        `OSError` before anything is erased, and if the proof cannot be written."""
        ledgers = [path for path in plan.ledgers if path.exists()]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        refused = self._enlist(plan, ledgers, now)
        failed = [path for path in refused if not self._blanked(path, plan)]
        calls = tuple(map(self._erased, ledgers))
        unread = tuple(hash_of(key_of(Path(file), Path(file).stem)) for file in plan.unreadable)
        keys_away = any(call.key for call in calls)
        removed_from = _FROM_FILES + (() if keys_away else _KEYS)
        removed_from += _OF_NUMBER if number_removed else ()
        not_covered = _NOT_COVERED + (() if number_removed else _OF_NUMBER)
        not_covered += _KEYS if keys_away else ()
        certificate = ErasureCertificate(
            uuid4().hex, now, by, calls, 0 if failed else len(plan.refused), len(plan.running),
            unread, _NOT_UPDATED, False, removed_from, _INDEX_FOLLOWS + not_covered,
            tuple(told(plan.elsewhere)),
        )  # fmt: skip
        certificate.keep(self._directory)
        try:
            self._catch_up()
            self._store.scrub()
        except (HistoryError, OSError) as error:
            log.warning("erased_calls_still_in_index", error=str(error))
            reason = _reason(error) if isinstance(error, OSError) else str(error)
            certificate = replace(certificate, index=reason)
        else:
            certificate = replace(
                certificate,
                index="",
                complete=not (
                    failed
                    or unread
                    or plan.running
                    or plan.elsewhere
                    or any(call.left for call in calls)
                ),
                removed_from=removed_from + _FROM_INDEX,
                not_covered=not_covered,
            )
        certificate.keep(self._directory)
        return certificate

    def _enlist(self, plan: ErasurePlan, ledgers: Iterable[Path], now: str) -> set[Path]:
        """Put the calls on the list of erased ones; return the files of refused offers among
        them."""
        calls = {key_of(path, path.stem): self._started_ms(path) for path in ledgers}
        refused: set[Path] = set()
        for path in self._refused_files() if plan.refused else ():
            for line in refused_offers(path, lambda line: line.get("call_id") in plan.refused):
                calls[key_of(path, line["call_id"])] = milliseconds(line["started_at"])
                refused.add(path)
        if calls:
            ErasedCalls(self._directory).add(calls, now)
        return refused

    def _started_ms(self, ledger: Path) -> int:
        content = self._content(ledger)
        if not content:
            return _written_ms(ledger)
        return milliseconds(_history(ledger, content).started_at)

    def _blanked(self, path: Path, plan: ErasurePlan) -> bool:
        """Overwrite the lines of refused offers in a file; False if that fails."""
        try:
            blank_refused(path, lambda line: line.get("call_id") in plan.refused)
        except OSError as error:
            log.error("refused_offers_not_overwritten", file=path.name, error=str(error))
            return False
        return True

    def _erased(self, path: Path) -> ErasedCall:
        """Delete the files of a call; return what was deleted, and why not all."""
        deleted: list[DeletedFile] = []
        left = key = ""
        content = b""
        try:
            key = key_of_file(path)
            with suppress(FileNotFoundError):  # the indexer has found it on the list before us
                content = self._content(path)
            deleted.extend(delete_call(self._directory, path, content, self._vault))
        except OSError as error:
            log.error("call_not_erased", call=path.stem, error=str(error))
            left = error.strerror or type(error).__name__  # a text of ours may have the call's id
        key_away = not left and key and all(each.kind != "key" for each in deleted)
        if key_away:
            log.error("key_of_erased_call_not_there", key=key)
        return ErasedCall(
            hash_of(key_of(path, path.stem)),
            tuple(deleted),
            _KEY_AWAY if key_away else left,
            key if key_away else "",
        )

    def _plan(
        self,
        ledgers: list[Path],
        refused: Callable[[dict[str, Any]], bool],
        unread: Mapping[str, str],
    ) -> ErasurePlan:
        ended, files, running, unread = [], [], [], dict(unread)
        for path in sorted(ledgers):
            try:
                content = self._content(path)
                is_live = not content and open_calls.is_live(self._directory, path)
            except OSError as error:
                unread[self._file(path)] = _reason(error)
                continue
            if is_live or (content and _history(path, content).ended_ms is None):
                running.append(path.stem)
                continue
            ended.append(path)
            files += files_of(self._directory, path, content)
        offers: list[str] = []
        for path in self._refused_files():
            try:
                offers += (str(line["call_id"]) for line in refused_offers(path, refused))
            except OSError as error:
                unread[self._file(path)] = _reason(error)
        known = {self._file(path) for path in ended}
        return ErasurePlan(
            tuple(ended),
            tuple(files),
            tuple(offers),
            tuple(running),
            {file: reason for file, reason in unread.items() if file not in known},
        )

    def _is_of(self, ledger: Path, call_id: str, unread: dict[str, str]) -> bool:
        """True if a ledger is of this call. Files that cannot be read are added to `unread`."""
        if ledger.stem == call_id:
            return True
        try:
            content = read_ledger(ledger, self._vault)
        except OSError as error:
            unread[self._file(ledger)] = _reason(error)
            return False
        return _history(ledger, content).call_id == call_id

    def _file(self, path: Path) -> str:
        return str(path.relative_to(self._directory))

    def _content(self, ledger: Path) -> bytes:
        """Return the content of a ledger; nothing if it cannot be decrypted, which must not keep it
        from being erased."""
        try:
            return read_ledger(ledger, self._vault)
        except KeyUnusable:
            return b""

    def _refused_files(self) -> Iterator[Path]:
        yield from sorted(self._directory.glob(f"{DAYS}/{REFUSED_OFFERS}"))


def told(elsewhere: Mapping[str, int | None]) -> list[str]:
    """Return what other nodes have, for people."""
    return [
        f"encrypted calls of node {node}, which cannot be looked at here"
        if count is None
        else f"{count} call{'s' * (count != 1)} on node {node}"
        for node, count in sorted(elsewhere.items())
    ]


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _written_ms(ledger: Path) -> int:
    """Return the time of the last change of a ledger that cannot be decrypted, ms since 1970: the
    call began before it."""
    return ledger.stat().st_mtime_ns // 1_000_000


def _history(ledger: Path, content: bytes) -> CallHistory:
    """Return the history in a ledger. Raises `HistoryError` if it is not the ledger of a call."""
    try:
        history = CallHistory.from_lines(parse_lines(content))
        milliseconds(history.started_at)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise HistoryError(f"{ledger} is not the ledger of a call") from None
    return history
