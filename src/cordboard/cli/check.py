"""`cordboard check`: checks the configuration. Starts nothing; with `--online` asks services."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption
from cordboard.errors import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from cordboard.config.schema import Config

OnlineOption = Annotated[
    bool, typer.Option("--online", help="Ask each service whether it knows key, model and voice.")
]


def command(config: ConfigOption = DEFAULT_CONFIG, online: OnlineOption = False) -> None:
    """Check the configuration without starting anything.

    Every problem is one line: file, line, key, the error and the expected value. Warnings do not
    keep the engine from running; ports that other machines can reach and folders that cannot be
    written are among them, once there is no problem. Exit status 1 when the engine could not run,
    or when, with `--online`, a service would refuse.
    """
    from cordboard.cli.options import load_config, print_warning
    from cordboard.config.checks.surroundings import check_surroundings
    from cordboard.net.proxy import unusable_proxies
    from cordboard.observe.logging import configure

    try:
        loaded = load_config(config)
    except ConfigError as error:
        for problem in error.problems:
            print(problem.labelled(), file=sys.stderr)
        count = sum(problem.fatal for problem in error.problems)
        total = f"{config}: {count} problem{'s' if count > 1 else ''}"
        if not error.checked:
            total += "; names of contexts, tools and the like are checked when that is mended"
        print(total, file=sys.stderr)
        raise typer.Exit(1) from None
    configure(json=False, level="CRITICAL", secrets=loaded.secrets)  # the report says it all
    for warning in check_surroundings(loaded.config, loaded.document, loaded.secret_files):
        print_warning(warning)
    for told in (*unusable_proxies(), *_plugin_problems(loaded.config)):
        print_warning(ConfigProblem(told, file=str(config), fatal=False))
    contexts = ", ".join(loaded.config.contexts)
    print(f"{config}: in order. Contexts: {contexts}.")
    if online:
        _ask_services(loaded.config)


def _plugin_problems(config: Config) -> list[str]:
    """Return the unusable plug-ins, and the parts of this file that they cannot make."""
    from cordboard.config.plugins import installed

    plugins = installed()
    # A plug-in has an entry point for each door: one reason may count for several.
    found = list(dict.fromkeys(str(broken) for broken in plugins.broken))
    if plugins.sources:
        from cordboard.agents.making import plugin_problems
        from cordboard.tools.plugin import plugin_tools

        unmade = plugin_problems(config, os.environ, plugins)
        found += [f"providers.{name}: {problem}" for name, problem in unmade]
        found += [problem.message for problem in plugin_tools(config.tools, plugins)[1]]
    return found


def _ask_services(config: Config) -> None:
    """Print a line for each verified fact."""
    from cordboard.agents.online_check import check_online
    from cordboard.tools.known_secrets import KnownSecrets

    known = KnownSecrets(config.secrets)  # services quote what they were sent
    findings = asyncio.run(check_online(config, os.environ))
    for finding in findings:
        told = known.text(str(finding))
        print(told, file=sys.stdout if finding.good else sys.stderr)
    if not findings:
        print("No service on the network is configured.")
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)
