"""`type: gemini_live`: Gemini Live."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from cordboard.config.providers.realtime import RealtimeProvider


class GeminiLiveProvider(RealtimeProvider):
    """Gemini Live: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    type: Literal["gemini_live"] = Field(description="The kind of provider.")
