"""The engine's sentences in a realtime agent's call: by which voice, and when.

A filler is said while the service is silent, or not at all; a question, a re-prompt or a farewell
waits until the service has finished. While the engine speaks, the service's sound waits: they
never talk over each other. `slow_response` decides between the two voices; where one cannot, the
other does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Protocol

import structlog

from cordboard.agent_api.agent import INTERNAL, AgentAudio, AgentEvent, AgentText, AgentTrouble
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import Voice
from cordboard.agents.realtime.engine_voice import spoken
from cordboard.audio.format import AudioFormat
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import VoiceError

log = structlog.get_logger()

POLITE_LIMIT = 6.0
"""Seconds for which a sentence of the engine's waits for the service to finish."""
SERVICE_VOICE_LIMIT = 2.5
"""Seconds within which a service begins a sentence that it has taken; else it will not."""
SERVICE_FILLER_LIMIT = 1.5
"""The same for a filler: by then the caller has waited for long."""
MOST_GIVEN = 8
"""Sentences with the service at a time; older ones it has forgotten."""
VOICE_LIMIT = 8.0
"""Seconds until a text's next sound; beyond that the voice has failed."""


class SpeechHost(Protocol):
    """The rest of the shell, as this sees it."""

    def emit(self, event: AgentEvent) -> None: ...

    def turn_now(self) -> int: ...

    def service_speaks(self) -> bool:
        """Whether the service is in the middle of an answer, and does not falter."""
        ...

    def service_sleeps(self) -> bool:
        """Whether it has been silent for too long to be asked for a sentence."""
        ...

    def thinks_for(self) -> float | None:
        """For how many seconds the service has been thinking; None: a tool is at work, or it has
        stopped in the middle of an answer."""
        ...

    def service_says(self, speech: Speech) -> bool:
        """Have the service say it; False when it cannot."""
        ...

    def service_tells(self, text: str) -> bool:
        """Have the model tell the caller this in its own words; False when it cannot now."""
        ...

    def hold_service(self) -> None: ...

    def release_service(self) -> None: ...

    def spoken(self, speech: Speech) -> None:
        """A sentence is said, or will not be: perhaps nothing is owed any more."""
        ...

    def unsaid(self, speech: Speech, reason: str) -> None:
        """Neither voice could say it."""
        ...


class EngineSpeech:
    """One call's sentences of the engine. Implements `turns.EngineSentences`."""

    def __init__(
        self,
        voice: Voice | None,
        audio_format: AudioFormat,
        settings: RealtimeProvider,
        host: SpeechHost,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._voice = voice
        self._format = audio_format
        self._who = settings.slow_response
        self._thinking = settings.thinking_filler_ms / 1000
        self._host = host
        self._turns_taken = asyncio.Lock()
        self._service_done = asyncio.Event()
        self._service_done.set()
        self._service_speaks = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._needless: set[asyncio.Task[None]] = set()
        """Fillers: dropped when the caller speaks or the answer begins first."""
        self._questions: set[asyncio.Task[None]] = set()
        self._given: list[Speech] = []
        """Sentences that the service was asked to say and has not begun."""
        self._late: Speech | None = None
        """A late answer that the model knows, and has not told the caller yet."""
        self._closed = False
        self._nobody_waits = False
        """The service is gone for good: what is said now is a farewell."""

    def say(self, speech: Speech) -> None:
        """A filler or a continuer, if it fits; a question, until it is settled; anything else must
        be said."""
        match speech.purpose:
            case "filler":
                self._spawn(self._fill(speech), speech, self._needless)
            case "continuer":
                self._encourage(speech)
            case "approval":
                self._spawn(self._say(speech), speech, self._questions)
            case "late answer" if self._host.service_tells(speech.text):
                self._late = speech
            case _:
                self._spawn(self._say(speech), speech)

    def service_refused(self, speech: Speech) -> None:
        """The service will not say it: the engine's own voice does, unless it has already."""
        if not self._take_back(speech):
            return
        if self._voice is not None:
            needless = self._needless if speech.bridges else None
            self._spawn(self._speak(speech, self._voice), speech, needless)
        else:
            self._host.unsaid(speech, "the service refused, and there is no other voice")
            self._host.spoken(speech)

    def _encourage(self, speech: Speech) -> None:
        """Into the caller's pause: now or not at all, and only by the engine."""
        if self._voice is not None and not self._turns_taken.locked():
            self._spawn(self._speak(speech, self._voice), speech, self._needless)
        else:
            speech.drop()
            self._host.spoken(speech)

    def answer_begins(self) -> Speech | None:
        self._service_began()
        late, self._late = self._late, None
        return late

    def begins(self, speech: Speech) -> bool:
        expected = self._take_back(speech)
        if expected:
            self._service_began()
        return expected

    def settled(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            late.drop()

    def connected_again(self) -> None:
        """The new connection's model does not know the late answer: it is said again."""
        late, self._late = self._late, None
        if late is not None:
            self.say(late)

    def _service_began(self) -> None:
        self._service_done.clear()
        self._service_speaks.set()

    def service_stopped(self) -> None:
        """The service has finished, or was cut."""
        self._service_done.set()
        self._service_speaks.clear()

    def service_gone(self) -> None:
        """There will be no answer, so nothing bridges the time until then."""
        self.service_stopped()
        self._nobody_waits = True

    def drop_needless(self) -> None:
        """The caller speaks: no filler any more."""
        _cancel(self._needless)
        for speech in [given for given in self._given if given.bridges]:
            self._given.remove(speech)
            speech.drop()

    def drop_questions(self) -> None:
        """The question is settled."""
        _cancel(self._questions)

    async def said(self) -> None:
        """Until all of that is handed over."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        self._closed = True
        tasks = tuple(self._tasks)
        _cancel(self._tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    # Inside.

    async def _fill(self, speech: Speech) -> None:
        host = self._host
        due = self._who != "off" and await self._thought_for_long()
        busy = self._turns_taken.locked() or host.service_speaks()
        if busy or not due or self._nobody_waits:
            speech.drop()
            host.spoken(speech)
            return
        by_service = self._who == "provider" and not (self._voice and host.service_sleeps())
        await self._by_either_voice(speech, SERVICE_FILLER_LIMIT, by_service=by_service)

    async def _thought_for_long(self) -> bool:
        """A service that only thinks is about to speak: it is given its time. True when that is
        over, or a tool is at work."""
        thinks = self._host.thinks_for()
        if thinks is None:
            return True
        if not self._thinking:
            return False
        try:
            async with asyncio.timeout(max(0.0, self._thinking - thinks)):
                await self._service_speaks.wait()
        except TimeoutError:
            return True
        return False

    async def _say(self, speech: Speech) -> None:
        await self._wait_for_the_service()
        by_service = self._who == "provider" or self._voice is None
        by_service = by_service and speech.purpose != "approval"
        await self._by_either_voice(speech, SERVICE_VOICE_LIMIT, by_service=by_service)

    async def _by_either_voice(self, speech: Speech, seconds: float, *, by_service: bool) -> None:
        """The service has `seconds` to begin; else the engine's own voice speaks."""
        host = self._host
        asked = by_service and self._service_says(speech)
        if asked and await self._service_begins(speech, seconds):
            return
        if self._voice is not None:
            await self._speak(speech, self._voice)
        elif not self._service_says(speech):
            host.unsaid(speech, "there is no voice for it")
            host.spoken(speech)
            if speech.purpose == "late answer" and not speech.over:
                self._late = speech  # for the next connection

    def _service_says(self, speech: Speech) -> bool:
        taken = self._host.service_says(speech)
        if taken:
            self._given.append(speech)
            del self._given[:-MOST_GIVEN]
        return taken

    def _take_back(self, speech: Speech) -> bool:
        """Return whether the service has the sentence and has not begun it; now it has it no
        more."""
        if speech not in self._given:
            return False
        self._given.remove(speech)
        return True

    async def _service_begins(self, speech: Speech, seconds: float) -> bool:
        """False when the service has taken this and does not say it, and the engine can."""
        try:
            async with asyncio.timeout(seconds):
                await self._service_speaks.wait()
        except TimeoutError:
            return self._voice is None or not self._take_back(speech)
        return True

    async def _wait_for_the_service(self) -> None:
        if not self._host.service_speaks():
            return
        try:
            async with asyncio.timeout(POLITE_LIMIT):
                await self._service_done.wait()
        except TimeoutError:
            return

    async def _speak(self, speech: Speech, voice: Voice) -> None:
        host = self._host
        async with self._turns_taken:
            turn = host.turn_now()
            host.hold_service()
            try:
                host.emit(AgentText(turn, speech.text, self._loop.time(), speech))
                async with asyncio.timeout(VOICE_LIMIT) as limit:
                    async for sound in spoken(voice, speech.text, self._format):
                        host.emit(AgentAudio(turn, sound))
                        limit.reschedule(self._loop.time() + VOICE_LIMIT)
            except (VoiceError, TimeoutError) as error:
                host.unsaid(speech, str(error) or "the engine's voice gave no sound")
            finally:
                host.release_service()
                host.spoken(speech)

    def _spawn(
        self,
        work: Coroutine[None, None, None],
        speech: Speech,
        kept: set[asyncio.Task[None]] | None = None,
    ) -> None:
        task = self._loop.create_task(work, name="own-speech")
        for tasks in (self._tasks, *((kept,) if kept is not None else ())):
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        task.add_done_callback(_told(self._host))
        task.add_done_callback(partial(self._ended, speech))

    def _ended(self, speech: Speech, task: asyncio.Task[None]) -> None:
        """A sentence that was given up is not said; when the agent is closed, another agent may."""
        if task.cancelled() and not self._closed:
            speech.drop()


def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tuple(tasks):
        task.cancel()


def _told(host: SpeechHost) -> Callable[[asyncio.Task[None]], None]:
    """A task border: nothing that fails here may end in silence."""

    def finished(task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        log.error("own_speech_failed", exc_info=error)
        host.emit(AgentTrouble(INTERNAL, f"own speech: {error!r}"))

    return finished
