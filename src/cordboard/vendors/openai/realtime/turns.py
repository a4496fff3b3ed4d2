"""The caller's turns as OpenAI Realtime reports them: their start and end, and their words.

The service counts the milliseconds of the sound that it received, so a position becomes a time by
the amount sent since: the last frame left just now. No socket; the clock is the host's.
"""

from __future__ import annotations

from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.config import OpenAIRealtimeProvider, ServerVad
from cordboard.vendors.openai.realtime.messages import (
    ms_of,
    object_of,
    text_of,
    transcription_amounts,
)

_BYTES_PER_MS = 8
_MAX_TURNS = 32
"""Turns whose text may still come."""
_MOST_CHARACTERS = 20_000


class CallerTurns:
    """The caller's side of one connection."""

    def __init__(self, settings: OpenAIRealtimeProvider, host: ProtocolHost) -> None:
        self._settings = settings
        self._host = host
        self.sent_bytes = 0
        """Bytes of sound sent on this connection, in G.711."""
        self._speech = ""
        """The item of the current turn."""
        self._turns: dict[str, int] = {}
        """Turns that have no text yet, by the item of their sound."""
        self._partial = ("", "")
        """The item that is being transcribed, and its words so far."""
        self._done: dict[str, None] = {}
        """Items that are over, to recognise repetitions."""

    @property
    def textless(self) -> bool:
        """True if some turn has no text yet."""
        return bool(self._turns)

    def started(self, message: JsonObject) -> bool:
        """Handle `speech_started`; True if it was valid. Its position is that of the sound that the
        model hears, `prefix_padding_ms` before the speech."""
        item = text_of(message, "item_id")
        if not item:
            return self._ignore("malformed", "speech_started")
        if item == self._speech or item in self._turns or item in self._done:
            return self._ignore("duplicate", "speech_started")
        self._speech = item
        return True

    def started_at(self, message: JsonObject) -> float | None:
        vad = self._settings.turn_detection
        padding = vad.prefix_padding_ms if isinstance(vad, ServerVad) else 0
        return self._at(ms_of(message, "audio_start_ms"), padding)

    def stopped(self, message: JsonObject) -> bool:
        """Handle `speech_stopped`; True if it was valid. Its position is the point at which the
        silence was long enough; a semantic detector does not report the end of the speech."""
        item = text_of(message, "item_id")
        if not item:
            return self._ignore("malformed", "speech_stopped")
        if item in self._turns or item in self._done:
            return self._ignore("duplicate", "speech_stopped")
        if item != self._speech:
            self._ignore("out_of_order", "speech_stopped")
        self._speech = ""
        vad = self._settings.turn_detection
        last = None
        if isinstance(vad, ServerVad):
            last = self._at(ms_of(message, "audio_end_ms"), -vad.silence_duration_ms)
        self._turns[item] = self._host.caller_stopped(last)
        if len(self._turns) > _MAX_TURNS:
            self._finish(next(iter(self._turns)))
        return True

    def transcribed_in_part(self, message: JsonObject) -> None:
        """Handle more words of a turn. Those of any turn but the last one are left to its text."""
        item, delta = text_of(message, "item_id"), text_of(message, "delta")
        last = self._speech or next(reversed(self._turns), "")
        if not item or item != last:
            return
        before = self._partial[1] if self._partial[0] == item else ""
        self._partial = item, (before + delta)[:_MOST_CHARACTERS]
        self._host.caller_partial(self._partial[1])

    def transcribed(self, message: JsonObject) -> None:
        """Handle the words of a turn."""
        item = text_of(message, "item_id")
        amounts = transcription_amounts(object_of(message.get("usage")))
        if item not in self._turns:
            why = "duplicate" if item in self._done else "unknown"
            self._ignore(why, "a transcription")
            return
        text = message.get("transcript")
        if not isinstance(text, str):
            self._ignore("malformed", "a transcription")
            text = ""
        self._host.caller_text(text, self._finish(item))
        if amounts:
            self._host.used(self._settings.transcription.model, amounts)

    def not_transcribed(self, message: JsonObject) -> None:
        """Handle a failed transcription: the turn continues without words."""
        item = text_of(message, "item_id")
        if item not in self._turns:
            self._ignore("unknown", "a failed transcription")
            return
        error = object_of(message.get("error"))
        self._ignore("warning", f"no transcription: {text_of(error, 'code')[:80]}")
        self._host.caller_text("", self._finish(item))

    def silent_turn(self, item: str) -> None:
        """Handle a long silence that the service reports: its sound is not a turn of the caller."""
        self._done[item] = None

    def _finish(self, item: str) -> int:
        self._done[item] = None
        if len(self._done) > _MAX_TURNS:
            del self._done[next(iter(self._done))]
        return self._turns.pop(item)

    def _at(self, position_ms: int | None, more_ms: int) -> float | None:
        if position_ms is None:
            return None
        behind_ms = self.sent_bytes // _BYTES_PER_MS - position_ms - more_ms
        return self._host.now() - max(0, behind_ms) / 1000

    def _ignore(self, why: str, detail: str) -> bool:
        self._host.ignored(why, detail)
        return False
