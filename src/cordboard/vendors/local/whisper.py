"""Whisper tiny.en (int8, CTranslate2) as the offline recogniser.

Measured on 8 kHz u-law speech (bench/voices.py, two cores): greedy decoding in a window of the
audio plus 6 s, on one thread, is as accurate as the full 30 s window and takes a quarter of the
time. With a shorter window the model starts to loop. Priming with the words to expect (as the
"previous text" of Whisper's prompt) cuts the word error rate of domain questions to a third; see
``prompt_text`` for the form that helps.

The model is known to invent words on silence and to repeat itself. So: text with a high no-speech
probability is dropped, the length is bounded by the duration, an answer that consists of repeats is
cut to its first round (which was right in 16 of 16 cases), and one that ran into the bound
otherwise, or repeats itself without confidence, is tried once more in the full window.

The encoded sound is kept with the transcript. So listening again, with other expected words and a
wide beam that gives several texts, costs half as much as the first time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from cordboard.agent_api.stt import NO_HINTS, Hypothesis, SpeechHints, Transcript
from cordboard.agent_api.workers import Workers
from cordboard.audio.mel import FRAMES_PER_SECOND, RATE, log_mel
from cordboard.audio.resample import Floats, resample, to_floats
from cordboard.errors import ModelError, RecogniserError

_END_OF_TEXT = 50256
_START_OF_TRANSCRIPT = 50257
_START_OF_PREVIOUS = 50360
_NO_TIMESTAMPS = 50362
"""Special tokens of the English-only vocabulary (tokenizer.json of the model)."""

_FULL_WINDOW = 30.0
_MARGIN = 6.0
_SHORTEST_WINDOW = 8.0
_LONGEST_PIECE = 28.0
_NO_SPEECH = 0.6
"""Above this no-speech probability the text is an invention, unless its confidence is high."""
_SURE = 0.8
_DOUBTFUL = 0.3
"""With both more no-speech and less confidence than this, primed text is an invention too: beeps
and breath give 0.36-0.58 and 0.06-0.25, while spelled letters give up to 0.57, but 0.44 or more."""
_LOOPING_SURE = 0.5
"""Above this confidence the first round of a repeating answer is as good as a second attempt."""
_BEAM = 2
"""Twenty ATIS questions over the line, two runs each: 3.0 and 3.0 % of the words wrong, 19 and 19
aerodromes right; with greedy search 3.0 and 4.9 %, 19 and 18. Chosen on the set it is scored on;
the fresh questions of the bench (docs/benchmarks.md) give an independent figure."""
_WIDE_BEAM = 8
"""Number of texts for listening again. Eight cost hardly more than five."""
_LONG_ROUND = 5
"""Words from which a repeated round may miss one of them."""
_LENGTH_PENALTY = 0.5
"""Exponent of the length by which the beam's likelihoods are divided: with 1 the model now and then
continues behind the end. 208 recognitions of development questions: 4.4 to 4.0 % word errors."""
_HINT_TOKENS = 160
"""Whisper takes 223 tokens of previous text; more hints than this cost time and bring nothing."""


@dataclass(frozen=True, slots=True)
class _Hearing:
    """One pass of the model over one piece of audio."""

    text: str
    no_speech: float
    confidence: float
    degenerate: bool
    sound: _Sound | None = None


@dataclass(frozen=True, slots=True)
class _Sound:
    """The encoded audio, before any words."""

    features: Any
    longest: int
    """Tokens that fit into the duration."""


def prompt_text(hints: SpeechHints) -> str:
    """Return hints in the form that helps: sentences first, then bare words and names with commas.

    A phrase that ends in a full stop or a question mark is an example sentence. Measured: an
    example that spells ("Information for E N G M please.") keeps spelled letters apart, while
    reciting a whole spelling alphabet makes the model recite too.
    """
    phrases = [phrase.strip() for phrase in hints.phrases if phrase.strip()]
    sentences = [phrase for phrase in phrases if phrase[-1] in ".?!"]
    names = [phrase for phrase in phrases if phrase[-1] not in ".?!"]
    return " ".join([*sentences, ", ".join(names) + "."] if names else sentences)


def without_repeats(text: str) -> tuple[str, bool]:
    """Return ``text`` cut to its first round when it consists of repeats, and whether it was.

    "Read me the ATIS. Read me the ATIS. Read" gives "Read me the ATIS."; one or two words must come
    three times ("no, no" stays), more, or a sentence of two, must come twice; a started round at
    the end counts. A long round may have lost one word the second time.
    """
    words = text.split()
    plain = [word.strip(".,?!;:-").lower() for word in words]
    for size in range(1, (len(words) + 1) // 2 + 1):
        rounds = 2 if size >= 3 or (size == 2 and words[1][-1] in ".?!") else 3
        if len(words) >= size * rounds and plain[size:] == plain[:-size]:
            return " ".join(words[:size]), True
        if size >= _LONG_ROUND and _is_poorer(plain[size:], plain[:size]):
            return " ".join(words[:size]), True
    return text, False


def _is_poorer(second: list[str], first: list[str]) -> bool:
    """True if the second round is the first with a word left out ("..., Sierra, Sierra, Alfa. ...
    Sierra, Alfa."); one with a different word is a separate utterance."""
    if len(second) != len(first) - 1:
        return False
    return any(first[:gap] + first[gap + 1 :] == second for gap in range(len(first)))


class WhisperRecogniser:
    """The model, shared by all calls. Building it blocks (0.5 s): do it in a worker thread."""

    def __init__(self, folder: Path, workers: Workers) -> None:
        """Load the checked model in ``folder`` and warm it up. Raises ``ModelError``."""
        import ctranslate2
        import tokenizers

        self._workers = workers
        try:
            self._model: Any = ctranslate2.models.Whisper(
                str(folder),
                device="cpu",
                compute_type="int8",
                intra_threads=1,
                inter_threads=workers.threads,
            )
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except (RuntimeError, ValueError, OSError) as error:
            raise ModelError(f"cannot load the Whisper model in {folder}: {error}") from error
        self._storage: Any = ctranslate2.StorageView.from_array
        self._hint_tokens: dict[SpeechHints, list[int]] = {}
        self._hear(np.zeros(RATE // 2, np.float32), [], _SHORTEST_WINDOW)

    async def transcribe(
        self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
    ) -> Transcript:
        """See ``Recogniser.transcribe``. Raises ``RecogniserError``."""
        run = self._workers.run_speculative if speculative else self._workers.run
        return await run(self._transcribe, pcm_8k, hints)

    def _transcribe(self, pcm_8k: bytes, hints: SpeechHints) -> Transcript:
        began = time.perf_counter()
        prompt = self._prompt(hints)
        try:
            heard = [self._best(piece, prompt) for piece in _pieces(to_floats(pcm_8k))]
        except (RuntimeError, ValueError) as error:
            raise RecogniserError(f"Whisper failed on an utterance: {error}") from error
        spoken = [hearing for hearing in heard if hearing.text]
        sound = spoken[0].sound if len(heard) == len(spoken) == 1 else None
        return Transcript(
            text=" ".join(hearing.text for hearing in spoken),
            no_speech=min((hearing.no_speech for hearing in heard), default=1.0),
            confidence=min((hearing.confidence for hearing in spoken), default=0.0),
            took_ms=(time.perf_counter() - began) * 1000,
            listen_again=partial(self._listen_again, sound) if sound is not None else None,
        )

    async def _listen_again(
        self, sound: _Sound, hints: SpeechHints, *, speculative: bool = False
    ) -> tuple[Hypothesis, ...]:
        run = self._workers.run_speculative if speculative else self._workers.run
        return await run(self._hypotheses, sound, hints)

    def _hypotheses(self, sound: _Sound, hints: SpeechHints) -> tuple[Hypothesis, ...]:
        try:
            result = self._generate(sound, self._prompt(hints), _WIDE_BEAM, _WIDE_BEAM, 0.0)
        except (RuntimeError, ValueError) as error:
            raise RecogniserError(f"Whisper failed on an utterance: {error}") from error
        found: dict[str, float] = {}
        for tokens, score in zip(result.sequences_ids, result.scores, strict=True):
            confidence = exp(score / (len(tokens) + 1))
            if not _is_invented(float(result.no_speech_prob), confidence):
                text, _ = without_repeats(self._text(tokens))
                found.setdefault(text, float(score))
        return tuple(Hypothesis(text, score) for text, score in found.items() if text)

    def _best(self, piece_8k: Floats, prompt: list[int]) -> _Hearing:
        samples = resample(piece_8k, 8000, RATE)
        duration = len(samples) / RATE
        window = min(_FULL_WINDOW, max(_SHORTEST_WINDOW, duration + _MARGIN))
        hearing = self._hear(samples, prompt, window)
        if hearing.degenerate:
            again = self._hear(samples, prompt, _FULL_WINDOW)
            if not again.degenerate or again.confidence > hearing.confidence:
                hearing = again
        return hearing

    def _hear(self, samples: Floats, prompt: list[int], window: float) -> _Hearing:
        frames = int(window * FRAMES_PER_SECOND) // 2 * 2
        mel = np.ascontiguousarray(log_mel(samples, frames)[None])
        longest = 12 + int(8 * len(samples) / RATE)
        sound = _Sound(self._model.encode(self._storage(mel)), longest)
        result = self._generate(sound, prompt, _BEAM, 1, _LENGTH_PENALTY)
        tokens = result.sequences_ids[0]
        text, repeated = without_repeats(self._text(tokens))
        confidence, no_speech = exp(result.scores[0]), float(result.no_speech_prob)
        invented = _is_invented(no_speech, confidence)
        if invented or not any(map(str.isalnum, text)):
            return _Hearing("", no_speech, 0.0, degenerate=False)
        lost = confidence < _LOOPING_SURE if repeated else len(tokens) >= longest
        return _Hearing(text, no_speech, confidence, lost, sound)

    def _generate(
        self, sound: _Sound, prompt: list[int], beam: int, texts: int, length_penalty: float
    ) -> Any:
        start = [*prompt, _START_OF_TRANSCRIPT, _NO_TIMESTAMPS]
        return self._model.generate(
            sound.features,
            [start],
            beam_size=beam,
            num_hypotheses=texts,
            length_penalty=length_penalty,
            max_length=min(448, len(start) + sound.longest),
            return_scores=True,
            return_no_speech_prob=True,
        )[0]

    def _text(self, tokens: list[int]) -> str:
        kept = [token for token in tokens if token < _END_OF_TEXT]
        return str(self._tokenizer.decode(kept)).strip()

    def _prompt(self, hints: SpeechHints) -> list[int]:
        if not hints.phrases:
            return []
        if hints not in self._hint_tokens:
            if len(self._hint_tokens) >= 256:
                self._hint_tokens.clear()
            encoded = self._tokenizer.encode(" " + prompt_text(hints), add_special_tokens=False)
            self._hint_tokens[hints] = [_START_OF_PREVIOUS, *encoded.ids[:_HINT_TOKENS]]
        return self._hint_tokens[hints]


def _is_invented(no_speech: float, confidence: float) -> bool:
    """True if the model wrote a text where there was no speech."""
    return (no_speech > _NO_SPEECH and confidence < _SURE) or (
        no_speech > _DOUBTFUL and confidence < _DOUBTFUL
    )


def _pieces(samples_8k: Floats) -> Iterator[Floats]:
    """Yield the utterance in pieces that fit the model, cut at the quietest 20 ms of the last 5
    s."""
    longest, search, frame = int(_LONGEST_PIECE * 8000), 5 * 8000, 160
    while len(samples_8k) > longest:
        tail = samples_8k[longest - search : longest].reshape(-1, frame)
        cut = longest - search + int(np.argmin(np.square(tail).sum(axis=1))) * frame
        yield samples_8k[:cut]
        samples_8k = samples_8k[cut:]
    if len(samples_8k):
        yield samples_8k
