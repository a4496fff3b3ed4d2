"""`cordboard campaign ...`: lists of people to be called.

It works on the queue's file, with or without a running engine; an engine with `outbound.enabled`
looks at it every second.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, load_config, text_at

if TYPE_CHECKING:
    from cordboard.outbound.campaigns.store import CampaignStore

app = typer.Typer(help="Campaigns: call the people of a list.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The campaign.")]


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
    from cordboard.errors import CampaignRefused
    from cordboard.outbound.campaigns.making import make_campaign
    from cordboard.outbound.campaigns.rows import BrokenLine
    from cordboard.outbound.campaigns.store import CampaignSettings

    settings = CampaignSettings(
        context, hours, days, attempts, retry_minutes, concurrency, message, tuple(keys or ()),
        consent,
    )  # fmt: skip

    def leave_out(line: BrokenLine) -> None:
        print(line, file=sys.stderr)

    try:
        lines = file.open("rb")
    except OSError as error:
        raise CampaignRefused(f"{file} cannot be read: {error.strerror}") from None
    with lines:
        found = load_config(config).config
        path = found.outbound.campaigns
        made = make_campaign(path, found, name, settings, zone, lines, leave_out)
    print(
        f"{name}: {made.people} people, {made.left_out} lines left out; "
        f"cordboard campaign start {name}"
    )
    if made.left_out:
        raise typer.Exit(1)


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


@app.command("cancel")
def cancel(name: NameArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """End a campaign for good: people who wait are not called; live calls go on."""
    with closing(_store(config)) as store:
        store.cancel(name)
    print(f"{name} is cancelled")


@app.command("status")
def status(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One campaign; else all.")] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far campaigns are: people who wait, are called, and how the calls ended; and why a
    running campaign places no calls now."""
    from cordboard.cli.screen import print_json
    from cordboard.outbound.campaigns.runner import is_worked_off

    with closing(_store(config)) as store:
        found = store.status(name)
    is_off = (text_at(config, ("outbound", "enabled")) or "false").lower() != "true"
    path = _file(config)
    for each in found if is_off or not is_worked_off(path) else ():
        waiting = each["people"].get("pending", 0) and each["state"] == "running"
        if waiting and is_off:
            each["waits"] = "outbound calls are off (outbound.enabled)"
        elif waiting:
            each["waits"] = f"no engine works off {path}; start one: cordboard run -c {config}"
    if json:
        print_json(found)
        return
    for each in found:
        counts = ", ".join(f"{count} {what}" for what, count in each["people"].items())
        print(f"{each['name']}: {each['state']}; {counts or 'nobody'}")
        if each["waits"]:
            print(f"  nobody is called now: {each['waits']}")


@app.command("results")
def results(
    name: NameArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; else standard output.")
    ] = None,
) -> None:
    """Write everybody of a campaign as CSV, with the end of the last call. A file that is there is
    not replaced."""
    from cordboard.errors import CampaignRefused
    from cordboard.history.export import written
    from cordboard.outbound.campaigns.results import COLUMNS, result_row
    from cordboard.private_files import create

    with closing(_store(config)) as store:
        table = written(map(result_row, store.results(name)), COLUMNS, "csv")
        if output is None:
            for line in table:
                print(line.decode(), end="")
            return
        try:
            with os.fdopen(create(output), "wb") as file:
                file.writelines(table)
        except OSError as error:
            why = f"cannot be written: {error.strerror or error}"
            if isinstance(error, FileExistsError) and output.exists():
                why = "is there already; name another file"
            raise CampaignRefused(f"{output} {why}") from None


@app.command("block")
def block(
    numbers: Annotated[
        list[str], typer.Argument(metavar="NUMBER...", help="Numbers, or files with one a line.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add numbers to the do-not-call list; if one cannot be read, none.

    A number that its country does not have, perhaps a mistyped one, is named, and added.
    """
    from cordboard.firewall.numbers import read_number

    wanted = _numbers(numbers, config)
    for each in wanted:
        read = read_number(each, None)
        if read is None or read.kind == "unknown":
            print(f"{each}: its country has no such number; it is added", file=sys.stderr)
    with closing(_store(config, new=True)) as store:
        print(f"{store.block(wanted)} numbers are new on the do-not-call list")


@app.command("unblock")
def unblock(
    numbers: Annotated[
        list[str], typer.Argument(metavar="NUMBER...", help="Numbers, or files with one a line.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Remove numbers from the do-not-call list; if one cannot be read, none."""
    wanted = _numbers(numbers, config)
    with closing(_store(config)) as store:
        removed = sum(store.unblock(number) for number in wanted)
    print(f"{removed} numbers are no longer on the do-not-call list")


def _numbers(given: list[str], config: Path) -> list[str]:
    """Return numbers, and those in files, in E.164. Raises `CampaignRefused`."""
    from cordboard.outbound.campaigns.making import numbers_to_block

    written: list[str] = []
    for each in given:
        path = Path(each)
        written += _lines(path) if path.is_file() else [each]
    return numbers_to_block(written, text_at(config, ("firewall", "country")))


def _lines(path: Path) -> list[str]:
    """Return the lines of a text. Raises `CampaignRefused`."""
    from cordboard.errors import CampaignRefused

    try:
        return path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise CampaignRefused(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        why = f"line {line}: not UTF-8; save the list as UTF-8"
        raise CampaignRefused(f"{path}: {why}") from None


def _store(config: Path, *, new: bool = False) -> CampaignStore:
    """Return the queue. `new`: it is made if there is none."""
    from cordboard.errors import CampaignRefused
    from cordboard.outbound.campaigns.store import CampaignStore

    path = _file(config)
    if not new and not path.exists():
        raise CampaignRefused(f"there are no campaigns yet: {path} does not exist")
    return CampaignStore(path)


def _file(config: Path) -> Path:
    """Return the queue's file; only its key of the configuration is read."""
    from cordboard.config.sections.outbound import Outbound

    named = text_at(config, ("outbound", "campaigns"))
    return Path(named) if named else Outbound().campaigns
