"""The common part of the voices of paid services, around their wires.

The first sound is passed on as soon as it arrives, and every wait for sound has a limit. A failure
before the first sound is retried once, where that may help; after it, never: the caller would hear
the words twice. A sentence spoken to its end is kept, so that greetings and fillers come at once
and cost nothing again. Leaving `speak` early ends the request at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import structlog

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.tts import Voice
from cordboard.agents.pipeline.sentence_cache import SentenceCache
from cordboard.errors import FailureKind, VoiceError
from cordboard.tools.speech.speakable import has_words, without_marks

log = structlog.get_logger()

FIRST_SOUND_SECONDS = 3.5
"""Twice this is less than the limit of `SpeechOutput`: a second attempt can still succeed."""
NEXT_SOUND_SECONDS = 4.0
ATTEMPTS = 2
WORTH_ANOTHER: frozenset[FailureKind] = frozenset(("connect", "dropped", "stalled", "quota"))
CACHE_BYTES = 16_000_000
"""17 minutes at 8 kHz."""

ReportUsage = Callable[[Usage], None]
PaidBy: TypeAlias = Literal["characters", "seconds", "tokens"]
"""`tokens`: the service reports them; such a wire is a `ReportingSynthesis`."""


@dataclass(slots=True)
class Rendering:
    """One text on its way to sound, for what a service reports about it."""

    used: Callable[[Mapping[str, float]], None]
    """Takes the amounts that the service bills, in the units of `Usage`; also after the text was
    given up."""
    exact: bool = True
    """False: the service has spoken other words, so the sound is not kept."""


class Synthesis(Protocol):
    """One service's wire."""

    @property
    def provider(self) -> str:
        """The part's type, as in the configuration."""

    @property
    def model(self) -> str: ...

    @property
    def paid_by(self) -> PaidBy:
        """The unit that the service bills; the other unit is not reported, because it has no
        price."""

    def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """Yield s16 samples at `rate`, piece by piece. Closing the generator ends the request.
        Raises `VoiceError`."""

    async def close(self) -> None: ...


@runtime_checkable
class ReportingSynthesis(Synthesis, Protocol):
    """One service's wire, of a service that reports its usage, or the words that it has spoken."""

    def render(self, text: str, rate: int, rendering: Rendering) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`; completes `rendering`."""
        ...


class ServiceVoice:
    """Implements `PaidVoice`; shared by all calls."""

    def __init__(
        self,
        synthesis: Synthesis,
        *,
        cache_bytes: int = CACHE_BYTES,
        first_sound_seconds: float = FIRST_SOUND_SECONDS,
    ) -> None:
        self._synthesis = synthesis
        self._first_sound_seconds = first_sound_seconds
        self._cache = SentenceCache(cache_bytes)

    def speak(self, text: str, *, rate: int = 8000) -> AsyncGenerator[bytes, None]:
        """See `Voice.speak`. Raises `VoiceError` with its kind."""
        return self.spoken(text, rate, lambda _: None)

    def for_call(self, used: ReportUsage) -> Voice:
        """See `PaidVoice.for_call`."""
        return _CallVoice(self, used)

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """See `Voice.prepare`. Never raises: a service that cannot be reached now may be later."""
        for text in texts:
            try:
                async with aclosing(self.speak(text, rate=rate)) as pieces:
                    async for _ in pieces:
                        pass
            except VoiceError as error:
                provider = self._synthesis.provider
                log.warning("voice_not_prepared", provider=provider, reason=str(error))
                return

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._synthesis.close()

    @property
    def cached_bytes(self) -> int:
        return self._cache.size

    async def spoken(self, text: str, rate: int, used: ReportUsage) -> AsyncGenerator[bytes, None]:
        """Speak like `speak`, and report the usage."""
        text = without_marks(text)
        if not has_words(text):
            return
        kept = self._cache.find(text, rate)
        if kept is not None:
            yield kept
            return
        pieces: list[bytes] = []
        wire = self._synthesis
        rendering = Rendering(lambda amounts: used(Usage(wire.provider, wire.model, dict(amounts))))
        try:
            async with aclosing(self._tried(text, rate, rendering)) as tried:
                async for piece in tried:
                    pieces.append(piece)
                    yield piece
        finally:
            if pieces:
                self._account(text, sum(map(len, pieces)) / 2 / rate, rendering)
        if rendering.exact:
            self._cache.keep(text, rate, b"".join(pieces))

    async def _tried(
        self, text: str, rate: int, rendering: Rendering
    ) -> AsyncGenerator[bytes, None]:
        """Yield the sound of one attempt, or of a second one if the first brought none."""
        for attempt in range(1, ATTEMPTS + 1):
            begun = False
            try:
                async with aclosing(self._bounded(text, rate, rendering)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
            except VoiceError as error:
                if begun or attempt == ATTEMPTS or error.kind not in WORTH_ANOTHER:
                    raise
                log.info("voice_tried_again", provider=self._synthesis.provider, kind=error.kind)
            else:
                return

    async def _bounded(
        self, text: str, rate: int, rendering: Rendering
    ) -> AsyncGenerator[bytes, None]:
        """Yield the service's sound; every wait has a limit."""
        wire, provider = self._synthesis, self._synthesis.provider
        limit = self._first_sound_seconds
        if isinstance(wire, ReportingSynthesis):
            sound = wire.render(text, rate, rendering)
        else:
            sound = wire.speak(text, rate)
        async with aclosing(sound) as pieces:
            while True:
                try:
                    async with asyncio.timeout(limit):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    problem = f"{provider}: no sound within {limit:g} s"
                    raise VoiceError(problem, "stalled") from None
                if piece:
                    limit = NEXT_SOUND_SECONDS
                    yield piece
        if limit != NEXT_SOUND_SECONDS:
            raise VoiceError(f"{provider} returned no sound for words", "garbage")

    def _account(self, text: str, seconds: float, rendering: Rendering) -> None:
        unit = self._synthesis.paid_by
        if unit != "tokens":
            rendering.used({unit: float(len(text)) if unit == "characters" else seconds})


class _CallVoice:
    """The voice for one call."""

    def __init__(self, voice: ServiceVoice, used: ReportUsage) -> None:
        self._voice = voice
        self._used = used

    def speak(self, text: str, *, rate: int = 8000) -> AsyncGenerator[bytes, None]:
        return self._voice.spoken(text, rate, self._used)

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        await self._voice.prepare(texts, rate=rate)
