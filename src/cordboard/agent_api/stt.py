"""The interface of speech recognition, the same for all recognisers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from cordboard.agent_api.agent import Usage
from cordboard.errors import RecogniserError


@dataclass(frozen=True, slots=True)
class SpeechHints:
    """Expected words of the caller, so that the recogniser can favour them."""

    phrases: tuple[str, ...] = ()
    """Names and words of the domain as they should be written ("ATIS", "Oslo Gardermoen")."""


NO_HINTS = SpeechHints()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One possible text of a sound."""

    text: str
    likelihood: float
    """Natural logarithm; comparable among the hypotheses of one utterance."""


class ListenAgain(Protocol):
    """Recognises an utterance once more, with other expectations."""

    async def __call__(
        self, hints: SpeechHints, *, speculative: bool = False
    ) -> tuple[Hypothesis, ...]:
        """Return the possible texts, the likeliest first; none where a text would be an invention.

        Raises ``RecogniserError``.
        """


@dataclass(frozen=True, slots=True)
class Transcript:
    """The recognised text of one utterance."""

    text: str
    """The text with capitals and punctuation; empty when there was no speech."""
    no_speech: float
    """Probability (0..1) that there was no speech at all."""
    confidence: float
    """Geometric mean probability (0..1) of the words; 0 when the text is empty."""
    took_ms: float
    """Time spent in the recogniser itself, without waiting for a free worker."""
    listen_again: ListenAgain | None = field(default=None, compare=False, repr=False)
    """None where the recogniser cannot listen again."""
    settled: str = ""
    """The text that listening again settled on, if it differs."""

    @property
    def words(self) -> str:
        """The text to use: the settled one, if there is one."""
        return self.settled or self.text


@runtime_checkable
class Recogniser(Protocol):
    """Turns whole utterances into text. One instance serves all calls."""

    async def transcribe(
        self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
    ) -> Transcript:
        """Recognise one utterance of s16 samples at 8 kHz.

        ``speculative`` marks work whose result may not be needed; it waits behind all other work.
        Cancelling the await drops the work if it has not begun, otherwise only its result. Raises
        ``RecogniserError`` when the engine below fails.
        """


class TurnVerdict(Enum):
    """A turn-judging recogniser's verdict about the caller's turn."""

    PERHAPS_OVER = "perhaps_over"
    """The turn may be over: the text so far is final, unless the caller continues."""
    GOES_ON = "goes_on"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class ListenedCall:
    """The data and callbacks of a call for its recogniser. Callbacks run on the event loop and are
    synchronous."""

    call_id: str
    used: Callable[[Usage], None] = lambda _: None
    """Called when something that costs money was used."""
    failed: Callable[[RecogniserError], None] = lambda _: None
    """Called when the recogniser cannot continue: every later request fails."""
    verdict: Callable[[TurnVerdict], None] = lambda _: None
    """Called only by recognisers that judge turns (`CallRecogniser.judges_turns`)."""


class Listening(Protocol):
    """A recogniser that listens to one call."""

    def hear(self, pcm_8k: bytes) -> None:
        """Take the next piece of the caller's sound (s16 at 8 kHz), silence included. Cheap."""

    async def transcribe(
        self,
        pcm_8k: bytes,
        hints: SpeechHints = NO_HINTS,
        *,
        speculative: bool = False,
        goes_on: bool = False,
    ) -> Transcript:
        """Return the words in `pcm_8k`, the last part of the sound heard. Raises `RecogniserError`.

        `goes_on`: the voice is not over; return the text so far at once.
        """

    async def close(self) -> None:
        """Stop listening. Idempotent; no callback is called afterwards."""


@runtime_checkable
class CallRecogniser(Protocol):
    """A recogniser that follows each call from its beginning to its end."""

    @property
    def judges_turns(self) -> bool:
        """True if its verdicts about the end of a turn must be used."""

    def open(self, call: ListenedCall) -> Listening:
        """Start to listen to a call. Returns at once; slow work happens while it listens."""


class WholeUtterances:
    """Implements `Listening` with a `Recogniser` that takes whole utterances and serves all
    calls."""

    def __init__(self, recogniser: Recogniser) -> None:
        self._recogniser = recogniser

    def hear(self, pcm_8k: bytes) -> None:
        """Ignore the frame: the work starts in `transcribe`."""

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
    """Start a recogniser of either kind on one call."""
    if isinstance(recogniser, CallRecogniser):
        return recogniser.open(call)
    return WholeUtterances(recogniser)
