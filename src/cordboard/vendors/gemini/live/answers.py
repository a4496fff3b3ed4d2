"""Gemini Live's answers and transcripts (`serverContent`): sound, words, ends, cuts.

An answer begins with its first sound or word. `generationComplete` is its end for us;
`turnComplete` may come later by the time that the answer takes to be heard, and only then is the
service idle.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from cordboard.tools.tool import JsonObject
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.gemini.live.floor import Floor
from cordboard.vendors.gemini.live.sound import SoundToCall, rate_of

CALL_AGAIN = (
    "[Your last function call could not be read. Make it again with valid arguments, or tell the "
    "caller that it is not possible.]"
)
_MOST_AGAIN = 2
_TRAILING = 1.0
"""Seconds in which sound of a cut answer may still arrive."""
_KNOWN = frozenset(
    {
        *("modelTurn", "turnComplete", "interrupted", "generationComplete", "groundingMetadata"),
        *("inputTranscription", "outputTranscription", "urlContextMetadata", "interactionStatus"),
        *("turnCompleteReason", "waitingForInput", "interimInputTranscription"),
    }
)


class Answers:
    """One connection's answers, and the caller's words."""

    def __init__(self, floor: Floor, settings: GeminiLiveProvider) -> None:
        self._floor = floor
        self._host = floor.host
        handling = settings.realtime_input_config.activity_handling
        self._uncuttable = handling == "NO_INTERRUPTION"
        self._back = SoundToCall(floor.session.format)
        self._words = ""
        self._cut_at: float | None = None
        self._asked_again = 0

    def content(self, content: JsonObject) -> None:
        """Take a `serverContent`."""
        for name in content:
            if name not in _KNOWN:
                self._floor.not_known(f"serverContent.{name}")
        if content.get("interrupted") is True:
            self._interrupted()
        if (written := content.get("inputTranscription")) is not None:
            self._caller_words(written)
        if (turn := content.get("modelTurn")) is not None:
            self._model_turn(turn)
        if (written := content.get("outputTranscription")) is not None:
            self._answer_words(written)
        if _has_failed(content.get("turnCompleteReason")) and not self._floor.done_told:
            self._host.answer_broke()
        if content.get("generationComplete") is True:
            self._generation_complete()
        if content.get("turnComplete") is True:
            self._turn_complete(content)

    # The caller.

    def _caller_words(self, written: Any) -> None:
        text = _text_of(written)
        if text is None:
            self._host.ignored("malformed", "inputTranscription")
            return
        floor = self._floor
        since = floor.answering
        if since is None and self._uncuttable and floor.session.speaking():
            since = floor.ready_at
        floor.turns.words(text, written.get("finished") is True, since)

    def voice_activity(self, message: JsonObject) -> None:
        """Take a `voiceActivity`."""
        self._activity(message.get("voiceActivityType"), "ACTIVITY_START", "ACTIVITY_END")

    def voice_signal(self, message: JsonObject) -> None:
        """Take a `voiceActivityDetectionSignal`."""
        signal = message.get("vadSignalType")
        self._activity(signal, "VAD_SIGNAL_TYPE_SOS", "VAD_SIGNAL_TYPE_EOS")

    def _activity(self, kind: object, start: str, end: str) -> None:
        floor = self._floor
        heard = floor.answering is not None or floor.session.speaking()
        if kind == end:
            floor.turns.stopped()
        elif kind != start:
            self._host.ignored("malformed", "voice activity")
        elif not (heard and self._uncuttable):
            floor.turns.started()

    # The answer.

    def _model_turn(self, turn: Any) -> None:
        parts = turn.get("parts", []) if isinstance(turn, dict) else None
        if not isinstance(parts, list):
            self._host.ignored("malformed", "modelTurn")
            return
        for part in parts:
            inline = part.get("inlineData") if isinstance(part, dict) else None
            if isinstance(inline, dict):
                self._sound(inline)
            elif not isinstance(part, dict):
                self._host.ignored("malformed", "a part of modelTurn")
            elif "text" not in part:  # text parts are thoughts: spoken words come as transcripts
                self._host.ignored("unknown", "a part of modelTurn")

    def _sound(self, inline: JsonObject) -> None:
        rate, data = rate_of(inline.get("mimeType")), inline.get("data")
        pcm = _decoded(data) if isinstance(data, str) else None
        if rate is None or pcm is None:
            self._host.ignored("malformed", "inlineData")
        elif pcm and self._goes_on():
            self._host.agent_sound(self._back.sound(pcm, rate))

    def _answer_words(self, written: Any) -> None:
        text = _text_of(written)
        if text is None:
            self._host.ignored("malformed", "outputTranscription")
        elif text and self._goes_on():
            self._words += text
            self._host.agent_words(text)

    def _goes_on(self) -> bool:
        """True if the content belongs to an answer that is still needed; the first content begins
        it."""
        floor = self._floor
        if self._cut_at is not None:
            if self._host.now() - self._cut_at < _TRAILING:
                self._host.ignored("late", "the rest of an answer that was cut")
                return False
            self._cut_at = None
        if floor.answering is None:
            floor.turns.answered()
            floor.answering = self._host.now()
            floor.busy = floor.greeted = True
            floor.gives_way = False
        floor.done_told = False
        return True

    def _interrupted(self) -> None:
        floor = self._floor
        if floor.answering is None and not floor.session.speaking():
            self._host.ignored("out_of_order", "interrupted, and nothing was being said")
            return
        if floor.answering is not None:
            self._cut_at = self._host.now()
        self._over()
        self._back.forget()
        floor.done_told = True  # the shell closes it
        self._host.interrupted()
        floor.turns.cut()

    def _over(self) -> None:
        if self._floor.answering is not None:
            self._floor.memory.said("model", self._words)
            if not self._floor.gives_way:
                self._floor.memory.told()
        self._floor.answering, self._words = None, ""

    def _generation_complete(self) -> None:
        if self._floor.answering is None:
            return
        if rest := self._back.rest():
            self._host.agent_sound(rest)
        self._floor.done()

    def pause(self) -> None:
        """Pause the answer: the model waits for a tool."""
        if self._floor.answering is not None:
            self._generation_complete()
            self._over()

    def _turn_complete(self, content: JsonObject) -> None:
        floor = self._floor
        if floor.closing_until is not None and floor.answering is None:
            floor.catch_up()  # the end of the exchange that the connection was lost in
            return
        self._generation_complete()
        silent = floor.answering is None and self._cut_at is None
        self._cut_at = None
        self._over()
        floor.busy = floor.gives_way or content.get("interactionStatus") == "IN_PROGRESS"
        floor.gives_way = False
        if floor.turns.open and silent and not floor.busy:
            floor.turns.stopped()  # and it is left unanswered
            floor.done_told = False
        floor.turns.settle()
        self._reason(content.get("turnCompleteReason"), silent)
        if not floor.busy and not floor.noted:
            floor.done()
        floor.tell_notes()

    def _reason(self, reason: object, silent: bool) -> None:
        if not silent:
            self._asked_again = 0
        if not isinstance(reason, str) or reason.endswith("UNSPECIFIED"):
            return
        self._host.ignored("warning", reason[:80])
        if reason == "MALFORMED_FUNCTION_CALL" and silent and self._asked_again < _MOST_AGAIN:
            self._asked_again += 1
            self._floor.note(CALL_AGAIN)


def _has_failed(reason: object) -> bool:
    """True if a turn with this reason (google-genai 3.4, `types.TurnCompleteReason`) may have ended
    in the middle of a sentence."""
    whole = ("TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT")
    return isinstance(reason, str) and reason not in whole


def _decoded(data: str) -> bytes | None:
    """Decode Base64 in either alphabet, as Google's JSON allows; None: malformed."""
    try:
        return b64decode(data, b"-_" if "-" in data or "_" in data else None, validate=True)
    except (ValueError, binascii.Error):
        return None


def _text_of(written: Any) -> str | None:
    """Return the words of a transcription; None: malformed."""
    text = written.get("text", "") if isinstance(written, dict) else None
    return text if isinstance(text, str) else None
