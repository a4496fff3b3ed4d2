"""Listens to one answered call: gives the classifier its frames, and the recogniser's words.

The recogniser takes whole utterances (`cordboard.agent_api.stt.Recogniser`): it gets each stretch
of speech at its first pause, and long speech in pieces, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cordboard.errors import RecogniserError
from cordboard.speech.answer.classifier import REVISABLE, AnswerClassifier

log = structlog.get_logger()

Transcribe = Callable[[bytes], Awaitable[str]]
"""From s16 samples at 8 kHz to their words. Raises `RecogniserError`."""
BYTES_PER_SECOND = 16_000


class AnswerListening:
    """The ear of one answered call, from `hear` to `close`."""

    def __init__(
        self,
        transcribe: Transcribe | None = None,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """Without `transcribe` sound alone decides. `failed` is called when a recogniser fails by a
        mistake of ours."""
        self.classifier = AnswerClassifier()
        self._transcribe = transcribe
        self._failed = failed
        self._sound = bytearray()
        """The sound since the answer, while words may still matter."""
        self._work: asyncio.Task[None] | None = None

    def hear(self, frame: bytes) -> None:
        """Take 20 ms, s16 at 8 kHz."""
        classifier = self.classifier
        classifier.hear(frame)
        if self._transcribe is not None and classifier.now <= 2 * REVISABLE:
            self._sound += frame
            if classifier.wants_words and self._work is None:
                self._begin(self._transcribe)

    async def close(self) -> None:
        """Stop listening. Idempotent."""
        work, self._work, self._transcribe = self._work, None, None
        if work is not None:
            work.cancel()
            await asyncio.wait((work,))

    def _begin(self, transcribe: Transcribe) -> None:
        begin, end = (int(each * BYTES_PER_SECOND) & ~1 for each in self.classifier.take_sound())
        sound = bytes(self._sound[begin:end])
        self._work = asyncio.get_running_loop().create_task(self._recognise(transcribe, sound))

    async def _recognise(self, transcribe: Transcribe, sound: bytes) -> None:
        """Recognise one piece. A task border: without words, sound decides."""
        try:
            text = await transcribe(sound)
        except RecogniserError as error:
            log.warning("answer_not_recognised", error=str(error))
            text = ""
        except Exception as error:  # task border
            log.exception("answer_not_recognised", error=repr(error))
            self._failed(error)
            text = ""
        self._work = None
        self.classifier.words(text)
