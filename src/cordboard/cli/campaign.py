"""`cordboard campaign ...`: lists of people to be called.

It works on the queue's file, with or without a running engine; an engine with `outbound.enabled`
looks at it every second.
"""

from __future__ import annotations

import csv
import datetime
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, text_at

if TYPE_CHECKING:
    from cordboard.config.schema import Config
    from cordboard.outbound.campaigns.rows import BrokenLine, Row
    from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore

app = typer.Typer(help="Campaigns: call the people of a list.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The campaign.")]
_COLUMNS = (
    "number",
    "state",
    "outcome",
    "answer",
    "reason",
    "attempts",
    "last_call",
    "began",
    "duration_ms",
)


@app.command("add")
def add(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="CSV: number, zone, variables. See docs.")],
    context: Annotated[str, typer.Option("--context", help="The context that talks.")],
    config: ConfigOption = DEFAULT_CONFIG,
    message: Annotated[str, typer.Option("--message", help="Left to a voicemail.")] = "",
    consent: Annotated[
        str, typer.Option("--consent", help="Spoken to a human before the greeting.")
    ] = "",
    keys: Annotated[list[str] | None, typer.Option("--keys", help="Keys for a menu.")] = None,
    hours: Annotated[
        str, typer.Option("--hours", help="In the time of the called person.", show_default=True)
    ] = "09:00-20:00",
    days: Annotated[str, typer.Option("--days", show_default=True)] = "mon-fri",
    zone: Annotated[
        str, typer.Option("--zone", help="For numbers of countries with several time zones.")
    ] = "",
    attempts: Annotated[int, typer.Option("--attempts", min=1, max=10)] = 2,
    retry_minutes: Annotated[int, typer.Option("--retry-minutes", min=1, max=10_080)] = 120,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=1_000, help="Calls at the same time.")
    ] = 1,
) -> None:
    """Make a campaign of a list. It is not started; each broken line is reported and left out.

    Exit status 1 when a line is broken: the campaign then has the others.
    """
    from cordboard.outbound.campaigns.store import CampaignSettings

    settings = CampaignSettings(
        context, hours, days, attempts, retry_minutes, concurrency, message, tuple(keys or ()),
        consent,
    )  # fmt: skip
    people, left_out = _add(load_config(config).config, name, file, settings, zone)
    print(f"{name}: {people} people, {left_out} lines left out; cordboard campaign start {name}")
    if left_out:
        raise typer.Exit(1)


def _add(
    config: Config, name: str, file: Path, settings: CampaignSettings, zone: str
) -> tuple[int, int]:
    """Add a campaign, and print each broken line; return the numbers of people and of lines left
    out. Raises `CampaignRefused`; no campaign is added then."""
    from cordboard.calls.outbound_order import keys_problem
    from cordboard.errors import CampaignRefused
    from cordboard.firewall.policy import Policy
    from cordboard.outbound.campaigns.hours import is_zone
    from cordboard.outbound.campaigns.rows import BrokenLine, read_rows
    from cordboard.outbound.campaigns.store import CampaignStore

    context = config.contexts.get(settings.context)
    if context is None:
        raise CampaignRefused(f"no such context; there are: {', '.join(config.contexts)}")
    problem = keys_problem(settings.keys)
    if problem or (zone and not is_zone(zone)):
        raise CampaignRefused(problem or f"--zone: there is no {zone}; expected Europe/Oslo, say")
    try:
        lines = file.open("rb")
    except OSError as error:
        raise CampaignRefused(f"{file} cannot be read: {error.strerror}") from None
    left_out = 0

    def leave_out(line: BrokenLine) -> None:
        nonlocal left_out
        left_out += 1
        print(line, file=sys.stderr)

    with lines, closing(CampaignStore(config.outbound.campaigns)) as store:
        rows = read_rows(lines, context.variables, Policy(config.firewall).dialled, zone)
        found = _whole(rows, leave_out)
        first = [*islice(found, 1)]  # a list without a head is refused before there is a campaign
        try:
            campaign = store.add(name, settings)
        except ValueError as error:
            raise CampaignRefused(str(error)) from None
        for twice in store.add_people(campaign, chain(first, found)):
            leave_out(BrokenLine(twice.line, "the number is there already"))
        return sum(store.status(name)[0]["people"].values()), left_out


def _whole(
    found: Iterator[Row | BrokenLine], leave_out: Callable[[BrokenLine], None]
) -> Iterator[Row]:
    """Yield the rows without the broken lines."""
    from cordboard.outbound.campaigns.rows import BrokenLine

    for each in found:
        if isinstance(each, BrokenLine):
            leave_out(each)
        else:
            yield each


@app.command("start")
def start(name: NameArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Start a campaign, or let it go on."""
    with closing(_store(config)) as store:
        store.set_state(name, "running")
    print(f"{name} is running")


@app.command("pause")
def pause(name: NameArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Place no more calls of a campaign; live ones go on."""
    with closing(_store(config)) as store:
        store.set_state(name, "paused")
    print(f"{name} is paused")


@app.command("status")
def status(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One campaign; else all.")] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far campaigns are: people who wait, are called, and how the calls ended."""
    from cordboard.cli.screen import print_json

    with closing(_store(config)) as store:
        found = store.status(name)
    if json:
        print_json(found)
        return
    for each in found:
        counts = ", ".join(f"{count} {what}" for what, count in each["people"].items())
        print(f"{each['name']}: {each['state']}; {counts or 'nobody'}")


@app.command("results")
def results(
    name: NameArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; else standard output.")
    ] = None,
) -> None:
    """Write everybody of a campaign as CSV, with the end of the last call."""
    from cordboard.private_files import create

    with closing(_store(config)) as store:
        rows = store.results(name)
        if output is None:
            _write(sys.stdout, rows)
            return
        descriptor = create(output)
        with os.fdopen(descriptor, "w", newline="", encoding="utf-8") as file:
            _write(file, rows)


@app.command("block")
def block(
    numbers: Annotated[
        list[str], typer.Argument(metavar="NUMBER...", help="Numbers, or files with one a line.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add numbers to the do-not-call list of all campaigns; if one cannot be read, none."""
    from cordboard.errors import CampaignRefused
    from cordboard.firewall.numbers import caller_of

    country = text_at(config, ("firewall", "country"))
    wanted: list[str] = []
    for each in numbers:
        path = Path(each)
        lines = path.read_text("utf-8").splitlines() if path.is_file() else [each]
        for written in filter(None, map(str.strip, lines)):
            number = caller_of(written, country)  # as `campaign add` writes it
            if not number.startswith("+"):
                raise CampaignRefused(
                    f"{written[:40]!r}: expected a number such as +4722000000, or as in "
                    "`firewall.country`"
                )
            wanted.append(number)
    with closing(_store(config)) as store:
        print(f"{store.block(wanted)} numbers are new on the do-not-call list")


def _write(file: Any, rows: Iterator[dict[str, Any]]) -> None:
    writer = csv.writer(file)
    writer.writerow(_COLUMNS)
    for row in rows:
        began, when = row["began"], ""
        if began is not None:
            moment = datetime.datetime.fromtimestamp(began, datetime.UTC)
            when = moment.isoformat(timespec="seconds")
        writer.writerow(
            [
                row["number"],
                row["state"],
                row["outcome"],
                row["answer"],
                row["reason"],
                row["attempts"],
                row["call_id"],
                when,
                row["duration_ms"] or "",
            ]
        )


def _store(config: Path) -> CampaignStore:
    """Return the queue; only its key of the file is read."""
    from cordboard.config.sections.outbound import Outbound
    from cordboard.errors import CampaignRefused
    from cordboard.outbound.campaigns.store import CampaignStore

    named = text_at(config, ("outbound", "campaigns"))
    path = Path(named) if named else Outbound().campaigns
    if not path.exists():
        raise CampaignRefused(f"there are no campaigns yet: {path} does not exist")
    return CampaignStore(path)
