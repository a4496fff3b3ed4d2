"""Silence that lasts too long, and the remedies: fillers, re-prompts, a goodbye, a watchdog.

One watch per call, the same for every agent. It keeps the times; `calls.floor` knows the owed
speech, and who speaks. The conversation reports events, the watch has one timer and makes the
sentences, whose states report their results.

- An answer is owed: a filler `filler_after_ms` after the caller's last sample, unless its text is
  there already; another one 5 s after that was heard, and every 5 s then (while a tool runs, 8 s).
  Never the same twice in a row. Nothing within `agent_after_ms`, running tools not counted: the
  agent has stalled.
- The greeting is owed, or the sound of a text is missing, or an answer's sound has run out before
  its end: a filler after 4 s, and further ones as above; of a broken answer `MOST_AFTER_A_BREAK`.
- The caller waits for the end of a turn that the agent does not report: one filler.
- The caller has put us on hold: nothing, until they are back.
- Nothing is owed, or an answer has begun and breaks off, neither side speaks and no tool
  runs for `caller_after_ms`: the re-prompts in order, then the goodbye. Words of the caller or a
  key start over; noise does not. A late answer is spoken before, after `LATE_AFTER`.

Sound on its way to the caller is queried, never remembered: an agent that never reports the end of
its speech blocks nothing. All times are loop times in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.calls.floor import Floor, Owed
from cordboard.calls.speech_queue import APART
from cordboard.config.conversation import Silence
from cordboard.config.schema import Config
from cordboard.observe.conversation_metrics import SilenceKind

SECOND_FILLER, FURTHER_FILLERS = 5.0, 8.0
"""Seconds of silence before the filler after the first, and before each one after that while a tool
runs: it takes its time; an agent that only thinks may have stalled."""
LEFT_ALONE = 4.0
"""Seconds of silence before a filler where sound is due at once: a greeting, the sound of a text,
the rest of an answer. Two pieces of a working answer are 2 s apart at most."""
MOST_AFTER_A_BREAK = 3
"""Fillers after sound that does not continue: then the caller is asked, as when nothing is owed."""
GRACE = 0.15
"""Seconds for an answer, from the decision that the turn is over, before a filler comes."""
DEAD_LINE = 1.1
"""Seconds after the caller's last sample at which `GRACE` ends in any case: a filler needs 0.1 s to
be heard."""
TOOLS_FILLER = 3.0
"""Seconds after the caller's last sample up to which a tool's own filler replaces the engine's. A
later one comes after the engine's."""
TOOLS_SILENCE = 1.5
"""Seconds after the caller's last sample at which a tool's filler that replaces the engine's is
spoken at the latest. The engine's would come earlier, but the operator's is longer and delays a
quick answer more."""
LONGEST_SPEECH = 60.0
"""Seconds after which a caller who began to speak counts as silent without a reported end."""
LATE_AFTER = 0.7
"""Seconds of silence before a late answer: a caller who wants to continue begins sooner."""
_SOON = 0.005


def sentences(config: Config) -> Iterator[str]:
    """Yield the fillers, re-prompts and goodbyes of all contexts."""
    for context in config.contexts.values():
        silence = context.silence
        yield from (*silence.fillers, *silence.continuers, *silence.reprompts)
        yield from (silence.goodbye, silence.after_hold)


@dataclass(frozen=True, slots=True)
class SilenceOutlets:
    """The conversation, as its silence watch sees it. All return at once."""

    say: Callable[[Speech], None]
    queued_ms: Callable[[], int]
    """Milliseconds of sound that the caller has yet to hear."""
    tools_running: Callable[[], bool]
    late_waiting: Callable[[], bool]
    """True if there is a late answer to be spoken."""
    tell_late: Callable[[], None]
    record: Callable[[SilenceKind, float, str], None]
    """`record(kind, seconds, text)`: a silence was that long, and was ended by this text."""
    caller_gone: Callable[[str], None]
    """The caller does not answer: say this goodbye and hang up."""
    agent_stalled: Callable[[str], None]
    """The agent has stalled, for this reason: apologise and hang up."""


class SilenceWatch:
    """Watches over one call from `begin` to `end`."""

    def __init__(self, silence: Silence, floor: Floor, outlets: SilenceOutlets) -> None:
        self._settings = silence
        self._floor = floor
        self._call = outlets
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._on = False
        self._waiting_since = 0.0
        """Loop time from which the agent could have answered: the end of the turn, or of the last
        tool."""
        self._stopped_at = 0.0
        """Loop time of the decision that the caller's last turn is over."""
        self._last_speech_at = 0.0
        self._caller_since = 0.0
        """Loop time at which the caller's current or last utterance began."""
        self._quiet_since = 0.0
        """End of the last sound of either side, of the last key and of the last tool."""
        self._fillers = 0
        """Fillers spoken in this turn."""
        self._filled_at = 0.0
        """Loop time at which the last filler was requested."""
        self._after_break = 0
        """Fillers since the answer's last sound."""
        self._filler_expected = 0.0
        """Loop time before which no filler is due: a tool's own filler is about to come."""
        self._next_filler = 0
        self._next_continuer = 0
        self._last_filler = ""
        self._reprompts = 0

    # Events.

    def begin(self) -> None:
        """Start to watch: the call is connected."""
        self._on = True
        self._quiet_since = self._waiting_since = self._loop.time()
        self._look()

    def end(self) -> None:
        """Stop watching: the call ends. Idempotent."""
        self._on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def caller_started(self) -> None:
        self._caller_since = self._loop.time()
        self._look()

    def caller_cut_in(self, *, owes_answer: bool) -> None:
        """Note that the caller has interrupted the agent: their current or last words need an
        answer."""
        self._quiet_since = self._loop.time()
        if owes_answer:
            self._count_anew()
        self._look()

    def caller_pauses(self, silent_since: float) -> None:
        """Note that the caller pauses for long, and keeps the floor."""
        continuers = self._settings.continuers
        if self._on and continuers and not self._floor.caller_waits:
            text = continuers[self._next_continuer % len(continuers)]
            self._next_continuer += 1
            self._loop.call_soon(self._encourage, text, silent_since)

    def _encourage(self, text: str, silent_since: float) -> None:
        if self._on and self._call.queued_ms() == 0 and not self._call.tools_running():
            self._say(text, "continuer", silent_since)

    def caller_waits(self, silent_since: float) -> None:
        """Note that the caller has been silent since then, but the agent reports no end of their
        turn."""
        self._quiet_since = max(self._quiet_since, silent_since)
        self._loop.call_soon(self._break_silence)

    def _break_silence(self) -> None:
        busy = self._call.queued_ms() > 0 or self._call.tools_running()
        busy = busy or self._floor.caller_waits
        if self._on and not busy and self._silent() >= APART and self._filler():
            self._fill()
            self._look()

    def caller_stopped(self, last_speech_at: float, *, owes_answer: bool) -> None:
        """Note that the caller's turn is over. One that began under our voice may need no answer:
        it gets no filler, and the agent no timeout."""
        self._stopped_at = self._loop.time()
        self._last_speech_at = last_speech_at
        if owes_answer:
            self._quiet_since = max(last_speech_at, min(self._quiet_since, self._stopped_at))
            self._count_anew()
            if self._filled_at > last_speech_at:
                self._fillers = 1  # spoken before the agent knew that the turn was over
        else:
            self._quiet_since = max(self._quiet_since, last_speech_at)
        self._look()

    def caller_text(self, text: str) -> None:
        """Note the words of a turn; empty when nothing was understood."""
        if text:
            self._reprompts = 0
        self._look()

    def key(self) -> None:
        """Note that the caller pressed a key."""
        self._reprompts = 0
        self._quiet_since = max(self._quiet_since, self._loop.time())
        self._look()

    def caller_returns(self) -> None:
        """Note that the caller is back from hold."""
        self._reprompts = 0
        self.restart()

    def restart(self) -> None:
        """Count all times from now on: a tool begins or ends to wait for the caller, which has its
        own timeout, or a hold begins or ends."""
        now = self._loop.time()
        self._quiet_since = self._waiting_since = now
        self._last_speech_at = self._stopped_at = now
        self._look()

    def caller_answered(self) -> None:
        """Note that the caller has answered the desk, and the agent owes the outcome."""
        self._count_anew()

    def late_came(self) -> None:
        """Note that there is a late answer, to be spoken when it fits."""
        self._look()

    def agent_recovers(self) -> None:
        """Restart the timeout of an agent that had stalled and has recovered."""
        self._on = True
        self._waiting_since = self._loop.time()
        self._look()

    def answering(self, *, begins: bool) -> None:
        """Note that the agent's next sentence has its text; `begins`: it opens an answer."""
        if begins:
            self._waiting_since = self._loop.time()
        self._look()

    def sound(self, heard_until: float, *, of_answer: bool) -> None:
        """Note that sound was written that ends at this time. Called for each piece of it:
        cheap."""
        if of_answer:
            self._after_break = 0
        self._quiet_since = max(self._quiet_since, heard_until)

    def answer_done(self) -> None:
        """Note that all of an answer has been handed over, with sound or without."""
        self._look()

    def tool_filler_delay(self, threshold: float) -> float:
        """Return the seconds until the own filler of a tool that begins now; `threshold` is the
        tool's setting in seconds. A tool's filler that is due soon replaces the engine's, so that
        the caller hears one sentence for one wait; the silence before it lasts at most
        `TOOLS_SILENCE`, or `filler_after_ms` if that is longer."""
        now, last = self._loop.time(), self._last_speech_at
        after = self._settings.filler_after_ms / 1000
        if not after or self._fillers or now + threshold > last + TOOLS_FILLER:
            return threshold
        at = min(now + threshold, max(now, last + max(after, TOOLS_SILENCE)))
        self._filler_expected = at + _SOON
        self._look()
        return at - now

    def filled(self) -> None:
        """Note that a filler of a tool, or of the agent, is being spoken: the engine's is not
        needed."""
        self._fillers = max(1, self._fillers)
        self._quiet_since = max(self._quiet_since, self._loop.time())
        self._look()

    def tools_changed(self) -> None:
        """Note that a tool has begun or ended."""
        if not self._call.tools_running():
            self._waiting_since = self._loop.time()
        self._look()

    # Reactions.

    def _count_anew(self) -> None:
        """Restart the counters: an answer is owed from now on."""
        self._fillers, self._after_break = 0, 0
        self._filler_expected = 0.0
        self._waiting_since = self._loop.time()

    def _look(self) -> None:
        """Find the next due action, and its time; run the actions that are due now."""
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
        """Run the action outside the current event: the agent that reports an event must not be
        called within it."""
        due = self._due() if self._on else None
        if due is not None and due[1] == act and due[0] <= self._loop.time() + _SOON:
            act()
            self._look()

    def _due(self) -> tuple[float, Callable[[], None]] | None:
        now = self._loop.time()
        floor = self._floor
        if floor.caller_holds:
            return None
        if floor.caller_speaks:
            return self._caller_since + LONGEST_SPEECH, self._presume_stopped
        queued = self._call.queued_ms() / 1000
        if queued > 0:
            self._quiet_since = max(self._quiet_since, now + queued)
            return now + max(queued, 0.02), self._nothing
        if floor.caller_is_asked:
            return None
        if self._call.tools_running():
            return self._filler_due() if floor.owed is not Owed.NOTHING else None
        if floor.owed is Owed.NOTHING:
            return self._caller_due()
        last: tuple[float, Callable[[], None]] | None
        if floor.owed is Owed.SPEECH and floor.sounded:
            last = self._caller_due()
        else:
            last = self._waiting_since + self._settings.agent_after_ms / 1000, self._stalled
        dues = [due for due in (self._filler_due(), last) if due is not None]
        return min(dues, key=lambda due: due[0], default=None)

    def _filler_due(self) -> tuple[float, Callable[[], None]] | None:
        if not self._filler():
            return None
        tools, owed = self._call.tools_running(), self._floor.owed
        if not self._floor.asked or (owed is Owed.SPEECH and not tools):
            if self._after_break >= MOST_AFTER_A_BREAK:
                return None
            wait = SECOND_FILLER if self._after_break else LEFT_ALONE
            since = max(self._quiet_since, self._filled_at, self._waiting_since)
            return since + wait, self._fill
        if owed is Owed.ANSWER and self._fillers == 0:
            last, patience = self._last_speech_at, self._stopped_at + GRACE
            if self._stopped_at <= last + DEAD_LINE:
                patience = min(patience, last + DEAD_LINE)
            after = self._settings.filler_after_ms / 1000
            return max(last + after, patience, self._filler_expected), self._fill
        wait = FURTHER_FILLERS if tools and self._fillers > 1 else SECOND_FILLER
        return max(self._quiet_since, self._filled_at) + wait, self._fill

    def _filler(self) -> str:
        """Return the next filler; empty when all of them were just spoken."""
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
        text = self._filler()
        self._fillers += 1
        self._after_break += 1
        self._filled_at = self._loop.time()
        self._say(text, "filler", self._quiet_since)

    def _caller_silent(self) -> None:
        since, said = self._quiet_since, self._reprompts
        self._reprompts += 1
        self._quiet_since = self._loop.time()
        if said < len(self._settings.reprompts):
            self._say(self._settings.reprompts[said], "reprompt", since)
            return
        self.end()
        self._call.record("goodbye", self._quiet_since - since, self._settings.goodbye)
        self._call.caller_gone(self._settings.goodbye)

    def _say(
        self, text: str, kind: Literal["filler", "continuer", "reprompt"], since: float
    ) -> None:
        self._call.say(Speech(text, kind, partial(self._follow, kind, since)))

    def _follow(self, kind: SilenceKind, since: float, speech: Speech) -> None:
        """Record a sentence that the caller hears: only that ends the silence; a dropped one does
        not."""
        if speech.state is not SpeechState.BEGUN:
            return
        self._call.record(kind, self._loop.time() - since, speech.text)
        if kind == "filler":
            self._last_filler = speech.text
            self._next_filler = self._settings.fillers.index(speech.text) + 1

    def _tell_late(self) -> None:
        self._quiet_since = self._loop.time()
        self._call.tell_late()

    def _stalled(self) -> None:
        if not self._floor.gives_up_answer():
            return
        silent, waited = self._silent(), self._loop.time() - self._waiting_since
        self.end()
        self._call.record("stalled", silent, "")
        self._call.agent_stalled(f"no answer within {waited:.1f} s")

    def _presume_stopped(self) -> None:
        self._floor.caller_presumed_silent()
        self._quiet_since = max(self._quiet_since, self._loop.time())

    def _nothing(self) -> None:
        """Do nothing: sound is on its way, look again when it has run out."""

    def _silent(self) -> float:
        return self._loop.time() - self._quiet_since
