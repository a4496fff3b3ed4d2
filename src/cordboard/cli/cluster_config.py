"""`cordboard cluster config ...`: the versions of the configuration that all engines of a cluster
share, on its bus. Needs no running engine."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    load_config,
    print_warning,
    run_async,
    set_up_log,
    system_user,
)
from cordboard.errors import NotThere

if TYPE_CHECKING:
    from cordboard.cluster.bus import Bucket
    from cordboard.cluster.config_survey import ConfigSurvey
    from cordboard.cluster.config_versions import ConfigVersions, Share
    from cordboard.cluster.config_wire import PublishedVersion

app = typer.Typer(
    help="The configuration of all engines: publish, history, rollback, canaries.",
    no_args_is_help=True,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WhyOption = Annotated[str, typer.Option("--why", "-m", help="Reason, for the history.")]
WaitOption = Annotated[
    float, typer.Option("--wait", help="Seconds to wait for the engines; 0: do not wait.")
]
VersionArgument = Annotated[int, typer.Argument(metavar="VERSION", help="Its number.")]
Result = TypeVar("Result")
ROLL_WAIT = 120.0


@app.command("publish")
def publish(
    file: Annotated[Path, typer.Argument(help="YAML with the shared keys, such as contexts.")],
    config: ConfigOption = DEFAULT_CONFIG,
    why: WhyOption = "",
    base: Annotated[
        int | None, typer.Option("--base", help="Version that FILE was made from; else refused.")
    ] = None,
    canary: Annotated[
        str, typer.Option("--canary", help="Share of new calls, such as 10%; default: all.")
    ] = "",
    context: Annotated[
        list[str] | None, typer.Option("--context", help="Contexts of the canary; default: all.")
    ] = None,
    wait: WaitOption = ROLL_WAIT,
) -> None:
    """Check a text and make it the version of all engines, one after the other; or a canary.

    The own file of some engine (--config) gives the bus and what engines do not share. Problems of
    a text are printed with line and key; then nothing is published. Exit status 1 also if an engine
    cannot take it, or not within --wait, or if another version is in force by then.
    """
    from cordboard.config.load import text_of
    from cordboard.config.shared_part import SharedText, check_to_publish

    share = _share(canary, context or [])
    text = text_of(file)
    loaded = check_to_publish(config, os.environ, SharedText(0, text, str(file)))
    for problem in loaded.problems:
        print_warning(problem)
    for name in context or []:
        if name not in loaded.config.contexts:
            raise typer.BadParameter(f"{file} has no context {name!r}")

    async def work(versions: ConfigVersions, state: Bucket) -> PublishedVersion:
        return await versions.publish(text, system_user(), why, base, share)

    version = _on_bus(config, work)
    if share is not None:
        print(f"version {version.number} is a canary; look at it: cordboard cluster config status")
        return
    print(f"version {version.number} is published ({version.digest[:12]})")
    _follow(config, version.number, wait)


@app.command("rollback")
def rollback(
    version: VersionArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    why: WhyOption = "",
    wait: WaitOption = ROLL_WAIT,
) -> None:
    """Publish the text of an earlier version again, as a new one. It is checked as any other."""
    from cordboard.config.shared_part import SharedText, check_to_publish

    async def read(versions: ConfigVersions, state: Bucket) -> str:
        return await versions.text_of(version)

    text = _on_bus(config, read)
    check_to_publish(config, os.environ, SharedText(version, text))

    async def work(versions: ConfigVersions, state: Bucket) -> PublishedVersion:
        return await versions.rollback(version, system_user(), why)

    new = _on_bus(config, work)
    print(f"version {new.number} is published, the text of version {version}")
    _follow(config, new.number, wait)


@app.command("promote")
def promote(config: ConfigOption = DEFAULT_CONFIG, wait: WaitOption = ROLL_WAIT) -> None:
    """Put the canary into force for all calls."""

    async def work(versions: ConfigVersions, state: Bucket) -> PublishedVersion:
        return await versions.promote(system_user())

    version = _on_bus(config, work)
    print(f"version {version.number} is published for all calls")
    _follow(config, version.number, wait)


@app.command("withdraw")
def withdraw(config: ConfigOption = DEFAULT_CONFIG, why: WhyOption = "") -> None:
    """Take the canary back; its calls end on it."""

    async def work(versions: ConfigVersions, state: Bucket) -> PublishedVersion:
        return await versions.withdraw(f"by {system_user()}" + (f": {why}" if why else ""))

    version = _on_bus(config, work)
    print(f"version {version.number} is withdrawn")


@app.command("shadow")
def shadow(
    file: Annotated[
        Path | None, typer.Argument(help="The draft; left out: print what was compared.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    context: Annotated[str, typer.Option("--context", help="The context to listen to.")] = "",
    share: Annotated[str, typer.Option("--share", help="Share of its new calls.")] = "10%",
    turns: Annotated[
        int,
        typer.Option(
            "--turns", min=1, max=1_000_000, help="Turns that each engine compares at most."
        ),
    ] = 200,
    stop: Annotated[bool, typer.Option("--stop", help="End the listening.")] = False,
    json: JsonOption = False,
) -> None:
    """Let a draft listen silently to live calls, and compare what it would do. It runs no tool, and
    no caller hears it."""
    if stop:

        async def end(versions: ConfigVersions, state: Bucket) -> None:
            await versions.end_shadow()

        _on_bus(config, end)
        print("the draft does not listen any more")
    elif file is None:
        _print_shadow(_on_bus(config, _look), json)
    else:
        _begin_shadow(file, config, context, share, turns)


def _begin_shadow(file: Path, config: Path, context: str, share: str, turns: int) -> None:
    from cordboard.cluster.config_versions import share_of
    from cordboard.config.load import text_of
    from cordboard.config.shared_part import SharedText, check_to_publish

    try:
        part = share_of(share)
    except ValueError as error:
        raise typer.BadParameter(f"--share {share}: {error}") from None
    text = text_of(file)
    loaded = check_to_publish(config, os.environ, SharedText(0, text, str(file)))
    name = context or str(loaded.config.default_context)
    if name not in loaded.config.contexts:
        raise typer.BadParameter(f"{file} has no context {name!r}")

    async def begin(versions: ConfigVersions, state: Bucket) -> None:
        await versions.begin_shadow(text, system_user(), name, part, turns)

    _on_bus(config, begin)
    print(f"the draft listens to {part / 100:g} % of the calls of {name}; see what it would do:")
    print("cordboard cluster config shadow")


def _print_shadow(found: ConfigSurvey, json: bool) -> None:
    from cordboard.cli.screen import print_json
    from cordboard.mcp.printable import printable

    order, reports = found.head.shadow, found.shadows
    if json:
        print_json(
            {
                "order": None if order is None else asdict(order),
                "engines": [asdict(each) for each in reports],
            }
        )
        return
    if order is None:
        print("no draft listens")
        return
    print(f"a draft listens to {order.share / 100:g} % of the calls of {order.context}")
    for name in ("same", "other_tool", "other_arguments", "other_words", "failed", "skipped"):
        print(f"  {sum(getattr(each, name) for each in reports):6} {name.replace('_', ' ')}")
    for report in reports:
        if report.problem:
            print(printable(f"{report.instance}: {report.problem}"))
        for example in report.examples:
            where = f"{example.verdict} in {example.call_id}, turn {example.turn}"
            print(printable(f"{where}\n  caller: {example.heard}"))
            print(printable(f"  live:   {example.live}\n  draft:  {example.draft}"))


@app.command("status")
def status(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Show the version in force, what each engine has, and the canary. Exit status 1 while an
    engine has another version."""
    from cordboard.cli.screen import print_json

    found = _on_bus(config, _look)
    if json:
        print_json(
            {
                "in_force": found.head.in_force,
                "newest": found.head.newest,
                "settled": found.settled,
                "engines": [asdict(each) for _, each in sorted(found.engines.items())],
                "canary": None if found.head.canary is None else asdict(found.head.canary),
                "before": asdict(found.before),
                "after": asdict(found.after),
            }
        )
    else:
        _print_status(found)
    if not found.settled:
        raise typer.Exit(1)


@app.command("history")
def history(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """List the versions, the newest first; `*` marks the one in force."""
    from cordboard.cli.screen import cluster_versions_table, print_json, terminal

    head = _on_bus(config, _look).head
    rows = [
        {**asdict(version), "in_force": version.number == head.in_force}
        for version in head.versions
    ]
    if json:
        print_json(rows)
    else:
        terminal().print(cluster_versions_table(rows))


@app.command("show")
def show(version: VersionArgument, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Print the text of a version."""

    async def work(versions: ConfigVersions, state: Bucket) -> str:
        return await versions.text_of(version)

    print(_on_bus(config, work), end="")


async def _look(versions: ConfigVersions, state: Bucket) -> ConfigSurvey:
    from cordboard.cluster.config_survey import look

    return await look(state)


def _follow(config: Path, number: int, seconds: float) -> None:
    """Wait for the engines, and show what they have. Exit with 1 if they do not have it, or another
    version is in force meanwhile."""
    if seconds <= 0:
        return

    async def work(versions: ConfigVersions, state: Bucket) -> ConfigSurvey:
        from cordboard.cluster.config_survey import settled

        return await settled(state, number, seconds)

    found = _on_bus(config, work)
    _print_status(found)
    if not found.settled or found.head.in_force != number:
        raise typer.Exit(1)


def _print_status(found: ConfigSurvey) -> None:
    from cordboard.mcp.printable import printable

    head = found.head
    print(f"version {head.in_force} in force" if head.in_force else "no version is published")
    for instance, report in sorted(found.engines.items()):
        has = f"version {report.number}" if report.number else "its own file"
        if report.state != "in_force":
            has += f", {report.state} for version {report.wanted}"
        if report.canary:
            has += f", canary {report.canary}"
        problem = report.problem or report.canary_problem
        print(printable(f"  {instance}: {has}" + (f": {problem}" if problem else "")))
    if not found.engines:
        print("  no engine follows the versions (cluster.config: bus)")
    order = head.canary
    if order is not None:
        print(f"version {order.number} is a canary, {order.share / 100:g} % of the calls")
        for name, each in (("in force", found.before), ("canary", found.after)):
            print(
                f"  {name}: {each.calls} calls, {each.failed} failed, {each.hung_up} early hang-ups"
            )
        if order.verdict:
            print(printable(f"  look {order.looks}: {order.verdict}"))


def _on_bus(config: Path, work: Callable[[ConfigVersions, Bucket], Awaitable[Result]]) -> Result:
    """Do work on the bus of a configuration's cluster. Raises `BusAway`, `ClusterError`,
    `NotThere` and `ExtraMissing`."""
    from cordboard.cluster.config_survey import config_versions

    loaded = load_config(config)
    set_up_log("error", loaded)
    cluster = loaded.config.cluster
    if cluster is None:
        raise NotThere(f"{config} has no section `cluster`: the engine is alone")

    async def connected() -> Result:
        async with config_versions(cluster, loaded.config.privacy.encryption) as (versions, state):
            return await work(versions, state)

    return run_async(connected())


def _share(canary: str, contexts: list[str]) -> Share | None:
    from cordboard.cluster.config_versions import Share, share_of

    if not canary:
        if contexts:
            raise typer.BadParameter("--context belongs to --canary")
        return None
    try:
        return Share(share_of(canary), tuple(contexts))
    except ValueError as error:
        raise typer.BadParameter(f"--canary {canary}: {error}") from None
