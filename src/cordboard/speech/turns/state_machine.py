"""Pure state machine for a caller's turns and for voices over the agent's speech.

It takes the voice probabilities of consecutive windows (`judge`) and the results of slower helpers
(`learn_*`), and returns events. All times are sample positions at 8 kHz since the start of the
call: no clock, no audio, no tasks; deadlines are counted in samples. A minute of conversation takes
a millisecond, and a recorded one gives the same result again.

                                  voice, agent silent
             ┌──────────────────────────────────────────────────────┐
             │                                                      ▼       no voice
          ┌──┴───┐   voice over the agent's   ┌──────┐  words,   ┌────────┐ ───────▶ ┌────────┐
          │QUIET ├───────────────────────────▶│ HELD ├──────────▶│SPEAKING│          │ PAUSED │
          └──▲─┬─┘       (speech held)        └─┬──▲─┘ voice on  └────▲───┘ ◀─────── └─┬──┬─▲─┘
             │ │             echo, key ─▶ QUIET │  │                  │      voice     │  │ │
             │ │ voice over protected   murmur, │  │ goes on          │                │  │ │
             │ │ speech                 noise   ▼  │                  │                │  │ │
             │ │                              ┌────┴─┐ agent silent   │    silence for │  │ │
             │ └─────────────────────────────▶│ASIDE ├────────────────┘    this pause: │  │ │
             │                                └─┬──▲─┘                     TurnEnded   │  │ │
             │                         no voice │  │ voice                             │  │ │
             │      silence: AsideEnded  ┌──────▼──┴──┐   words                        │  │ │
             ├───────────────────────────┤ASIDE_PAUSED├────────────────────────────────┼──┼─┘
             │                           └────────────┘                                │
             └─────────────────────────────────────────────────────────────────────────┘

SPEAKING and PAUSED are the caller's turn; an ASIDE is a voice beside the agent's speech that does
not (yet) stop it: a murmur, a noise, or anything while the speech is protected. An aside is heard
to its end, and may turn out to be an interruption or a turn after all.
"""

from __future__ import annotations

from cordboard.speech.turns.events import (
    NONE,
    PERHAPS,
    AgentVoice,
    AsideEnded,
    Events,
    Floor,
    OverlapHeld,
    OverlapLetPass,
    Paused,
    PauseGrows,
    Resumed,
    TurnBegan,
    TurnEnded,
    TurnTaken,
    WordsWanted,
)
from cordboard.speech.turns.interruption import silence_to_be_over
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.text_clues import TextClue

SAMPLES_PER_MS = 8
TAIL_MS = 250
"""The detector may lose a quiet last syllable this much too early, or notice silence this late:
within these bounds the sound itself says where speech ended."""
_SOON_OVER_MS = 100
"""No continuer is spoken if the answer comes within this time."""


MARGIN_MS = 150
"""Milliseconds by which the silence exceeds the longest pause seen."""
FORGOTTEN = 0.75
"""Share of the learned time that remains after each turn that ended correctly."""
CUT_OFF_MS = 1_500
"""A caller who resumes within this time after the last word had only paused: the turn was cut."""
_LEAST_MS = 20
_TOO_SHORT_FOR_MELODY = (TextClue.ONE_WORD, TextClue.MURMUR)


def silence_for(
    profile: TurnProfile, clue: TextClue | None, odds: float | None, learned_ms: int = 0
) -> int:
    """Milliseconds of silence that end the turn.

    `clue` is None while there is no draft, `odds` (probability that the turn is over) is None while
    the model has not answered, or there is none. `learned_ms` is the learned extra for this caller;
    only a third of it counts where the turn sounds over.

    Words and melody are two witnesses. A complete answer to the question, dictation and a dangling
    word need no second witness: the model misjudges one-word answers and numbers, whose melody it
    cannot know. Otherwise the melody decides between three waits; for a single word it counts only
    when it says that the turn is over. A caller who was seen to pause within turns gets a longer
    wait (`LearnedPause`).
    """
    if clue is TextClue.COMPLETE:
        return profile.complete_silence_ms
    silence = _without_learning(profile, clue, odds)
    learned = min(learned_ms, profile.most_learned_ms)
    return silence + (learned // 3 if silence == profile.finished_silence_ms else learned)


def _without_learning(profile: TurnProfile, clue: TextClue | None, odds: float | None) -> int:
    if clue is TextClue.DICTATION:
        return profile.dictation_silence_ms
    if clue is TextClue.DANGLING:
        return profile.unfinished_silence_ms
    if odds is None:
        return profile.silence_ms
    if odds >= profile.finished_above and clue is not TextClue.NOTHING:
        return profile.silence_ms if clue is None else profile.finished_silence_ms
    if clue in _TOO_SHORT_FOR_MELODY:
        return profile.silence_ms
    if odds < profile.unfinished_below:
        return profile.unfinished_silence_ms
    return profile.doubtful_silence_ms


class LearnedPause:
    """One caller's habit: milliseconds on top of the profile's `silence_ms`."""

    def __init__(self, silence_ms: int, most_ms: int) -> None:
        self._silence_ms = silence_ms
        self._most_ms = most_ms
        self._extra_ms = 0.0

    @property
    def extra_ms(self) -> int:
        return int(self._extra_ms)

    def resumed(self, pause_ms: int) -> None:
        """Note that the caller resumed after `pause_ms` of silence, within a turn or right after
        it."""
        wanted = min(pause_ms + MARGIN_MS - self._silence_ms, self._most_ms)
        self._extra_ms = max(self._extra_ms, wanted)

    def turn_ended(self) -> None:
        """Note that a turn is over; its pauses weigh less in the next ones."""
        self._extra_ms *= FORGOTTEN
        if self._extra_ms < _LEAST_MS:
            self._extra_ms = 0.0


class TurnTaker:
    """One caller's turns. Feed it every window, in order."""

    def __init__(self, profile: TurnProfile) -> None:
        self._profile = profile
        self.floor = Floor.QUIET
        self.onset = 0
        """First sample of the current voice."""
        self._over_agent = False
        """The current voice began while the agent was heard, and has not stopped it."""
        self._agent = AgentVoice.SILENT
        self._now = 0
        """End of the last window."""
        self._unknown = False
        """It is not known yet whether the current voice is the agent's own echo."""
        self._heard_until = 0
        self._run: int | None = None
        """Start of the current run of (un)voiced windows, while it is too short to count."""
        self._pause = 0
        self._paused_at = 0
        self._noticed = 0
        self._quiet_since = 0
        """Sample from which the silence of a pause is counted."""
        self._continuers = 0
        """Continuers spoken in the current turn, the one of the current pause included."""
        self._encouraged = 0
        """Number of the last pause in which a continuer was spoken."""
        self._clue: TextClue | None = None
        self._odds: float | None = None
        self._last_turn_end: int | None = None
        self._learned = LearnedPause(profile.silence_ms, profile.most_learned_ms)
        self._overlap = 0
        """Number of the current voice over the agent's speech."""
        self._holds = 0
        self._deadline = 0
        self._doubting = False
        """The first time to decide is up, and both are still possible. (A voice that holds the
        speech again has been heard for long enough.)"""
        self._asked_whole = False
        """The last request for words was made when the voice was over."""
        self._let_pass_at = 0
        self._murmured = False
        """The last voice that was let pass was a murmur."""
        self._voiced_until = 0
        self._probability = 0.0
        """Probability of the last window."""
        self._asking = False
        """A `WordsWanted` has not been answered."""
        self._asked_at = 0
        self._words: TextClue | None = None
        """Clue of the last answer."""
        self._sure = False
        """True if the last answer was sure."""

    def judge(
        self,
        probability: float,
        start: int,
        end: int,
        *,
        heard_until: int | None = None,
        agent: AgentVoice = AgentVoice.SILENT,
        foreign: str = "",
    ) -> Events:
        """Take the voice probability of the samples from `start` to `end`.

        `heard_until`: the sample after the last audible one, by loudness; None: not known, the
        probabilities decide alone. `agent`: the agent's speech as the caller hears it. `foreign`:
        why this sound is not the caller's voice (`echo`, `key`); empty when it is, `PERHAPS` while
        that is not yet known.
        """
        self._now = end
        self._probability = probability
        self._unknown = foreign == PERHAPS
        if self._unknown:
            foreign = ""
        self._agent = agent
        self._heard_until = end if heard_until is None else heard_until
        match self.floor:
            case Floor.QUIET:
                return self._listen(0.0 if foreign else probability, start, end)
            case Floor.SPEAKING:
                return self._follow(probability, start, end)
            case Floor.PAUSED:
                return self._wait(0.0 if foreign else probability, start, end)
            case Floor.HELD:
                return self._decide(probability, end, foreign)
            case Floor.ASIDE:
                return self._follow_aside(probability, start, end, foreign)
            case Floor.ASIDE_PAUSED:
                return self._wait_aside(0.0 if foreign else probability, start, end)

    def learn_text(self, pause: int, clue: TextClue) -> Events:
        """Take the recogniser's clue for the whole turn up to this pause."""
        if pause != self._pause:
            return NONE
        self._clue = clue
        if self.floor is Floor.PAUSED:
            return self._end_if_due()
        if self.floor is not Floor.ASIDE_PAUSED or not clue.has_words:
            return NONE
        if self._agent is AgentVoice.PROTECTED:
            return NONE
        taken = self._take_floor(Floor.PAUSED)
        return taken + self._end_if_due()

    def learn_odds(self, pause: int, odds: float) -> Events:
        """Take the end-of-turn model's probability that this pause ends the turn."""
        if pause != self._pause:
            return NONE
        self._odds = odds
        return self._end_if_due() if self.floor is Floor.PAUSED else NONE

    def learn_words(self, overlap: int, clue: TextClue, *, sure: bool) -> Events:
        """Take the recogniser's clue for the beginning of a voice over the agent's speech.

        Words and murmurs that are not `sure` decide nothing alone: the length of the voice does, by
        whether it continues or is over soon enough to be a murmur.
        """
        if overlap != self._overlap:
            return NONE
        self._asking = False
        if self.floor is Floor.ASIDE and self._words is TextClue.MURMUR:
            return NONE
        self._words, self._sure = clue, sure
        says_something = sure and clue.has_words
        if self.floor is Floor.HELD:
            return self._take_floor(Floor.SPEAKING) if says_something else self._settle()
        if self._agent is not AgentVoice.OPEN or not says_something:
            return NONE
        if self.floor is Floor.ASIDE:
            return self._take_floor(Floor.SPEAKING)
        if self.floor is Floor.ASIDE_PAUSED and not self._murmured:
            return self._take_floor(Floor.PAUSED)
        return NONE

    def key_pressed(self) -> Events:
        """The caller pressed a key: its tone was the sound that holds the agent's speech."""
        return self._dismiss("key") if self.floor is Floor.HELD else NONE

    # The caller's turn.

    def _listen(self, probability: float, start: int, end: int) -> Events:
        profile = self._profile
        if probability < profile.voiced_above:
            if probability < profile.unvoiced_below:
                self._run = None
            return NONE
        if self._run is None:
            self._run = start
        voiced = end - self._run
        if self._agent is AgentVoice.OPEN and self._unknown:
            enough = voiced >= profile.overlap_unknown_ms * SAMPLES_PER_MS
        elif self._agent is AgentVoice.OPEN:
            enough = (
                probability >= profile.overlap_sure_above
                or voiced >= profile.overlap_start_ms * SAMPLES_PER_MS
            )
        else:
            enough = voiced >= profile.start_ms * SAMPLES_PER_MS
        return self._begin(self._run, end) if enough else NONE

    def _begin(self, onset: int, end: int) -> Events:
        self.onset, self._voiced_until, self._run = onset, end, None
        self._overlap += 1
        self._holds = self._asked_at = 0
        self._asking = self._asked_whole = False
        self._words = None
        self._over_agent = self._agent is not AgentVoice.SILENT
        if self._agent is AgentVoice.OPEN:
            return self._hold(end)
        if self._agent is AgentVoice.PROTECTED:
            self.floor = Floor.ASIDE
            return NONE
        return self._begin_turn()

    def _begin_turn(self) -> Events:
        self.floor = Floor.SPEAKING
        self._learn_from_cut()
        return (TurnBegan(self.onset),)

    def _learn_from_cut(self) -> None:
        """A caller who resumes within CUT_OFF_MS, even over our answer, had only paused: lengthen
        the pause we allow this caller."""
        if self._last_turn_end is not None:
            gap = (self.onset - self._last_turn_end) // SAMPLES_PER_MS
            if 0 < gap < CUT_OFF_MS:
                self._learned.resumed(gap)

    def _follow(self, probability: float, start: int, end: int) -> Events:
        if end - self.onset >= self._profile.longest_ms * SAMPLES_PER_MS:
            self._paused_at = self._noticed = self._quiet_since = end
            return self._end_turn()
        return self._pause_if_silent(probability, start, end, Floor.PAUSED)

    def _pause_if_silent(self, probability: float, start: int, end: int, floor: Floor) -> Events:
        profile = self._profile
        if probability >= profile.unvoiced_below:
            self._run = None
            self._voiced_until = end
            return NONE
        if self._run is None:
            self._run = start
        faint = end - self._heard_until >= profile.quiet_pause_ms * SAMPLES_PER_MS
        if end - self._run < profile.pause_ms * SAMPLES_PER_MS and not faint:
            return NONE
        self.floor = floor
        self._pause += 1
        self._paused_at, self._noticed, self._run = self._run, end, None
        self._clue = self._odds = None
        earliest = self._paused_at - TAIL_MS * SAMPLES_PER_MS
        self._quiet_since = max(earliest, self._last_heard)
        aside = floor is Floor.ASIDE_PAUSED
        return (Paused(self._pause, end, aside, self._quiet_since - self.onset),)

    @property
    def _last_heard(self) -> int:
        """Return the end of speech by its loudness; noise long after the voice is not speech."""
        if self._heard_until >= self._now:
            return self._paused_at
        return min(self._heard_until, self._paused_at + TAIL_MS * SAMPLES_PER_MS)

    def _wait(self, probability: float, start: int, end: int) -> Events:
        if probability >= self._profile.voiced_above:
            self.floor = Floor.SPEAKING
            self._voiced_until = end
            silence = start - self._quiet_since
            self._learned.resumed(silence // SAMPLES_PER_MS)
            return (Resumed(start, silence),)
        self._quiet_since = max(self._quiet_since, self._last_heard)
        return self._end_if_due()

    def _end_if_due(self) -> Events:
        silence = silence_for(self._profile, self._clue, self._odds, self._learned.extra_ms)
        if self._now - self._quiet_since >= silence * SAMPLES_PER_MS:
            return self._end_turn()
        return self._encourage(silence)

    def _encourage(self, silence: int) -> Events:
        """Request a continuer once in a long pause, but not in every pause of a turn, and not just
        before the turn ends, which happens after `silence` milliseconds."""
        after = self._profile.continuer_ms * SAMPLES_PER_MS
        if silence - self._profile.continuer_ms < _SOON_OVER_MS:
            return NONE
        if after == 0 or self._now - self._quiet_since < after or self._encouraged == self._pause:
            return NONE
        if self._continuers >= self._profile.most_continuers:
            return NONE
        self._encouraged = self._pause
        self._continuers += 1
        return (PauseGrows(self._quiet_since),)

    def _end_turn(self) -> Events:
        self.floor = Floor.QUIET
        self._run = None
        self._pause += 1
        self._continuers = 0
        self._last_turn_end = self._quiet_since
        self._learned.turn_ended()
        ended = TurnEnded(self.onset, self._quiet_since, self._noticed, self._now, self._over_agent)
        return (ended,)

    # A voice over the agent's speech.

    def _hold(self, end: int) -> Events:
        self.floor = Floor.HELD
        self._holds += 1
        self._doubting = self._holds > 1 or not self._profile.overlap_doubt_ms
        self._deadline = end + self._profile.decide_ms * SAMPLES_PER_MS
        return (OverlapHeld(self.onset, end),)

    def _decide(self, probability: float, end: int, foreign: str) -> Events:
        if foreign:
            return self._dismiss(foreign)
        if probability >= self._profile.unvoiced_below:
            self._voiced_until = end
        self._asked_whole = self._asked_whole and self._is_quiet
        return self._settle() or self._ask_for_words(end)

    def _settle(self) -> Events:
        """Decide about the voice that holds our speech, if that is possible now."""
        if self._is_over and self._is_heard_out:
            said = self._words is not None and self._words.has_words and not self._is_short
            return self._take_floor(Floor.SPEAKING) if said else self._let_pass()
        if self._now < self._deadline:
            return NONE
        if self._words is TextClue.MURMUR and self._sure:
            return self._let_pass()
        if self._doubting:
            perhaps = self._words in (TextClue.MURMUR, TextClue.BEGINNING)
            lasts = self._voiced >= self._profile.murmur_lasts_ms * SAMPLES_PER_MS
            murmur = perhaps and (not lasts or self._holds > 1)
            return self._let_pass() if murmur else self._take_floor(Floor.SPEAKING)
        self._doubting = True
        self._deadline += self._profile.overlap_doubt_ms * SAMPLES_PER_MS
        return NONE

    @property
    def _is_heard_out(self) -> bool:
        """True if waiting longer would add nothing: the voice is over."""
        unknown = self._is_doubtful or (self._words is None and self._asking)
        if self._now >= self._deadline and (self._doubting or not unknown):
            return True
        if self._asking or self._words is None:
            return False
        return self._asked_whole or not (self._words.has_words or self._is_doubtful)

    @property
    def _is_doubtful(self) -> bool:
        """True if something was understood, but not surely."""
        return self._words not in (None, TextClue.NOTHING) and not self._sure

    @property
    def _is_over(self) -> bool:
        """True if it has been silent for long enough, given the words understood."""
        doubtful = self._words if self._is_doubtful else None
        return self._silent_for(silence_to_be_over(self._profile, self._probability, doubtful))

    @property
    def _is_short(self) -> bool:
        """True if it is too short for doubtful words."""
        return self._voiced < self._profile.short_voice_ms * SAMPLES_PER_MS

    @property
    def _voiced(self) -> int:
        """Samples from the onset to the last sound of the voice."""
        return min(self._voiced_until, max(self._heard_until, self.onset)) - self.onset

    @property
    def _is_quiet(self) -> bool:
        """True if the voice may be over."""
        return self._silent_for(silence_to_be_over(self._profile, self._probability))

    def _silent_for(self, milliseconds: int) -> bool:
        return self._now - self.onset - self._voiced >= milliseconds * SAMPLES_PER_MS

    def _ask_for_words(self, end: int) -> Events:
        profile = self._profile
        if self._asking:
            return NONE
        quiet = self._is_quiet
        if self._asked_at:
            seldom = self._doubting and self._holds == 1 and profile.overlap_doubt_ms
            every = profile.words_doubt_every_ms if seldom else profile.words_every_ms
            due = end - self._asked_at >= every * SAMPLES_PER_MS
        else:
            due = end >= self._deadline - profile.ask_before_ms * SAMPLES_PER_MS
        if not due and (self._asked_whole or not quiet):
            return NONE
        self._asking = True
        self._asked_at = end
        self._asked_whole = quiet
        return (WordsWanted(self._overlap, self.onset, self._voiced),)

    def _let_pass(self) -> Events:
        """Resume our speech; the voice is heard to its end."""
        self._murmured = self._words in (TextClue.MURMUR, TextClue.BEGINNING)
        why = "backchannel" if self._murmured else "noise"
        self.floor = Floor.ASIDE
        self._run = None
        self._let_pass_at = self._now
        return (OverlapLetPass(self._now, why),)

    def _dismiss(self, why: str) -> Events:
        """Resume our speech: it was not the caller's voice at all."""
        self.floor = Floor.QUIET
        self._run = None
        self._overlap += 1
        return (OverlapLetPass(self._now, why),)

    def _take_floor(self, floor: Floor) -> Events:
        self.floor = floor
        silent = floor is Floor.SPEAKING and self._voiced_until < self._now
        self._run = self._voiced_until if silent else None
        self._learn_from_cut()
        if self._agent is AgentVoice.SILENT:
            return (TurnBegan(self.onset),)
        self._over_agent = False
        return (TurnTaken(self.onset, self._now),)

    def _follow_aside(self, probability: float, start: int, end: int, foreign: str) -> Events:
        if foreign:
            self.floor = Floor.QUIET
            self._run = None
            return NONE
        paused = self._pause_if_silent(probability, start, end, Floor.ASIDE_PAUSED)
        if paused or self._run is not None:
            return paused
        if self._agent is AgentVoice.SILENT:
            return self._begin_turn()
        if self._agent is AgentVoice.PROTECTED:
            return NONE
        if self._goes_on(probability, end) and self._holds < self._profile.most_holds:
            self._words = None
            return self._hold(end)
        if self._words is TextClue.MURMUR:
            return NONE
        return self._ask_for_words(end)

    def _goes_on(self, probability: float, end: int) -> bool:
        """True if a voice that was let pass continues, or a noise was its first syllable: it is
        surely there again after the gap for which it was taken to be over."""
        profile = self._profile
        since = max(self.onset, self._let_pass_at - profile.decide_ms * SAMPLES_PER_MS)
        if end - since >= profile.hold_again_ms * SAMPLES_PER_MS:
            return True
        soon = end - self._let_pass_at <= profile.syllables_apart_ms * SAMPLES_PER_MS
        return soon and not self._murmured and probability >= profile.overlap_sure_above

    def _wait_aside(self, probability: float, start: int, end: int) -> Events:
        if probability >= self._profile.voiced_above:
            self._voiced_until = end
            self.floor = Floor.ASIDE
            resumed = Resumed(start, start - self._quiet_since)
            if self._agent is AgentVoice.SILENT:
                return (resumed, *self._begin_turn())
            return (resumed,)
        self._quiet_since = max(self._quiet_since, self._last_heard)
        if end - self._quiet_since < self._profile.aside_silence_ms * SAMPLES_PER_MS:
            return NONE
        self.floor = Floor.QUIET
        self._run = None
        self._pause += 1
        return (AsideEnded(self.onset, self._quiet_since, self._noticed, end),)
