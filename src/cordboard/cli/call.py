"""`cordboard call`: place a simulated call, to an engine of its own or to a running one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cordboard import private_files
from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    LogLevelOption,
    load_config,
    require_test_kit,
    run_async,
    set_up_log,
)
from cordboard.errors import CallRefused, CordboardError

if TYPE_CHECKING:
    from cordboard.calls.history import CallHistory
    from cordboard.cli.live import LivePrinter
    from cordboard.config.schema import Config
    from cordboard.history.scenario import Scenario
    from cordboard_testkit.scenario import ScriptLine
    from cordboard_testkit.simulated_call import PlacedCall

Via = Literal["audiosocket", "sip"]


def command(
    context: Annotated[
        str, typer.Option(help="The context to call. Default: the configuration's.")
    ] = "",
    say: Annotated[
        list[str] | None, typer.Option(help="A line of the caller; repeat it for each line.")
    ] = None,
    wav: Annotated[
        list[Path] | None,
        typer.Option(help="A line of the caller as a 16-bit WAV, spoken after the --say lines."),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            help="A scenario made from a recorded call: its lines instead of --say and --wav, with "
            "its interruptions, and its tools are expected."
        ),
    ] = None,
    via: Annotated[
        Via, typer.Option(help="audiosocket: straight to the engine; sip: through Asterisk.")
    ] = "audiosocket",
    target: Annotated[
        str,
        typer.Option(
            help="HOST:PORT of a running engine's AudioSocket (with audiosocket.context); for sip, "
            "of an Asterisk whose extension ctx-CONTEXT leads to the engine. "
            "Default: an engine (and an Asterisk) of its own, on free ports."
        ),
    ] = "",
    json: Annotated[
        bool, typer.Option("--json", help="Print turns and tool calls as one JSON object.")
    ] = False,
    record: Annotated[
        Path | None, typer.Option(help="Write the call as stereo WAV: caller left, agent right.")
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    log_level: LogLevelOption = "error",
) -> None:
    """Place a simulated call: speak each line when the agent has finished, then hang up.

    Turns, tool calls and the difference between a filler and an answer come from the ledger: of the
    command's own engine, or, with --target, of an engine that runs with the same configuration on
    this machine. Without a ledger, a filler is taken for the answer.
    Exit status 0: the call was answered, as was every line, and a scenario's tools were used.
    """
    played, lines = _lines(scenario, say or (), wav or ())
    _check(lines, context, via, target, record)
    require_test_kit()
    loaded = load_config(config)
    set_up_log(log_level, loaded)
    asked = played.context if played and not (target and via == "audiosocket") else ""
    name = context or asked or loaded.config.default_context or next(iter(loaded.config.contexts))
    if target:
        call = _call_running(config, loaded.config, name, lines, via, target, quiet=json)
    else:
        call = call_own(loaded.config, name, lines, via, quiet=json)
    _report(placed := run_async(call), record, as_json=json, from_outside=bool(target))
    if not (all_answered(placed, lines) and same_tools(played, placed.history)):
        raise typer.Exit(1)


def _lines(
    scenario: Path | None, say: Sequence[str], wav: Sequence[Path]
) -> tuple[Scenario | None, Lines]:
    if scenario is None:
        return None, Lines(tuple(say), tuple(wav))
    if say or wav:
        raise typer.BadParameter("--scenario has the lines: leave out --say and --wav")
    from cordboard.history.scenario import read_scenario

    played = read_scenario(scenario)
    return played, Lines.of(played)


def _report(placed: PlacedCall, record: Path | None, *, as_json: bool, from_outside: bool) -> None:
    from cordboard.cli.calls import call_as_json
    from cordboard.cli.screen import print_json

    if record is not None:
        if not record.exists():  # it has voices: for this user alone
            os.close(private_files.create(record))
        placed.line.write_wav(record)
    if as_json:
        print_json(call_as_json(placed.history))
    elif from_outside:
        _print_from_outside(placed)


class Lines:
    """The caller's lines.

    `interrupts`: per text, after how many seconds of the agent's answer before it the caller begins
    to say it; None, and for texts without an entry: at its end.
    """

    def __init__(
        self,
        texts: tuple[str, ...],
        files: tuple[Path, ...],
        interrupts: tuple[float | None, ...] = (),
    ) -> None:
        self.texts = texts
        self.files = files
        self.interrupts = interrupts

    @classmethod
    def of(cls, scenario: Scenario) -> Lines:
        """Return the lines of a scenario."""
        after = (line.interrupts_after_ms for line in scenario.caller)
        seconds = tuple(None if ms is None else ms / 1000 for ms in after)
        return cls(tuple(line.says for line in scenario.caller), (), seconds)

    async def script(self, voice: Any) -> list[ScriptLine]:
        """Return every line with its audio; `voice` speaks the texts. Raises `AudioFileError`."""
        import numpy as np

        from cordboard.audio.wav import read_mono
        from cordboard_testkit.caller_voice import render_script
        from cordboard_testkit.scenario import ScriptLine

        script = await render_script(voice, list(self.texts)) if self.texts else []
        for index, after in enumerate(self.interrupts):
            script[index] = replace(script[index], interrupts_after=after)
        for path in self.files:
            pcm, _ = read_mono(path, 8000)
            script.append(ScriptLine(path.name, np.frombuffer(pcm, "<i2").astype(np.int16)))
        return script


def same_tools(scenario: Scenario | None, history: CallHistory) -> bool:
    """Return True if the agent used the tools of the scenario, if any; print both if not."""
    if scenario is None:
        return True
    used = [use.name for use in history.tools if not use.parent]
    if used == scenario.tools:
        return True
    print(
        f"cordboard: expected the tools {', '.join(scenario.tools) or '(none)'}; "
        f"the agent used {', '.join(used) or '(none)'}",
        file=sys.stderr,
    )
    return False


def _check(lines: Lines, context: str, via: Via, target: str, record: Path | None) -> None:
    """Refuse impossible options, before anything is started."""
    if not lines.texts and not lines.files:
        raise typer.BadParameter("nothing to say: give --say TEXT or --wav FILE")
    if any(not text.strip() for text in lines.texts):
        raise typer.BadParameter("--say without words")
    if record is not None and not record.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {record.parent} to write {record.name} to")
    if target and context and via == "audiosocket":
        raise typer.BadParameter(
            "a running engine chooses the context of an AudioSocket call itself "
            "(audiosocket.context); leave out --context or use --via sip"
        )


def all_answered(placed: PlacedCall, lines: Lines) -> bool:
    """Return True if every line was spoken and answered; print those that were not."""
    unanswered = [e.text for e in placed.record.exchanges if e.answered_at is None]
    for text in unanswered:
        print(f"cordboard: no answer to {text!r}", file=sys.stderr)
    said, count = len(placed.record.exchanges), len(lines.texts) + len(lines.files)
    if said < count:
        print(f"cordboard: the call ended after {said} of {count} lines", file=sys.stderr)
    return not unanswered and said == count


async def call_own(
    config: Config, context: str, lines: Lines, via: Via, *, quiet: bool
) -> PlacedCall:
    """Call an engine of its own, which takes the call however busy the machine is."""
    from cordboard_testkit.simulated_call import bench, voice_of

    printer, folder = _printer(quiet=quiet), config.calls.directory
    async with bench(config, context, via, folder, printer.take, sheds_load=False) as place:
        voice = voice_of(place.engine) if lines.texts else None
        script = await lines.script(voice)
        return await place.place(context, script, on_line=printer.caller_says)


async def _call_running(
    path: Path, config: Config, context: str, lines: Lines, via: Via, target: str, *, quiet: bool
) -> PlacedCall:
    """Call the engine at `target`. Raises `CallRefused` with the reason, as far as it is known."""
    from cordboard_testkit.simulated_call import call_target, loaded_voice

    host, port = _address(target)
    async with loaded_voice(needed=bool(lines.texts)) as voice:
        script = await lines.script(voice)
    before = await asyncio.to_thread(_refusals, path)
    says = _printer(quiet=quiet).caller_says
    try:
        placed = await call_target(config, context, script, via, host, port, says)
        if placed.ledger or placed.record.exchanges:
            return placed
        raise CallRefused("the call was refused; its engine logs the reason (offer_refused)")
    except CallRefused as error:
        why = await asyncio.to_thread(_why_refused, path, before)
        raise CallRefused(f"{error}{why}", error.status) from None


def _refusals(config: Path) -> dict[str, float]:
    """Return how many calls the running engine has refused, by reason: a refused call has no
    ledger, and its line is just closed. Empty if that engine cannot be asked. Blocks."""
    from prometheus_client.parser import text_string_to_metric_families

    from cordboard.cli.running_engine import running_engine

    try:
        page = running_engine(config, os.environ).page("GET", "/metrics")[1]
        families = list(text_string_to_metric_families(page.decode()))
    except (CordboardError, ValueError):
        return {}
    samples = (sample for family in families for sample in family.samples)
    name = "ai_agent_refused_offers_total"
    return {one.labels["reason"]: one.value for one in samples if one.name == name}


def _why_refused(config: Path, before: dict[str, float]) -> str:
    """Return the reason that the running engine gives, to be added to a message; empty without.
    Its port may also be closed: it stops, or has no `audiosocket.context`. Blocks."""
    from cordboard.calls.call_registry import IN_WORDS
    from cordboard.cli.running_engine import READ_SECONDS, running_engine

    after = _refusals(config)
    if reasons := [IN_WORDS[each] for each in after if after[each] > before.get(each, 0)]:
        return f": {'; '.join(reasons)}"
    try:
        engine = running_engine(config, os.environ)
        components = engine.answer("GET", "/ready", READ_SECONDS)[1]["components"]
    except CordboardError:
        return ""
    said = [components[name]["detail"] for name in ("calls", "media")]
    return f"; the engine of {config} says: {'; '.join(filter(None, said))}" if any(said) else ""


def _printer(*, quiet: bool) -> LivePrinter:
    from rich.console import Console

    from cordboard.cli.live import LivePrinter

    return LivePrinter(Console(stderr=quiet, highlight=False, soft_wrap=True))


def _address(target: str) -> tuple[str, int]:
    host, separator, port = target.rpartition(":")
    if not separator or not port.isdigit() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"--target {target!r} is not HOST:PORT")
    return host, int(port)


def _print_from_outside(placed: PlacedCall) -> None:
    """Print the turns, when the engine's ledger is readable; else which lines got an answer.

    No times: those of the caller's side begin at the end of the audio file, not of the words.
    """
    for who, text in placed.history.transcript():
        print(f"{who}: {text}")
    if not placed.ledger:
        for exchange in placed.record.exchanges:
            if exchange.answered_at is not None:
                print(f"answered: {exchange.text!r}")
