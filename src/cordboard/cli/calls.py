"""`cordboard calls ...`: the calls on record, read from their ledgers. Needs no running engine."""

from __future__ import annotations

import glob
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, text_at
from cordboard.errors import KeyUnusable, NotThere

if TYPE_CHECKING:
    from cordboard.calls.history import CallHistory, LedgerLine
    from cordboard.privacy.sealed_file import Vault

app = typer.Typer(help="Calls on record: list, show, draw.", no_args_is_help=True)

CallArgument = Annotated[
    str, typer.Argument(metavar="CALL", help="An id, its beginning, or the path of a ledger.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NOT_ENDED = "not ended"
"""Outcome of a call that is running, or whose engine was killed."""


@app.command("list")
def list_calls(
    config: ConfigOption = DEFAULT_CONFIG,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    json: JsonOption = False,
) -> None:
    """List the last calls of `calls.directory`, the newest first. Written conversations too."""
    from cordboard.cli.screen import calls_table, print_json, terminal

    rows = [_row(history) for history in _newest(calls_directory(config), limit, vault_of(config))]
    if json:
        print_json(rows)
    else:
        terminal().print(calls_table(rows))


@app.command("show")
def show(
    call: CallArgument, config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False
) -> None:
    """Show one call: the conversation, tools and waits, as the demo shows its call."""
    from rich.console import Console

    from cordboard.calls.events import event_of
    from cordboard.cli.live import LivePrinter, latency_table
    from cordboard.cli.screen import calls_table, print_json, terminal

    _, lines, history = _ledger(call, config)
    if json:
        print_json(call_as_json(history))
        return
    terminal().print(calls_table([_row(history)]))
    print()
    console = Console(highlight=False, soft_wrap=True, width=max(110, Console().width))
    printer = LivePrinter(console)
    for line in lines:
        event = event_of(line)
        if event is not None:
            printer.take(history.call_id, int(line["at_ms"]), event)
    printer.finish()
    if any(turn.latency for turn in history.caller_turns):
        print()
        console.print(latency_table(history))


@app.command("draw")
def draw_call(
    call: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The picture. Default: CALL.svg, here.")
    ] = None,
) -> None:
    """Draw one call as an SVG picture: both voices, tools, and each wait stage by stage.

    The voices are those of the recording. Without one, blocks show who spoke when.
    """
    from cordboard import private_files
    from cordboard.calls.picture import draw, who_spoke
    from cordboard.history.call_record import recording_of, voices

    path, _, history = _ledger(call, config)
    sound = recording_of(path, history.recording)
    recorded = voices(sound, history.recording, _vault_for(path, config))
    caller, agent, offset_ms = recorded or (*who_spoke(history), 0.0)
    target = output or Path(f"{path.stem}.svg")
    try:
        private_files.replace(target, draw(history, caller, agent, offset_ms).encode("utf-8"))
    except OSError as error:
        raise NotThere(f"{target} cannot be written: {error.strerror or error}") from None
    how = "with its recording" if recorded else "not recorded: blocks show who spoke"
    print(f"{target} ({how})")


@app.command("bundle")
def bundle_call(
    call: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file. Default: CALL.zip, here.")
    ] = None,
    sound: Annotated[bool, typer.Option(help="With the recording.")] = True,
) -> None:
    """Put one call into a ZIP file: ledger, picture, recording, change of configuration.

    It has all that was said. Secrets of the configuration are left out.
    """
    import os

    from cordboard import private_files
    from cordboard.cli.config import versions_of
    from cordboard.config.load import ConfigSource
    from cordboard.history.bundle import bundle
    from cordboard.history.call_record import CallOnDisk

    path, _, _ = _ledger(call, config)
    directory = path.parent.parent
    name = str(path.relative_to(directory))
    found = CallOnDisk.read(directory, name, _vault_for(path, config))
    configured = versions_of(config, None), ConfigSource(config, os.environ)
    target = output or Path(f"{path.stem}.zip")
    pieces = bundle(directory, found, configured, personal=True, sound=sound)
    try:
        target.parent.stat()  # it is not created
        target.unlink(missing_ok=True)
        with open(private_files.create(target), "wb") as file:  # noqa: PTH123 - a descriptor
            file.writelines(pieces)
    except OSError as error:
        raise NotThere(f"{target} cannot be written: {error.strerror or error}") from None
    print(target)


def call_as_json(history: CallHistory) -> dict[str, Any]:
    """Return the turns and tool calls of a call as JSON values."""
    import dataclasses

    return {
        "call_id": history.call_id,
        "context": history.context,
        "provider": history.provider,
        "outcome": history.outcome,
        "reason": history.reason,
        "turns": [dataclasses.asdict(turn) for _, turn in sorted(history.turns.items())],
        "tools": [dataclasses.asdict(use) for use in history.tools],
        "troubles": history.troubles,
    }


def _row(history: CallHistory) -> dict[str, Any]:
    return {
        "call_id": history.call_id,
        "started_at": history.started_at,
        "source": history.source,
        "caller_number": history.caller_number,
        "context": history.context,
        "provider": history.provider,
        "duration_ms": history.ended_ms,
        "turns": len(history.caller_turns),
        "outcome": history.outcome or NOT_ENDED,
        "reason": history.reason,
    }


def calls_directory(config: Path) -> Path:
    """Return `calls.directory`. Raises `ConfigError`."""
    from cordboard.config.schema import Calls

    text = text_at(config, ("calls", "directory"))
    return Calls().directory if text is None else Path(text)


def vault_of(config: Path) -> Vault:
    """Return the reader of calls, encrypted ones too if `privacy.encryption` has a master key;
    without one it deletes their keys. Raises `ConfigError`, and `NotThere` for a master key that is
    none."""
    from cordboard.config.sections.privacy import Encryption
    from cordboard.privacy.master_key import CallKeys, decode_key
    from cordboard.privacy.sealed_file import Vault

    section = ("privacy", "encryption")
    texts = [text_at(config, (*section, "master_key"))]
    while (text := text_at(config, (*section, "old_master_keys", len(texts) - 1))) is not None:
        texts.append(text)
    try:
        master, *old = (decode_key(text) if text is not None else None for text in texts)
    except ValueError as error:
        raise NotThere(f"{config}: privacy.encryption: {error}") from None
    folder = text_at(config, (*section, "keys_directory")) or Encryption().keys_directory
    return Vault(CallKeys(Path(folder), master, tuple(filter(None, old))))


def _vault_for(path: Path, config: Path) -> Vault:
    """Return the reader of one file: the configuration is needed only if it is encrypted."""
    from cordboard.privacy.sealed_file import PLAIN, head_in

    return PLAIN if head_in(path) is None else vault_of(config)


def _newest(directory: Path, limit: int, vault: Vault) -> Iterator[CallHistory]:
    """Yield the last calls, the newest first: of each day the files that were written last."""
    if not directory.is_dir():
        raise NotThere(f"no call is on record: there is no folder {directory} (calls.directory)")
    for day in sorted(directory.glob("????-??-??"), reverse=True):
        files = sorted(day.glob("*.jsonl"), key=_written_at, reverse=True)
        ledgers = (ledger[1] for path in files if (ledger := _read(path, vault)) is not None)
        found = list(itertools.islice(ledgers, limit))
        yield from sorted(found, key=lambda history: history.started_at, reverse=True)
        limit -= len(found)
        if limit == 0:
            return


def _written_at(path: Path) -> float:
    """Return the time of the last line; 0 for a file that is deleted meanwhile."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path, vault: Vault) -> tuple[list[LedgerLine], CallHistory] | None:
    """Return the lines and the history in a ledger; None if the file is something else, lacks
    fields, or is deleted meanwhile."""
    from cordboard.calls.history import CallHistory, read_lines

    try:
        lines = read_lines(path, vault)
        history = CallHistory.from_lines(lines)
    except KeyUnusable as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None
    except (OSError, KeyError, TypeError):
        return None
    return (lines, history) if lines and lines[0]["type"] == "call.offered" else None


def _ledger(call: str, config: Path) -> tuple[Path, list[LedgerLine], CallHistory]:
    """Return path, lines and history of a call, by its path or id. Raises `NotThere`."""
    path = Path(call) if "/" in call or call.endswith(".jsonl") else _by_id(call, config)
    if not path.is_file():
        raise NotThere(f"there is no file {path}")
    ledger = _read(path, _vault_for(path, config))
    if ledger is None:
        raise NotThere(f"{path} is not the ledger of a call")
    return path, *ledger


def _by_id(call: str, config: Path) -> Path:
    from cordboard.calls.history import find

    directory = calls_directory(config)
    exactly = find(directory, call)
    if exactly is not None:
        return exactly
    begun = sorted(directory.glob(f"????-??-??/{glob.escape(call)}*.jsonl"))
    if not begun:
        raise NotThere(f"there is no call {call} in {directory}; see `cordboard calls list`")
    if len(begun) > 1:
        known = ", ".join(path.stem for path in begun[:5])
        raise NotThere(f"{len(begun)} calls begin with {call}: {known}")
    return begun[0]
