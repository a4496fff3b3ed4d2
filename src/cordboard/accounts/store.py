"""Users, sessions, links and keys, in an SQLite database of mode 0600.

Tokens of sessions, links and keys are random numbers of 256 bits; the database has their SHA-256
only, so that a stolen copy opens nothing. Passwords are argon2id hashes
(`cordboard.accounts.passwords`). The secrets of authenticator apps are there as they are: codes
cannot be checked without them. So a stolen copy has the second factors, also of recovery codes.

The engine and the command `cordboard users` use the file at the same time. All methods block, for
less than a millisecond unless the disk is slow: call them in threads. Each is one transaction and
raises `StoreUnavailable` when the database cannot be used.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from cordboard import private_files
from cordboard.accounts import factors
from cordboard.accounts.rights import Grant, Permission, Rights, Role, Scope, rights_of
from cordboard.errors import AccountRefused, NotThere, StoreUnavailable

USER_NAME = r"[a-z0-9][a-z0-9._@-]{0,63}"
LINK_HOURS = 24
ELEVATION_SECONDS = 600
"""Seconds for which dangerous acts are allowed after the password or a code was given again."""
SEEN_SECONDS = 30
"""Seconds between two notes of a session's use; a write for each request is too much."""
KEY_PREFIX = "cbk_"
MOST_SESSIONS = 20
"""Sessions of one user; a further sign-in ends the oldest."""
_VERSION = 2
_TABLES = """
CREATE TABLE users (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, grants TEXT NOT NULL, scope TEXT NOT NULL,
    password TEXT, totp TEXT, totp_pending TEXT, totp_step INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL, disabled_at REAL);
CREATE TABLE recovery (user TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (user, hash));
CREATE TABLE links (hash TEXT PRIMARY KEY, user TEXT NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, user TEXT NOT NULL, client TEXT NOT NULL,
    created_at REAL NOT NULL, seen_at REAL NOT NULL, elevated_until REAL NOT NULL DEFAULT 0);
CREATE TABLE keys (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, label TEXT NOT NULL,
    permissions TEXT NOT NULL, scope TEXT NOT NULL, created_at REAL NOT NULL,
    expires_at REAL NOT NULL);
"""
_IDENTITIES = """
CREATE TABLE IF NOT EXISTS identities (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, user TEXT NOT NULL UNIQUE,
    PRIMARY KEY (issuer, subject))
"""
"""Added in version 2."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role
    grants: frozenset[Grant]
    scope: Scope
    has_password: bool
    has_factor: bool
    """True if a code of an authenticator app is needed to sign in."""
    created_at: float
    disabled: bool

    @property
    def rights(self) -> Rights:
        return rights_of(self.role, self.grants, self.scope)


@dataclass(frozen=True, slots=True)
class Session:
    """A person who has signed in."""

    id: str
    """For lists; it opens nothing."""
    user: User
    client: str
    """IP address at the sign-in."""
    created_at: float
    seen_at: float
    elevated: bool


@dataclass(frozen=True, slots=True)
class Key:
    """A program's key."""

    id: str
    label: str
    owner: User
    permissions: frozenset[Permission]
    scope: Scope
    created_at: float
    expires_at: float

    @property
    def rights(self) -> Rights:
        """Never more than the owner's present rights."""
        return self.owner.rights.narrowed(self.permissions, self.scope)


class Accounts:
    """The database of one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        idle_seconds: float = 3_600,
        whole_seconds: float = 43_200,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`idle_seconds` and `whole_seconds`: life of a session without a request, and in all.
        `clock` returns Unix seconds. Raises `StoreUnavailable`."""
        self.path = folder / "accounts.db"
        self.changed: Callable[[], None] = lambda: None
        """Called after each change that this object has made, in the thread that made it."""
        self._idle_seconds = idle_seconds
        self._whole_seconds = whole_seconds
        self._clock = clock
        self._lock = threading.Lock()
        try:
            private_files.make_folder(folder)
            private_files.make_database(self.path)
            self._database = sqlite3.connect(
                self.path, timeout=5, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unavailable(error) from error
        try:
            self._prepare()
        except StoreUnavailable:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the database. Idempotent."""
        with self._lock:
            self._database.close()

    # Users.

    def users(self) -> list[User]:
        """Return all users by name."""
        with self._transaction() as database:
            return [_user(row) for row in database.execute("SELECT * FROM users ORDER BY name")]

    def user(self, name: str) -> User | None:
        """Return a user, also a disabled one."""
        with self._transaction() as database:
            return _find(database, name)

    def add(self, name: str, role: Role, grants: Collection[Grant], scope: Scope) -> User:
        """Add a user without a password. Raises `AccountRefused` for a taken name."""
        with self._transaction() as database:
            if _find(database, name) is not None:
                raise AccountRefused(f"there is a user {name} already")
            database.execute(
                "INSERT INTO users (name, role, grants, scope, created_at) VALUES (?, ?, ?, ?, ?)",
                (name, role, _json(grants), _json(scope, keep=True), self._clock()),
            )
            return _known(database, name)

    def change(
        self, name: str, role: Role, grants: Collection[Grant], scope: Scope, *, disabled: bool
    ) -> User:
        """Replace a user's rights; to disable one ends their sessions and links. Raises `NotThere`,
        and `AccountRefused` when no admin would be left."""
        with self._transaction() as database:
            may = Permission.PEOPLE_MANAGE
            loses = disabled or not rights_of(role, grants, scope).may(may)
            if _known(database, name).rights.may(may) and loses:
                _not_the_last_admin(database, name)
            since = None if not disabled else self._clock()
            database.execute(
                "UPDATE users SET role = ?, grants = ?, scope = ?, disabled_at = ? WHERE name = ?",
                (role, _json(grants), _json(scope, keep=True), since, name),
            )
            if disabled:
                _sign_out(database, name)
            return _known(database, name)

    def reset(self, name: str) -> str:
        """Remove password, second factor and identity, end all sessions, and return a new one-time
        link's token. Raises `NotThere`, and `AccountRefused` for a disabled user."""
        with self._transaction() as database:
            if _known(database, name).disabled:
                raise AccountRefused(f"{name} is disabled")
            _sign_out(database, name)
            database.execute(
                "UPDATE users SET password = NULL, totp = NULL, totp_pending = NULL WHERE name = ?",
                (name,),
            )
            database.execute("DELETE FROM recovery WHERE user = ?", (name,))
            database.execute("DELETE FROM identities WHERE user = ?", (name,))
            token = secrets.token_urlsafe(32)
            expires = self._clock() + LINK_HOURS * 3_600
            database.execute("INSERT INTO links VALUES (?, ?, ?)", (_digest(token), name, expires))
            return token

    def link_owner(self, token: str) -> User | None:
        """Return the user of a one-time link that can be used."""
        with self._transaction() as database:
            return self._link_owner(database, token)

    def use_link(self, token: str, password: str) -> User:
        """Set the user's first password (its hash) and remove the link. Raises `AccountRefused` for
        a link that was used, replaced, or has expired."""
        with self._transaction() as database:
            user = self._link_owner(database, token)
            if user is None:
                raise AccountRefused(
                    "the link was used before, was replaced by a newer one, or has expired; "
                    "`cordboard users reset NAME` makes a new one"
                )
            database.execute("DELETE FROM links WHERE user = ?", (user.name,))
            database.execute("UPDATE users SET password = ? WHERE name = ?", (password, user.name))
            return _known(database, user.name)

    def password(self, name: str) -> str | None:
        """Return the hash of the password of a user who may sign in; else None."""
        query = "SELECT password FROM users WHERE name = ? AND disabled_at IS NULL"
        with self._transaction() as database:
            row = database.execute(query, (name,)).fetchone()
        return row["password"] if row is not None else None

    def set_password(self, name: str, before: str, password: str, but: str = "") -> None:
        """Replace a password by another (both are hashes), and end all sessions but one, by its
        token. Raises `AccountRefused` if it is `before` no more: a reset came meanwhile."""
        with self._transaction() as database:
            _still_right(database, name, before)
            database.execute("UPDATE users SET password = ? WHERE name = ?", (password, name))
            database.execute(
                "DELETE FROM sessions WHERE user = ? AND hash <> ?", (name, _digest(but))
            )

    # The second factor.

    def begin_factor(self, name: str) -> str:
        """Return the secret of a new second factor; it is needed once a code has confirmed it."""
        secret = factors.new_secret()
        with self._transaction() as database:
            database.execute("UPDATE users SET totp_pending = ? WHERE name = ?", (secret, name))
        return secret

    def confirm_factor(self, name: str, code: str) -> list[str]:
        """Require the new factor from now on, and return recovery codes. Raises `AccountRefused`
        for a wrong code."""
        with self._transaction() as database:
            query = "SELECT totp_pending FROM users WHERE name = ?"
            secret = database.execute(query, (name,)).fetchone()["totp_pending"]
            if secret is None:
                raise AccountRefused("there is no second factor to confirm")
            step = factors.step_of(secret, code, self._clock(), 0)
            if step is None:
                raise AccountRefused("the code is not right; check the clock of the phone")
            database.execute(
                "UPDATE users SET totp = ?, totp_pending = NULL, totp_step = ? WHERE name = ?",
                (secret, step, name),
            )
            codes = factors.new_recovery_codes()
            database.execute("DELETE FROM recovery WHERE user = ?", (name,))
            rows = [(name, _digest(code)) for code in codes]
            database.executemany("INSERT INTO recovery VALUES (?, ?)", rows)
            return codes

    def remove_factor(self, name: str) -> None:
        """Require no second factor any more."""
        with self._transaction() as database:
            database.execute(
                "UPDATE users SET totp = NULL, totp_pending = NULL WHERE name = ?", (name,)
            )
            database.execute("DELETE FROM recovery WHERE user = ?", (name,))

    def take_code(self, name: str, code: str) -> bool:
        """Check a code, and use it up: of the app, or for recovery. True without a factor."""
        with self._transaction() as database:
            query = "SELECT totp, totp_step FROM users WHERE name = ?"
            row = database.execute(query, (name,)).fetchone()
            if row is None or row["totp"] is None:
                return row is not None
            step = factors.step_of(row["totp"], code, self._clock(), row["totp_step"])
            if step is not None:
                database.execute("UPDATE users SET totp_step = ? WHERE name = ?", (step, name))
                return True
            query = "DELETE FROM recovery WHERE user = ? AND hash = ?"
            return database.execute(query, (name, _digest(code.strip().lower()))).rowcount == 1

    # Identities of a provider.

    def identified(self, issuer: str, subject: str) -> User | None:
        """Return the user of an identity, also a disabled one."""
        with self._transaction() as database:
            return _with_identity(database, issuer, subject)

    def connect(self, name: str, issuer: str, subject: str, *, unclaimed: bool = False) -> User:
        """Let this identity, and no other, sign in as a user. Raises `NotThere`, and
        `AccountRefused` if it has another user; with `unclaimed` also if the user has a password or
        an identity, as a name alone must not take over an account."""
        with self._transaction() as database:
            user = _known(database, name)
            other = _with_identity(database, issuer, subject)
            if other is not None and other.name != name:
                raise AccountRefused(f"this identity is that of the user {other.name}")
            query = "SELECT 1 FROM identities WHERE user = ?"
            has_identity = database.execute(query, (name,)).fetchone() is not None
            if unclaimed and (user.has_password or has_identity):
                raise AccountRefused(
                    f"{name} signs in in another way; sign in so, and connect the identity then"
                )
            database.execute("DELETE FROM identities WHERE user = ?", (name,))
            database.execute("INSERT INTO identities VALUES (?, ?, ?)", (issuer, subject, name))
            database.execute("DELETE FROM links WHERE user = ?", (name,))
            return user

    # Sessions.

    def begin_session(
        self, name: str, client: str, password: str, *, elevated: bool = False
    ) -> str:
        """Sign a user in and return the session's token. Raises `AccountRefused` if `password` is
        their hash no more: a reset came meanwhile."""
        with self._transaction() as database:
            _still_right(database, name, password)
            return self._new_session(database, name, client, elevated=elevated)

    def begin_session_as(self, issuer: str, subject: str, client: str) -> str:
        """Sign in the user of an identity and return the session's token. Raises `AccountRefused`
        if there is none who may sign in."""
        with self._transaction() as database:
            user = _with_identity(database, issuer, subject)
            if user is None or user.disabled:
                raise AccountRefused("the user was reset or disabled")
            return self._new_session(database, user.name, client)

    def session(self, token: str) -> Session | None:
        """Return a session in force and note its use."""
        now, digest = self._clock(), _digest(token)
        with self._transaction() as database:
            row = database.execute("SELECT * FROM sessions WHERE hash = ?", (digest,)).fetchone()
            if row is None or not self._in_force(row, now):
                return None
            user = _find(database, row["user"])
            if user is None or user.disabled:
                return None
            if now - row["seen_at"] >= min(SEEN_SECONDS, self._idle_seconds / 4):
                database.execute("UPDATE sessions SET seen_at = ? WHERE hash = ?", (now, digest))
            return _session(row, user, now)

    def elevate(self, token: str) -> str:
        """Replace a session's token by a new one that allows dangerous acts for a while."""
        new, until = secrets.token_urlsafe(32), self._clock() + ELEVATION_SECONDS
        with self._transaction() as database:
            database.execute(
                "UPDATE sessions SET hash = ?, elevated_until = ? WHERE hash = ?",
                (_digest(new), until, _digest(token)),
            )
        return new

    def sessions(self) -> list[Session]:
        """Return the sessions in force, the newest first."""
        now = self._clock()
        with self._transaction() as database:
            rows = database.execute("SELECT * FROM sessions ORDER BY created_at DESC").fetchall()
            users = {row["user"]: _known(database, row["user"]) for row in rows}
        found = [_session(row, users[row["user"]], now) for row in rows if self._in_force(row, now)]
        return [session for session in found if not session.user.disabled]

    def end_session(self, token: str) -> None:
        """Sign out."""
        with self._transaction() as database:
            database.execute("DELETE FROM sessions WHERE hash = ?", (_digest(token),))

    def end_session_by_id(self, session_id: str) -> None:
        """End any session. Raises `NotThere`."""
        with self._transaction() as database:
            query = "DELETE FROM sessions WHERE id = ?"
            if database.execute(query, (session_id,)).rowcount == 0:
                raise NotThere("there is no such session")

    def end_other_sessions(self, token: str) -> None:
        """End all sessions of a session's user but this one."""
        digest = _digest(token)
        with self._transaction() as database:
            database.execute(
                "DELETE FROM sessions WHERE hash != ?"
                " AND user = (SELECT user FROM sessions WHERE hash = ?)",
                (digest, digest),
            )

    # Keys of programs.

    def add_key(
        self,
        owner: str,
        label: str,
        permissions: Collection[Permission],
        scope: Scope,
        life_seconds: float,
    ) -> tuple[Key, str]:
        """Make a key; return it and its token, which is not kept. Raises `AccountRefused` for
        permissions that its owner lacks."""
        key_id = secrets.token_hex(8)
        token = f"{KEY_PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
        now = self._clock()
        with self._transaction() as database:
            user = _known(database, owner)
            lacking = sorted(set(permissions) - user.rights.permissions)
            if lacking:
                raise AccountRefused(f"{owner} has no permission {', '.join(lacking)} to pass on")
            values = (key_id, _digest(token), owner, label, _json(permissions))
            database.execute(
                "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, _json(scope, keep=True), now, now + life_seconds),
            )
            row = database.execute("SELECT * FROM keys WHERE id = ?", (key_id,)).fetchone()
            return _key(row, user), token

    def keys(self) -> list[Key]:
        """Return all keys, the newest first."""
        with self._transaction() as database:
            rows = database.execute("SELECT * FROM keys ORDER BY created_at DESC").fetchall()
            return [_key(row, _known(database, row["owner"])) for row in rows]

    def key(self, token: str) -> Key | None:
        """Return the key with this token, if it and its owner are in force."""
        with self._transaction() as database:
            query = "SELECT * FROM keys WHERE hash = ? AND expires_at > ?"
            row = database.execute(query, (_digest(token), self._clock())).fetchone()
            user = _find(database, row["owner"]) if row is not None else None
            return _key(row, user) if user is not None and not user.disabled else None

    def remove_key(self, key_id: str) -> None:
        """Remove a key. Raises `NotThere`."""
        with self._transaction() as database:
            if database.execute("DELETE FROM keys WHERE id = ?", (key_id,)).rowcount == 0:
                raise NotThere("there is no such key")

    def rights_now(self, holder: str) -> Rights | None:
        """Return the present rights of `session:` or `key:` and an id; None if it is not in
        force. It does not count as a use of the session."""
        kind, _, which = holder.partition(":")
        now = self._clock()
        with self._transaction() as database:
            if kind == "session":
                row = database.execute("SELECT * FROM sessions WHERE id = ?", (which,)).fetchone()
                if row is None or not self._in_force(row, now):
                    return None
                user = _known(database, row["user"])
                return None if user.disabled else user.rights
            query = "SELECT * FROM keys WHERE id = ? AND expires_at > ?"
            row = database.execute(query, (which, now)).fetchone()
            owner = _find(database, row["owner"]) if row is not None else None
            return _key(row, owner).rights if owner is not None and not owner.disabled else None

    # Inside.

    def _new_session(
        self, database: sqlite3.Connection, name: str, client: str, *, elevated: bool = False
    ) -> str:
        token, now = secrets.token_urlsafe(32), self._clock()
        until = now + ELEVATION_SECONDS if elevated else 0
        database.execute(
            "DELETE FROM sessions WHERE seen_at < ? OR created_at < ?",
            (now - self._idle_seconds, now - self._whole_seconds),
        )
        database.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
            (_digest(token), secrets.token_hex(8), name, client, now, now, until),
        )
        database.execute(
            "DELETE FROM sessions WHERE user = ? AND hash NOT IN (SELECT hash FROM sessions"
            " WHERE user = ? ORDER BY created_at DESC, rowid DESC LIMIT ?)",
            (name, name, MOST_SESSIONS),
        )
        return token

    def _in_force(self, row: sqlite3.Row, now: float) -> bool:
        idle, whole = now - row["seen_at"], now - row["created_at"]
        return bool(idle < self._idle_seconds and whole < self._whole_seconds)

    def _link_owner(self, database: sqlite3.Connection, token: str) -> User | None:
        query = "SELECT user FROM links WHERE hash = ? AND expires_at > ?"
        row = database.execute(query, (_digest(token), self._clock())).fetchone()
        return _find(database, row["user"]) if row is not None else None

    def _prepare(self) -> None:
        self._database.row_factory = sqlite3.Row
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        with self._transaction() as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > _VERSION:
                raise StoreUnavailable(f"{self.path} was made by a newer version of Cordboard")
            if version == 0:
                for statement in _TABLES.split(";"):
                    database.execute(statement)
            if version < _VERSION:
                database.execute(_IDENTITIES)
                database.execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                before = self._database.total_changes
                try:
                    yield self._database
                except BaseException:
                    self._database.execute("ROLLBACK")
                    raise
                self._database.execute("COMMIT")
                changed = self._database.total_changes != before
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    if self._database.in_transaction:  # COMMIT failed
                        self._database.execute("ROLLBACK")
                raise self._unavailable(error) from error
        if changed:
            self.changed()

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        reason = getattr(error, "strerror", None) or error
        return StoreUnavailable(f"the accounts {self.path} cannot be used: {reason}")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _json(values: Collection[str], *, keep: bool = False) -> str:
    """Return a list as text; sorted, unless its order is to be kept."""
    return orjson.dumps([*map(str, values)] if keep else sorted(map(str, values))).decode()


def _find(database: sqlite3.Connection, name: str) -> User | None:
    row = database.execute("SELECT * FROM users WHERE name = ?", (name,)).fetchone()
    return _user(row) if row is not None else None


def _known(database: sqlite3.Connection, name: str) -> User:
    user = _find(database, name)
    if user is None:
        raise NotThere(f"there is no user {name[:64]}")
    return user


def _with_identity(database: sqlite3.Connection, issuer: str, subject: str) -> User | None:
    query = "SELECT user FROM identities WHERE issuer = ? AND subject = ?"
    row = database.execute(query, (issuer, subject)).fetchone()
    return _find(database, row["user"]) if row is not None else None


def _user(row: sqlite3.Row) -> User:
    return User(
        row["name"],
        Role(row["role"]),
        frozenset(map(Grant, orjson.loads(row["grants"]))),
        tuple(orjson.loads(row["scope"])),
        row["password"] is not None,
        row["totp"] is not None,
        row["created_at"],
        row["disabled_at"] is not None,
    )


def _session(row: sqlite3.Row, user: User, now: float) -> Session:
    elevated = row["elevated_until"] > now
    return Session(row["id"], user, row["client"], row["created_at"], row["seen_at"], elevated)


def _key(row: sqlite3.Row, owner: User) -> Key:
    return Key(
        row["id"],
        row["label"],
        owner,
        frozenset(map(Permission, orjson.loads(row["permissions"]))),
        tuple(orjson.loads(row["scope"])),
        row["created_at"],
        row["expires_at"],
    )


def _sign_out(database: sqlite3.Connection, name: str) -> None:
    for table in ("sessions", "links"):
        database.execute(f"DELETE FROM {table} WHERE user = ?", (name,))  # noqa: S608 - own names


def _still_right(database: sqlite3.Connection, name: str, password: str) -> None:
    query = "SELECT 1 FROM users WHERE name = ? AND password = ? AND disabled_at IS NULL"
    if database.execute(query, (name, password)).fetchone() is None:
        raise AccountRefused(f"{name} was reset or disabled, or has another password by now")


def _not_the_last_admin(database: sqlite3.Connection, name: str) -> None:
    """An admin of some contexts does not count: they cannot make another one."""
    others = database.execute(
        "SELECT * FROM users WHERE disabled_at IS NULL AND name <> ?", (name,)
    )
    if not any(_user(row).rights.may(Permission.PEOPLE_MANAGE) for row in others):
        raise AccountRefused(f"{name} is the last admin; make another one first")
