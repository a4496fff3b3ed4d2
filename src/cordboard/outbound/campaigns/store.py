"""The queue of all campaigns on the disk (SQLite, WAL). Blocks: call it in a thread.

    pending ──claim──▶ claimed ──begin──▶ dialling ──finish──▶ done
       ▲                  │                   │                  │
       ├──engine killed───┘                   │     (busy, no_answer, ... and attempts left)
       │                                      │                  │
       └──────────────────────────────────────┼──────────────────┘
                        engine killed: done, `interrupted`

`begin` writes the attempt, with the call's id, before the number is dialled. So a killed engine
calls no number twice: an attempt that may have reached a phone is not repeated, and stands in the
results as `interrupted`. It loses no number either: a claimed person is pending again. Every write
is on the disk when the method returns.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.calls.outbound_order import OutboundResult
from cordboard.errors import CampaignRefused, StoreUnavailable
from cordboard.outbound.campaigns.hours import CallingHours, open_zones
from cordboard.outbound.campaigns.rows import Row

BATCH = 5_000
"""Rows that one transaction adds: the engine waits no longer for the file than that takes."""
BUSY_SECONDS = 30.0
RETRIED = ("busy", "no_answer", "unavailable", "failed")
"""Outcomes after which another attempt is made."""
CALLBACKS = "callbacks-"
"""Beginning of the names of campaigns with promised call-backs."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS campaign (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, context TEXT NOT NULL,
  settings TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS person (
  id INTEGER PRIMARY KEY, campaign INTEGER NOT NULL REFERENCES campaign(id),
  number TEXT NOT NULL, zone TEXT NOT NULL, variables TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending', attempts INTEGER NOT NULL DEFAULT 0,
  not_before REAL NOT NULL DEFAULT 0, call_id TEXT NOT NULL DEFAULT '',
  outcome TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '', UNIQUE (campaign, number));
CREATE INDEX IF NOT EXISTS of_call ON person (call_id);
CREATE INDEX IF NOT EXISTS due ON person (campaign, state, zone, not_before);
CREATE INDEX IF NOT EXISTS progress ON person (campaign, state, outcome);
CREATE TABLE IF NOT EXISTS attempt (
  call_id TEXT PRIMARY KEY, person INTEGER NOT NULL REFERENCES person(id), began REAL NOT NULL,
  ended REAL, outcome TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '', duration_ms INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS blocked (number TEXT PRIMARY KEY, since REAL NOT NULL);
"""

_WHAT = "CASE person.state WHEN 'done' THEN person.outcome ELSE person.state END"
"""How far a person is: the state, and after the last attempt its outcome."""
_NEXT_ZONE = "SELECT min(zone) FROM person WHERE campaign = ? AND state = 'pending' AND zone > ?"
_DUE = (
    "SELECT id, number, variables FROM person WHERE campaign = ? AND state = 'pending'"
    " AND zone = ? AND not_before <= ? ORDER BY not_before LIMIT ?"
)
"""In the order of the index: a campaign of a million people is not sorted each second."""


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """How the people of a campaign are called."""

    context: str
    hours: str = "09:00-20:00"
    days: str = "mon-fri"
    attempts: int = 2
    retry_minutes: int = 120
    concurrency: int = 1
    """Calls of this campaign at the same time, within `outbound.max_calls`."""
    message: str = ""
    keys: tuple[str, ...] = ()
    consent: str = ""
    """Spoken to a human before the greeting."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A person whose call is due, claimed for this call alone."""

    call_id: str
    number: str
    variables: dict[str, str]
    settings: CampaignSettings


class CampaignStore:
    """One connection to the file. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if necessary. Raises `CampaignRefused`."""
        try:
            private_files.make_folder(path.parent)
            with open(private_files.open_lock(path), "rb"):  # noqa: PTH123 - a descriptor
                pass
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise CampaignRefused(f"the campaigns' file {path} cannot be used: {error}") from error
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA secure_delete=ON")  # a forgotten number leaves the file
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            self._db.close()
            raise CampaignRefused(f"the campaigns' file {path} cannot be used: {error}") from error
        self._db.row_factory = sqlite3.Row

    def close(self) -> None:
        self._db.close()

    # The operator.

    def add(self, name: str, settings: CampaignSettings) -> int:
        """Make a campaign, which is not started, and return its id. Raises `CampaignRefused`."""
        try:
            made = self._db.execute(
                "INSERT INTO campaign (name, state, context, settings, created)"
                " VALUES (?, 'paused', ?, ?, ?)",
                (name, settings.context, _encoded(settings), time.time()),
            )
        except sqlite3.IntegrityError:
            raise CampaignRefused(f"there is a campaign {name!r} already") from None
        return int(made.lastrowid or 0)

    def add_people(self, campaign: int, rows: Iterable[Row]) -> Iterator[Row]:
        """Add people, in transactions of `BATCH`; yield the rows whose number is there already."""
        batch: list[Row] = []
        for row in rows:
            batch.append(row)
            if len(batch) == BATCH:
                yield from self._add_batch(campaign, batch)
                batch = []
        yield from self._add_batch(campaign, batch)

    def _add_batch(self, campaign: int, batch: list[Row]) -> list[Row]:
        with self._transaction():
            return [row for row in batch if not self._add_person(campaign, row)]

    def _add_person(self, campaign: int, row: Row) -> bool:
        variables = orjson.dumps(row.variables).decode()
        added = self._db.execute(
            "INSERT OR IGNORE INTO person (campaign, number, zone, variables) VALUES (?, ?, ?, ?)",
            (campaign, row.number, row.zone, variables),
        )
        return added.rowcount == 1

    def promise(self, name: str, settings: CampaignSettings, row: Row, at: float) -> bool:
        """Put a person into a campaign that is made and started if necessary, to be called at this
        Unix time, not before. A person who is there already is called at the new time only. False
        if they are being called now."""
        variables, values = orjson.dumps(row.variables).decode(), _encoded(settings)
        with self._transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO campaign (name, state, context, settings, created)"
                " VALUES (?, 'running', ?, ?, ?)",
                (name, settings.context, values, time.time()),
            )
            found = self._db.execute("SELECT id FROM campaign WHERE name = ?", (name,)).fetchone()
            campaign = found["id"]
            self._db.execute(
                "UPDATE campaign SET settings = ?,"
                " state = CASE state WHEN 'cancelled' THEN 'running' ELSE state END WHERE id = ?",
                (values, campaign),
            )
            self._add_person(campaign, row)
            changed = self._db.execute(
                "UPDATE person SET state = 'pending', not_before = ?, zone = ?, variables = ?,"
                " attempts = 0, call_id = '', outcome = '', answer = '', reason = ''"
                " WHERE campaign = ? AND number = ? AND state IN ('pending', 'done')",
                (at, row.zone, variables, campaign, row.number),
            )
            return changed.rowcount == 1

    def is_blocked(self, number: str) -> bool:
        """True if a number is on the do-not-call list."""
        found = self._db.execute("SELECT 1 FROM blocked WHERE number = ?", (number,))
        return found.fetchone() is not None

    def set_state(self, name: str, state: str) -> None:
        """Start (`running`) or pause (`paused`) a campaign. Raises `CampaignRefused`."""
        changed = self._db.execute(
            "UPDATE campaign SET state = ? WHERE name = ? AND state != 'cancelled'", (state, name)
        )
        if not changed.rowcount:
            self.status(name)
            raise CampaignRefused(f"the campaign {name!r} is cancelled; make another one")

    def cancel(self, name: str) -> None:
        """End a campaign for good; live calls go on. People who wait are not called any more: those
        without an attempt have the outcome `not_called`. Idempotent. Raises `CampaignRefused`."""
        campaign = self._db.execute("SELECT id FROM campaign WHERE name = ?", (name,)).fetchone()
        if campaign is None:
            raise CampaignRefused(f"there is no campaign {name!r}")
        self._db.execute("UPDATE campaign SET state = 'cancelled' WHERE id = ?", (campaign["id"],))
        settled = BATCH
        while settled == BATCH:
            with self._transaction():
                settled = self._db.execute(
                    "UPDATE person SET state = 'done', call_id = coalesce("
                    "(SELECT call_id FROM attempt WHERE attempt.call_id = person.call_id), ''),"
                    " outcome = iif(attempts, outcome, 'not_called'),"
                    " reason = iif(attempts, reason, 'campaign_cancelled')"
                    " WHERE id IN (SELECT id FROM person WHERE campaign = ?"
                    " AND state IN ('pending', 'claimed') LIMIT ?)",
                    (campaign["id"], BATCH),
                ).rowcount

    def block(self, numbers: Iterable[str]) -> int:
        """Add numbers to the do-not-call list; return how many are new."""
        with self._transaction():
            insert = "INSERT OR IGNORE INTO blocked VALUES (?, ?)"
            now = time.time()
            return sum(self._db.execute(insert, (each, now)).rowcount for each in numbers)

    def unblock(self, number: str) -> bool:
        """Remove a number from the do-not-call list; False if it is not on it."""
        removed = self._db.execute("DELETE FROM blocked WHERE number = ?", (number,))
        return removed.rowcount == 1

    def blocked(self, most: int, before: int | None = None) -> list[dict[str, Any]]:
        """Return a page of the do-not-call list, the newest first: `number`, `since` (Unix time),
        and `row`, which is `before` of the next page."""
        return [
            dict(row)
            for row in self._db.execute(
                "SELECT rowid AS row, number, since FROM blocked WHERE rowid < ?"
                " ORDER BY rowid DESC LIMIT ?",
                (before if before is not None else 2**62, most),
            )
        ]

    def forget(self, number: str) -> int:
        """Delete a number in E.164, its plus sign left out or not, from all campaigns, with its
        attempts and variables, and return how often it was there. A call that is being made goes
        on, without a result here. The do-not-call list keeps the number, which it protects."""
        number = f"+{number.removeprefix('+')}"
        with self._transaction():
            of_number = "IN (SELECT id FROM person WHERE number = ?)"
            self._db.execute(f"DELETE FROM attempt WHERE person {of_number}", (number,))  # noqa: S608
            deleted = self._db.execute("DELETE FROM person WHERE number = ?", (number,))
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log has the number, too
        return deleted.rowcount

    def status(self, name: str = "") -> list[dict[str, Any]]:
        """Return state, settings and counts of one campaign, or of all, the oldest first. `people`
        has the number of people by how far they are. Raises `CampaignRefused`."""
        rows = self._db.execute(
            "SELECT * FROM campaign WHERE ? IN ('', name) ORDER BY id", (name,)
        ).fetchall()
        if name and not rows:
            raise CampaignRefused(f"there is no campaign {name!r}")
        counted = (
            f"SELECT {_WHAT} AS what, count(*) AS n FROM person WHERE campaign = ?"  # noqa: S608
            " GROUP BY what ORDER BY what"
        )
        return [
            {
                "name": row["name"],
                "state": row["state"],
                "context": row["context"],
                "created": row["created"],
                "settings": orjson.loads(row["settings"]),
                "people": {
                    each["what"]: each["n"] for each in self._db.execute(counted, (row["id"],))
                },
            }
            for row in rows
        ]

    def context_of(self, name: str) -> str | None:
        """Return a campaign's context; None if there is no such campaign."""
        found = self._db.execute("SELECT context FROM campaign WHERE name = ?", (name,)).fetchone()
        return found["context"] if found is not None else None

    def results(
        self, name: str, what: str = "", after: int = 0, most: int = -1
    ) -> Iterator[dict[str, Any]]:
        """Yield the people of a campaign with their last attempt, in the list's order: those who
        are as far as `what` says, as `status` counts them (empty: all), whose `id` is greater than
        `after`, and `most` of them (-1: all). Raises `CampaignRefused`."""
        if self.context_of(name) is None:
            raise CampaignRefused(f"there is no campaign {name!r}")
        people = (
            "SELECT person.* FROM person JOIN campaign ON campaign.id = person.campaign"  # noqa: S608
            f" WHERE campaign.name = ? AND person.id > ? AND ? IN ('', {_WHAT})"
            " ORDER BY person.id LIMIT ?"
        )
        yield from map(
            dict,
            self._db.execute(
                "SELECT person.id, person.number, person.zone, person.state,"  # noqa: S608
                " person.outcome, person.answer, person.reason, person.attempts, person.call_id,"
                " attempt.began, attempt.duration_ms"
                f" FROM ({people}) AS person"
                " LEFT JOIN attempt ON attempt.call_id = person.call_id ORDER BY person.id",
                (name, after, what, most),
            ),
        )

    # The engine.

    def recover(self) -> int:
        """Settle what a killed engine left; return how many attempts were interrupted. Only for the
        one engine that has the file's lock."""
        with self._transaction():
            self._db.execute("UPDATE person SET state = 'pending' WHERE state = 'claimed'")
            self._db.execute(
                "UPDATE attempt SET outcome = 'interrupted', ended = ? WHERE ended IS NULL",
                (time.time(),),
            )
            return self._db.execute(
                "UPDATE person SET state = 'done', outcome = 'interrupted',"
                " reason = 'engine_killed' WHERE state = 'dialling'"
            ).rowcount

    def claim(self, most: int, now: float) -> list[Claimed]:
        """Claim up to `most` people whose call is due now (Unix time), campaign by campaign."""
        claimed: list[Claimed] = []
        with self._transaction():
            running = "SELECT * FROM campaign WHERE state = 'running' ORDER BY id"
            for campaign in self._db.execute(running).fetchall():
                settings = _settings(campaign["settings"])
                room = min(most - len(claimed), settings.concurrency - self._busy(campaign["id"]))
                if room > 0:
                    claimed += self._claim(campaign["id"], settings, room, now)
        return claimed

    def _busy(self, campaign: int) -> int:
        count = "SELECT count(*) FROM person WHERE campaign = ? AND state IN ('claimed','dialling')"
        return int(self._db.execute(count, (campaign,)).fetchone()[0])

    def _claim(
        self, campaign: int, settings: CampaignSettings, room: int, now: float
    ) -> list[Claimed]:
        hours = CallingHours.read(settings.hours, settings.days)
        claimed: list[Claimed] = []
        for zone in open_zones(self._zones(campaign), hours, now):
            due = self._db.execute(_DUE, (campaign, zone, now, room - len(claimed))).fetchall()
            for person in due:
                call_id = str(uuid.uuid4())
                self._db.execute(
                    "UPDATE person SET state = 'claimed', call_id = ? WHERE id = ?",
                    (call_id, person["id"]),
                )
                variables = orjson.loads(person["variables"])
                claimed.append(Claimed(call_id, person["number"], variables, settings))
        return claimed

    def _zones(self, campaign: int) -> list[str]:
        """Return the zones of the people who wait, one step in the index for each."""
        zones: list[str] = []
        while True:
            after = zones[-1] if zones else ""
            row = self._db.execute(_NEXT_ZONE, (campaign, after)).fetchone()
            if row[0] is None:
                return zones
            zones.append(row[0])

    def begin(self, call_id: str) -> bool:
        """Write that a claimed person is being called. False if they are claimed no more, or are on
        the do-not-call list."""
        with self._transaction():
            self._db.execute(
                "UPDATE person SET state = 'done', outcome = 'refused', reason = 'do_not_call'"
                " WHERE call_id = ? AND state = 'claimed'"
                " AND number IN (SELECT number FROM blocked)",
                (call_id,),
            )
            changed = self._db.execute(
                "UPDATE person SET state = 'dialling', attempts = attempts + 1"
                " WHERE call_id = ? AND state = 'claimed'",
                (call_id,),
            )
            if not changed.rowcount:
                return False
            self._db.execute(
                "INSERT INTO attempt (call_id, person, began)"
                " SELECT call_id, id, ? FROM person WHERE call_id = ?",
                (time.time(), call_id),
            )
            return True

    def give_back(self, call_id: str, seconds: float, now: float) -> None:
        """Write that nothing was dialled: the person is due again, after a pause."""
        with self._transaction():
            self._db.execute("DELETE FROM attempt WHERE call_id = ?", (call_id,))
            self._db.execute(
                "UPDATE person SET state = 'pending', not_before = ?, call_id = '',"
                " attempts = attempts - (state = 'dialling')"
                " WHERE call_id = ? AND state IN ('claimed', 'dialling')",
                (now + seconds, call_id),
            )

    def finish(self, result: OutboundResult, now: float) -> None:
        """Write how an attempt ended, and whether there is another one."""
        with self._transaction():
            found = self._db.execute(
                "SELECT person.*, campaign.settings, campaign.state AS of_campaign"
                " FROM person JOIN campaign ON campaign.id = person.campaign"
                " WHERE call_id = ? AND person.state = 'dialling'",
                (result.call_id,),
            ).fetchone()
            if found is None:
                return
            settings = _settings(found["settings"])
            again = (
                result.outcome in RETRIED
                and found["attempts"] < settings.attempts
                and found["of_campaign"] != "cancelled"
            )
            self._db.execute(
                "UPDATE attempt SET ended = ?, outcome = ?, answer = ?, reason = ?, duration_ms = ?"
                " WHERE call_id = ?",
                (now, result.outcome, result.answer, result.reason, result.duration_ms,
                 result.call_id),
            )  # fmt: skip
            self._db.execute(
                "UPDATE person SET state = ?, not_before = ?, outcome = ?, answer = ?, reason = ?"
                " WHERE id = ?",
                ("pending" if again else "done", now + 60 * settings.retry_minutes,
                 result.outcome, result.answer, result.reason, found["id"]),
            )  # fmt: skip

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk ends it by itself
                self._db.execute("ROLLBACK")
            raise


def _encoded(settings: CampaignSettings) -> str:
    return orjson.dumps(asdict(settings)).decode()


def _settings(text: str) -> CampaignSettings:
    values = orjson.loads(text)
    return CampaignSettings(**{**values, "keys": tuple(values["keys"])})


def forget_person(path: Path, number: str) -> None:
    """Delete a number in E.164 from the campaigns of a file, if it exists. Raises
    `StoreUnavailable`."""
    if not path.exists():
        return
    try:
        with closing(CampaignStore(path)) as store:
            store.forget(number)
    except (CampaignRefused, sqlite3.Error) as error:
        raise StoreUnavailable(f"the campaigns {path} cannot be changed: {error}") from error
