"""The tables of the index: files, calls, and the names that calls share. Words (`full_text`) and
rollups (`rollups`) have tables of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    insert,
    select,
    true,
)

from cordboard.history.query import COLUMNS, MARKS, CallRow
from cordboard.history.rollups import Rollups
from cordboard.history.store import FileState

VERSION = "6"
"""Version of the tables, and of the rows in them: a change of either needs another number."""
AT_ONCE = 500
"""Values in one list of a statement."""
UNSCRUBBED = "unscrubbed"
"""Fact that is there until remains of removed files are off the disk."""

METADATA = MetaData()
_Text = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared by code points in both databases: prefixes and cursors depend on it."""
_Number = BigInteger().with_variant(Integer, "sqlite")

FACTS = Table(
    "cordboard_fact", METADATA, Column("name", _Text, primary_key=True), Column("value", _Text)
)
FILES = Table(
    "cordboard_file",
    METADATA,
    Column("file", _Text, primary_key=True),
    Column("node", _Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified_ns", BigInteger, nullable=False),
    Column("notes_ns", BigInteger, nullable=False),
    Column("is_open", Boolean, nullable=False, index=True),
    Column("unreadable", _Text, nullable=False, index=True),
)
CALLS = Table(
    "cordboard_call",
    METADATA,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("id", _Text, nullable=False, index=True),
    Column("file", _Text, nullable=False, index=True),
    Column("started_at", _Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("kind", _Number, nullable=False),
    Column("caller_number", _Text, nullable=False, index=True),
    Column("caller_name", _Text, nullable=False),
    Column("called_number", _Text, nullable=False),
    Column("caller_key", _Text, nullable=False, index=True),
    Column("called_key", _Text, nullable=False, index=True),
    Column("duration_ms", BigInteger),
    Column("turns", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("waited_ms", BigInteger),
    Column("cost", Float),
    Column("currency", _Text, nullable=False),
    Column("last4", _Text, nullable=False, index=True),
)
SEALED = Table(
    "cordboard_sealed",
    METADATA,
    Column("call", _Number, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)
"""The personal part of the rows of encrypted calls, encrypted (`sealed_rows`)."""
KINDS = Table(
    "cordboard_kind",
    METADATA,
    Column("kind", _Number, primary_key=True, autoincrement=False),
    *(Column(name, _Text, nullable=False) for name in COLUMNS),
)
"""Values of all `COLUMNS` that calls have together. There are few of them: calls that are counted
by the number of their kind take a tenth of the time."""
LABELS = Table(
    "cordboard_label",
    METADATA,
    Column("label", _Number, primary_key=True, autoincrement=False),
    Column("kind", _Text, nullable=False),
    Column("value", _Text, nullable=False),
)
"""Values of `MARKS`, for the same reason."""
MARKED = Table(
    "cordboard_mark",
    METADATA,
    Column("label", _Number, primary_key=True, autoincrement=False),
    Column("call", _Number, primary_key=True, autoincrement=False, index=True),
    Column("started_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
ROLLUPS = Rollups(METADATA, CALLS, _Text, _Number)
Index("cordboard_call_order", CALLS.c.started_ms, CALLS.c.id, CALLS.c.kind)
Index("cordboard_call_facets", CALLS.c.kind, CALLS.c.started_ms, CALLS.c.id)
"""Counting, and sorting the calls of a context, read these indexes alone."""

_CALL = tuple(each.name for each in fields(CallRow) if each.name in CALLS.c)
_ROW = (*_CALL, *(name for name in COLUMNS if name not in ("recorded", "interrupted")))
STATE = tuple(each.name for each in fields(FileState))
"""Columns of a file that are its state."""


def of_node(node: str) -> ColumnElement[bool]:
    """Return the condition that a call is of a node; always true for the index of one engine. Its
    kind is an expression, so that no index of kinds is walked for it: other conditions find fewer
    calls."""
    if not node:
        return true()
    return (CALLS.c.kind + 0).in_(select(KINDS.c.kind).where(KINDS.c.node == node))


def values_of(number: int, kind: int, row: CallRow, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a call; `keys` are those by which numbers are found."""
    return {**{name: getattr(row, name) for name in _CALL}, **keys, "number": number, "kind": kind}


def kind_of(row: CallRow) -> dict[str, str]:
    """Return the values of `COLUMNS`."""
    flags = {"recorded": row.recorded, "interrupted": bool(row.interruptions)}
    return {
        name: ("yes" if flags[name] else "no") if name in flags else getattr(row, name)
        for name in COLUMNS
    }


def number_of(values: Iterable[str]) -> int:
    """Return the number that stands for these values in every index: 63 bits of their hash."""
    content = "\0".join(values).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big") >> 1


def add_new(connection: Connection, table: Table, rows: Mapping[int, dict[str, Any]]) -> None:
    """Add the rows of which the table does not have the number."""
    (number,), keys = table.primary_key.columns, list(rows)
    for begin in range(0, len(keys), AT_ONCE):
        some = keys[begin : begin + AT_ONCE]
        known = set(connection.scalars(select(number).where(number.in_(some))))
        if new := [rows[key] for key in some if key not in known]:
            connection.execute(insert(table), new)


def remove_with_names(
    connection: Connection, used: Column[int], of_these: ColumnElement[bool], name: Column[int]
) -> None:
    """Remove rows, and the names whose number `used` no other row has: they may be of a caller."""
    numbers = connection.scalars(select(used).where(of_these).distinct()).all()
    connection.execute(delete(used.table).where(of_these))
    for begin in range(0, len(numbers), AT_ONCE):
        some = name.in_(numbers[begin : begin + AT_ONCE])
        is_used = select(used).where(used == name).exists()
        connection.execute(delete(name.table).where(some, ~is_used))


def row_in(found: Any, marks: Mapping[str, Sequence[str]]) -> CallRow:
    """Return the row of a call, its kind and its marks."""
    tools, failed, troubles, tags = (tuple(marks.get(kind, ())) for kind in MARKS)
    return CallRow(
        **{name: getattr(found, name) for name in _ROW},
        recorded=found.recorded == "yes",
        tools=tools,
        tools_failed=failed,
        troubles=troubles,
        tags=tags,
    )
