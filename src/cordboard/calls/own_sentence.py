"""A sentence that the engine wants said and the agent has not begun: for `calls.conversation`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Own: TypeAlias = Literal["filler", "prompt", "other"]
"""What a sentence of the engine's is to the caller's turn: said while the answer is owed; the
answer, as the question of a tool is; or nothing at all (a re-prompt, a farewell)."""


@dataclass(frozen=True, slots=True)
class OwnSentence:
    """One of them. The agent may not have it said at all, if it has become needless."""

    text: str
    kind: Own
    begun: Callable[[], None] = lambda: None
    """Called when its sound begins."""
