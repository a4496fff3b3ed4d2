"""The pieces of the service's sound that were handed over, so that a cut can name them.

Pure bookkeeping, in bytes of the session's format.
"""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.agent_api.service_protocol import CutItem
from cordboard.audio.format import AudioFormat

MAX_TURNS = 4
"""Turns that may still be on their way to the caller; older ones have been heard."""


@dataclass(slots=True)
class _Piece:
    turn: int
    item: str
    size: int


class SpokenItems:
    """The pieces of the last answers of one call."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._format = audio_format
        self._pieces: list[_Piece] = []

    def add(self, turn: int, item: str, size: int) -> None:
        """Note that `size` more bytes of this piece were handed over."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.turn == turn and last.item == item:
            last.size += size
            return
        self._pieces.append(_Piece(turn, item, size))
        if self._pieces[0].turn < turn - MAX_TURNS:
            self._pieces = [p for p in self._pieces if p.turn >= turn - MAX_TURNS]

    def cut(self, heard_ms: int, turn: int) -> tuple[CutItem, ...]:
        """Return the pieces that the caller did not hear completely, given `heard_ms` of sound
        heard since the first sound of `turn`. Forgets all pieces."""
        cut: list[CutItem] = []
        begin = 0.0
        for piece in self._pieces:
            if piece.turn < turn:
                continue
            length = self._format.duration_ms(piece.size)
            if heard_ms < begin + length:
                heard = max(0, min(int(heard_ms - begin), int(length)))
                cut.append(CutItem(piece.item, heard))
            begin += length
        self._pieces.clear()
        return tuple(cut)
