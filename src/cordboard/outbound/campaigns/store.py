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

import math
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.calls.outbound_order import OutboundResult
from cordboard.errors import CampaignRefused, StoreUnavailable
from cordboard.firewall.blocks import UNBLOCK_SECONDS, BlockChange
from cordboard.outbound.campaigns.hours import CallingHours, closed_text, open_zones
from cordboard.outbound.campaigns.rows import Row

BATCH = 5_000
"""Rows that one transaction adds: the engine waits no longer for the file than that takes."""
BUSY_SECONDS = 30.0
RETRIED = ("busy", "no_answer", "unavailable", "failed")
"""Outcomes after which another attempt is made."""
CALLBACKS = "callbacks-"
"""Beginning of the names of campaigns with promised call-backs."""
_IS_PROMISED = f"name GLOB '{CALLBACKS}*'"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS campaign (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, context TEXT NOT NULL,
  settings TEXT NOT NULL, created REAL NOT NULL, waits TEXT NOT NULL DEFAULT '',
  touched REAL NOT NULL DEFAULT 0);
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
CREATE INDEX IF NOT EXISTS of_person ON attempt (person);
CREATE TABLE IF NOT EXISTS blocked (number TEXT PRIMARY KEY, since REAL NOT NULL);
CREATE TABLE IF NOT EXISTS block_change (
  number TEXT PRIMARY KEY, at REAL NOT NULL, blocked INTEGER NOT NULL,
  sent INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS unsent ON block_change (number) WHERE sent = 0;
"""

_LATER = {"waits": "TEXT NOT NULL DEFAULT ''", "touched": "REAL NOT NULL DEFAULT 0"}
"""Columns of `campaign` that earlier versions did not have: why the last call was not placed, and
the time of the last call (Unix time)."""
_WHAT = "CASE person.state WHEN 'done' THEN person.outcome ELSE person.state END"
"""Progress of a person: the state, and in place of `done` the outcome of the last attempt."""
_NEXT_ZONE = "SELECT min(zone) FROM person WHERE campaign = ? AND state = 'pending' AND zone > ?"
_DUE = (
    "SELECT id, number, variables FROM person WHERE campaign = ? AND state = 'pending'"
    " AND zone = ? AND not_before <= ? ORDER BY not_before LIMIT ?"
)
"""The people who are due, in the order of the index: a campaign of a million people is not sorted
each second."""


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
    campaign: str = ""
    """Its name."""


def open_database(path: Path, schema: str) -> sqlite3.Connection:
    """Return a connection to the file, for any one thread at a time; create the file, and the
    tables of `schema`, if necessary. Raises `CampaignRefused`."""
    try:
        private_files.make_folder(path.parent)
        private_files.make_database(path)
        database = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    except (OSError, sqlite3.Error) as error:
        raise CampaignRefused(f"the campaigns' file {path} cannot be used: {error}") from error
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("PRAGMA secure_delete=ON")  # a forgotten number leaves the file
        database.executescript(schema)
    except sqlite3.Error as error:
        database.close()
        raise CampaignRefused(f"the campaigns' file {path} cannot be used: {error}") from error
    database.row_factory = sqlite3.Row
    return database


def missing_columns(database: sqlite3.Connection, table: str, names: Iterable[str]) -> list[str]:
    """Return the columns that a table of an earlier version lacks."""
    there = {column["name"] for column in database.execute(f"PRAGMA table_info({table})")}
    return [name for name in names if name not in there]


class CampaignStore:
    """One connection to the file. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if necessary. Raises `CampaignRefused`."""
        self._db = open_database(path, _SCHEMA)
        try:
            if missing_columns(self._db, "campaign", _LATER):
                self._upgrade()
        except sqlite3.Error as error:
            self._db.close()
            raise CampaignRefused(f"the campaigns' file {path} cannot be used: {error}") from error

    def _upgrade(self) -> None:
        """Add what the table of an earlier version lacks."""
        with self._transaction():  # another process may be faster
            for name in missing_columns(self._db, "campaign", _LATER):
                self._db.execute(f"ALTER TABLE campaign ADD COLUMN {name} {_LATER[name]}")
            self._db.execute("UPDATE campaign SET touched = ?", (time.time(),))

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
            raise CampaignRefused(f"there is a campaign {name!r} already", "name") from None
        return int(made.lastrowid or 0)

    def discard(self, campaign: int) -> None:
        """Delete a campaign with its people."""
        while self._delete("campaign = ?", campaign) == BATCH:
            pass
        self._db.execute("DELETE FROM campaign WHERE id = ?", (campaign,))

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
                settled = self._settle_waiting(campaign["id"])

    def _settle_waiting(self, campaign: int) -> int:
        """Settle up to `BATCH` people who wait for a call of a cancelled campaign."""
        return self._db.execute(
            "UPDATE person SET state = 'done', call_id = coalesce("
            "(SELECT call_id FROM attempt WHERE attempt.call_id = person.call_id), ''),"
            " outcome = iif(attempts, outcome, 'not_called'),"
            " reason = iif(attempts, reason, 'campaign_cancelled')"
            " WHERE id IN (SELECT id FROM person WHERE campaign = ?"
            " AND state IN ('pending', 'claimed') LIMIT ?)",
            (campaign, BATCH),
        ).rowcount

    def block(self, numbers: Iterable[str]) -> int:
        """Add numbers to the do-not-call list; return how many are new."""
        with self._transaction():
            self._forget_unblocked()
            now = time.time()
            return sum(self._change_block(BlockChange(each, now, True)) for each in numbers)

    def unblock(self, number: str) -> bool:
        """Remove a number from the do-not-call list; False if it is not on it."""
        with self._transaction():
            self._forget_unblocked()
            return self._change_block(BlockChange(number, time.time(), False)) == 1

    def _forget_unblocked(self) -> None:
        """Delete the numbers that were taken off the list long ago."""
        self._db.execute(
            "DELETE FROM block_change WHERE blocked = 0 AND at < ?",
            (time.time() - UNBLOCK_SECONDS,),
        )

    def _change_block(self, change: BlockChange) -> int:
        """Change the do-not-call list here, and return how many numbers it concerns: 1 or 0."""
        known = self._block_change(change.number)
        self._write_block(change.after(known), sent=False)
        return self._apply_block(change)

    def _block_change(self, number: str) -> BlockChange | None:
        found = self._db.execute(
            "SELECT at, blocked FROM block_change WHERE number = ?", (number,)
        ).fetchone()
        return None if found is None else BlockChange(number, found["at"], bool(found["blocked"]))

    def _write_block(self, change: BlockChange, *, sent: bool) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO block_change (number, at, blocked, sent) VALUES (?, ?, ?, ?)",
            (change.number, change.at, change.blocked, sent),
        )

    def _apply_block(self, change: BlockChange) -> int:
        if change.blocked:
            added = self._db.execute(
                "INSERT OR IGNORE INTO blocked VALUES (?, ?)", (change.number, change.at)
            )
            return added.rowcount
        return self._db.execute("DELETE FROM blocked WHERE number = ?", (change.number,)).rowcount

    def begin_block_changes(self) -> None:
        """Note the numbers of the list that have no change: they are from before there were any.
        Numbers that were taken off long ago are deleted."""
        with self._transaction():
            self._forget_unblocked()
            self._db.execute(
                "INSERT OR IGNORE INTO block_change (number, at, blocked)"
                " SELECT number, since, 1 FROM blocked"
            )

    def unsent_blocks(self, most: int) -> list[BlockChange]:
        """Return changes of the list that other engines do not have."""
        found = self._db.execute(
            "SELECT number, at, blocked FROM block_change WHERE sent = 0 LIMIT ?", (most,)
        )
        return [BlockChange(row["number"], row["at"], bool(row["blocked"])) for row in found]

    def blocks_sent(self, changes: Iterable[BlockChange]) -> None:
        """Note that the others have these changes."""
        with self._transaction():
            for each in changes:
                self._db.execute(
                    "UPDATE block_change SET sent = 1 WHERE number = ? AND at = ? AND blocked = ?",
                    (each.number, each.at, each.blocked),
                )

    def send_blocks_again(self, is_lost: Callable[[str], bool]) -> None:
        """Note that blocks of these numbers are not sent."""
        found = self._db.execute("SELECT number FROM block_change WHERE sent = 1 AND blocked = 1")
        lost = [(row["number"],) for row in found if is_lost(row["number"])]
        with self._transaction():
            self._db.executemany("UPDATE block_change SET sent = 0 WHERE number = ?", lost)

    def take_blocks(self, changes: Iterable[BlockChange]) -> None:
        """Take changes of other engines, where they are newer than those here."""
        with self._transaction():
            for each in changes:
                known = self._block_change(each.number)
                if known is None or each.order > known.order:
                    self._write_block(each, sent=True)
                    self._apply_block(each)

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
        on, without a result here. The do-not-call list keeps the number, which it protects. Raises
        `StoreUnavailable` if the number is still in the log: repeat it."""
        number = f"+{number.removeprefix('+')}"
        with self._transaction():
            of_number = "IN (SELECT id FROM person WHERE number = ?)"
            self._db.execute(f"DELETE FROM attempt WHERE person {of_number}", (number,))  # noqa: S608
            deleted = self._db.execute("DELETE FROM person WHERE number = ?", (number,))
            self._db.execute("DELETE FROM block_change WHERE number = ? AND blocked = 0", (number,))
        self._empty_log()
        return deleted.rowcount

    def _empty_log(self) -> None:
        """Empty the write-ahead log, which has deleted numbers, too. Raises `StoreUnavailable`."""
        busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreUnavailable(
                "the campaigns' file is in use; what was deleted is still in its log"
            )

    def status(self, name: str = "", now: float | None = None) -> list[dict[str, Any]]:
        """Return state, settings and counts of one campaign, or of all, the oldest first. `people`
        has the number of people by progress; `waits` the reason why a running campaign places no
        call `now` (Unix time), empty if it does, or may. Raises `CampaignRefused`."""
        now = time.time() if now is None else now
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
                "waits": self._waits(row, now) if row["state"] == "running" else "",
                "people": {
                    each["what"]: each["n"] for each in self._db.execute(counted, (row["id"],))
                },
            }
            for row in rows
        ]

    def _waits(self, campaign: sqlite3.Row, now: float) -> str:
        settings, zones = _settings(campaign["settings"]), self._zones(campaign["id"])
        if not zones or self._busy(campaign["id"]):
            return ""
        open_ = open_zones(zones, CallingHours.read(settings.hours, settings.days), now)
        if not open_:
            return closed_text(zones, settings.hours, settings.days, now)
        first = "SELECT min(not_before) FROM person WHERE campaign = ? AND state = ? AND zone = ?"
        due = min(
            self._db.execute(first, (campaign["id"], "pending", zone)).fetchone()[0]
            for zone in open_
        )
        if campaign["waits"]:
            return str(campaign["waits"])
        return f"the next call is due in {math.ceil((due - now) / 60)} min" if due > now else ""

    def context_of(self, name: str) -> str | None:
        """Return a campaign's context; None if there is no such campaign."""
        found = self._db.execute("SELECT context FROM campaign WHERE name = ?", (name,)).fetchone()
        return found["context"] if found is not None else None

    def results(
        self, name: str, what: str = "", after: int = 0, most: int = -1
    ) -> Iterator[dict[str, Any]]:
        """Return the people of a campaign with their last attempt, in the list's order: those with
        the progress `what`, as `status` counts it (empty: all), whose `id` is greater than `after`,
        and at most `most` of them (-1: all). Raises `CampaignRefused`."""
        if self.context_of(name) is None:
            raise CampaignRefused(f"there is no campaign {name!r}")
        people = (
            "SELECT person.* FROM person JOIN campaign ON campaign.id = person.campaign"  # noqa: S608
            f" WHERE campaign.name = ? AND person.id > ? AND ? IN ('', {_WHAT})"
            " ORDER BY person.id LIMIT ?"
        )
        return map(
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
            self._forget_unblocked()
            self._db.execute("UPDATE person SET state = 'pending' WHERE state = 'claimed'")
            self._db.execute(
                "UPDATE attempt SET outcome = 'interrupted', ended = ? WHERE ended IS NULL",
                (time.time(),),
            )
            return self._db.execute(
                "UPDATE person SET state = 'done', outcome = 'interrupted',"
                " reason = 'engine_killed' WHERE state = 'dialling'"
            ).rowcount

    def claim(self, most: int, now: float, put_off: Collection[str] = ()) -> list[Claimed]:
        """Claim up to `most` people whose call is due now (Unix time), campaign by campaign,
        promised call-backs first: they would wait behind a large campaign for ever. The campaigns
        named in `put_off` are left out."""
        claimed: list[Claimed] = []
        with self._transaction():
            order = f"ORDER BY {_IS_PROMISED} DESC, id"
            running = f"SELECT * FROM campaign WHERE state = 'running' {order}"  # noqa: S608
            for campaign in self._db.execute(running).fetchall():
                if campaign["name"] in put_off:
                    continue
                settings = _settings(campaign["settings"])
                room = min(most - len(claimed), settings.concurrency - self._busy(campaign["id"]))
                if room > 0:
                    claimed += self._claim(campaign["id"], campaign["name"], settings, room, now)
        return claimed

    def _busy(self, campaign: int) -> int:
        count = "SELECT count(*) FROM person WHERE campaign = ? AND state IN ('claimed','dialling')"
        return int(self._db.execute(count, (campaign,)).fetchone()[0])

    def _claim(
        self, campaign: int, name: str, settings: CampaignSettings, room: int, now: float
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
                claimed.append(Claimed(call_id, person["number"], variables, settings, name))
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

    def begin(self, call_id: str, elsewhere: int = 0) -> bool:
        """Write that a claimed person is being called. False if they are claimed no more, or are on
        the do-not-call list, or their campaign does not run any more. `elsewhere`: attempts so far
        that other engines know of."""
        with self._transaction():
            self._db.execute(
                "UPDATE person SET state = 'pending', call_id = ''"
                " WHERE call_id = ? AND state = 'claimed'"
                " AND campaign IN (SELECT id FROM campaign WHERE state != 'running')",
                (call_id,),
            )
            self._db.execute(
                "UPDATE person SET state = 'done', outcome = 'refused', reason = 'do_not_call'"
                " WHERE call_id = ? AND state = 'claimed'"
                " AND number IN (SELECT number FROM blocked)",
                (call_id,),
            )
            changed = self._db.execute(
                "UPDATE person SET state = 'dialling', attempts = max(attempts, ?) + 1"
                " WHERE call_id = ? AND state = 'claimed'",
                (elsewhere, call_id),
            )
            if not changed.rowcount:
                return False
            self._db.execute(
                "INSERT INTO attempt (call_id, person, began)"
                " SELECT call_id, id, ? FROM person WHERE call_id = ?",
                (time.time(), call_id),
            )
            self._note(call_id, "waits = '', touched = ?", time.time())
            return True

    def settle(self, call_id: str, attempts: int, outcome: str) -> None:
        """Write that another engine has called a claimed person, for the last time."""
        self._db.execute(
            "UPDATE person SET state = 'done', attempts = ?, outcome = ?,"
            " reason = 'called_elsewhere', call_id = '' WHERE call_id = ? AND state = 'claimed'",
            (attempts, outcome, call_id),
        )

    def _note(self, call_id: str, values: str, value: float | str) -> None:
        """Write something of a call into its campaign."""
        of_call = "id = (SELECT campaign FROM person WHERE call_id = ?)"
        self._db.execute(f"UPDATE campaign SET {values} WHERE {of_call}", (value, call_id))  # noqa: S608

    def give_back(self, call_id: str, seconds: float, now: float, why: str = "") -> None:
        """Write that nothing was dialled: the person is due again, after a pause. `why` is shown
        as what the campaign waits for, until its next call."""
        with self._transaction():
            if why:
                self._note(call_id, "waits = ?", why)
            self._db.execute("DELETE FROM attempt WHERE call_id = ?", (call_id,))
            cancelled = self._db.execute(
                "SELECT campaign.id FROM person JOIN campaign ON campaign.id = person.campaign"
                " WHERE call_id = ? AND campaign.state = 'cancelled'",
                (call_id,),
            ).fetchone()
            self._db.execute(
                "UPDATE person SET state = 'pending', not_before = ?, call_id = '',"
                " attempts = attempts - (state = 'dialling')"
                " WHERE call_id = ? AND state IN ('claimed', 'dialling')",
                (now + seconds, call_id),
            )
            if cancelled is not None:  # meanwhile
                self._settle_waiting(cancelled["id"])

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

    def expire(self, before: float | None) -> int:
        """Delete what is kept no longer. Numbers that were taken off the do-not-call list long ago;
        and, unless `before` is None, campaigns with their people: those without a call since that
        Unix time, unless they run and have people who wait for a call. Of promised call-backs,
        which are never over, people who were called before it are deleted. Return how many
        campaigns were. Raises `StoreUnavailable` if they are still in the log: repeat it."""
        with self._transaction():
            self._forget_unblocked()
        deleted = 0 if before is None else self._expire_campaigns(before)
        self._empty_log()
        return deleted

    def _expire_campaigns(self, before: float) -> int:
        old = self._db.execute(
            f"SELECT id FROM campaign WHERE max(created, touched) < ? AND NOT {_IS_PROMISED}"  # noqa: S608
            " AND NOT (state = 'running' AND EXISTS (SELECT 1 FROM person"
            " WHERE campaign = campaign.id AND person.state != 'done'))",
            (before,),
        ).fetchall()
        for row in old:
            self.discard(row["id"])
        called = "state = 'done' AND not_before < ? AND campaign IN (SELECT id FROM campaign"
        while self._delete(f"{called} WHERE {_IS_PROMISED})", before) == BATCH:
            pass
        return len(old)

    def _delete(self, where: str, value: float) -> int:
        """Delete up to `BATCH` people, with their attempts."""
        with self._transaction():
            chosen = f"SELECT id FROM person WHERE {where} LIMIT {BATCH}"  # noqa: S608
            ids = [(row["id"],) for row in self._db.execute(chosen, (value,))]
            self._db.executemany("DELETE FROM attempt WHERE person = ?", ids)
            self._db.executemany("DELETE FROM person WHERE id = ?", ids)
        return len(ids)

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
