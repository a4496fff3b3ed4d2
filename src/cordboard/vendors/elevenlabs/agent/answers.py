"""The answers of an ElevenLabs agent, and the caller's words: sound, words, ends, cuts.

Sound and words of one answer bear the same event id; an interruption bears a later one. The words
are complete when the language model has finished writing, usually after the first sound. The words
of an answer that was cut come after the `interruption`, already shortened, and before the caller's
transcript: by their id they are late. Source: sessions recorded and reported by the authors of
pydantic-ai (2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.vendors.elevenlabs.agent import messages
from cordboard.vendors.elevenlabs.agent.sound import Sound
from cordboard.vendors.elevenlabs.agent.tools import ToolCalls

QUIET_S = 0.7
"""Seconds after the last sound was heard; two pieces of an answer are closer together."""
FASTEST, SHORT_S = 22.0, 0.3
"""Characters a second that no voice of the service exceeds (usual are 15), and seconds of sound
that may be missing, for a word or two."""
Event: TypeAlias = Mapping[str, Any]


class Answers:
    """One conversation's answers, and the caller's words."""

    def __init__(self, host: ProtocolHost, session: AgentSession, calls: ToolCalls) -> None:
        self.sound: Sound
        """Set when the agent has reported its formats; no event is taken before."""
        self._host = host
        self._session = session
        self._calls = calls
        self._cut_event = -1
        """Sound and words up to this event were cut."""
        self._sent_texts: list[str] = []
        """Messages sent in the caller's name."""
        self._answering = False
        self._sounded = False
        """There was sound in the answer."""
        self._ends = False
        """The agent hangs up after this answer."""
        self._heard_until = 0.0
        """Loop time at which the caller will have heard all sound of the answer."""
        self._characters = 0
        self._seconds = 0.0
        """Seconds of the agent's sound since the caller's last turn."""
        self._caller_speaks = False
        self._on_hold = False
        """The caller waits in the service's queue, and hears its music."""
        self._last_said = ("", -1)
        self._last_words = ("", -1)
        self._last_sound = ("", -1)
        self.handlers: Mapping[str, Callable[[Event], None]] = {
            "audio": self._take_sound,
            "interruption": self._take_interruption,
            "user_transcript": self._take_transcript,
            "tentative_user_transcript": self._take_tentative,
            "agent_response": self._take_words,
            "agent_response_complete": self._take_complete,
            "agent_tool_response": self._take_tool_response,
        }

    def look(self, now: float) -> None:
        """End an answer that has been heard, if no more of it is missing."""
        if self._answering and self._quiet(now) and self._all_said:
            self._end()

    def sent(self, text: str) -> None:
        """Note a message to answer, sent in the caller's name."""
        self._sent_texts.append(text.strip())
        self._nothing_said()

    def hold(self, waits: bool) -> None:
        """Note that the caller waits in the service's queue, or no longer does: the music that the
        caller hears belongs to no answer."""
        if self._on_hold and not waits:
            self._host.interrupted()
        self._on_hold = waits

    # The caller.

    def _take_transcript(self, event: Event) -> None:
        told = messages.part(event, "user_transcription_event")
        text, number = told.get("user_transcript"), messages.number(told.get("event_id"))
        if not isinstance(text, str):
            self._malformed(event)
            return
        text = text.strip()
        self._nothing_said()
        if text in self._sent_texts:
            self._sent_texts.remove(text)
        elif number is not None and (text, number) == self._last_said:
            self._host.ignored("duplicate", "a transcript")
        else:
            self._last_said = (text, -1 if number is None else number)
            self._caller_speaks = False
            self._host.caller_text(text)

    def _take_tentative(self, event: Event) -> None:
        """Note that the caller speaks. Over the agent's voice it may be its echo; there the service
        decides (`interruption`). Documented, but no live session is known to have had one: without
        it the shell's own voice trace notices a caller who speaks while the agent is silent."""
        told = messages.part(event, "tentative_user_transcription_event")
        text = messages.words(told.get("user_transcript"))
        heard = self._answering and not self._quiet(self._host.now())
        if not text or heard or self._session.speaking():
            return
        if not self._caller_speaks:
            self._caller_speaks = True
            self._answering = self._sounded = False
            self._host.caller_started()
        self._host.caller_partial(text)

    def _take_interruption(self, event: Event) -> None:
        number = messages.number(messages.part(event, "interruption_event").get("event_id"))
        if number is None:
            self._malformed(event)
            return
        if number <= self._cut_event:
            self._host.ignored("duplicate", "an interruption")
            return
        self._cut_event = number
        self._answering = self._sounded = False
        self._nothing_said()
        if self._sent_texts:
            self._host.interrupted()  # by a message in the caller's name
        else:
            self._caller_speaks = True
            self._host.caller_started()

    # The agent.

    def _take_words(self, event: Event) -> None:
        told = messages.part(event, "agent_response_event")
        text, number = told.get("agent_response"), messages.number(told.get("event_id"))
        if not isinstance(text, str):
            self._malformed(event)
            return
        if number is not None and number <= self._cut_event:
            self._host.ignored("late", "words of an answer that was cut")
            return
        text = messages.without_directions(text)
        if number is not None and (text, number) == self._last_words:
            self._host.ignored("duplicate", "an answer's words")
            return
        self._last_words = (text, -1 if number is None else number)
        if text:
            self._begin()
            self._characters += messages.spoken_length(text)
            self._host.agent_words(f"{text} ")

    def _take_sound(self, event: Event) -> None:
        told = messages.part(event, "audio_event")
        coded, number = told.get("audio_base_64"), messages.number(told.get("event_id"))
        sound = messages.decoded(coded)
        if sound is None or number is None:
            self._malformed(event)
            return
        if number <= self._cut_event:
            self._host.ignored("late", "sound of an answer that was cut")
            return
        if (coded, number) == self._last_sound:
            self._host.ignored("duplicate", "sound")
            return
        self._last_sound = (str(coded), number)
        if not sound:
            return
        converted = self.sound.to_call(sound)
        if self._on_hold:
            if converted:
                self._host.waiting_sound(converted)
            return
        self._begin()
        self._sounded = True
        length = self.sound.seconds(sound)
        self._seconds += length
        self._heard_until = max(self._heard_until, self._host.now()) + length
        if converted:
            self._host.agent_sound(converted)

    def _take_complete(self, event: Event) -> None:
        told = messages.part(event, "agent_response_complete_event")
        number = messages.number(told.get("event_id"))
        if number is not None and number <= self._cut_event:
            self._host.ignored("late", "the end of an answer that was cut")
        elif self._answering and self._sounded:
            if not self._all_said:
                self._host.answer_broke()
            self._end()

    def _take_tool_response(self, event: Event) -> None:
        """Note the results of the service's own tools: two of them concern us."""
        told = messages.part(event, "agent_tool_response")
        if told.get("is_error") or told.get("tool_type") == "client":
            return
        if told.get("tool_name") == "end_call":
            if self._answering:
                self._ends = True
            else:
                self._host.ended("the agent has ended the conversation")
        elif told.get("tool_name") == "skip_turn" and not self._answering:
            self._host.answer_done()

    def _quiet(self, now: float) -> bool:
        """True if the caller has heard nothing of the answer for long."""
        return now >= self._heard_until + QUIET_S

    @property
    def _all_said(self) -> bool:
        """True if there was sound for all the words, judging by its length."""
        return self._characters <= FASTEST * (self._seconds + SHORT_S)

    def _nothing_said(self) -> None:
        """Forget the words and the sound: the next ones belong to another answer."""
        self._characters, self._seconds = 0, 0.0

    def _begin(self) -> None:
        self._calls.proven()
        self._sent_texts.clear()
        if self._caller_speaks:  # it answers words that it has not reported
            self._caller_speaks = False
            self._host.caller_text("")
        if not self._answering:
            self._answering, self._sounded = True, False
            self._heard_until = self._host.now()

    def _end(self) -> None:
        self._answering = self._sounded = False
        self._host.answer_done()
        if self._ends:
            self._ends = False
            self._host.ended("the agent has ended the conversation")

    def _malformed(self, event: Event) -> None:
        self._host.ignored("malformed", str(event.get("type"))[:60])
