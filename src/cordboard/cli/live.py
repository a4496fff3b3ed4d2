"""Printer of a call as it happens: words, tools, times; and the table of waits at its end."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cordboard.calls import events
from cordboard.calls.history import CallHistory
from cordboard.mcp.printable import printable


class LivePrinter:
    """A listener of ledger events that writes to a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._answering: int | None = None
        """The turn whose answer is being printed on the open line."""
        self._wait = ""
        """The caller's wait for it; printed below it."""

    def caller_says(self, text: str) -> None:
        """Print the line of the script that the caller begins."""
        self.finish()
        self._console.print(f"          [bold blue]caller says[/]  {_plain(text)}")

    def take(self, call_id: str, at_ms: int, event: events.LedgerEvent) -> None:
        """Print an event if people want to see it; an answer's sentences share one line."""
        if isinstance(event, events.Answering) and event.turn == self._answering:
            self._console.print(f" {_plain(event.text)}", end="")
            return
        line = self._line(event)
        if not line:
            return
        line = f"[dim]{at_ms / 1000:7.2f} s[/] {line}"
        if isinstance(event, events.Latency) and self._answering == event.turn:
            self._wait = line
            return
        self.finish()
        if isinstance(event, events.Answering):
            self._answering = event.turn
        self._console.print(line, end="" if self._answering is not None else "\n")

    def finish(self) -> None:
        """End the open line."""
        if self._answering is not None:
            self._answering = None
            self._console.print()
        if self._wait:
            self._console.print(self._wait)
            self._wait = ""

    def _line(self, event: events.LedgerEvent) -> str:
        match event:
            case events.Offered(call_id=call_id, source=source):
                return f"call {_plain(call_id)} from {_plain(source)}"
            case events.Heard(text=text, understood=understood):
                meant = f" [dim](understood: {_plain(understood)})[/]" if understood else ""
                return f"[blue]heard[/]        {_plain(text) if text else '(nothing)'}{meant}"
            case events.Answering(text=text):
                return f"[green]agent[/]        {_plain(text)}"
            case events.ToolCalled(name=name, arguments=arguments):
                return f"[yellow]tool asked[/]   {_plain(name)} {_plain(str(arguments))}"
            case events.ToolAnswered(status=status, took_ms=took):
                return f"[yellow]tool answer[/]  {_plain(status)} after {took} ms"
            case events.ToolApproval(question=question, answer=answer, by=by):
                how = f" [dim]by {by}[/]" if by else ""
                return f"[yellow]caller asked[/] {_plain(question)} [bold]{answer}[/]{how}"
            case events.ToolLate(name=name, message=message, told=told):
                what = "told" if told else "not told any more"
                return f"[yellow]late answer[/]  {_plain(name)}, {what}: {_plain(message)}"
            case events.Transferred(destination=destination, ok=ok, error=error):
                return f"transfer to {_plain(destination)}: {'done' if ok else _plain(error)}"
            case events.Trouble(where=where, message=message):
                return f"[red]trouble[/]      {_plain(where)}: {_plain(message)}"
            case events.Ended(outcome=outcome, reason=reason):
                return f"call ended: {_plain(outcome)} ({_plain(reason)})"
        return self._timing(event)

    def _timing(self, event: events.LedgerEvent) -> str:
        """Return the line for waits, silences, and voices over each other."""
        match event:
            case events.Latency(total_ms=total, filler=filler):
                what = "[magenta]filler[/]      " if filler else "[magenta]answered[/]    "
                return f"{what} {total} ms after the caller's last sound"
            case events.Answered(answer_ms=answer):
                return f"[magenta]answered[/]     {answer} ms after the caller's last sound"
            case events.Resumed(why=why, held_ms=held):
                return f"[dim]held[/]         {held} ms, for a voice: {_plain(why)}"
            case events.BargedIn(heard=heard, reaction_ms=reaction):
                within = f" ({reaction} ms from the caller's first sound)" if reaction else ""
                return f"[red]interrupted[/]  after “{_plain(heard)}”{within}"
            case events.CutOff(heard=heard):
                return f"[red]cut off[/]      after “{_plain(heard)}”: the call ended"
            case events.Silence(kind=kind, silent_ms=silent):
                return f"[magenta]silence[/]      of {silent} ms: {kind}"
        return ""


_LONGEST = 10_000
"""Characters of a text."""


def _plain(text: str) -> str:
    """Return a text from outside that neither steers the terminal nor is taken for markup."""
    return escape(printable(text, _LONGEST))


_STAGES = ("noticed", "end of turn", "recogniser", "brain+tools", "voice", "wire", "total")
"""Stages from the caller's last sample on: the silence is noticed, the turn ends, ..."""


def latency_table(history: CallHistory) -> Table:
    """Return the caller's wait in each turn, by stage."""
    table = Table(title="From the caller's last sound to the agent's first, in ms")
    table.add_column("turn", justify="right", no_wrap=True, min_width=4)
    table.add_column("caller", no_wrap=True, overflow="ellipsis", max_width=36)
    for name in _STAGES:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for turn in history.caller_turns:
        waits = turn.latency
        if waits:
            noticed = waits.get("vad_ms", 0)
            cells = [noticed, waits["endpoint_ms"] - noticed]
            cells += [waits[key] for key in ("stt_ms", "brain_ms", "tts_ms", "wire_ms")]
            total = f"{waits['total_ms']}{' (filler)' if turn.filled else ''}"
            table.add_row(str(turn.number), _plain(turn.heard), *map(str, cells), total)
    return table
