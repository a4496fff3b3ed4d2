"""`cordboard forget` and `cordboard privacy ...`: erase a caller; keys of encrypted calls."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cordboard.cli.calls import vault_of
from cordboard.cli.history import erase_calls
from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption
from cordboard.errors import KeyUnusable

app = typer.Typer(help="Encrypted calls: their keys.", no_args_is_help=True)


def forget(
    number: Annotated[str, typer.Argument(help="The number, exactly as the calls have it.")],
    config: ConfigOption = DEFAULT_CONFIG,
    yes: Annotated[bool, typer.Option("--yes", help="Erase. Default: only say what.")] = False,
    by: Annotated[
        str, typer.Option("--by", help="Who erases, for the certificate. Default: the user.")
    ] = "",
) -> None:
    """Erase all that is kept of a caller, and write a certificate of it.

    Ledgers, recordings, notes, pending steps, keys, and the index; docs/privacy.md says what is out
    of reach.
    """
    erase_calls(config, "", number, yes=yes, by=by)


@app.command("rewrap")
def rewrap(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Encrypt the keys of all calls by `master_key`, after it has replaced another one.

    The other one must be among `old_master_keys`, and can be removed when this was done.
    """
    done = 0
    failed = 0
    for key_id, problem in vault_of(config).rewrap():
        done += not problem
        failed += bool(problem)
        if problem:
            print(f"{key_id}: {problem}", file=sys.stderr)
    print(f"{done} keys are encrypted anew")
    if failed:
        raise KeyUnusable(f"{failed} keys are not: add their master key to old_master_keys")
