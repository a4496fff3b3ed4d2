"""Full text of the calls' words, in SQLite (FTS5) and PostgreSQL (tsvector).

Both get words that `query.words_of` has normalised, so that they find the same calls: neither the
databases' own rules for words nor their languages take part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Select,
    bindparam,
    column,
    select,
    table,
    text,
)

from cordboard.history.query import Speaker, Term

NAME = "cordboard_words"
_CALL: BindParameter[Any] = bindparam("calls", expanding=True)


class FullText(Protocol):
    """The words of calls by their number in the index."""

    def create(self, connection: Connection) -> None: ...

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Add `{"call": number, "caller": words, "agent": words}`."""

    def remove(self, connection: Connection, calls: Collection[int]) -> None: ...

    def matches(self, terms: Sequence[Term], who: Speaker) -> Select[Any]:
        """Return the query of the calls' numbers in which all terms occur."""

    def forget(self, connection: Connection) -> None:
        """Remove the remains of removed words."""


class SqliteText:
    """FTS5. Its unicode61 tokenizer keeps normalised words as they are."""

    def create(self, connection: Connection) -> None:
        connection.exec_driver_sql(
            f"CREATE VIRTUAL TABLE {NAME} USING fts5(caller, agent, "
            "tokenize='unicode61', prefix='2 3')"
        )

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        connection.execute(
            text(
                f"INSERT INTO {NAME} (rowid, caller, agent) "  # noqa: S608 - a constant name
                "VALUES (:call, :caller, :agent)"
            ),
            list(rows),
        )

    def remove(self, connection: Connection, calls: Collection[int]) -> None:
        connection.execute(
            text(f"DELETE FROM {NAME} WHERE rowid IN :calls").bindparams(_CALL),  # noqa: S608
            {"calls": list(calls)},
        )

    def matches(self, terms: Sequence[Term], who: Speaker) -> Select[Any]:
        wanted = " AND ".join(
            f'"{" ".join(term.words)}"{" *" if term.begins else ""}' for term in terms
        )
        wanted = f"{who} : ({wanted})" if who else wanted
        found = text(f"{NAME} MATCH :words").bindparams(words=wanted)
        return select(column("rowid", BigInteger)).select_from(table(NAME)).where(found)

    def forget(self, connection: Connection) -> None:
        connection.exec_driver_sql(f"INSERT INTO {NAME} ({NAME}) VALUES ('optimize')")  # noqa: S608


class PostgresText:
    """One tsvector for each call: the caller's words have weight A, the agent's B."""

    def create(self, connection: Connection) -> None:
        connection.execute(text(f"CREATE TABLE {NAME} (call BIGINT PRIMARY KEY, words TSVECTOR)"))
        connection.execute(text(f"CREATE INDEX {NAME}_gin ON {NAME} USING gin (words)"))

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        connection.execute(
            text(
                f"INSERT INTO {NAME} (call, words) VALUES (:call, "  # noqa: S608 - a constant name
                "setweight(to_tsvector('simple', :caller), 'A') || "
                "setweight(to_tsvector('simple', :agent), 'B'))"
            ),
            list(rows),
        )

    def remove(self, connection: Connection, calls: Collection[int]) -> None:
        connection.execute(
            text(f"DELETE FROM {NAME} WHERE call IN :calls").bindparams(_CALL),  # noqa: S608
            {"calls": list(calls)},
        )

    def matches(self, terms: Sequence[Term], who: Speaker) -> Select[Any]:
        weight = {"caller": "A", "agent": "B", "": ""}[who]
        wanted = " & ".join(f"({' <-> '.join(_lexemes(term, weight))})" for term in terms)
        found = text(f"{NAME}.words @@ to_tsquery('simple', :words)").bindparams(words=wanted)
        return select(column("call", BigInteger)).select_from(table(NAME)).where(found)

    def forget(self, connection: Connection) -> None:
        connection.execute(text(f"VACUUM (FULL) {NAME}"))


def _lexemes(term: Term, weight: str) -> list[str]:
    """Return the words of a term for `to_tsquery`. They are letters and digits alone, so that the
    quotes need no escape."""
    last = len(term.words) - 1
    flags = ["*" if term.begins and at == last else "" for at in range(last + 1)]
    return [
        f"'{word}'" + (f":{flag}{weight}" if flag or weight else "")
        for word, flag in zip(term.words, flags, strict=True)
    ]
