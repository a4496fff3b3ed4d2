"""An agent that follows a script, for tests of a call's reaction to its agent.

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "What is the weather?")
        reply = await agent.ask("get_weather", {"place": "Bergen"}, turn=1)
        await agent.speak(1, reply.message)

It implements the door (`cordboard.agent_api.agent`), its audio lasts as long as the words would,
all its times are the event loop's, and it can be made slow, made to fail, or lose its voice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentText,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    ToolAsked,
    ToolCancelled,
)
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import Voice
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import JsonObject, ToolAsk, ToolReply
from cordboard_testkit.fake_pipeline import MS_PER_WORD

ENDPOINT, RECOGNISER, VOICE = 0.5, 0.1, 0.05
"""Seconds of silence before a turn is over, of recognition, and until a sentence has audio."""

Script = Callable[["FakeAgent"], Awaitable[None]]


class FakeAgent:
    """Implements `cordboard.agent_api.agent.Agent`. Speaks the greeting, then follows the
    script."""

    def __init__(self, script: Script | None = None) -> None:
        self._script = script
        self._voice = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asks: dict[str, asyncio.Future[ToolReply]] = {}
        self.start_seconds = 0.0
        self.start_error: Exception | None = None
        self.close_seconds = 0.0
        self.close_error: BaseException | None = None
        self._turn = 0
        self.mute = False
        """Its voice is broken: every `say` ends in `AgentFailed`."""
        self.session: AgentSession | None = None
        self.heard = bytearray()
        self.keys: list[str] = []
        self.said: list[str] = []
        """Sentences that the call requested by `say`."""
        self.late: list[Speech] = []
        self.notes: list[str] = []
        self.voice: Voice | None = None
        """Its voice apart from the conversation."""
        self.aside: Callable[[str], None] | None = None
        self.interruptions: list[str] = []
        self.replies: list[ToolReply] = []
        self.closed = False
        self.problem: BaseException | None = None
        """The error of the script."""

    # cordboard.agent_api.agent.Agent

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_8K,)

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS

    def own_voice(self) -> Voice | None:
        """See `HasVoice`."""
        return self.voice

    async def prepare(self) -> None:
        self.prepared = True

    async def start(self, session: AgentSession) -> None:
        self.session = session
        await asyncio.sleep(self.start_seconds)
        if self.start_error is not None:
            raise self.start_error
        self.spawn(self._follow())

    def hear(self, pcm: bytes) -> None:
        self.heard += pcm

    def hear_key(self, key: str) -> None:
        self.keys.append(key)

    def answer_tool(self, reply: ToolReply) -> None:
        self.replies.append(reply)
        self._asks.pop(reply.ask_id).set_result(reply)

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        self.interruptions.append(heard)

    def recover(self, reason: str) -> bool:
        return False

    def say(self, speech: Speech) -> None:
        if speech.purpose == "late answer":
            self.late.append(speech)
        else:
            self.said.append(speech.text)
        if self.mute:
            self.emit(AgentFailed("the voice is broken"))
        else:
            self.spawn(self.speak(self._turn, speech))

    def take_note(self, text: str) -> bool:
        self.notes.append(text)
        return True

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        self.aside = take

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(self.close_seconds)
        self.closed = True
        if self.close_error is not None:
            raise self.close_error

    # Actions of a script.

    def emit(self, event: AgentEvent) -> None:
        assert self.session is not None  # noqa: S101 - a script runs after `start`
        if isinstance(event, CallerStopped):
            self._turn = event.turn
        self.session.emit(event)

    async def caller_says(self, turn: int, text: str, ms: int = 1000) -> None:
        """Report a turn of the caller, in real duration."""
        time = asyncio.get_running_loop().time
        began = time()
        self.emit(CallerStarted(began))
        await asyncio.sleep(ms / 1000 + ENDPOINT)
        self.emit(CallerStopped(turn, began + ms / 1000, time()))
        await asyncio.sleep(RECOGNISER)
        self.emit(CallerText(turn, text, time(), 0.9))
        if self.aside is not None:
            self.aside(text)

    async def speak(self, turn: int, *sentences: str | Speech, done: bool = True) -> None:
        """Emit an answer or a sentence of the engine: each at once, long before the caller has
        heard it."""
        self._turn = max(turn, self._turn)
        for sentence in sentences:
            speech = sentence if isinstance(sentence, Speech) else None
            text = sentence.text if isinstance(sentence, Speech) else sentence
            async with self._voice:  # sentences never mix
                self.emit(AgentText(turn, text, asyncio.get_running_loop().time(), speech))
                await asyncio.sleep(VOICE)
                self.emit(AgentAudio(turn, b"\x01\x01" * (8 * MS_PER_WORD * len(text.split()))))
        if done:
            self.emit(AgentAudioDone(turn))

    def begin_ask(
        self, name: str, arguments: JsonObject, turn: int = 1
    ) -> tuple[str, asyncio.Future[ToolReply]]:
        """Request a tool; returns the id of the call and a future of its answer."""
        ask_id = f"{turn}.{len(self._asks) + len(self.replies) + 1}"
        answer = self._asks[ask_id] = asyncio.get_running_loop().create_future()
        self.emit(ToolAsked(ToolAsk(ask_id, name, arguments, turn)))
        return ask_id, answer

    async def ask(self, name: str, arguments: JsonObject, turn: int = 1) -> ToolReply:
        """Request a tool and wait for the answer."""
        return await self.begin_ask(name, arguments, turn)[1]

    def cancel_ask(self, ask_id: str) -> None:
        """Cancel the tool call."""
        self.emit(ToolCancelled(ask_id))

    def interrupt(self) -> None:
        """Report that the caller speaks over the agent."""
        self.emit(Interrupted(asyncio.get_running_loop().time()))

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run a task beside the script."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.problem = error

    async def _follow(self) -> None:
        assert self.session is not None  # noqa: S101 - `start` has set it
        if self.session.greeting:
            await self.speak(0, *(self.session.opening or (self.session.greeting,)))
        if self._script is not None:
            await self._script(self)
