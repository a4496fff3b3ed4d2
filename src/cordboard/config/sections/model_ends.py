"""The announced ends of models. Pure data, for the vendors and for services that use their models.

Sources: the deprecated values in openai 3.54 (`ChatModel`, `SpeechModel`, `AudioModel`,
`RealtimeSessionCreateRequest`), developers.openai.com/api/docs/deprecations (the previews), and
anthropic 2.12 (`DEPRECATED_MODELS`). `scripts/newest-sdks` compares them with the newest SDKs.
Others become known by `cordboard check --online`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SNAPSHOT = re.compile(r"-\d{4}-?\d\d-?\d\d$")
_OPENAI: dict[str, tuple[str, ...]] = {
    "2026-05-07": ("gpt-4o-realtime-preview", "gpt-4o-mini-realtime-preview"),
    "2026-10-23": (
        *("gpt-4.1-nano", "o4-mini", "o3-mini", "o1", "gpt-4-turbo", "gpt-4", "gpt-3.5-turbo"),
    ),
    "2026-12-11": ("gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro", "o3", "o3-pro"),
    "2027-01-06": ("gpt-4o-mini-tts", "tts-1", "tts-1-hd"),
    "2027-01-14": ("gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini"),
    "2027-01-20": ("gpt-realtime", "gpt-realtime-mini", "gpt-audio-mini"),
    "2027-02-26": (
        *("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-4o-transcribe-diarize"),
    ),
    "2027-04-01": ("gpt-5.1", "gpt-5.4-nano"),
}
OPENAI_MODEL_ENDS: Mapping[str, str] = {
    model: day for day, models in _OPENAI.items() for model in models
}
ANTHROPIC_MODEL_ENDS: Mapping[str, str] = {"claude-sonnet-4-5": "2026-11-30"}


def end_in(ends: Mapping[str, str], model: str) -> str:
    """Return the day (YYYY-MM-DD) on which a model, or the model of a dated snapshot, ends; empty:
    none is known."""
    return ends.get(model) or ends.get(_SNAPSHOT.sub("", model), "")
