"""One call's recogniser with time limits: a failure is logged and yields no text.

Used by `cordboard.speech.user_turns`, which counts the failures.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from cordboard.agent_api.dialogue import Dialogue
from cordboard.agent_api.stt import Listening, SpeechHints, Transcript
from cordboard.errors import FailureKind, RecogniserError
from cordboard.speech.second_pass import listen_again

log = structlog.get_logger()

RECOGNISER_LIMIT = 8.0
"""Seconds a recognition may take; beyond that it has failed."""
LISTEN_AGAIN_LIMIT = 2.0
"""Seconds that listening again may take; beyond that the first text stands."""
FAILED = Transcript(text="", no_speech=1.0, confidence=0.0, took_ms=0)
"""The transcript of a failed recognition."""


class Recognition:
    """The recogniser's side of one call's hearing."""

    def __init__(self, listening: Listening, call_id: str) -> None:
        self._listening = listening
        self._call_id = call_id
        self.failure: FailureKind = "internal"
        """Kind of the last failed recognition."""

    def hear(self, pcm: bytes) -> None:
        """Take the next frame, for recognisers that hear the whole call."""
        self._listening.hear(pcm)

    async def recognise(
        self, pcm: bytes, hints: tuple[str, ...], *, speculative: bool, goes_on: bool = False
    ) -> Transcript:
        """Recognise within `RECOGNISER_LIMIT`; return `FAILED`, with an empty text, otherwise."""
        try:
            async with asyncio.timeout(RECOGNISER_LIMIT):
                return await self._listening.transcribe(
                    pcm, SpeechHints(hints), speculative=speculative, goes_on=goes_on
                )
        except TimeoutError:
            error = RecogniserError(f"no answer within {RECOGNISER_LIMIT:g} s", "stalled")
        except RecogniserError as failure:
            error = failure
        self.failure = error.kind
        log.error("recogniser_failed", call_id=self._call_id, error=str(error))
        return FAILED

    async def listen_again(
        self, transcript: Transcript, dialogue: Dialogue, *, speculative: bool
    ) -> Transcript:
        """Return the transcript with the result of listening again, if it comes within
        `LISTEN_AGAIN_LIMIT`."""
        try:
            async with asyncio.timeout(LISTEN_AGAIN_LIMIT):
                settled = await listen_again(transcript, dialogue, speculative=speculative)
        except (TimeoutError, RecogniserError) as error:
            log.warning("second_hearing_failed", call_id=self._call_id, error=repr(error))
            return transcript
        return replace(transcript, settled=settled) if settled else transcript

    async def close(self) -> None:
        await self._listening.close()
