"""What a context's `rules:` may say: the dialogue of the offline brain, as sentence templates."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Rules(BaseModel):
    """The dialogue of one context."""

    model_config = ConfigDict(extra="forbid", frozen=True)
