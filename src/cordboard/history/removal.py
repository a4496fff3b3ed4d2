"""Removes files with their calls, words and numbers from the tables of the index."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, select

from cordboard.history.full_text import FullText
from cordboard.history.tables import (
    AT_ONCE,
    CALLS,
    FILES,
    KINDS,
    LABELS,
    MARKED,
    ROLLUPS,
    SEALED,
    of_node,
    remove_with_names,
)


def remove_files(connection: Connection, text: FullText, node: str, files: Collection[str]) -> None:
    """Remove files of a node, in a transaction that writes."""
    wanted = list(files)
    for begin in range(0, len(wanted), AT_ONCE):
        some = wanted[begin : begin + AT_ONCE]
        of_these = CALLS.c.file.in_(some), of_node(node)
        calls = connection.scalars(select(CALLS.c.number).where(*of_these)).all()
        for at in range(0, len(calls), AT_ONCE):
            numbers = calls[at : at + AT_ONCE]
            text.remove(connection, numbers)
            ROLLUPS.take_out(connection, numbers)
            connection.execute(delete(SEALED).where(SEALED.c.call.in_(numbers)))
            of_marks, of_calls = MARKED.c.call.in_(numbers), CALLS.c.number.in_(numbers)
            remove_with_names(connection, MARKED.c.label, of_marks, LABELS.c.label)
            remove_with_names(connection, CALLS.c.kind, of_calls, KINDS.c.kind)
        connection.execute(delete(FILES).where(FILES.c.node == node, FILES.c.file.in_(some)))


def remove_node(connection: Connection, text: FullText, node: str) -> None:
    """Remove all rows of a node, in a transaction that writes."""
    files = connection.scalars(select(FILES.c.file).where(FILES.c.node == node)).all()
    remove_files(connection, text, node, files)
