"""The door to speech recognition: what a recogniser takes and gives, whoever makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from cordboard.agent_api.agent import Usage
from cordboard.errors import RecogniserError


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


@runtime_checkable
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


class TurnVerdict(Enum):
    """What a recogniser that follows the conversation says of the caller's turn."""

    PERHAPS_OVER = "perhaps_over"
    """It may be over: what was heard so far is settled, unless the caller goes on."""
    GOES_ON = "goes_on"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class ListenedCall:
    """What a recogniser may know of a call, and whom it tells. All are called on the event loop,
    synchronously."""

    call_id: str
    used: Callable[[Usage], None] = lambda _: None
    """Something was used up that costs money."""
    failed: Callable[[RecogniserError], None] = lambda _: None
    """It cannot go on: whatever it is asked from now on fails."""
    verdict: Callable[[TurnVerdict], None] = lambda _: None
    """Only by those that judge turns (`CallRecogniser.judges_turns`)."""


class Listening(Protocol):
    """A recogniser that listens to one call."""

    def hear(self, pcm_8k: bytes) -> None:
        """Take the next piece of the caller's sound (s16 at 8 kHz), silence included. Cheap."""
        ...

    async def transcribe(
        self,
        pcm_8k: bytes,
        hints: SpeechHints = NO_HINTS,
        *,
        speculative: bool = False,
        goes_on: bool = False,
    ) -> Transcript:
        """What was said in `pcm_8k`, the last part of what was heard. Raises `RecogniserError`.

        `goes_on`: the voice is not over; give at once what there is.
        """
        ...

    async def close(self) -> None:
        """Listen no more. Idempotent; nobody is told anything afterwards."""
        ...


@runtime_checkable
class CallRecogniser(Protocol):
    """A recogniser that follows each call from its beginning to its end."""

    @property
    def judges_turns(self) -> bool:
        """Whether it says when a turn is over, and is to be believed."""
        ...

    def open(self, call: ListenedCall) -> Listening:
        """Begin to listen to a call. At once: what takes time is done while it listens."""
        ...


class WholeUtterances:
    """Implements `Listening` by a `Recogniser` that takes whole utterances and serves all calls."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser

    def hear(self, pcm_8k: bytes) -> None:
        """Nothing is done before it is asked."""

    async def transcribe(
        self,
        pcm_8k: bytes,
        hints: SpeechHints = NO_HINTS,
        *,
        speculative: bool = False,
        goes_on: bool = False,
    ) -> Transcript:
        return await self._recogniser.transcribe(pcm_8k, hints, speculative=speculative)

    async def close(self) -> None:
        """There is nothing to close."""


def listen(recogniser: Recogniser | CallRecogniser, call: ListenedCall) -> Listening:
    """Whatever kind of recogniser it is, listening to one call."""
    if isinstance(recogniser, CallRecogniser):
        return recogniser.open(call)
    return WholeUtterances(recogniser)
