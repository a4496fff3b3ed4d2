"""ElevenLabs' speech synthesis, emulated: `POST /v1/text-to-speech/{voice_id}/stream`.

Written after the types of the vendor's SDK (elevenlabs 2.78.0). Error texts are those of
ElevenLabs.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cordboard.audio.g711 import linear_to_alaw, linear_to_ulaw
from cordboard_testkit.emulators.http_service import Refused, only
from cordboard_testkit.emulators.script import Fault, Script
from cordboard_testkit.emulators.speech import Speaker
from cordboard_testkit.emulators.speech_service import PIECE_MS, SpeechEmulator

KEY = "test-elevenlabs-key"
VOICE = "JBFqnCBsd6RMkjVDRZzb"
MODELS = frozenset(
    (
        *("eleven_flash_v2_5", "eleven_flash_v2", "eleven_turbo_v2_5", "eleven_turbo_v2"),
        *("eleven_multilingual_v2", "eleven_v3", "eleven_v4", "eleven_v4_turbo"),
    )
)
FORMATS = frozenset(
    (
        *(f"pcm_{rate}" for rate in (8000, 16000, 22050, 24000, 32000, 44100, 48000)),
        *("ulaw_8000", "alaw_8000"),
    )
)
"""The formats with raw audio; the others are not emulated."""
_FIELDS = frozenset(
    (
        *("text", "model_id", "language_code", "voice_settings", "seed", "previous_text"),
        *("next_text", "previous_request_ids", "next_request_ids", "use_pvc_as_ivc"),
        *("apply_text_normalization", "apply_language_text_normalization", "audio_effects"),
        "pronunciation_dictionary_locators",
    )
)
_VOICE_SETTINGS = frozenset(
    (
        *("stability", "use_speaker_boost", "similarity_boost", "style", "speed"),
        "clone_strength",
    )
)
_QUERY = frozenset(("output_format", "optimize_streaming_latency", "enable_logging"))
_RANGES = {"stability": (0, 1), "similarity_boost": (0, 1), "style": (0, 1), "speed": (0.7, 1.2)}


class ElevenLabsSpeechEmulator(SpeechEmulator):
    """`async with` it; `.url` is the base URL."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        port: int = 0,
        voices: frozenset[str] = frozenset((VOICE,)),
        speaker: Speaker | None = None,
        piece_seconds: float = 0.0,
    ) -> None:
        """`piece_seconds`: time from one piece of audio to the next."""
        self._key = key
        self._voices = voices
        path = "/v1/text-to-speech/{voice_id}/stream"
        routes = [Route(path, self._speech, methods=["POST"])]
        super().__init__(script, routes, speaker, piece_seconds, port)

    async def _speech(self, request: Request) -> Response:
        body = await request.json()
        query = dict(request.query_params)
        self._note(request, body)
        try:
            fault = self._admit(request)
            made = _checked(body, query)
        except Refused as refused:
            self.book.violations.append(f"{refused.status}: {refused.message}")
            detail = {"status": refused.code or "invalid_request", "message": refused.message}
            return JSONResponse({"detail": detail}, refused.status)
        self.spoken.append(body["text"])
        coding, rate = made.split("_")
        sound = self._speaker.speak(body["text"], int(rate))
        if coding == "ulaw":
            sound = linear_to_ulaw(sound)
        elif coding == "alaw":
            sound = linear_to_alaw(sound)
        step = int(rate) * PIECE_MS // 1000 * (2 if coding == "pcm" else 1) + 1
        return StreamingResponse(
            self._pieces(request, sound, step, fault), media_type="audio/basic"
        )

    def _admit(self, request: Request) -> Fault | None:
        """Check the key and apply the script's fault. Raises `Refused`."""
        if request.headers.get("xi-api-key") != self._key:
            raise Refused(401, "Invalid API key", "invalid_api_key")
        if request.path_params["voice_id"] not in self._voices:
            voice = request.path_params["voice_id"]
            raise Refused(404, f"A voice with voice_id {voice} was not found.", "voice_not_found")
        return self._fault(request)

    def _error(self, fault: Fault) -> Refused:
        return Refused(401, "This request exceeds your quota.", str(fault.code))


def _checked(body: Any, query: dict[str, str]) -> str:
    """The format of the sound. Raises `Refused`."""
    told = only(body, _FIELDS, "", "{where}: extra fields not permitted")
    for name in query:
        if name not in _QUERY:
            raise Refused(422, f"unknown query parameter {name}")
    if not isinstance(told.get("text"), str) or not told["text"]:
        raise Refused(422, "text: Field required")
    if told.get("model_id", "eleven_multilingual_v2") not in MODELS:
        raise Refused(400, f"A model with model ID {told['model_id']} does not exist.")
    settings = only(
        told.get("voice_settings") or {}, _VOICE_SETTINGS, "voice_settings", "unknown: {where}"
    )
    for name, (least, most) in _RANGES.items():
        value = settings.get(name)
        if value is not None and not (isinstance(value, int | float) and least <= value <= most):
            raise Refused(400, f"Invalid setting for {name}: {value}", "invalid_voice_settings")
    made = query.get("output_format", "mp3_44100_128")
    if made not in FORMATS:
        raise Refused(403, f"this emulator does not make {made}", "output_format_not_allowed")
    return made
