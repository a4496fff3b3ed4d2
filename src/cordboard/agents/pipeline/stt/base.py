"""The door to speech recognition: what a recogniser takes and gives, whoever makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SpeechHints:
    """What the caller is likely to say, so that the recogniser can lean towards it."""

    phrases: tuple[str, ...] = ()
    """Names and words of the trade as they should be written ("ATIS", "Oslo Gardermoen")."""


NO_HINTS = SpeechHints()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One of the texts that a sound may be."""

    text: str
    likelihood: float
    """Natural logarithm; comparable among the hypotheses of one hearing."""


class ListenAgain(Protocol):
    """Listens to an utterance once more, with other expectations."""

    async def __call__(
        self, hints: SpeechHints, *, speculative: bool = False
    ) -> tuple[Hypothesis, ...]:
        """What it may be, the likeliest first; none where that would be an invention.

        Raises ``RecogniserError``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was heard in one utterance."""

    text: str
    """As the recogniser writes it, with capitals and punctuation; empty when nothing was said."""
    no_speech: float
    """Probability (0..1) that there was no speech at all."""
    confidence: float
    """Geometric mean probability (0..1) of the words; 0 when the text is empty."""
    took_ms: float
    """Time spent in the recogniser itself, without waiting for a free worker."""
    listen_again: ListenAgain | None = field(default=None, compare=False, repr=False)
    """None where the recogniser cannot."""
    settled: str = ""
    """The text that a second hearing settled on, where it is another one."""

    @property
    def words(self) -> str:
        """What to go by."""
        return self.settled or self.text


class Recogniser(Protocol):
    """Turns whole utterances into text. One instance serves all calls."""

    async def transcribe(
        self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
    ) -> Transcript:
        """Recognise one utterance of s16 samples at 8 kHz.

        ``speculative`` marks work whose result may not be needed; it stands behind all other.
        Cancelling the await drops the work if it has not begun, else only its result.
        Raises ``RecogniserError`` when the engine below fails.
        """
