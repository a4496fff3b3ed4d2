"""Stand-ins for the parts of a pipeline, for tests of their interaction.

They need no models and implement the doors: a voice activity model that judges loudness, a
recogniser that returns scripted texts, a brain that answers from a function, a voice whose audio
lasts as long as the words would. All times are the event loop's, so they work in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cordboard.agent_api.dialogue import DialogueSession, Doubt
from cordboard.agent_api.stt import NO_HINTS, Hypothesis, SpeechHints, Transcript
from cordboard.tools.payload import DEFAULT_LIMITS

MS_PER_WORD = 300
SPEECH_LEVEL = 8000


def silence(ms: int) -> bytes:
    """Digital silence at 8 kHz."""
    return bytes(16 * ms)


def speech(ms: int) -> bytes:
    """A loud 250 Hz tone at 8 kHz, which `LoudnessModel` takes for a voice."""
    time = np.arange(8 * ms) / 8000
    return (np.sin(2 * np.pi * 250 * time) * SPEECH_LEVEL).astype("<i2").tobytes()


class LoudnessModel:
    """Judges a window by its loudness."""

    def judge(
        self, windows: NDArray[np.float32], states: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        loud = np.abs(windows).mean(axis=1) > 0.02
        return loud.astype(np.float32), states


class InlineExecutor(Executor):
    """Runs the work at once, in the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class ScriptedRecogniser:
    """Returns the next text of the script; a dropped draft is returned again."""

    def __init__(
        self,
        texts: Iterable[str | Exception],
        seconds: float = 0.1,
        again: Sequence[str | Exception] = (),
    ) -> None:
        """`again`: the results of second hearings; without it, it cannot listen again."""
        self._texts = list(texts)
        self._seconds = seconds
        self._again = list(again)
        self.requests: list[tuple[int, bool]] = []
        """(ms of sound, speculative) of each request."""

    async def transcribe(
        self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
    ) -> Transcript:
        self.requests.append((len(pcm_8k) // 16, speculative))
        await asyncio.sleep(self._seconds)
        text = self._texts.pop(0) if self._texts else ""
        if isinstance(text, Exception):
            raise text
        again = self._listen_again if self._again else None
        return Transcript(text, 0.0, 0.9, self._seconds * 1000, listen_again=again)

    async def _listen_again(
        self, hints: SpeechHints, *, speculative: bool = False
    ) -> tuple[Hypothesis, ...]:
        await asyncio.sleep(self._seconds)
        text = self._again.pop(0)
        if isinstance(text, Exception):
            raise text
        return (Hypothesis(text, -1.0),)


class TalkingClock:
    """A voice: `MS_PER_WORD` of audio for each word, after `seconds`."""

    def __init__(self, seconds: float = 0.02) -> None:
        self._seconds = seconds
        self.spoken: list[str] = []

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        self.spoken.append(text)
        await asyncio.sleep(self._seconds)
        yield bytes(len(text.split()) * MS_PER_WORD * rate // 1000 * 2)

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """Nothing to prepare."""


Respond = Callable[["FunctionDialogue", str], AsyncGenerator[str, None]]


class FunctionDialogue:
    """A dialogue whose answers come from a function."""

    def __init__(self, session: DialogueSession, respond: Respond) -> None:
        self.session = session
        self._respond = respond
        self.asked: list[str] = []
        self.interruptions: list[str] = []

    def hints(self) -> tuple[str, ...]:
        return ()

    def is_complete(self, text: str) -> bool:
        return text.lower().strip(".") in ("yes", "no")

    def understood(self, text: str) -> str:
        return text.replace("Gulf", "Golf")

    def doubt(self, text: str) -> Doubt | None:
        """A text with a question mark in brackets, `(?)`, is in doubt."""
        return Doubt(("Oslo",)) if "(?)" in text else None

    def meaning(self, text: str, doubt: Doubt) -> str:
        return text if any(name in text for name in doubt.names) else ""

    def respond(self, text: str) -> AsyncGenerator[str, None]:
        self.asked.append(text)
        return self._respond(self, text)

    def interrupted(self, heard: str) -> None:
        self.interruptions.append(heard)


class FunctionBrain:
    """A brain that opens `FunctionDialogue`s; the last one is kept for the test to look at."""

    payload = DEFAULT_LIMITS

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.dialogue: FunctionDialogue | None = None

    def open(self, session: DialogueSession) -> FunctionDialogue:
        self.dialogue = FunctionDialogue(session, self._respond)
        return self.dialogue
