"""The messages of Deepgram Flux (`/v2/listen`), turn by turn; pure.

Flux sends the text of the current turn repeatedly, and reports when the turn may be over, continues
after all, or is over. The text between two positions in the caller's sound is that of the turns
that overlap it. All positions are samples at 8 kHz since the call began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cordboard.agent_api.stt import TurnVerdict
from cordboard.audio.vad import RATE
from cordboard.vendors.deepgram.stt_results import (
    Phrase,
    as_object,
    number,
    text_between,
    words_of,
)

KEEP_TURNS = 20
SETTLED_REACH = RATE // 2
"""Samples by which a settled text may end before the requested sound: that much arrived while the
verdict was on its way."""
_VERDICTS = {
    "EagerEndOfTurn": TurnVerdict.PERHAPS_OVER,
    "TurnResumed": TurnVerdict.GOES_ON,
    "StartOfTurn": TurnVerdict.GOES_ON,
    "EndOfTurn": TurnVerdict.OVER,
}


class FluxTurns:
    """All messages of Flux in one call, over all its connections."""

    def __init__(self) -> None:
        self._turns: dict[tuple[int, int], Phrase] = {}
        """Phrases by the connection's first sample and the turn's number, in order."""
        self._base = 0
        self._last_over: tuple[int, int] | None = None
        self.covered = 0
        """The sample up to which all sound has been processed."""
        self.settled = 0
        """The sample up to which the text will not change if the caller stays silent."""
        self.verdict: TurnVerdict | None = None
        """The last message's verdict about the turn; None if it had none."""
        self.problem = ""

    def connected(self, base: int) -> None:
        """Note a new connection; its sound begins at this sample."""
        self._base = base
        self._last_over = None
        self.covered = base
        self._turns = {key: turn for key, turn in self._turns.items() if turn.end <= base}
        self.problem = ""

    def read(self, message: bytes) -> bool:
        """Take a message. False: it is malformed, and nothing has changed."""
        self.verdict = None
        told = as_object(message)
        if told is None:
            return False
        match told.get("type"):
            case "TurnInfo":
                return self._turn_info(told)
            case "Error":
                said = told.get("description") or told.get("code")
                self.problem = str(said or "an error")[:200]
                return True
            case str():
                return True  # Connected, Warning, ConfigureSuccess, and future message types
        return False

    def text(self, begin: int, end: int) -> tuple[str, float]:
        """Return the text between two samples, as far as it is known."""
        turns = (turn for turn in self._turns.values() if turn.end > begin and turn.start < end)
        return text_between(turns, begin, end)

    def _turn_info(self, told: Mapping[str, Any]) -> bool:
        index, event = told.get("turn_index"), told.get("event")
        start, end = number(told.get("audio_window_start")), number(told.get("audio_window_end"))
        text = told.get("transcript")
        if not isinstance(index, int) or not isinstance(text, str) or not isinstance(event, str):
            return False
        if start is None or end is None or end < start or isinstance(index, bool):
            return False
        key = (self._base, index)
        if self._last_over is not None and key <= self._last_over:
            return True  # late, or repeated: that turn is over
        begin = self._base + int(start * RATE)
        until = self._base + int(end * RATE)
        words = words_of(told.get("words"), self._base, ("word",))
        self._turns[key] = Phrase(text.strip(), words, begin, until)
        while len(self._turns) > KEEP_TURNS:
            del self._turns[next(iter(self._turns))]
        self.covered = max(self.covered, until)
        self.verdict = _VERDICTS.get(event)
        if self.verdict in (TurnVerdict.PERHAPS_OVER, TurnVerdict.OVER):
            self.settled = max(self.settled, until)
        elif self.verdict is TurnVerdict.GOES_ON:
            self.settled = min(self.settled, begin)
        if self.verdict is TurnVerdict.OVER:
            self._last_over = key
        return True
