"""The wires of the benchmark's services: the messages of an undisturbed call, both ways.

The shapes are those of the vendors' SDKs (see `bench.providers.parsing`, which reads them with
these). A piece of audio is 20 ms here; real services send larger pieces, so this is the highest
number of messages per call.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cordboard.audio.format import SLIN_8K, ULAW_8K, AudioFormat

FRAME_MS = 20
SPOKEN, PAUSE = 8, 4
"""Frames of an answer that is cut, and frames until the next."""
KEY = "key-of-the-benchmark"
Message = tuple[bool, bytes]
"""True if it is binary, and its content."""


def text(content: str) -> Message:
    return False, content.encode()


@dataclass(frozen=True, slots=True)
class Wire:
    """One service."""

    kind: str
    """Its provider's type, as in a configuration."""
    format: AudioFormat
    """The call's."""
    settings: Mapping[str, Any]
    """Of the provider, without `type` and `base_url`."""
    sound: Callable[[int], Message]
    """The nth 20 ms of an answer."""
    caller: Message
    """20 ms of a caller, as an idle client sends them."""
    words: Callable[[int], Message]
    """The nth message of an answer's words."""
    welcome: tuple[Message, ...] = ()
    """Sent as soon as there is a connection."""
    accepted: tuple[Message, ...] = ()
    """Sent in reply to the client's first message."""
    frame: bytes = field(default=b"", repr=False)
    """20 ms of a caller as the call has them."""


ULAW_FRAME = bytes(np.random.default_rng(6).integers(0, 256, 160, dtype=np.uint8))
SLIN_FRAME = np.random.default_rng(6).integers(-4000, 4000, 160).astype("<i2").tobytes()
_BASE64 = base64.b64encode(ULAW_FRAME)
_PCM_16K = base64.b64encode(
    np.random.default_rng(6).integers(-4000, 4000, 320).astype("<i2").tobytes()
)
_PCM_24K = base64.b64encode(
    np.random.default_rng(6).integers(-4000, 4000, 480).astype("<i2").tobytes()
)


def _openai() -> Wire:
    sound = (
        b'{"type":"response.output_audio.delta","event_id":"event_%%012d","response_id":"resp_1",'
        b'"item_id":"item_1","output_index":0,"content_index":0,"delta":"%b"}' % _BASE64
    )
    return Wire(
        kind="openai_realtime",
        format=ULAW_8K,
        settings={},
        sound=lambda number: (False, sound % number),
        caller=(False, b'{"type":"input_audio_buffer.append","audio":"%b"}' % _BASE64),
        words=lambda number: text(
            '{"type":"response.output_audio_transcript.delta",'
            f'"event_id":"event_w{number:011}","response_id":"resp_1","item_id":"item_1",'
            '"output_index":0,"content_index":0,"delta":" weather"}'
        ),
        welcome=(text('{"type":"session.created","event_id":"event_a","session":{}}'),),
        accepted=(
            text('{"type":"session.updated","event_id":"event_b","session":{}}'),
            text(
                '{"type":"response.created","event_id":"event_c","response":{"id":"resp_1",'
                '"status":"in_progress","output":[]}}'
            ),
        ),
        frame=ULAW_FRAME,
    )


def _deepgram() -> Wire:
    return Wire(
        kind="deepgram_agent",
        format=ULAW_8K,
        settings={},
        sound=lambda number: (True, ULAW_FRAME),
        caller=(True, ULAW_FRAME),
        words=lambda _: text(
            '{"type":"ConversationText","role":"assistant","content":"Fine weather."}'
        ),
        welcome=(text('{"type":"Welcome","request_id":"0d3a5a1c-0000-0000-0000-000000000000"}'),),
        accepted=(text('{"type":"SettingsApplied"}'),),
        frame=ULAW_FRAME,
    )


def _elevenlabs() -> Wire:
    sound = b'{"audio_event":{"audio_base_64":"%b","event_id":%%d},"type":"audio"}' % _BASE64
    return Wire(
        kind="elevenlabs_agent",
        format=ULAW_8K,
        settings={"agent_id": "agent_1", "requires_auth": False},
        sound=lambda number: (False, sound % number),
        caller=(False, b'{"user_audio_chunk":"%b"}' % _BASE64),
        words=lambda number: text(
            f'{{"agent_response_event":{{"agent_response":"Fine weather.","event_id":{number}}},'
            '"type":"agent_response"}'
        ),
        accepted=(
            text(
                '{"conversation_initiation_metadata_event":{"conversation_id":"conv_1",'
                '"agent_output_audio_format":"ulaw_8000","user_input_audio_format":"ulaw_8000"},'
                '"type":"conversation_initiation_metadata"}'
            ),
        ),
        frame=ULAW_FRAME,
    )


def _gemini() -> Wire:
    sound = (
        b'{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000",'
        b'"data":"%b"}}],"role":"model"}}}' % _PCM_24K
    )
    caller = b'{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"%b"}}}'
    return Wire(
        kind="gemini_live",
        format=SLIN_8K,
        settings={},
        sound=lambda number: (True, sound),
        caller=(False, caller % _PCM_16K),
        words=lambda _: (True, b'{"serverContent":{"outputTranscription":{"text":" weather"}}}'),
        accepted=((True, b'{"setupComplete":{}}'),),
        frame=SLIN_FRAME,
    )


WIRES: Mapping[str, Wire] = {
    "openai": _openai(),
    "deepgram": _deepgram(),
    "elevenlabs": _elevenlabs(),
    "gemini": _gemini(),
}
