"""`cordboard import ava`: writes the configuration of another system as ours."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import typer

from cordboard.errors import CordboardError

app = typer.Typer(help="Import the configuration of another system.", no_args_is_help=True)


@app.callback()
def _of_several() -> None:
    """Keep `ava` a command of its own though it is the only one."""


@app.command("ava")
def ava(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="AVA's folder, or one YAML file of it.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write.", show_default=True)
    ] = Path("ai-agent.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write an installation of AVA (v6, v7) as ai-agent.yaml, and print what has no counterpart.

    AVA's files are only read, and values of its .env are not kept. Exit status 1 when the file
    needs a human; its lines are named.
    """
    from cordboard.importing.ava import dialplan_of, import_ava
    from cordboard.importing.ava_files import read_installation
    from cordboard.importing.document import mend

    if output.exists() and not force:
        raise CordboardError(f"{output} is there already; name another by --output, or --force")
    found = read_installation(folder)
    result = import_ava(found)
    heading = "Imported from AVA by `cordboard import ava`. Every key: docs/configuration/."
    written = mend(result, output, heading)
    _write(output, written.text, replace=force)
    print(f"{output} is written, from {', '.join(map(str, found.sources))}")
    _print_list("Taken over", result.taken)
    _print_list("Changed", map(": ".join, result.changed))
    _print_list("No counterpart", map(": ".join, result.left))
    names = found.variables
    needs = [f"{n}{_where(n, names)}" for n in written.variables]
    _print_list("Environment variables that it needs", needs)
    defaults = [f"{n} (default {value})" for n, value in written.defaults.items()]
    _print_list("Environment variables with a default", defaults)
    print(f"\nDialplan:\n\n{dialplan_of(result.tree)}")
    if written.problems:
        for problem in written.problems:
            print(_shown(str(problem)), file=sys.stderr)
        print(f"cordboard: {output} needs a human at these lines", file=sys.stderr)
        raise typer.Exit(1)
    print(f"Next: cordboard check -c {output}")


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Write the file for its owner only: AVA's files may hold secrets in the clear."""
    from cordboard.private_files import create
    from cordboard.private_files import replace as replaced

    try:
        if replace:
            replaced(path, text.encode())
        else:
            with open(create(path), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(text.encode())
    except OSError as error:
        raise CordboardError(f"{path} cannot be written: {error.strerror or error}") from None


def _where(name: str, known: Collection[str]) -> str:
    """`name`: a variable, or several with `or` between them."""
    return "" if not known or {*name.split(" or ")} & {*known} else " (not in AVA's .env)"


def _print_list(title: str, lines: Iterable[str]) -> None:
    lines = list(dict.fromkeys(lines))
    if lines:
        print(f"\n{title}:")
        print("\n".join(f"  {_shown(line)}" for line in lines))


def _shown(line: str) -> str:
    """Return one line that cannot steer a terminal: names and texts are another system's."""
    return "".join(c if c.isprintable() else " " for c in line)
