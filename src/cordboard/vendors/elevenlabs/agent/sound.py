"""The sound between a call and an ElevenLabs agent, in the formats that the agent reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cordboard.audio.format import AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.vendors.elevenlabs.agent.messages import FORMATS, WANTED_FORMAT

_FIELDS = {"input": "user_input_audio_format", "output": "agent_output_audio_format"}


class FormatError(Exception):
    """The agent has a format that cannot be converted."""


class Sound:
    """One conversation's sound, both ways."""

    def __init__(self, call: AudioFormat, metadata: Mapping[str, Any]) -> None:
        """`metadata`: the agent's report of its formats. Raises `FormatError`."""
        heard, self._output = (_format(metadata, side) for side in ("input", "output"))
        self._to_service = None if heard == call else Transcoder(call, heard)
        self._to_call = None if self._output == call else Transcoder(self._output, call)

    @property
    def converted(self) -> bool:
        return self._to_service is not None or self._to_call is not None

    def to_service(self, frame: bytes) -> bytes:
        """Convert a frame of the caller; may be empty while the filter holds it back."""
        return frame if self._to_service is None else self._to_service.convert(frame)

    def to_call(self, sound: bytes) -> bytes:
        """Convert sound of the agent; may be empty while the filter holds it back."""
        return sound if self._to_call is None else self._to_call.convert(sound)

    def seconds(self, sound: bytes) -> float:
        """Return the duration of the agent's unconverted sound."""
        return self._output.duration_ms(len(sound)) / 1000


def _format(metadata: Mapping[str, Any], side: str) -> AudioFormat:
    name = metadata.get(_FIELDS[side])
    known = FORMATS.get(name) if isinstance(name, str) else None
    if known is None:
        said = f"the agent's {side} format is {str(name)[:40]}"
        raise FormatError(f"{said}, expected {WANTED_FORMAT}; run `cordboard elevenlabs sync`")
    return known
