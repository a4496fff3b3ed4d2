"""Rows of calls as CSV or JSON lines, for spreadsheets and programs. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import Literal

import orjson

from cordboard.history.query import MOST_ROWS, CallQuery, CallRow
from cordboard.history.store import HistoryStore

Format = Literal["csv", "jsonl"]
_FORMULA = re.compile(r'(?:^(?=[\t\r\n])|(?:^|[;\t\r\n])["\s]*(?=[=+\-@\uff1d\uff0b\uff0d\uff20]))')
"""Beginnings of cells that spreadsheets run as formulas (OWASP, "CSV Injection"): some take
full-width signs for the others. Where the decimal sign is a comma, semicolons separate cells."""


def export(rows: Iterable[CallRow], form: Format) -> Iterator[bytes]:
    """Yield the rows in pieces; CSV begins with the names of the columns."""
    if form == "jsonl":
        for row in rows:
            yield orjson.dumps(asdict(row), option=orjson.OPT_APPEND_NEWLINE)
        return
    yield _csv([each.name for each in fields(CallRow)])
    for row in rows:
        yield _csv([_cell(value) for value in asdict(row).values()])


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
    return _FORMULA.sub(r"\g<0>'", value) if isinstance(value, str) else value


def _csv(cells: list[object] | list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()
