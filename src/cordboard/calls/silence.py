"""Who keeps whom waiting, and what is done about it: fillers, re-prompts, a goodbye, a watchdog.

One small state machine a call, the same for every agent. The conversation tells it what happens;
it owns one timer and tells the conversation what is to be said.

    NOTHING ──the caller's turn ends──▶ ANSWER ──its first text──▶ SPEECH ──all is there──▶ NOTHING
    (nobody owes anything)              (is owed)                  (is being given)

- An answer is owed: a filler `filler_after_ms` after the caller's last sample, unless its text is
  there already; another one 5 s after that was heard, and every 5 s then (while a tool runs, 8 s).
  Never the same twice running. Nothing within `agent_after_ms`, running tools not counted: the
  agent has stalled.
- The greeting is owed, or the sound of a text, or an answer's sound has run out and it is not all:
  a filler after 4 s, and further ones as above; of a broken answer `MOST_AFTER_A_BREAK`.
- The caller waits for a turn to be over that the agent does not end: one filler.
- Nobody owes anything, or an answer that has begun goes on with nothing, nobody speaks and no tool
  runs for `caller_after_ms`: the re-prompts in order, then the goodbye. Words of the caller or a
  key start over; noise does not. What has come too late for its turn is told before, `LATE_AFTER`.

Whether sound is on its way to the caller is asked, never remembered: an agent whose speech is never
declared done holds nothing up. All times are loop times in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from cordboard.config.conversation import Silence

SECOND_FILLER, FURTHER_FILLERS = 5.0, 8.0
"""Seconds of silence before the filler after the first, and before each one after that while a tool
runs: it takes its time; an agent that only thinks may have stalled."""
LEFT_ALONE = 4.0
"""Seconds of silence before a filler where something should be heard at once: a greeting, the sound
of a text, the rest of an answer. Between two pieces of a living one there are 2 s at most."""
MOST_AFTER_A_BREAK = 3
"""Fillers after sound that does not go on: then the caller is asked, as when nothing is owed."""
APART = 2.0
"""Seconds from any sound until a filler of which nobody has kept count: not one upon the other."""
GRACE = 0.15
"""An answer has this long from the decision that the turn is over, before a filler comes."""
DEAD_LINE = 1.1
"""But not beyond this after the caller's last sample: a filler needs 0.1 s to be heard."""
LONGEST_SPEECH = 60.0
"""A caller who began to speak and is not said to have stopped is taken to be silent after this."""
TAIL_MS = 250
"""A voice's last sound ends in about so much silence: who speaks then speaks after it."""
LATE_AFTER = 0.7
"""Seconds of silence before the caller is told what came late: who wants to go on begins sooner."""
_SOON = 0.005


class Owed(Enum):
    """What the agent owes the caller."""

    NOTHING = "nothing"
    ANSWER = "answer"
    SPEECH = "speech"


class Attended(Protocol):
    """The conversation, as attention sees it."""

    def queued_ms(self) -> int:
        """Sound that the caller has yet to hear."""
        ...

    def tools_running(self) -> bool: ...

    def late_waiting(self) -> bool:
        """Whether there is an answer to be told that came too late."""
        ...

    def tell_late(self) -> None:
        """Have it told."""
        ...

    def fill(self, text: str, silent: float) -> None:
        """Say a filler, after so many seconds of silence."""
        ...

    def encourage(self, text: str, silent: float) -> None:
        """Say a continuer, into the caller's pause."""
        ...

    def reprompt(self, text: str, silent: float) -> None: ...

    def give_up_caller(self, goodbye: str, silent: float) -> None:
        """Nobody is there: say goodbye and hang up."""
        ...

    def give_up_agent(self, silent: float, waited: float) -> None:
        """The agent has stalled: apologise and hang up. `waited`: seconds for its answer."""
        ...


class Attention:
    """Watches over one call from `begin` to `end`."""

    def __init__(
        self, silence: Silence, call: Attended, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._settings = silence
        self._call = call
        self._loop = loop or asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._on = False
        self.owed = Owed.NOTHING
        self._spoke = False
        """The agent has begun to say something."""
        self._turn = 0
        """The turn of which something is owed."""
        self._waiting_since = 0.0
        """Since when the agent could have answered: the turn's end, or that of the last tool."""
        self._stopped_turn = 0
        """The caller's last turn."""
        self._stopped_at = 0.0
        """When it was decided that it is over."""
        self._sounded = False
        """Whether the answer being given has any sound yet."""
        self._quiet_since = 0.0
        """End of the last sound of either side, of the last key and of the last tool."""
        self._caller_since: float | None = None
        """When the caller began what they are saying now."""
        self._overlapped = False
        """They began under our own voice, and did not cut it: perhaps only to say `mhm`."""
        self._last_speech_at = 0.0
        self._asked = False
        """What is owed was asked for by the caller: not a greeting."""
        self._certain = True
        """An answer surely is wanted: not to a word at the very end of our own speech."""
        self._fillers = 0
        """Fillers said in this turn."""
        self._filled_at = 0.0
        """When the last filler was wanted."""
        self._after_break = 0
        """Fillers since the answer's last sound."""
        self._filler_expected = 0.0
        """Not before then: a tool's own filler is about to come."""
        self._next_filler = 0
        self._next_continuer = 0
        self._last_filler = ""
        self._reprompts = 0
        self._caller_enters = False
        """A tool waits for keys, or a yes, of the caller: nobody keeps anybody waiting."""

    # What happens.

    def begin(self, *, greets: bool) -> None:
        """The call is connected; the agent greets, or waits for the caller."""
        now = self._loop.time()
        self._on = True
        self._quiet_since = self._waiting_since = now
        if greets and not self._spoke:
            self.owed, self._asked = Owed.ANSWER, False
        self._look()

    def end(self) -> None:
        """Nothing is watched any more: the call ends. Idempotent."""
        self._on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def caller_started(self) -> None:
        self._caller_since = self._loop.time()
        queued = self._call.queued_ms()
        self._overlapped, self._certain = queued > TAIL_MS, queued == 0
        self._look()

    def caller_cut_in(self) -> None:
        """The caller has interrupted the agent: what they say, or just said, wants an answer."""
        self._overlapped, self._certain = False, True
        self.owed = Owed.NOTHING
        self._quiet_since = self._loop.time()
        if self._caller_since is None and self._stopped_turn > self._turn:
            self._owe_answer()
        self._look()

    def caller_dismissed(self) -> None:
        """What is heard of the caller is no turn: a murmur, noise, our own echo, a key."""
        self._overlapped = True

    def caller_pauses(self, silent_since: float) -> None:
        """The caller pauses for long, and keeps the floor."""
        continuers = self._settings.continuers
        if self._on and continuers and not self._caller_enters:
            text = continuers[self._next_continuer % len(continuers)]
            self._next_continuer += 1
            self._loop.call_soon(self._encourage, text, silent_since)

    def _encourage(self, text: str, silent_since: float) -> None:
        if self._on and self._call.queued_ms() == 0 and not self._call.tools_running():
            self._call.encourage(text, self._loop.time() - silent_since)

    def caller_waits(self, silent_since: float) -> None:
        """They have been silent since then, and the agent does not say that their turn is over."""
        self._quiet_since = max(self._quiet_since, silent_since)
        self._loop.call_soon(self._break_silence)

    def _break_silence(self) -> None:
        busy = self._call.queued_ms() > 0 or self._call.tools_running() or self._caller_enters
        if self._on and not busy and self._silent() >= APART and self._filler():
            self._fill()
            self._look()

    def caller_stopped(self, turn: int, last_speech_at: float) -> None:
        """The caller's turn is over. One that began under our voice may want no answer: it is
        neither filled nor held against the agent."""
        self._caller_since = None
        self._stopped_turn, self._stopped_at = turn, self._loop.time()
        self._last_speech_at = last_speech_at
        if self._overlapped:
            self._quiet_since = max(self._quiet_since, last_speech_at)
        else:
            self._quiet_since = max(last_speech_at, min(self._quiet_since, self._stopped_at))
            self._owe_answer()
            if self._filled_at > last_speech_at:
                self._fillers = 1  # said before the agent knew that the turn was over
        self._overlapped = False
        self._look()

    def caller_text(self, turn: int, text: str) -> None:
        """What was understood. Nothing: then nothing is owed, until the agent speaks after all."""
        if text:
            self._reprompts = 0
        elif self.owed is Owed.ANSWER and turn == self._turn:
            self.owed = Owed.NOTHING
        self._look()

    def key(self) -> None:
        """The caller pressed a key."""
        self._reprompts = 0
        self._quiet_since = max(self._quiet_since, self._loop.time())
        self._look()

    @property
    def caller_speaks(self) -> bool:
        """Whether the caller is saying something, as far as is known."""
        return self._caller_since is not None

    @property
    def caller_is_asked(self) -> bool:
        """Whether a tool, or the desk, waits for keys or an answer of the caller."""
        return self._caller_enters

    def caller_enters(self, on: bool) -> None:
        """A tool begins or ends to wait for keys; it has its own patience."""
        self._caller_enters = on
        now = self._loop.time()
        self._quiet_since = self._waiting_since = now
        self._last_speech_at = self._stopped_at = now
        self._look()

    def caller_answered(self) -> None:
        """The caller has answered the desk: the agent, which waits for the tool, owes what comes
        of it."""
        if self._call.tools_running():
            self._owe_answer()

    def late_came(self) -> None:
        """There is something to be told when it fits."""
        self._look()

    def agent_recovers(self) -> None:
        """The agent that had stalled has helped itself: it is waited for anew."""
        self._on = True
        self._waiting_since = self._loop.time()
        self._look()

    def answering(self, turn: int) -> None:
        """The text of an answer is there (not of what the engine wanted said)."""
        self._spoke = True
        if turn < self._turn and self.owed is Owed.ANSWER:
            return  # the tail of an older answer
        if self.owed is not Owed.SPEECH or turn != self._turn:
            self._sounded = False
            self._waiting_since = self._loop.time()
        self.owed, self._turn = Owed.SPEECH, max(turn, self._turn)
        self._look()

    def sound(self, *, of_answer: bool) -> None:
        """Sound was written. Called for each piece of it: cheap."""
        if of_answer:
            self._sounded, self._after_break = True, 0
        self._quiet_since = max(
            self._quiet_since, self._loop.time() + self._call.queued_ms() / 1000
        )

    def answer_done(self, turn: int) -> None:
        """All of an answer has been handed over, with sound or without."""
        if turn >= self._turn:
            self.owed = Owed.NOTHING
        self._look()

    def tool_filler_expected(self, at: float) -> None:
        """A tool will have its own filler said at that time: ours gives way if that is in time."""
        if at <= self._last_speech_at + DEAD_LINE:
            self._filler_expected = at + _SOON
            self._look()

    def tool_filler(self) -> None:
        """A tool's own filler is being said: ours need not be."""
        self._fillers = max(1, self._fillers)
        self._quiet_since = max(self._quiet_since, self._loop.time())
        self._look()

    def tools_changed(self) -> None:
        """A tool has begun or ended."""
        if not self._call.tools_running():
            self._waiting_since = self._loop.time()
        self._look()

    # What follows from it.

    def _owe_answer(self) -> None:
        self.owed, self._asked = Owed.ANSWER, True
        self._turn, self._fillers, self._after_break = self._stopped_turn, 0, 0
        self._filler_expected = 0.0
        self._waiting_since = self._loop.time()

    def _look(self) -> None:
        """Find out what is due next, and when; do what is due now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._on:
            return
        due = self._due()
        if due is None:
            return
        at, act = due
        if at <= self._loop.time() + _SOON:
            self._loop.call_soon(self._act, act)
        else:
            self._timer = self._loop.call_at(at, self._look)

    def _act(self, act: Callable[[], None]) -> None:
        """Not from within an event: the agent that tells of one is not to be called back in it."""
        due = self._due() if self._on else None
        if due is not None and due[1] == act and due[0] <= self._loop.time() + _SOON:
            act()
            self._look()

    def _due(self) -> tuple[float, Callable[[], None]] | None:
        now = self._loop.time()
        if self._caller_since is not None:
            return self._caller_since + LONGEST_SPEECH, self._presume_stopped
        queued = self._call.queued_ms() / 1000
        if queued > 0:
            self._quiet_since = max(self._quiet_since, now + queued)
            return now + max(queued, 0.02), self._nothing
        if self._caller_enters:
            return None
        if self._call.tools_running():
            return self._filler_due() if self.owed is not Owed.NOTHING else None
        if self.owed is Owed.NOTHING:
            return self._caller_due()
        last: tuple[float, Callable[[], None]] | None
        if self.owed is Owed.SPEECH and self._sounded:
            last = self._caller_due()
        else:
            last = self._waiting_since + self._settings.agent_after_ms / 1000, self._stalled
        dues = [due for due in (self._filler_due(), last) if due is not None]
        return min(dues, key=lambda due: due[0], default=None)

    def _filler_due(self) -> tuple[float, Callable[[], None]] | None:
        if not self._filler():
            return None
        tools = self._call.tools_running()
        if not self._asked or (self.owed is Owed.SPEECH and not tools):
            if self._after_break >= MOST_AFTER_A_BREAK:
                return None
            wait = SECOND_FILLER if self._after_break else LEFT_ALONE
            since = max(self._quiet_since, self._filled_at, self._waiting_since)
            return since + wait, self._fill
        if self.owed is Owed.ANSWER and self._fillers == 0:
            last, patience = self._last_speech_at, self._stopped_at + GRACE
            if self._stopped_at <= last + DEAD_LINE:
                patience = min(patience, last + DEAD_LINE)
            after = self._settings.filler_after_ms / 1000
            return max(last + after, patience, self._filler_expected), self._fill
        wait = FURTHER_FILLERS if tools and self._fillers > 1 else SECOND_FILLER
        return max(self._quiet_since, self._filled_at) + wait, self._fill

    def _filler(self) -> str:
        """The next filler; empty when there is none that has not just been said."""
        fillers = self._settings.fillers
        if self._settings.filler_after_ms == 0:
            return ""
        for step in range(len(fillers)):
            text = fillers[(self._next_filler + step) % len(fillers)]
            if text != self._last_filler or (self._fillers == 0 and len(set(fillers)) == 1):
                return text
        return ""

    def _caller_due(self) -> tuple[float, Callable[[], None]] | None:
        if self._call.late_waiting():
            since = max(self._quiet_since, self._waiting_since)
            return since + LATE_AFTER, self._tell_late
        if self._reprompts >= len(self._settings.reprompts) and not self._settings.goodbye:
            return None
        since = max(self._quiet_since, self._waiting_since)
        return since + self._settings.caller_after_ms / 1000, self._caller_silent

    def _fill(self) -> None:
        text, silent = self._filler(), self._silent()
        self._fillers += 1
        self._after_break += 1
        self._filled_at = self._loop.time()
        self._last_filler = text
        self._next_filler = self._settings.fillers.index(text) + 1
        self._call.fill(text, silent)

    def _caller_silent(self) -> None:
        silent, said = self._silent(), self._reprompts
        self._reprompts += 1
        self._quiet_since = self._loop.time()
        if said < len(self._settings.reprompts):
            self._call.reprompt(self._settings.reprompts[said], silent)
        else:
            self.end()
            self._call.give_up_caller(self._settings.goodbye, silent)

    def _tell_late(self) -> None:
        self._quiet_since = self._loop.time()
        self._call.tell_late()

    def _stalled(self) -> None:
        if not self._certain:
            self.owed = Owed.NOTHING
            return
        silent, waited = self._silent(), self._loop.time() - self._waiting_since
        self.end()
        self._call.give_up_agent(silent, waited)

    def _presume_stopped(self) -> None:
        self._caller_since = None
        self._quiet_since = max(self._quiet_since, self._loop.time())

    def _nothing(self) -> None:
        """Sound is on its way: look again when it has run out."""

    def _silent(self) -> float:
        return self._loop.time() - self._quiet_since
