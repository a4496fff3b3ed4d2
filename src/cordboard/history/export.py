"""Rows of calls as CSV or JSON lines, for spreadsheets and programs. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Literal

import orjson

from cordboard.history.query import MOST_ROWS, CallQuery, CallRow
from cordboard.history.store import HistoryStore

Format = Literal["csv", "jsonl"]
_FORMULA = re.compile(r'(?:^(?=[\t\r\n])|(?:^|[;\t\r\n])["\s]*(?=[=+\-@\uff1d\uff0b\uff0d\uff20]))')
"""Beginnings of cells that spreadsheets run as formulas (OWASP, "CSV Injection"): some take
full-width signs for the others. Where the decimal sign is a comma, semicolons separate cells."""
_NUMBER = re.compile(r"\+[0-9]{1,15}")
"""A number in E.164 computes nothing, and programs read it back as it is."""


def export(rows: Iterable[CallRow], form: Format) -> Iterator[bytes]:
    """Yield the rows in pieces; CSV begins with the names of the columns."""
    return written(map(asdict, rows), [each.name for each in fields(CallRow)], form)


def written(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], form: Format
) -> Iterator[bytes]:
    """The same for any rows; `columns` are those of CSV."""
    if form == "jsonl":
        for row in rows:
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        return
    yield _csv(columns)
    for row in rows:
        yield _csv([_cell(row.get(name)) for name in columns])


def all_rows(store: HistoryStore, query: CallQuery) -> Iterator[CallRow]:
    """Yield every call that matches, the newest first, page by page. Blocks. Raises
    `HistoryError`."""
    cursor = ""
    while True:
        page = store.find(query, MOST_ROWS, cursor)
        yield from page.rows
        cursor = page.next
        if not cursor:
            return


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet runs: callers choose their names, and say what they
    like."""
    if isinstance(value, tuple):
        value = ", ".join(value)
    elif isinstance(value, dict):
        value = orjson.dumps(value).decode()
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return _FORMULA.sub(r"\g<0>'", value)


def _csv(cells: Sequence[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()
