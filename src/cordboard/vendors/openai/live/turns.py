"""Turns and answers of an OpenAI Live session, which reports neither.

The model listens and speaks at the same time. Its sound is one track without end, silent while it
does not speak; the words of both sides come in fragments with positions on the session's timeline,
and nothing tells that a turn or an answer is over. So an answer begins with a frame that is not
silent and ends after enough silence of the track, and a turn of the caller begins with a fragment
and ends when the model begins to answer, or after enough of the caller's sound without another one.
Both are counted in milliseconds of sound, so no clock is needed. OpenAI's own grouping of
transcripts waits for 2 s of silence (openai 3.54, `TranscriptGrouper`).
"""

from __future__ import annotations

import re
from typing import Literal

from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.audio import g711
from cordboard.audio.format import AudioFormat

ANSWER_OVER_MS = 1_200
"""Silence of the track that ends an answer."""
PAUSE_MS = 500
"""Silence of the track within an answer that is passed on; the rest of it is a wait."""
YIELDS_MS = 300
"""Silence of the track after which words over an answer count as an interruption."""
TURN_OVER_MS = 2_000
"""The caller's sound without another fragment that ends a turn."""
_QUIETEST = 64
"""Loudest sample of the silent track; it holds some dither (about 20, measured by pydantic-ai)."""
_BYTES_PER_MS = 8
_MOST_CHARACTERS = 20_000
_SENTENCE_ENDS = (".", "!", "?")
_SPOKEN = re.compile(r"\w")


def quiet_codes(audio_format: AudioFormat) -> bytes:
    """Return the G.711 codes of samples that count as silence."""
    decode = g711.ulaw_to_linear if audio_format.encoding == "ulaw" else g711.alaw_to_linear
    samples = memoryview(decode(bytes(range(256)))).cast("h")
    return bytes(code for code, sample in enumerate(samples) if abs(sample) <= _QUIETEST)


class LiveTurns:
    """Both sides of one connection."""

    def __init__(self, host: ProtocolHost, audio_format: AudioFormat) -> None:
        self._host = host
        self._quiet_codes = quiet_codes(audio_format)
        self.sent_ms = 0.0
        """The caller's sound sent on this connection: the session's timeline."""
        self.answering = False
        self.working = 0
        """Tasks that the model has delegated: an answer follows them."""
        self._quiet_ms = float(TURN_OVER_MS)
        """Silence of the track since the model's voice."""
        self._text = ""
        """The caller's words that are not reported yet."""
        self._turn_open = False
        self._began_ms = self._ended_ms = 0.0
        """Positions of the caller's last words."""
        self._last: dict[Literal["caller", "agent"], str] = {"caller": "", "agent": ""}

    def sent(self, size: int) -> None:
        """Count a frame of the caller's sound."""
        self.sent_ms += size / _BYTES_PER_MS
        if self._text and self.sent_ms - self._ended_ms >= TURN_OVER_MS:
            self._close_turn()

    def caller_words(self, delta: str, start_ms: float, end_ms: float) -> None:
        """Take a fragment of the caller's words."""
        if not self._text:
            tail = not _SPOKEN.search(delta)
            if tail and self.answering and start_ms <= self._ended_ms:
                return  # the closing punctuation of the turn that is being answered
            self._began_ms = start_ms
        self._ended_ms = max(end_ms, self._ended_ms)
        self._text = (self._text + self._spaced("caller", delta))[:_MOST_CHARACTERS]
        if not self.answering or self._quiet_ms >= YIELDS_MS:
            self._open_turn()
        if self._turn_open:
            self._host.caller_partial(self._text)

    def agent_words(self, delta: str) -> None:
        """Take a fragment of the model's words."""
        self._begin_answer()
        self._host.agent_words(self._spaced("agent", delta))

    def sound(self, frame: bytes) -> None:
        """Take a piece of the track."""
        if frame.translate(None, self._quiet_codes):
            self._begin_answer()
            self._quiet_ms = 0.0
            self._host.agent_sound(frame)
            return
        before, self._quiet_ms = self._quiet_ms, self._quiet_ms + len(frame) / _BYTES_PER_MS
        if not self.answering:
            return
        if self._text and not self._turn_open and self._quiet_ms >= YIELDS_MS:
            self._open_turn()  # the model has stopped for the caller
        elif before < PAUSE_MS and not self._turn_open:
            self._host.agent_sound(frame)
        if self._quiet_ms >= ANSWER_OVER_MS and not self.working:
            self._end_answer()

    # Inside.

    def _open_turn(self) -> None:
        if self._turn_open:
            return
        self._turn_open = True
        self.answering = False
        self._host.caller_started(self._at(self._began_ms))

    def _close_turn(self) -> None:
        """Report the caller's turn; words over an answer that went on are a turn of their own."""
        text, self._text = self._text.strip(), ""
        turn = self._host.caller_stopped(self._at(self._ended_ms)) if self._turn_open else None
        self._turn_open = False
        self._last["caller"] = ""
        self._host.caller_text(text, turn)

    def _begin_answer(self) -> None:
        if self._turn_open:
            self._close_turn()
        self.answering = True

    def _end_answer(self) -> None:
        self.answering = False
        self._last["agent"] = ""
        self._host.answer_done()

    def _at(self, position_ms: float) -> float:
        return self._host.now() - max(0.0, self.sent_ms - position_ms) / 1000

    def _spaced(self, side: Literal["caller", "agent"], delta: str) -> str:
        """Return the fragment with the space that is missing where a new segment begins."""
        before, self._last[side] = self._last[side], delta
        joins = before.endswith(_SENTENCE_ENDS) and delta[:1].isupper()
        return f" {delta}" if joins else delta
