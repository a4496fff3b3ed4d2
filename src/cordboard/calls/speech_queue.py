"""Decide about the engine's sentences in one call: each passes through here before it is spoken.

    silence watch, tools, call ──say──▶ SpeechQueue ──speak──▶ agent ──AgentText──▶ begins ──▶ heard
                     tools ──say_in_silence──▶ waits, drops ─┘

The queue knows the floor (`calls.floor`), the agent knows its voice; each may drop a sentence,
whose state then says so (`agent_api.speech`). The rules:

- While the call is ending only its farewell is spoken; the caller hears nothing that begins after
  it.
- A tool's question is not spoken while another question to the caller is open.
- While the agent is to be quiet, only an operator's words and a farewell are spoken.
- A slow tool's filler waits for the floor and for `APART` seconds without the agent's voice or
  another filler. One that is wanted within `APART` of another tool's filler is dropped: of several
  slow tools one is enough. It is dropped, too, when the tool answers first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cordboard.agent_api.speech import Purpose, Speech
from cordboard.calls.floor import Floor, Owed

_OF_NO_AGENT = ("operator", "farewell", "apology")
"""Purposes of sentences that are spoken although the agent is to be quiet."""
APART = 2.0
"""Seconds between a filler and any other sound of ours: closer together they are only noise."""


@dataclass(frozen=True, slots=True)
class SpeechOutlets:
    """The conversation, as its speech queue sees it."""

    speak: Callable[[Speech], None]
    """Hand a sentence to the agent."""
    queued_ms: Callable[[], int]
    """Milliseconds of sound that the caller has yet to hear."""
    filled: Callable[[], None] = lambda: None
    """A filler that the silence watch did not request is being spoken."""


class SpeechQueue:
    """The engine's sentences of one call."""

    def __init__(self, floor: Floor, outlets: SpeechOutlets) -> None:
        self._loop = asyncio.get_running_loop()
        self._floor = floor
        self._outlets = outlets
        self._handed: list[Speech] = []
        """Sentences with the agent, or on the way to the caller."""
        self._waiting: Speech | None = None
        """A tool's filler that does not fit yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._tool_filled_at = -APART
        """Loop time at which the last tool's filler was handed over."""
        self._quiet_from = -APART
        """Loop time before which it is too soon for a tool's filler."""
        self._farewell_begun = False
        self.current: Speech | None = None
        """The latest sentence, while the agent has not reported its end; None: the agent's own."""
        self.silenced = False
        """The caller must not hear the latest sentence."""
        self._notice: Speech | None = None
        """The sentence that says who is there."""

    # Sentences to be spoken.

    def say(self, speech: Speech) -> None:
        """Have the agent say it now, or drop it."""
        floor = self._floor
        allowed = speech.ends_call or not floor.ending
        if speech.purpose in ("question", "menu") and floor.caller_is_asked:
            allowed = False
        if floor.quiet and speech.purpose not in _OF_NO_AGENT:
            allowed = False
        if not allowed:
            speech.drop()
            return
        if speech.purpose == "filler":
            self._quiet_from = max(self._quiet_from, self._loop.time() + APART)
            self.look()
        self._hand_over(speech)

    def say_in_silence(self, speech: Speech) -> None:
        """Have a slow tool's filler spoken as soon as it fits, or drop it."""
        too_soon = self._loop.time() - self._tool_filled_at < APART
        if self._floor.ending or self._waiting is not None or too_soon:
            speech.drop()
            return
        self._waiting = speech
        self.look()

    def withdraw(self, speech: Speech) -> None:
        """Drop a filler that is not needed any more; without effect once the agent has it."""
        if self._waiting is speech:
            self._drop_waiting()

    def look(self) -> None:
        """Check whether the waiting filler fits now, because the floor has changed."""
        if self._waiting is None:
            return
        self._stop()
        now, queued = self._loop.time(), self._outlets.queued_ms() / 1000
        if queued > 0:
            self._quiet_from = now + queued + APART
        if not self._floor.free:
            return  # the conversation calls `look` again when it is
        if now < self._quiet_from - 1e-3:
            self._timer = self._loop.call_at(self._quiet_from, self.look)
            return
        speech, self._waiting = self._waiting, None
        self._tool_filled_at = now
        self._outlets.filled()
        self._hand_over(speech)

    def begin_farewell(self) -> None:
        """Allow only the farewell from now on: the call is ending."""
        self._floor.ending = True
        self._drop_waiting()

    def end(self) -> None:
        """Drop all pending sentences: the call is over. Idempotent."""
        self.begin_farewell()
        handed, self._handed = self._handed, []
        for speech in handed:
            speech.drop()
            speech.cut()

    # The current sentence.

    def begins(self, speech: Speech | None) -> bool:
        """Note that a sentence begins; None: the agent's own. True if the caller hears it."""
        ends_call = speech is not None and speech.ends_call
        self.silenced = self._farewell_begun and not ends_call
        if self._floor.quiet and (speech is None or not self._heard_in_quiet(speech)):
            self.silenced = True
        if speech is None:
            self.current = None
            return not self.silenced
        if self.silenced:
            speech.drop()
            return False
        if speech not in self._handed:  # the agent's own filler, between two of its parts
            self._handed.append(speech)
            if speech.purpose == "filler":
                self._outlets.filled()
        self._farewell_begun = self._farewell_begun or (ends_call and self._floor.ending)
        self.current = None if speech.of_agent else speech
        speech.begin()
        return True

    def ends_before_answer(self) -> bool:
        """Note that the agent has handed over all of its speech. True if that was a sentence of the
        engine before an answer that is still owed."""
        current, floor = self.current, self._floor
        if current is None or floor.owed is not Owed.ANSWER:
            return False
        if current.purpose == "approval" and floor.caller_is_asked:
            return False
        self.current = None
        return True

    def fall_silent(self) -> None:
        """Begin a time in which the agent says nothing, the rest of its sentence included."""
        self._floor.quiet = self.silenced = True
        self._drop_waiting()

    def announce(self, text: str, changed: Callable[[Speech], None]) -> None:
        """Have the agent say who is there, though it is to be quiet. Its own answer, which it may
        not give now, does not precede that."""
        purpose: Purpose = "approval" if self._floor.quiet else "operator"
        self._notice = Speech(text, purpose, changed)
        self._hand_over(self._notice)

    def _heard_in_quiet(self, speech: Speech) -> bool:
        return speech is self._notice or speech.purpose in _OF_NO_AGENT

    def silence_agent(self) -> None:
        """Keep the agent's later speech from the caller."""
        self.silenced = self._farewell_begun = True

    def _hand_over(self, speech: Speech) -> None:
        self._handed = [each for each in self._handed if not each.over]
        self._handed.append(speech)
        self._outlets.speak(speech)

    def _drop_waiting(self) -> None:
        self._stop()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.drop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
