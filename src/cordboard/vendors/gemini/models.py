"""Rules of Gemini Live's models that differ from model to model, by the prefix of the name.

Sources: Google's pages on gemini-3.8-live and gemini-3.8-live-extended-thinking (September 2026),
and closed sessions reported by the authors of pydantic-ai (1007; October 2026).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LiveModel:
    """The rules of one model."""

    thinking: Literal["refused", "optional", "required"] = "optional"
    """The setup must not name a thinking level, may, or must."""
    waits: Literal["on_request", "always", "never"] = "on_request"
    """The model waits for a tool: if the tool is declared `BLOCKING`; unless it is declared
    `NON_BLOCKING` (`BLOCKING` itself is not named); never (`BLOCKING` is refused)."""
    scheduling: bool = True
    """Results may say when the model speaks about them."""
    closes_exchange: bool = True
    """A session that was resumed in the middle of a tool call is stuck in that exchange: the next
    input only closes it, and is not answered."""


_BY_PREFIX = (
    (
        "gemini-3.8-live-extended-thinking",
        LiveModel(thinking="required", waits="never", scheduling=False),
    ),
    ("gemini-3.8-live", LiveModel(thinking="refused")),
    ("gemini-3.1-", LiveModel(waits="always", closes_exchange=False)),
    ("gemini-2.5-", LiveModel(waits="always", closes_exchange=False)),
)


def live_model(name: str) -> LiveModel:
    """Return the rules of a model; those of the current ones when it is unknown."""
    bare = name.rpartition("/")[2]
    return next((rules for prefix, rules in _BY_PREFIX if bare.startswith(prefix)), LiveModel())
