"""A whole call without telephone, models or servers, in virtual time.

    stage = play_call(tmp_path, FakeAgent(script), scenario)
    assert stage.ended.reason == "caller_hangup"

The line and the agent are stand-ins, everything between is real: call, conversation,
desk, toolbox, generation, ledger. After every call `play_call` asserts: line released, media and
agent closed, generation given back, no task left, a whole ledger, nothing for the next engine to
do.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cordboard.agent_api.agent import Agent
from cordboard.audio.format import AudioFormat
from cordboard.calls.binding import bind
from cordboard.calls.call import Call
from cordboard.calls.events import Ended, LedgerEvent
from cordboard.calls.history import CallHistory, LedgerLine, read_lines
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.offer import ResumedCall
from cordboard.calls.open_calls import OpenCalls
from cordboard.calls.outbound_order import CallbackBook
from cordboard.calls.post_call.job import JobTaker
from cordboard.calls.recording.writer import RecordingWriter
from cordboard.calls.resumption import CallSoFar
from cordboard.calls.services import CallServices
from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.observe.metrics import Metrics
from cordboard.speech.answer.listening import Transcribe
from cordboard.tools.catalogue import ToolEntry
from cordboard.tools.tool import (
    Effects,
    Filler,
    JsonObject,
    Limits,
    Tool,
    ToolResult,
    ToolRun,
    ToolSpec,
)
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.virtual_time import virtual_time


class FakeTool:
    """A tool that takes `seconds` and remembers its outcome."""

    def __init__(
        self,
        name: str,
        seconds: float = 0.0,
        effects: Effects = Effects.READ_ONLY,
        filler: Filler = Filler(),  # noqa: B008 - frozen
        limits: Limits = Limits(),  # noqa: B008 - frozen
        approval_question: str = "",
    ) -> None:
        """With an `approval_question` it needs the caller's yes."""
        self._spec = ToolSpec(
            name,
            "python",
            "A tool for tests.",
            {"type": "object", "properties": {"place": {"type": "string"}}},
            origin=f"python:{name}",
            limits=limits,
            filler=filler,
            effects=effects,
            approval="caller" if approval_question else "none",
            approval_question=approval_question,
        )
        self._seconds = seconds
        self.began = 0
        self.finished = 0

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        self.began += 1
        await asyncio.sleep(self._seconds)
        self.finished += 1
        return ToolResult(message=f"It is sunny in {arguments.get('place', 'town')}.")


class FakeGeneration(Generation):
    """A generation with the test's own tools and the built-in ones."""

    def __init__(self, config: Config, tools: Sequence[Tool] = ()) -> None:
        super().__init__(config)
        self._own += tuple(ToolEntry(tool) for tool in tools)
        self._rebuild()


Apology = Callable[[AudioFormat], Awaitable[bytes]]


def stage_config(
    context: Mapping[str, Any] | None = None,
    prices: Mapping[str, Any] | None = None,
    firewall: Mapping[str, Any] | None = None,
    destinations: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
    sales: Mapping[str, Any] | None = None,
    configured: Mapping[str, Any] | None = None,
    outbound: Mapping[str, Any] | None = None,
) -> Config:
    """One context `demo` that greets, with a place to transfer to, whose keys `sales` adds to, and
    `destinations`; `configured` are further tools.

    Silence has no effect: the script may be silent as long as it wants, unless the test changes
    that.
    """
    destination = {"target": "6001", "context": "internal", **(sales or {})}
    calm = {"filler_after_ms": 0, "caller_after_ms": 3_600_000, "agent_after_ms": 3_600_000}
    demo = {
        "greeting": "Good morning.",
        "tools": ["hangup_call", "transfer"],
        "silence": calm,
        **(context or {}),
    }
    return Config.model_validate(
        {
            "contexts": {"demo": demo},
            "prices": prices or {},
            "firewall": firewall or {},
            "tools": {
                "transfer": {"destinations": {"sales": destination, **(destinations or {})}},
                **(configured or {}),
            },
            "privacy": privacy or {},
            "outbound": outbound or {},
        }
    )


class CallStage:
    """One call and its surroundings. Create it inside the running loop."""

    def __init__(
        self,
        directory: Path,
        agent: Agent,
        config: Config,
        tools: Sequence[Tool] = (),
        line: FakeLine | None = None,
        variables: Mapping[str, str] | None = None,
        post_call: JobTaker | None = None,
        apology: Apology | None = None,
        transcribe: Transcribe | None = None,
        callbacks: CallbackBook | None = None,
        resumed: ResumedCall | None = None,
    ) -> None:
        """`post_call` gets the steps after the call; that needs a loop with real time. `apology`:
        the engine's own voice for callers who have no agent. `resumed`: the call of a lost engine
        that goes on here."""
        self.agent = agent
        self.line = line or FakeLine()
        self.generation = FakeGeneration(config, tools)
        self.metrics = Metrics()
        self.vault = config.privacy.encryption.vault
        self.writer = LedgerWriter(OpenCalls(directory), vault=self.vault)
        self.recordings = RecordingWriter(self.metrics.media.recording_dropped, self.vault)
        self.events: list[LedgerEvent] = []
        self._directory = directory
        offer = replace(self.line.offer(variables), resumed=resumed)
        so_far = None
        if resumed is not None:
            so_far = CallSoFar.of(resumed, datetime.datetime.now().astimezone())
        services = CallServices(
            self.writer,
            self.metrics,
            directory,
            lambda _, __, event: self.events.append(event),
            self.recordings,
            apology,
            post_call=post_call,
            callbacks=callbacks,
            redactor=lambda: config.privacy.redact.redactor,
            transcribe=transcribe,
        )
        self.call = Call(offer, bind(offer, config), self.generation, agent, services, so_far)
        self.metrics.calls.started()
        self._run = asyncio.get_running_loop().create_task(self.call.run())

    @property
    def ended(self) -> Ended:
        """The last line of the ledger."""
        return self._run.result()

    @property
    def now(self) -> float:
        """Seconds since the beginning of virtual time."""
        return round(asyncio.get_running_loop().time() - 1000, 3)

    async def over(self) -> None:
        """Wait for the end of the call."""
        await asyncio.wait((self._run,))

    def of(self, kind: type) -> list[Any]:
        """The ledger events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def lines(self) -> list[LedgerLine]:
        """The lines of the ledger's file. The call must be over."""
        self.writer.close()
        self.recordings.close()
        (path,) = self._directory.glob(f"*/{self.call.call_id}.jsonl")
        return read_lines(path, self.vault)

    def history(self) -> CallHistory:
        return CallHistory.from_lines(self.lines())

    def check(self) -> None:
        """Assert that the call has left nothing behind."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"  # noqa: S101
        assert self.line.released >= 1, "the line was not released"  # noqa: S101
        media = self.line.media
        assert media is None or media.closed, "the media was not closed"  # noqa: S101
        assert self.generation.calls == 0, "the generation was not given back"  # noqa: S101
        assert self.call.state == "recorded"  # noqa: S101
        kinds = [line["type"] for line in self.lines()]
        assert kinds[0] == "call.offered", kinds  # noqa: S101
        assert kinds.count("call.ended") == 1, kinds  # noqa: S101
        assert kinds[-1] == "call.ended", kinds  # noqa: S101
        open_calls = list((self._directory / "open").rglob("*.json"))
        assert not open_calls, "the call counts as open"  # noqa: S101


def play_call(
    directory: Path,
    make_agent: Callable[[], Agent],
    scenario: Callable[[CallStage], Awaitable[None]] | None = None,
    *,
    context: Mapping[str, Any] | None = None,
    tools: Sequence[Tool] = (),
    make_line: Callable[[], FakeLine] = FakeLine,
    variables: Mapping[str, str] | None = None,
    prices: Mapping[str, Any] | None = None,
    apology: Apology | None = None,
    firewall: Mapping[str, Any] | None = None,
    destinations: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
    sales: Mapping[str, Any] | None = None,
    transcribe: Transcribe | None = None,
    configured: Mapping[str, Any] | None = None,
    post_call: JobTaker | None = None,
    callbacks: CallbackBook | None = None,
    outbound: Mapping[str, Any] | None = None,
    resumed: ResumedCall | None = None,
) -> CallStage:
    """Play a call to its end while `scenario` acts for the caller and the world."""

    async def run() -> CallStage:
        config = stage_config(
            context, prices, firewall, destinations, privacy, sales, configured, outbound
        )
        stage = CallStage(
            directory,
            make_agent(),
            config,
            tools,
            make_line(),
            variables,
            post_call,
            apology=apology,
            transcribe=transcribe,
            callbacks=callbacks,
            resumed=resumed,
        )
        if scenario is not None:
            await scenario(stage)
        await stage.over()
        stage.check()
        return stage

    with virtual_time() as loop:
        return loop.run_until_complete(run())
