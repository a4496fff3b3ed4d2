"""`cordboard history ...`: search and export the calls on record, and erase calls.

Needs no running engine, and may run beside one: both write the same rows into the index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from cordboard.cli.calls import calls_directory, vault_of
from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, system_user, text_at
from cordboard.errors import ErasureIncomplete, HistoryError, IndexDamaged, NotThere

if TYPE_CHECKING:
    from cordboard.history.erasure import ErasurePlan
    from cordboard.history.indexer import Indexer
    from cordboard.history.query import CallQuery, CallRow
    from cordboard.history.sql_store import SqlHistoryStore

app = typer.Typer(help="The history of calls: find, count, export, erase.", no_args_is_help=True)

WhereOption = Annotated[
    list[str],
    typer.Option(
        "--where", "-w", metavar="FILTER=VALUE",
        help="A filter, such as outcome=failed or since=2026-11-01; may be repeated. "
        "Values of one filter are alternatives.",
    ),
]  # fmt: skip
WordsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WORDS", help="Words that were said.")
]
WhoOption = Annotated[
    str, typer.Option("--who", help="Who said the words: caller or agent; default: either.")
]


@app.command("find")
def find(
    words: WordsArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    where: WhereOption = [],  # noqa: B006 - typer reads it
    who: WhoOption = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="At most.")] = 20,
    form: Annotated[
        Literal["table", "csv", "jsonl"],
        typer.Option("--format", help="csv and jsonl have all calls, without a limit."),
    ] = "table",
) -> None:
    """Find calls and refused offers, the newest first."""
    from cordboard.cli.screen import calls_table, terminal
    from cordboard.history.export import all_rows, export

    query = _query(words, who, where)
    with _history(config) as (store, _):
        if form != "table":
            for piece in export(all_rows(store, query), form):
                sys.stdout.write(piece.decode())
            return
        rows, more = _first_rows(store, query, limit)
    terminal().print(
        calls_table(
            {name: getattr(row, name) for name in _SHOWN} | {"call_id": row.id} for row in rows
        )
    )
    if more:
        print(f"and more; `--limit` is {limit}")


def _first_rows(store: SqlHistoryStore, query: CallQuery, limit: int) -> tuple[list[CallRow], bool]:
    """Return the newest rows, and True if there may be more. Says how far it is while it opens
    encrypted calls."""
    rows: list[CallRow] = []
    cursor = ""
    while True:
        page = store.find(query, limit - len(rows), cursor)
        rows += page.rows
        cursor = page.next
        if not cursor or len(rows) == limit:
            return rows, bool(cursor)
        if page.searched_to_ms is not None:
            day = datetime.fromtimestamp(page.searched_to_ms / 1000).astimezone().date()
            print(f"encrypted calls were searched back to {day}", file=sys.stderr)


_SHOWN = (
    "started_at", "source", "caller_number", "context", "provider", "duration_ms", "turns",
    "outcome", "reason", "node",
)  # fmt: skip


@app.command("count")
def count(
    words: WordsArgument = None,
    config: ConfigOption = DEFAULT_CONFIG,
    where: WhereOption = [],  # noqa: B006 - typer reads it
    who: WhoOption = "",
) -> None:
    """Count calls by the values of each filter, as JSON."""
    from cordboard.cli.screen import print_json

    query = _query(words, who, where)
    with _history(config) as (store, _):
        print_json(store.facets(query))


@app.command("insights")
def insights(
    measure: Annotated[str, typer.Argument(help="Such as calls, wait, containment, cost.")],
    config: ConfigOption = DEFAULT_CONFIG,
    since: Annotated[str, typer.Option("--since", help="First day; default: 30 days ago.")] = "",
    until: Annotated[str, typer.Option("--until", help="Day after the last; default: now.")] = "",
    step: Annotated[
        Literal["hour", "day", "week", "month"], typer.Option("--step", help="Width of a point.")
    ] = "day",
    by: Annotated[
        str, typer.Option("--by", help="A line for each context, provider, version, or key.")
    ] = "",
) -> None:
    """Show a measure of calls over time, as JSON."""
    from dataclasses import asdict
    from time import time

    from cordboard.cli.screen import print_json
    from cordboard.history.query import moment
    from cordboard.history.series import DEFAULT_DAYS, SeriesQuery

    now = round(time() * 1000)
    begin = moment("since", since) if since else now - DEFAULT_DAYS * 86_400_000
    end = moment("until", until) if until else now
    with _history(config) as (store, _):
        print_json(asdict(store.series(SeriesQuery(measure, begin, end, step, by))))


@app.command("rebuild")
def rebuild(
    config: ConfigOption = DEFAULT_CONFIG,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Also if the PostgreSQL database has these rows from another calls.directory: "
            "they are removed.",
        ),
    ] = False,
) -> None:
    """Make the index of calls anew from the ledgers, at low priority. Of an index that the engines
    of a cluster share, only the rows of this node."""
    import os

    os.nice(10)
    with _history(config, catch_up=False) as (_, indexer):
        files = indexer.rebuild(take_over=take_over)
    print(f"{files} files are in the index")


@app.command("status")
def status(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Say how many calls the index has, and which cannot be read; the exit status is then 1."""
    from cordboard.history.query import CallQuery

    with _history(config) as (store, indexer):
        calls = sum(store.facets(CallQuery())["outcome"].values())
        print(f"{calls} calls and refused offers are in the index, of {len(store.days())} days")
        for file, reason in indexer.unreadable.items():
            print(f"{file} cannot be read: {reason}", file=sys.stderr)
        if indexer.unreadable:
            raise HistoryError(f"{len(indexer.unreadable)} files cannot be read; they are retried")


@app.command("erase")
def erase(
    config: ConfigOption = DEFAULT_CONFIG,
    call: Annotated[str, typer.Option("--call", help="The id of one call.")] = "",
    number: Annotated[str, typer.Option("--number", help="A caller: all calls.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Erase. Default: only say what.")] = False,
) -> None:
    """Erase calls completely: ledgers, recordings, notes, post-call jobs, and the index.

    A certificate of what was erased is written into the folder `certificates` of the calls.
    """
    if bool(call) == bool(number):
        raise typer.BadParameter("expected either --call or --number")
    erase_calls(config, call, number, yes=yes)


def erase_calls(config: Path, call: str, number: str, *, yes: bool, by: str = "") -> None:
    """Erase one call, or all calls of a number, and write the certificate; without `yes`, only say
    what would go. Raises `ErasureIncomplete` if calls could not be read or erased, `HistoryError`
    and `NotThere`."""
    from cordboard.history.erasure import Erasure

    directory, vault = calls_directory(config), vault_of(config)
    if number and not directory.is_dir():
        _erase_without_calls(config, number, directory, yes=yes)
    with _history(config) as (store, _):
        erasure = Erasure(directory, store, vault=vault)
        plan = erasure.of_call(call) if call else erasure.of_number(number)
        _print_plan(plan)
        for other in erasure.others_of(_other_forms(config, number)) if number else ():
            print(
                f"there are calls of {other}, too, perhaps of the same person; "
                f"they are not among these: cordboard forget {other}",
                file=sys.stderr,
            )
        if not yes:
            print("nothing was erased; repeat with --yes")
            if plan.unreadable:
                raise ErasureIncomplete(f"{len(plan.unreadable)} calls cannot be read")
            return
        if number:  # before the calls: it may be refused, and then no call is erased
            _forget_elsewhere(config, number)
        who = by or system_user()
        certificate = erasure.carry_out(plan, who, number_removed=bool(number))
        print(f"erased; certificate: {certificate.path_in(directory)}")
        if certificate.problem:
            raise ErasureIncomplete(certificate.problem)


def _erase_without_calls(config: Path, number: str, directory: Path, *, yes: bool) -> NoReturn:
    """Erase a number where there is no folder of calls, perhaps because a disk is not mounted.
    Raises `ErasureIncomplete`, and `StoreUnavailable`."""
    print("saved views with the number, its counts of the firewall, and its people in campaigns")
    missing = f"there is no folder {directory} of calls (`calls.directory`)"
    if not yes:
        print("nothing was erased; repeat with --yes")
        raise ErasureIncomplete(f"{missing}: no call can be looked at")
    _forget_elsewhere(config, number)
    raise ErasureIncomplete(
        "the number was erased from saved views, the firewall's counts and campaigns; "
        f"{missing}: no call was looked at, and no certificate was written"
    )


def _other_forms(config: Path, number: str) -> tuple[str, ...]:
    from cordboard.firewall.numbers import written_forms

    return written_forms(number, text_at(config, ("firewall", "country")))


def _forget_elsewhere(config: Path, number: str) -> None:
    """Erase a number outside the calls. Raises `StoreUnavailable`."""
    from cordboard.config.sections.admin import AdminUi
    from cordboard.config.sections.outbound import Outbound
    from cordboard.firewall.numbers import caller_of
    from cordboard.firewall.store import forget_caller
    from cordboard.history.views import Views
    from cordboard.outbound.campaigns.store import forget_person

    data = Path(text_at(config, ("admin", "ui", "data")) or AdminUi().data)
    caller = caller_of(number, text_at(config, ("firewall", "country")))
    Views(data / "views.json").forget(number)
    forget_caller(data, caller)
    forget_person(Path(text_at(config, ("outbound", "campaigns")) or Outbound().campaigns), caller)


def _print_plan(plan: ErasurePlan) -> None:
    from cordboard.history.erasure import told

    for path in plan.files:
        print(path)
    print(f"{len(plan.ledgers)} calls, {len(plan.files)} files, {len(plan.refused)} refused offers")
    for call_id in plan.running:
        print(f"{call_id} has not ended and is left out", file=sys.stderr)
    for file, reason in plan.unreadable.items():
        print(f"{file} cannot be read: {reason}", file=sys.stderr)
    for each in told(plan.elsewhere):
        print(f"{each}: not erased here; repeat it there", file=sys.stderr)


def _query(words: list[str] | None, who: str, where: list[str]) -> CallQuery:
    from cordboard.history.query import parse_query

    given: dict[str, list[str]] = {}
    for each in where:
        name, equals, value = each.partition("=")
        if not equals:
            raise HistoryError(f"--where: expected FILTER=VALUE, found {each!r}")
        given.setdefault(name, []).append(value)
    if words:
        given["text"] = [" ".join(words)]
    if who:
        given["who"] = [who]
    return parse_query(given)


@contextmanager
def _history(config: Path, *, catch_up: bool = True) -> Iterator[tuple[SqlHistoryStore, Indexer]]:
    """Open the index, up to date with the ledgers."""
    from cordboard.history.indexer import Indexer
    from cordboard.history.sql_store import SqlHistoryStore
    from cordboard.observe.logging import configure

    configure(json=False, level="ERROR")  # the commands name what cannot be read themselves
    directory = calls_directory(config)
    if not directory.is_dir():
        raise NotThere(f"there is no folder {directory} of calls; it is `calls.directory`")
    vault = vault_of(config)
    url = text_at(config, ("calls", "index", "database")) or ""
    node = text_at(config, ("cluster", "node")) or "" if url else ""
    store = SqlHistoryStore(directory, url, vault, node)
    indexer = Indexer(directory, store, vault=vault)
    try:
        if catch_up:
            try:
                indexer.catch_up()
            except IndexDamaged:
                indexer.rebuild()
            indexer.scrub()
        yield store, indexer
    finally:
        store.close()
