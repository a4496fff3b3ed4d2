"""`type: openai_realtime`: OpenAI Realtime."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from cordboard.config.providers.realtime import RealtimeProvider


class OpenAIRealtimeProvider(RealtimeProvider):
    """OpenAI Realtime: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai_realtime"] = Field(description="The kind of provider.")
