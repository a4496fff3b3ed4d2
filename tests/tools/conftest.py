from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from cordboard.tools.call_line import KeysCollected, KeysWanted, TransferResult
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk, SilentObserver
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import JsonObject, ToolAsk, ToolReply, ToolResult, ToolRun, ToolSpec

ANY = {"type": "object"}


@dataclass
class Line:
    """A CallLine that remembers what it was told."""

    call_id: str = "call-1"
    context_name: str = "demo"
    provider_name: str = "local"
    variables: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    transfers: list[str] = field(default_factory=list)
    transfer_error: Exception | None = None
    transfer_result: TransferResult = field(default_factory=lambda: TransferResult("accepted"))
    reasons: list[str] = field(default_factory=list)
    collected: KeysCollected | None = None
    wanted: list[KeysWanted] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    sent_keys: str = ""
    keys_error: Exception | None = None
    recorded: bool = False
    recording: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    confirmed: bool | None = True
    confirming: Callable[[str], Awaitable[bool | None]] | None = None
    secret_keys: dict[str, str] = field(default_factory=dict)

    def end_after_speech(self, reason: str) -> None:
        self.ended.append(reason)

    async def transfer_after_speech(self, destination: str, reason: str = "") -> TransferResult:
        self.transfers.append(destination)
        self.reasons.append(reason)
        if self.transfer_error is not None:
            raise self.transfer_error
        return self.transfer_result

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        self.wanted.append(wanted)
        assert self.collected is not None
        return self.collected

    def check_may_ask(self, *, secret: bool = False) -> None:
        pass

    def reveal(self, reference: str) -> str | None:
        return self.secret_keys.get(reference)

    async def send_keys(self, keys: str) -> None:
        if self.keys_error is not None:
            raise self.keys_error
        self.sent_keys += keys

    def say(self, text: str) -> None:
        self.said.append(text)

    def pause_recording(self) -> bool:
        self.recording.append("pause")
        return self.recorded

    def resume_recording(self) -> bool:
        self.recording.append("resume")
        return self.recorded

    async def confirm(self, question: str) -> bool | None:
        self.questions.append(question)
        return self.confirmed if self.confirming is None else await self.confirming(question)


@dataclass
class Journal(SilentObserver):
    """A DeskObserver that remembers."""

    asks: list[tuple[str, bool]] = field(default_factory=list)
    fillers: list[str] = field(default_factory=list)
    replies: list[ToolReply] = field(default_factory=list)
    late_replies: list[ToolReply] = field(default_factory=list)
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        self.asks.append((ask.name, spec is not None))

    def filler(self, ask: ToolAsk, text: str) -> None:
        self.fillers.append(text)
        self.filled.set()

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        self.replies.append(reply)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        self.late_replies.append(reply)


Body = Callable[[JsonObject], Awaitable[ToolResult]]


class Probe:
    """A tool whose work is a function, and which counts its runs."""

    def __init__(self, name: str = "probe", body: Body | None = None, **spec: Any) -> None:
        settings = {"parameters": ANY, "origin": f"python:{name}", "kind": "python"} | spec
        self._spec = ToolSpec(name=name, description=name, **settings)
        self._body = body
        self.runs = 0
        self.cancelled = 0

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        self.runs += 1
        try:
            return await self._body(arguments) if self._body else ToolResult(data=arguments)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def desk(
    *tools: Any,
    journal: Journal | None = None,
    line: Line | None = None,
    payload: PayloadLimits = DEFAULT_LIMITS,
) -> Desk:
    """A desk over a toolbox of all given tools."""
    catalogue = Catalogue(ToolEntry(tool) for tool in tools)
    assert catalogue.problems == ()
    toolbox = catalogue.toolbox(catalogue)
    return Desk(toolbox, line or Line(), journal, payload=lambda: payload)


def ask(name: str = "probe", number: int = 1, turn: int = 1, **arguments: Any) -> ToolAsk:
    return ToolAsk(f"ask-{number}", name, arguments, turn)
