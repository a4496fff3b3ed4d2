"""Judges who or what has answered a call that we placed, from its sound and its words.

    hear(frame) ──▶ tones, stretches of speech, pauses ──▶ verdict ──(15 s)──▶ revised verdict
    words(text) ──▶ phrases ───────────────────────────────┘

In doubt it is a human. A short utterance and a pause make a human at once, because a person who
said "hello" does not wait; a recording that begins with a short "hello" is judged again by its next
words or by its beep. While the words of an utterance are being recognised, its length does not
decide: words are better.

Times are seconds since the answer, counted in frames.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Final, Literal

import numpy as np

from cordboard.speech.answer.phrases import Answer, evidence, is_person
from cordboard.speech.answer.tones import FRAME_SECONDS, Samples, Tone, ToneTracker

FRAME_BYTES: Final = 320
REVISABLE = 15.0
"""Seconds after the answer in which a human may turn out to be a machine."""
SHORT = 1.7
"""Seconds of a first utterance up to which a short pause shows a human: "hello", a name."""
SHORT_PAUSE = 0.34
WORDS_PAUSE = 0.46
"""The pause after a short utterance whose words are still being recognised."""
MIDDLE = 3.2
"""Seconds of a first utterance up to which a pause of `MIDDLE_PAUSE` shows a human."""
MIDDLE_PAUSE = 0.7
LONG_PAUSE = 1.5
"""Pause after which any greeting waits for us."""
MACHINE_PAUSE = 2.2
"""Pause after which a recording without a beep may be a long-winded person."""
LATE_WORDS = 6.0
"""Longest wait for words that are being recognised, where no person waits for us: after a
recording, and after `REVISABLE`. On a busy machine they are seconds late."""
MONOLOGUE = 4.8
"""Seconds of speech without a pause of `BREATH` from which it is a recording or music."""
TALK = 7.5
"""Seconds of speech in all, with pauses shorter than `LONG_PAUSE`, from which it is a
recording."""
BREATH = 0.7
NOTHING = 5.0
"""Seconds without any sound from which the answer is silence."""
UTTERANCE = 0.12
"""Seconds of voice from which a sound is an utterance, not a click."""
PAUSE = 0.16
"""Seconds of quiet from which the words so far are worth recognising."""
LATER_PAUSE = 0.4
"""The same for pieces of longer speech after the first."""
PIECE = 5.0
"""Seconds of speech without a pause, of which the words so far are worth recognising."""
LEAD = 0.2
"""Seconds before the speech that the recogniser gets with it."""
AGAIN = 0.1
"""Seconds by which a piece begins later when its first recognition gave no words: now and then a
recogniser returns nothing for clear speech, and other bounds mend that."""
EVEN = 0.08
"""Seconds by which the bursts of a busy tone, and its gaps, may differ."""
AFTER_BEEP = 0.2
"""Seconds of quiet that confirm a beep."""
NO_BEEP = 4.0
"""Seconds of quiet after a voicemail's words from which its beep is not waited for any longer."""

_BY = Literal["sound", "words", "beep"]
_SPOKEN = frozenset({Answer.HUMAN, Answer.MACHINE, Answer.SILENCE, Answer.RINGBACK})


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement of the other side."""

    answer: Answer
    at: float
    """Seconds since the answer."""
    by: _BY


@dataclass(slots=True)
class Utterance:
    """A stretch of speech: its pauses are shorter than `BREATH`."""

    begin: float
    end: float
    voiced: int = 1
    """Frames with voice."""

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class AnswerClassifier:
    """The verdict about one answered call. Pure; `hear` takes under 0.1 ms."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        """The present verdict; None while nothing is known."""
        self.first: Verdict | None = None
        """The first verdict, which the latest one may have replaced."""
        self.beep_end: float | None = None
        """End of the voicemail's beep, once it is confirmed: the message begins now."""
        self.utterances: list[Utterance] = []
        """All stretches of speech so far; the last one may go on."""
        self.recognising = False
        """True from `take_sound` to the `words` of the last piece of speech that is noted."""
        self._frames = 0
        self._tones = ToneTracker()
        self._floor = 60.0
        """RMS of the line's noise, in s16 steps."""
        self._text = ""
        self._unheard: float | None = None
        """Begin of the speech that is not in a piece yet; None if there is none."""
        self._waiting: deque[tuple[float, float]] = deque()
        """Begin and end of the pieces of speech that the recogniser is to get. They are cut at
        pauses, however busy it is: so load makes words later, not different."""
        self._piece = 0.0, 0.0
        """Begin and end of the piece that the recogniser has."""
        self._again = False
        """True while a piece without words is recognised for the second time."""
        self._pieces = 0
        """Pieces of speech so far."""
        self._sounds: list[Tone] = []
        """Tones before any speech, for cadences."""
        self._sit: list[Tone] = []
        self._beep: Tone | None = None
        """A tone that is a beep if quiet follows."""
        self._loud = 0

    @property
    def now(self) -> float:
        """Seconds since the answer."""
        return self._frames * FRAME_SECONDS

    @property
    def quiet(self) -> float:
        """Seconds since the last speech; since the answer if there was none."""
        return self.now - (self.utterances[-1].end if self.utterances else 0.0)

    @property
    def words_due(self) -> bool:
        """True while words are to come that may revise the verdict, however late they are."""
        if self.now > REVISABLE + LATE_WORDS:
            return False
        unheard = self._unheard is not None and self._unheard <= REVISABLE
        waiting = bool(self._waiting) and self._waiting[0][0] <= REVISABLE
        return unheard or waiting or (self.recognising and self._piece[0] <= REVISABLE)

    @property
    def wants_words(self) -> bool:
        """True if there is speech to be recognised now (`take_sound`)."""
        return bool(self._waiting)

    @property
    def text(self) -> str:
        """All words so far."""
        return self._text.strip()

    @property
    def message_due(self) -> bool:
        """True when a voicemail records: its beep is over, or it has none."""
        verdict = self.verdict
        if verdict is None or verdict.answer is not Answer.VOICEMAIL:
            return False
        tone = self._tones.now is not None or self._beep is not None
        return self.beep_end is not None or (self.quiet >= NO_BEEP and not tone)

    def hear(self, frame: bytes) -> None:
        """Take the next 20 ms of the other side: 160 samples, s16 at 8 kHz. A shorter frame is
        filled up with silence, a longer one is cut."""
        if len(frame) != FRAME_BYTES:
            frame = frame[:FRAME_BYTES].ljust(FRAME_BYTES, b"\0")
        samples: Samples = np.frombuffer(frame, "<i2").astype(np.float32)
        rms = sqrt(float(samples @ samples) / len(samples))
        ended = self._tones.hear(samples, rms)
        self._frames += 1
        sounding = self._tones.now
        self._follow_speech(rms, sounding)
        if sounding is not None:
            self._judge_sounding(sounding)
        if ended is not None:
            self._judge_tone(ended)
        self._confirm_beep(rms, sounding)
        if self.verdict is None:
            self._judge_speech(sounding)
        elif self._is(Answer.MACHINE) and self._waits(sounding):
            self._replace(Answer.HUMAN, "sound")

    def take_sound(self) -> tuple[float, float]:
        """Return begin and end of the oldest speech to be recognised (`wants_words`), in seconds.
        `words` must follow."""
        self._piece = self._waiting.popleft()
        self.recognising = True
        return self._piece

    def words(self, text: str) -> None:
        """Take the words of the speech that was taken."""
        begin, end = self._piece
        self._again = not text.strip() and not self._again
        if self._again:
            self._waiting.appendleft((begin + AGAIN, end))
        self.recognising = bool(self._waiting)
        self._text = f"{self._text} {text}"
        late = begin > REVISABLE or self.now > REVISABLE + LATE_WORDS
        if late and self._is(Answer.HUMAN):
            return
        shown = evidence(self._text)
        if shown is None:
            return
        verdict = self.verdict
        if shown is Answer.MACHINE:
            if verdict is None:  # a human stays one: these may be a person's words
                self._decide(shown, "words")
            return
        words_only = verdict is not None and verdict.by == "words" and self.beep_end is None
        if verdict is None or verdict.answer in _SPOKEN or (words_only and shown != verdict.answer):
            self._decide(shown, "words")  # all words so far tell more than the first of them

    # Speech.

    def _waits(self, sounding: Tone | None) -> bool:
        """True if a recording has been quiet for so long that it may be a person after all."""
        beeps = sounding is not None or self._beep is not None or self.beep_end is not None
        if self.recognising and self.quiet < LATE_WORDS:
            return False
        pause = SHORT_PAUSE if is_person(self._text) else MACHINE_PAUSE
        return self.quiet >= pause and not beeps

    def _follow_speech(self, rms: float, sounding: Tone | None) -> None:
        """Follow the stretches of speech, and the noise between them."""
        now = self.now
        voice = rms > max(150.0, self._floor * 3.2) and sounding is None
        if rms < self._floor:
            self._floor += (rms - self._floor) * 0.2
        elif not voice and sounding is None:
            self._floor += (rms - self._floor) * 0.02
        self._floor = max(self._floor, 10.0)
        last = self.utterances[-1] if self.utterances else None
        if sounding is not None and last is not None and last.end > sounding.begin:
            self._take_back(last, sounding)  # its first frames were taken for speech
        if voice:
            if last is None or now - last.end > BREATH:
                self.utterances = [u for u in self.utterances if _counts(u)]
                self.utterances.append(Utterance(now - FRAME_SECONDS, now))
            else:
                last.end = now
                last.voiced += 1
            if self._unheard is None:
                self._unheard = now - FRAME_SECONDS
        self._look_for_words(now)

    def _take_back(self, last: Utterance, tone: Tone) -> None:
        last.voiced -= round((last.end - tone.begin) / FRAME_SECONDS)
        last.end = tone.begin
        if not _counts(last):
            self.utterances.pop()

    def _look_for_words(self, now: float) -> None:
        """Note a piece of speech that is worth recognising: at a pause that may be a human's soon,
        before it decides; later in longer pieces, which are understood better."""
        last = self.utterances[-1] if self.utterances else None
        if last is None or self._unheard is None or not _counts(last):
            return
        decides = len(self.utterances) == 1 and last.seconds <= SHORT and self.verdict is None
        pause = PAUSE if decides or self._pieces == 0 else LATER_PAUSE
        paused = now - last.end >= pause - 1e-6 and last.end > self._unheard
        if paused or now - self._unheard >= PIECE:
            self._waiting.append((max(0.0, self._unheard - LEAD), now))
            self._unheard = None
            self._pieces += 1

    def _judge_speech(self, sounding: Tone | None) -> None:
        """Judge by the length of speech and of pauses."""
        spoken = [each for each in self.utterances if _counts(each)]
        quiet = self.quiet
        if not spoken:
            tones = self._sounds and self.now - self._sounds[-1].end < NOTHING
            if self.now >= NOTHING and sounding is None and not tones:
                self._decide(Answer.SILENCE, "sound")
            return
        last, total = spoken[-1], sum(each.seconds for each in spoken)
        asked = is_person(self._text) and quiet >= SHORT_PAUSE
        if (last.seconds > MONOLOGUE or total > TALK) and not asked:
            self._decide(Answer.MACHINE, "sound")
        elif quiet >= self._pause_of_a_human(spoken):
            self._decide(Answer.HUMAN, "sound")

    def _pause_of_a_human(self, spoken: list[Utterance]) -> float:
        """Return the pause after this speech that shows a human who waits for us."""
        if is_person(self._text) and not self.recognising:
            return SHORT_PAUSE
        if len(spoken) == 1 and spoken[0].seconds <= SHORT:
            return WORDS_PAUSE if self.recognising else SHORT_PAUSE
        if len(spoken) == 1 and spoken[0].seconds <= MIDDLE and not self.recognising:
            return MIDDLE_PAUSE
        return LONG_PAUSE

    # Tones.

    def _judge_sounding(self, tone: Tone) -> None:
        """Judge by a tone that is still sounding, before any speech."""
        spoken = any(map(_counts, self.utterances))
        if tone.high == 0 and abs(tone.low - 2100) < 20 and tone.seconds >= 0.9:
            self._decide(Answer.FAX, "sound")
        elif spoken:
            return
        elif tone.high == 0 and abs(tone.low - 1100) < 40 and tone.seconds >= 0.38:
            self._decide(Answer.FAX, "sound")
        elif _of_a_call(tone) and tone.seconds >= 0.75:
            self._decide(Answer.RINGBACK, "sound")

    def _judge_tone(self, tone: Tone) -> None:
        """Judge by a tone that is over: special information tones, cadences, a beep."""
        if tone.high == 0 and 0.2 < tone.seconds < 0.5:
            near = self._sit and tone.begin - self._sit[-1].end < 0.25
            self._sit = [*(self._sit if near else []), tone][-3:]
            if _is_intercept(self._sit):
                self._decide(Answer.INTERCEPT, "sound")
                return
        if not any(map(_counts, self.utterances)):
            self._sounds.append(tone)
            self._judge_cadence()
        fax = tone.high == 0 and (abs(tone.low - 1100) < 40 or abs(tone.low - 2100) < 20)
        heard = bool(self.utterances) or not (_of_a_call(tone) or fax)
        if tone.high == 0 and tone.low > 400 and 0.14 <= tone.seconds <= 1.7 and heard:
            self._beep, self._loud = tone, 0

    def _judge_cadence(self) -> None:
        """Judge by bursts of a call's tone and the gaps between them."""
        bursts = [tone for tone in self._sounds if _of_a_call(tone) and 0.12 < tone.seconds < 0.75]
        if len(bursts) < 3:
            return
        last = bursts[-3:]
        gaps = [after.begin - before.end for before, after in pairwise(last)]
        lengths = [tone.seconds for tone in last]
        if max(gaps) > 1.5:
            self._decide(Answer.RINGBACK, "sound")  # in pairs, as in Britain
        elif (
            max(max(gaps) - min(gaps), max(lengths) - min(lengths)) < EVEN
            and 0.12 < max(gaps) < 0.75
        ):
            self._decide(Answer.BUSY, "sound")

    def _confirm_beep(self, rms: float, sounding: Tone | None) -> None:
        """Confirm a beep by the quiet after it; speech or another tone after it says otherwise."""
        beep = self._beep
        if beep is None:
            return
        if rms > max(300.0, self._floor * 4) and self.now - beep.end > 0.06:
            self._loud += 1
        if self._loud >= 3 or sounding is not None:
            self._beep = None
        elif self.now - beep.end >= AFTER_BEEP:
            self._beep = None
            self._take_beep(beep)

    def _take_beep(self, beep: Tone) -> None:
        verdict = self.verdict
        late = self.now > REVISABLE and verdict is not None and verdict.answer is Answer.HUMAN
        known = (*_SPOKEN, Answer.VOICEMAIL)
        if late or (verdict is not None and verdict.answer not in known):
            return
        self.beep_end = beep.end
        if not self._is(Answer.VOICEMAIL):
            self._decide(Answer.VOICEMAIL, "beep")

    # The verdict.

    def _is(self, answer: Answer) -> bool:
        return self.verdict is not None and self.verdict.answer is answer

    def _decide(self, answer: Answer, by: _BY) -> None:
        """Set the verdict. Sound alone does not replace one."""
        if by != "sound" or self.verdict is None:
            self._replace(answer, by)

    def _replace(self, answer: Answer, by: _BY) -> None:
        self.verdict = Verdict(answer, round(self.now, 2), by)
        self.first = self.first or self.verdict


def _counts(utterance: Utterance) -> bool:
    """True if it is long enough for speech."""
    return utterance.voiced * FRAME_SECONDS >= UTTERANCE - 1e-6


def _of_a_call(tone: Tone) -> bool:
    """True for the frequencies of ringback and busy tones (ITU-T E.180): 350 to 500 Hz, or the
    pairs of North America."""
    if tone.high:
        return 330 < tone.low < 500 and 380 < tone.high < 640
    return 385 < tone.low < 500


def _is_intercept(tones: list[Tone]) -> bool:
    """True for the three special information tones (ITU-T E.180, Telcordia GR-1162)."""
    bands = ((890, 1010), (1350, 1450), (1750, 1830))
    return len(tones) == 3 and all(
        low < tone.low < high for tone, (low, high) in zip(tones, bands, strict=True)
    )
