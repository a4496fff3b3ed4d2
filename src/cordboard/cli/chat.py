"""`cordboard chat`: a written conversation with a context and its tools, without a telephone."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    LogLevelOption,
    load_config,
    run_async,
    set_up_log,
)

if TYPE_CHECKING:
    from cordboard.cli.chat_remote import RemoteChat
    from cordboard.cli.chat_screen import ChatPrinter
    from cordboard.config.schema import Config

VARIABLE = "CORDBOARD_TOKEN"


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    context: Annotated[
        str | None, typer.Option(help="The context to write to. Default: `default_context`.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Who answers: a provider of the file, or the model of its brain. "
            "Default: the context's provider."
        ),
    ] = None,
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", help="Send this instead of typing; may be repeated."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Write to a running engine, such as http://127.0.0.1:15000, with the "
            f"token in {VARIABLE}. Default: hold the conversation here."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a JSON line.")] = False,
    log_level: LogLevelOption = "error",
) -> None:
    """Hold a written conversation: the same dialogue, tools and rules as by telephone.

    Type a line for each message; Ctrl-D ends. Tool calls are shown between the sentences. Exit
    status 1 when something failed, or the agent hung up before every message was sent.
    """
    printer = _printer(json=json)
    if url is not None:
        from cordboard.cli.chat_remote import RemoteChat

        chat = RemoteChat(url, os.environ.get(VARIABLE, ""), context, model)
        failed = run_async(_with_engine(chat, message, printer))
    else:
        loaded = load_config(config)
        set_up_log(log_level, loaded)
        chosen = context or str(loaded.config.default_context), model
        failed = run_async(_here(loaded.config, loaded.path.parent, chosen, message, printer))
    if failed:
        raise typer.Exit(1)


def _printer(*, json: bool) -> ChatPrinter:
    from rich.console import Console

    from cordboard.cli.chat_screen import ChatScreen, JsonLines

    if json:
        return JsonLines()
    return ChatScreen(Console(highlight=False, soft_wrap=True))


async def _here(
    config: Config,
    folder: Path,
    chosen: tuple[str, str | None],
    given: list[str] | None,
    printer: ChatPrinter,
) -> bool:
    """`chosen`: context and model."""
    from cordboard.cli.chat_here import chat_here

    context, model = chosen
    async with chat_here(config, folder, context) as sessions:
        session, answer = sessions.begin(context, None, model=model)
        async for event in answer:
            printer.take(event.name, event.data)
        async for message in _messages(given, printer):
            async for event in session.take(message):
                printer.take(event.name, event.data)
        await session.end("completed", "caller_hangup")
    return printer.failed


async def _with_engine(chat: RemoteChat, given: list[str] | None, printer: ChatPrinter) -> bool:
    try:
        _say(chat, None, printer)
        async for message in _messages(given, printer):
            _say(chat, message, printer)
    finally:
        chat.end()
    return printer.failed


def _say(chat: RemoteChat, message: str | None, printer: ChatPrinter) -> None:
    for name, data in chat.say(message):
        printer.take(name, data)


async def _messages(given: list[str] | None, printer: ChatPrinter) -> AsyncIterator[str]:
    """Yield the messages: the given ones, else those that are typed."""
    if given is not None:
        for message in given:
            if printer.over:
                print(f"cordboard: the conversation is over before {message!r}", file=sys.stderr)
                printer.failed = True
                return
            printer.said(message)
            yield message
        return
    from cordboard.cli.chat_screen import TypedLines

    lines, asks = TypedLines(), sys.stdin.isatty()
    while not printer.over:
        if asks:
            _ask()
        line = await lines.next()
        if line is None:
            if asks:
                print(file=sys.stderr)
            break
        if line.strip():
            if not asks:
                printer.said(line)
            yield line


def _ask() -> Any:
    """Print the prompt on standard error, to keep it out of JSON output."""
    print("you          ", end="", file=sys.stderr, flush=True)
