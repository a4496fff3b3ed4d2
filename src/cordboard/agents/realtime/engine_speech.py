"""The engine's sentences in a realtime agent's call: the choice of the voice, and the moment.

A filler is spoken while the service is silent, or not at all; a question, a re-prompt or a farewell
waits until the service has finished. While the engine speaks, the service's sound waits: they never
talk over each other. `slow_response` decides between the two voices; where one cannot speak, the
other does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Protocol

import structlog

from cordboard.agent_api.agent import INTERNAL, AgentAudio, AgentEvent, AgentText, AgentTrouble
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import Voice
from cordboard.audio.format import AudioFormat
from cordboard.audio.g711 import linear_to_alaw, linear_to_ulaw
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import VoiceError

log = structlog.get_logger()

POLITE_LIMIT = 6.0
"""Seconds for which a sentence of the engine waits for the service to finish."""
SERVICE_VOICE_LIMIT = 2.5
"""Seconds within which a service begins a sentence that it has accepted; after that it will not."""
SERVICE_FILLER_LIMIT = 1.5
"""Seconds within which a service begins a filler: after that the caller has waited for long."""
SERVICE_ONLY_LIMIT = 8.0
"""Seconds within which a service begins a sentence that only it can speak."""
MOST_GIVEN = 8
"""Most sentences with the service at a time; it has forgotten older ones."""
VOICE_LIMIT = 8.0
"""Seconds until a text's next sound; beyond that the voice has failed."""


async def spoken(voice: Voice, text: str, audio_format: AudioFormat) -> AsyncIterator[bytes]:
    """Yield the sound of a text in a call's format. Raises `VoiceError`."""
    async for pcm in voice.speak(text, rate=audio_format.rate):
        match audio_format.encoding:
            case "ulaw":
                yield linear_to_ulaw(pcm)
            case "alaw":
                yield linear_to_alaw(pcm)
            case "slin":
                yield pcm


class SpeechHost(Protocol):
    """The part of the shell that `EngineSpeech` uses."""

    def emit(self, event: AgentEvent) -> None: ...

    def turn_now(self) -> int: ...

    def service_speaks(self) -> bool:
        """True if the service is in the middle of an answer and has not stalled."""

    def service_sleeps(self) -> bool:
        """True if the service has been silent for too long to be given a sentence."""

    def thinks_for(self) -> float | None:
        """Return the seconds for which the service has been thinking. None: a tool is running, or
        the service has stopped in the middle of an answer."""

    def service_says(self, speech: Speech) -> bool:
        """Have the service say it; False when it cannot."""

    def service_tells(self, text: str) -> bool:
        """Have the model tell the caller this in its own words; False when it cannot now."""

    def hold_service(self) -> None: ...

    def release_service(self) -> None: ...

    def spoken(self, speech: Speech) -> None:
        """Note that a sentence was spoken or dropped: perhaps nothing is owed any more."""

    def unsaid(self, speech: Speech, reason: str) -> None:
        """Note that neither voice could say it."""


class EngineSpeech:
    """The engine's sentences in one call. Implements `turns.EngineSentences`."""

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
        """Fillers; dropped when the caller speaks or the answer begins first."""
        self._questions: set[asyncio.Task[None]] = set()
        self._given: list[Speech] = []
        """Sentences that the service has accepted and not begun."""
        self._late: Speech | None = None
        """A late answer that the model knows, and has not told the caller yet."""
        self._connections = 0
        """Number of connections before this one."""
        self._closed = False
        self._nobody_waits = False
        """The service is gone for good: the next sentence is a farewell."""

    def say(self, speech: Speech) -> None:
        """Say a filler or a continuer if it fits, and a question until it is settled; all other
        sentences must be spoken."""
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
        """Say it with the engine's own voice, because the service will not, unless that is done."""
        if not self._take_back(speech):
            return
        if self._voice is not None:
            needless = self._needless if speech.bridges else None
            self._spawn(self._speak(speech, self._voice), speech, needless)
        else:
            self._host.unsaid(speech, "the service refused, and there is no other voice")
            self._host.spoken(speech)

    def _encourage(self, speech: Speech) -> None:
        """Say a continuer in the caller's pause, now or not at all, and only with the engine's
        voice."""
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
        """Say the late answer again, and the sentences that the service has accepted and not begun:
        the new connection does not know them."""
        self._connections += 1
        late, self._late = self._late, None
        again = [speech for speech in self._given if not speech.bridges]
        self._given = [speech for speech in self._given if speech.bridges]
        for speech in (*again, *((late,) if late is not None else ())):
            self.say(speech)

    def _service_began(self) -> None:
        self._service_done.clear()
        self._service_speaks.set()

    def service_stopped(self) -> None:
        """Note that the service has finished, or was cut."""
        self._service_done.set()
        self._service_speaks.clear()

    def service_gone(self) -> None:
        """Drop the fillers: no answer will come."""
        self.service_stopped()
        self._nobody_waits = True

    def drop_needless(self) -> None:
        """Drop the fillers: the caller speaks."""
        _cancel(self._needless)
        self._drop_given([speech for speech in self._given if speech.bridges])

    def drop_questions(self) -> None:
        """Drop the questions: they are settled."""
        _cancel(self._questions)
        self._drop_given([speech for speech in self._given if speech.purpose == "approval"])

    async def said(self) -> None:
        """Wait until all sentences are handed over."""
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
        """Give a thinking service time to speak by itself. True when the time is over, or a tool is
        running."""
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
        """Give the service `seconds` to begin, or longer if nothing else can speak; otherwise the
        engine's own voice speaks."""
        host = self._host
        asked = by_service and self._service_says(speech)
        limit = seconds if self._voice is not None else SERVICE_ONLY_LIMIT
        if asked and await self._service_begins(speech, limit):
            return
        if self._voice is not None:
            await self._speak(speech, self._voice)
        elif asked or not self._service_says(speech):
            why = "the service does not begin it" if asked else "there is no voice for it"
            host.unsaid(speech, why)
            host.spoken(speech)
            if speech.purpose == "late answer" and not speech.over:
                self._late = speech  # for the next connection

    def _service_says(self, speech: Speech) -> bool:
        taken = self._host.service_says(speech)
        if taken:
            self._given.append(speech)
            del self._given[:-MOST_GIVEN]
        return taken

    def _drop_given(self, needless: list[Speech]) -> None:
        for speech in needless:
            self._given.remove(speech)
            speech.drop()

    def _take_back(self, speech: Speech) -> bool:
        """Withdraw the sentence from the service. True if the service had it and had not begun
        it."""
        if speech not in self._given:
            return False
        self._given.remove(speech)
        return True

    async def _service_begins(self, speech: Speech, seconds: float) -> bool:
        """False when the service has accepted this but does not begin it."""
        connection = self._connections
        try:
            async with asyncio.timeout(seconds):
                await self._service_speaks.wait()
        except TimeoutError:
            again = connection != self._connections and not speech.bridges
            return again or not self._take_back(speech)  # again: it was given to the next one
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
        """Drop a sentence that was given up, but not because the agent is closed: then another
        agent may speak it."""
        if task.cancelled() and not self._closed:
            speech.drop()


def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tuple(tasks):
        task.cancel()


def _told(host: SpeechHost) -> Callable[[asyncio.Task[None]], None]:
    """Task border: report a failure here, so that it does not end in silence."""

    def finished(task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        log.error("own_speech_failed", exc_info=error)
        host.emit(AgentTrouble(INTERNAL, f"own speech: {error!r}"))

    return finished
