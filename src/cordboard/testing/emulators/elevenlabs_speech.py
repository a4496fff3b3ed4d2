"""ElevenLabs' speech synthesis, emulated: `POST /v1/text-to-speech/{voice_id}/stream`.

Written after the types of the vendor's SDK (elevenlabs 2.78.0). Errors are worded as ElevenLabs'.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cordboard.audio.g711 import linear_to_alaw, linear_to_ulaw
from cordboard.testing.emulators.http_service import Book, HttpService, Refused, only
from cordboard.testing.emulators.script import Fault, Prompter, Script, When
from cordboard.testing.emulators.speech import Beeper, Speaker

KEY = "test-elevenlabs-key"
VOICE = "JBFqnCBsd6RMkjVDRZzb"
PIECE_MS = 100
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
"""Those with raw sound; others exist, and are not emulated."""
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


class ElevenLabsSpeechEmulator:
    """`async with` it; `.url` is the base URL."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        voices: frozenset[str] = frozenset((VOICE,)),
        speaker: Speaker | None = None,
        piece_seconds: float = 0.0,
    ) -> None:
        """`piece_seconds`: from one piece of sound to the next."""
        self.prompter = Prompter(script or Script())
        self.book = Book()
        self.spoken: list[str] = []
        self.cut_off = 0
        """How many answers the client did not wait for."""
        self._key = key
        self._voices = voices
        self._speaker = speaker or Beeper()
        self._piece_seconds = piece_seconds
        path = "/v1/text-to-speech/{voice_id}/stream"
        self._service = HttpService([Route(path, self._speech, methods=["POST"])])

    @property
    def url(self) -> str:
        return self._service.origin

    @property
    def violations(self) -> list[str]:
        return self.book.violations

    async def __aenter__(self) -> Self:
        await self._service.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._service.__aexit__(*details)

    async def _speech(self, request: Request) -> Response:
        body = await request.json()
        self.prompter.connections += 1
        query = dict(request.query_params)
        self.book.note(request.method, request.url.path, query, dict(request.headers), body)
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

    async def _pieces(
        self, request: Request, sound: bytes, step: int, fault: Fault | None
    ) -> AsyncIterator[bytes]:
        whole = False
        try:
            if fault is not None and fault.do == "stall":
                await asyncio.sleep(3600)
            for at in range(0, len(sound), step):
                yield sound[at : at + step]
                await asyncio.sleep(self._piece_seconds)
                later = self.prompter.fault("sound")
                if later is not None and later.do == "stall":
                    await asyncio.sleep(3600)
                elif later is not None:
                    self._service.drop(request)
            whole = True
        finally:
            self.cut_off += not whole

    def _admit(self, request: Request) -> Fault | None:
        """Who asks, and what the script has in mind. Raises `Refused`."""
        if request.headers.get("xi-api-key") != self._key:
            raise Refused(401, "Invalid API key", "invalid_api_key")
        if request.path_params["voice_id"] not in self._voices:
            voice = request.path_params["voice_id"]
            raise Refused(404, f"A voice with voice_id {voice} was not found.", "voice_not_found")
        moments: tuple[When, ...] = ("connect", "answer")
        for when in moments:
            fault = self.prompter.fault(when)
            if fault is None:
                continue
            if fault.do == "refuse":
                raise Refused(int(fault.code or 500), "refused by the script")
            if fault.do == "error":
                raise Refused(401, "This request exceeds your quota.", str(fault.code))
            if fault.do == "drop":
                self._service.drop(request)
            return fault
        return None


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
