"""A written conversation on a terminal, or as JSON lines, for conversations here or with a running
engine. Texts of agents and tools come from outside: they must not steer the terminal.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import orjson
from rich.console import Console
from rich.markup import escape

from cordboard.mcp.printable import printable

_LONGEST = 10_000
PROMPT = "[bold blue]you[/]          "


class ChatPrinter(Protocol):
    """Shows the events of a conversation (`cordboard.chat.answer`)."""

    failed: bool
    """True if there was an `error` among them."""
    over: bool
    """True if the last of them ended the conversation."""

    def said(self, message: str) -> None:
        """Show a message that was sent without being typed."""

    def take(self, name: str, data: Mapping[str, Any]) -> None: ...


class JsonLines:
    """Each event as one line: `{"event": "token", ...}`."""

    def __init__(self) -> None:
        self.failed = self.over = False

    def said(self, message: str) -> None:
        """Do nothing: a sent message is not an event."""

    def take(self, name: str, data: Mapping[str, Any]) -> None:
        self.failed |= name == "error"
        self.over = name == "done" and data["state"] == "ended"
        print(orjson.dumps({"event": name, **data}).decode(), flush=True)


class ChatScreen:
    """One line for each event; the pieces of an answer share a line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: int | None = None
        """The turn whose answer is being printed."""
        self.failed = self.over = False

    def said(self, message: str) -> None:
        self._console.print(f"{PROMPT}{_plain(message)}")

    def take(self, name: str, data: Mapping[str, Any]) -> None:
        if name == "token":
            self._token(data["turn"], data["text"])
            return
        self._close()
        self.failed |= name == "error"
        self.over = name == "done" and data["state"] == "ended"
        if line := self._line(name, data):
            self._console.print(line)

    def _token(self, turn: int, text: str) -> None:
        if self._open != turn:
            self._close()
            self._console.print("[green]agent[/]        ", end="")
            text = text.lstrip()
        self._open = turn
        self._console.print(_plain(text), end="")

    def _close(self) -> None:
        if self._open is not None:
            self._open = None
            self._console.print()

    def _line(self, name: str, data: Mapping[str, Any]) -> str:
        match name:
            case "tool_call":
                arguments = _plain(orjson.dumps(data["arguments"]).decode())
                return f"[yellow]tool asked[/]   {_plain(data['name'])} {arguments}"
            case "tool_result":
                cut = "".join(f"; cut: {_plain(part)}" for part in data["cut"])
                source = f", {data['source']}" if data["source"] != "run" else ""
                return (
                    f"[yellow]tool answer[/]  {data['status']} after {data['took_ms']} ms"
                    f"{source}{cut}{_why(data)}"
                )
            case "filler":
                return f"[magenta]meanwhile[/]    {_plain(data['text'])}"
            case "approval":
                return f"[green]agent asks[/]   {_plain(data['question'])} [dim](yes or no)[/]"
            case "error":
                return f"[red]error[/]        {_plain(data['code'])}: {_plain(data['message'])}"
            case "session":
                return _session(data)
            case "done" if data["state"] == "ended":
                return f"[dim]the conversation is over ({_plain(data['reason'])})[/]"
        return ""


def _session(data: Mapping[str, Any]) -> str:
    """Return what the writer should know of the conversation that begins."""
    lines = []
    if data.get("notice"):
        lines.append(f"[yellow]notice[/]       {_plain(data['notice'])}")
    if missing := data.get("missing_tools"):
        lines.append(f"[red]not there[/]    {_plain(', '.join(missing))}")
    return "\n".join(lines)


def _why(data: Mapping[str, Any]) -> str:
    """Return the reason why a tool failed."""
    return "" if data["status"] == "ok" else f": {_plain(data['message'])}"


def _plain(text: object) -> str:
    return escape(printable(str(text), _LONGEST))


class TypedLines:
    """Reader of standard input, line by line."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._over = False

    async def next(self) -> str | None:
        """Return the next line without its end; None at the end of input."""
        try:
            descriptor = sys.stdin.fileno()
        except (io.UnsupportedOperation, ValueError, AttributeError):
            return self._from_text()
        while b"\n" not in self._rest and not self._over:
            await self._readable(descriptor)
            more = os.read(descriptor, 65_536)
            self._rest += more
            self._over = not more
        if not self._rest:
            return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _from_text(self) -> str | None:
        line = sys.stdin.readline() if sys.stdin is not None else ""
        return line.rstrip("\r\n") if line else None

    async def _readable(self, descriptor: int) -> None:
        """Wait for a terminal or a pipe; a file is readable at once, and no loop can watch it."""
        ready = asyncio.Event()
        try:
            self._loop.add_reader(descriptor, ready.set)
        except (PermissionError, NotImplementedError):
            return
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(descriptor)
