"""OpenAI's `/v1/audio/transcriptions` and `/v1/audio/speech`, emulated.

Written after the types of the vendor's SDK (openai 3.54.0). Error texts are those of OpenAI.
"""

from __future__ import annotations

import asyncio
import io
import wave
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cordboard_testkit.emulators.http_service import Refused, only
from cordboard_testkit.emulators.script import CallerTurn, Fault, Script
from cordboard_testkit.emulators.speech import Speaker
from cordboard_testkit.emulators.speech_service import PIECE_MS, SpeechEmulator

KEY = "test-openai-key"
NATIVE_RATE = 24000
TRANSCRIBERS = frozenset(
    (
        *("gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "whisper-1"),
        *("gpt-4o-mini-transcribe-2025-12-15", "gpt-4o-transcribe-diarize"),
    )
)
SPEAKERS = frozenset(("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"))
VOICES = frozenset(
    (
        *("alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer"),
        *("verse", "marin", "cedar"),
    )
)
_FIELDS = frozenset(
    (
        *("file", "model", "language", "prompt", "response_format", "temperature", "stream"),
        *("include[]", "keywords[]", "languages[]", "timestamp_granularities[]"),
        "chunking_strategy",
    )
)
_SPEECH_FIELDS = frozenset(
    ("model", "input", "voice", "response_format", "speed", "instructions", "stream_format")
)
_UNKNOWN = "Unknown parameter: '{where}'."


class OpenAIAudioEmulator(SpeechEmulator):
    """`async with` it; `.url` is the base URL, `/v1` included."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        port: int = 0,
        speaker: Speaker | None = None,
        piece_seconds: float = 0.0,
    ) -> None:
        """`piece_seconds`: time from one piece of audio to the next."""
        self._key = key
        routes = [
            Route("/v1/audio/speech", self._speech, methods=["POST"]),
            Route("/v1/audio/transcriptions", self._transcription, methods=["POST"]),
        ]
        super().__init__(script, routes, speaker, piece_seconds, port)

    @property
    def url(self) -> str:
        return f"{self._service.origin}/v1"

    # Speech.

    async def _speech(self, request: Request) -> Response:
        body = await request.json()
        self._note(request, body)
        try:
            fault = self._admit(request)
            _check_speech(body)
        except Refused as refused:
            return self._refused(refused)
        text = str(body["input"])
        self.spoken.append(text)
        sound = self._speaker.speak(text, NATIVE_RATE)
        step = NATIVE_RATE * PIECE_MS // 1000 * 2 + 1  # no service cuts between samples
        pieces = self._pieces(request, sound, step, fault)
        return StreamingResponse(pieces, media_type="audio/pcm")

    # Transcription.

    async def _transcription(self, request: Request) -> Response:
        async with request.form() as form:
            self._note(request, {name: _plain(form.getlist(name)) for name in form})
            try:
                fault = self._admit(request)
                turn = await _checked_form(form)
            except Refused as refused:
                return self._refused(refused)
        seconds = len(turn.sound) / 2 / turn.rate
        if fault is not None and fault.do == "stall":
            await asyncio.sleep(3600)
        if fault is not None and fault.do == "garbage":
            return Response('{"text": ', media_type="application/json")
        told: dict[str, Any] = {"text": self.prompter.answer(turn).heard}
        if form["model"] == "whisper-1":
            told["usage"] = {"type": "duration", "seconds": round(seconds)}
        else:
            told["usage"] = _tokens(seconds)
        if "logprobs" in form.getlist("include[]"):
            told["logprobs"] = [{"token": "a", "logprob": -0.1, "bytes": [97]}]
        return JSONResponse(told)

    # Both.

    def _admit(self, request: Request) -> Fault | None:
        """Check the key and apply the script's fault. Raises `Refused`."""
        if request.headers.get("authorization") != f"Bearer {self._key}":
            begins = request.headers.get("authorization", "").removeprefix("Bearer ")[:8]
            raise Refused(401, f"Incorrect API key provided: {begins}***.", "invalid_api_key")
        return self._fault(request)

    def _refused(self, refused: Refused) -> Response:
        self.book.violations.append(f"{refused.status}: {refused.message}")
        kind = "invalid_request_error" if refused.status < 500 else "server_error"
        error = {"message": refused.message, "type": kind, "param": None, "code": refused.code}
        return JSONResponse({"error": error}, refused.status)


def _check_speech(body: Any) -> None:
    told = only(body, _SPEECH_FIELDS, "", _UNKNOWN)
    for name in ("model", "input", "voice"):
        if name not in told:
            raise Refused(400, f"Missing required parameter: '{name}'.")
    if told["model"] not in SPEAKERS:
        raise Refused(404, f"The model '{told['model']}' does not exist.", "model_not_found")
    text = told["input"]
    if not isinstance(text, str) or not 1 <= len(text) <= 4096:
        raise Refused(400, "Invalid 'input': string of 1 to 4096 characters expected.")
    voice = told["voice"]
    own = isinstance(voice, dict) and list(voice) == ["id"]
    if not own and (not isinstance(voice, str) or voice not in VOICES):
        raise Refused(400, f"Invalid value: '{voice}' for 'voice'.")
    if told.get("response_format", "mp3") != "pcm":
        raise Refused(400, "this emulator makes 'pcm' only")
    speed = told.get("speed", 1.0)
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0.25 <= speed <= 4:
        raise Refused(400, "Invalid 'speed': 0.25 to 4.0 expected.")
    if "instructions" in told and str(told["model"]).startswith("tts-1"):
        raise Refused(400, "'instructions' is not supported by this model.")


async def _checked_form(form: FormData) -> CallerTurn:
    """The audio. Raises `Refused`."""
    for name in form:
        if name not in _FIELDS:
            raise Refused(400, _UNKNOWN.format(where=name))
    model = form.get("model")
    if model not in TRANSCRIBERS:
        raise Refused(404, f"The model '{model}' does not exist.", "model_not_found")
    if "keywords[]" in form and model != "gpt-transcribe":
        raise Refused(400, "'keywords' is not supported by this model.")
    if "include[]" in form and not str(model).startswith("gpt-4o"):
        raise Refused(400, "'include' is not supported by this model.")
    if form.get("response_format", "json") != "json":
        raise Refused(400, "this emulator answers 'json' only")
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise Refused(400, "Missing required parameter: 'file'.")
    return _sound(await file.read(), file.filename or "")


def _sound(data: bytes, name: str) -> CallerTurn:
    if not name.endswith((".wav", ".mp3", ".webm", ".flac", ".ogg", ".m4a")):
        raise Refused(400, f"Unrecognized file format: {name!r}.")
    try:
        with wave.open(io.BytesIO(data)) as sound:
            if (sound.getsampwidth(), sound.getnchannels()) != (2, 1):
                raise Refused(400, "Audio file might be corrupted or unsupported.")
            rate = sound.getframerate()
            pcm = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise Refused(400, "Audio file might be corrupted or unsupported.") from error
    if len(pcm) < 0.2 * rate:
        raise Refused(400, "Audio file is too short. Minimum audio length is 0.1 seconds.")
    return CallerTurn(sound=pcm, rate=rate)


def _tokens(seconds: float) -> dict[str, Any]:
    audio = max(1, round(seconds * 10))
    return {
        "type": "tokens",
        "input_tokens": audio + 4,
        "output_tokens": 7,
        "total_tokens": audio + 11,
        "input_token_details": {"audio_tokens": audio, "text_tokens": 4},
    }


def _plain(values: list[UploadFile | str]) -> list[str]:
    return [value if isinstance(value, str) else f"<file {value.filename}>" for value in values]
