"""Counts of calls by the values of each filter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, func, select

from cordboard.history.conditions import Lookup, conditions, memberships, of_call, period
from cordboard.history.query import COLUMNS, MARKS, CallQuery, Facets
from cordboard.history.sealed_rows import Hashes, is_hash, tags_in
from cordboard.history.tables import CALLS, KINDS, LABELS, MARKED, SEALED, number_of
from cordboard.privacy.sealed_file import Vault

_ASKED = 5
"""Calls that are asked for the name of a tag: a key may be erased, or away."""


def count_facets(connection: Connection, lookup: Lookup, query: CallQuery, vault: Vault) -> Facets:
    """Return how many calls have which values. Each filter is counted as if it were not set."""
    counts: dict[str, dict[str, int]] = {name: {} for name in (*COLUMNS, *MARKS)}
    number = func.count().label("number")
    groups = select(CALLS.c.kind, number).group_by(CALLS.c.kind)
    found = groups.where(*conditions(lookup, query, without=COLUMNS)).subquery()
    columns = (KINDS.c[name] for name in COLUMNS)
    named = select(*columns, found.c.number).join(found, found.c.kind == KINDS.c.kind)
    for *values, count in connection.execute(named):
        _count_group(counts, query, values, count)
    for kinds, skipped in _mark_rounds(query):
        for kind, value, count in connection.execute(_mark_counts(lookup, query, kinds, skipped)):
            counts[kind][value] = counts[kind].get(value, 0) + count
    counts["tag"] = _named(connection, lookup.hashes, counts["tag"], vault)
    return counts


def _named(
    connection: Connection, hashes: Sequence[Hashes], counts: Mapping[str, int], vault: Vault
) -> dict[str, int]:
    """Return the counts of tags with their names in place of hashes. A tag is left out if none of
    the calls that are asked for it can be decrypted."""
    named: dict[str, int] = {}
    for value, count in counts.items():
        name = value
        if is_hash(value):
            name = _name_of(connection, hashes, value, vault)
        if name:
            named[name] = named.get(name, 0) + count
    return named


def _name_of(connection: Connection, hashes: Sequence[Hashes], value: str, vault: Vault) -> str:
    label = number_of(("tag", value))
    chosen = select(SEALED.c.body).join_from(SEALED, MARKED, MARKED.c.call == SEALED.c.call)
    chosen = chosen.where(MARKED.c.label == label).limit(_ASKED)
    for body in connection.scalars(chosen):
        with suppress(OSError):
            for tag in tags_in(body, vault):
                if any(each.of("tag", tag) == value for each in hashes):
                    return tag
            return ""
    return ""


def _mark_counts(
    lookup: Lookup, query: CallQuery, kinds: Collection[str], skipped: Collection[str]
) -> Select[Any]:
    call = MARKED.c.call + 0  # as in `conditions`
    found = memberships(lookup, query, call, skipped) + period(query, MARKED.c.started_ms)
    if of_calls := of_call(lookup, replace(query, since_ms=None, until_ms=None), skipped):
        found.append(call.in_(select(CALLS.c.number).where(*of_calls)))
    number = func.count().label("number")
    labels = select(LABELS.c.label).where(LABELS.c.kind.in_(kinds))
    groups = select(MARKED.c.label, number).where(MARKED.c.label.in_(labels), *found)
    counted = groups.group_by(MARKED.c.label).subquery()
    named = select(LABELS.c.kind, LABELS.c.value, counted.c.number)
    return named.join(counted, counted.c.label == LABELS.c.label)


def _count_group(
    counts: dict[str, dict[str, int]], query: CallQuery, values: Sequence[str], count: int
) -> None:
    """Add calls with equal values of all columns. A filter is not applied to its own counts."""
    failed = [
        name
        for name, value in zip(COLUMNS, values, strict=True)
        if name in query.columns and value not in query.columns[name]
    ]
    if len(failed) > 1:
        return
    for name, value in zip(COLUMNS, values, strict=True):
        if not failed or failed == [name]:
            counts[name][value] = counts[name].get(value, 0) + count


def _mark_rounds(query: CallQuery) -> Iterator[tuple[Collection[str], Collection[str]]]:
    """Yield kinds of marks to count together, and the filters that are not applied to them."""
    yield [kind for kind in MARKS if kind not in query.marks], ()
    for kind in query.marks:
        yield [kind], [kind]
