"""OpenAI's transcription of whole utterances: `POST /audio/transcriptions`, a WAV file each.

Likely names and words of the caller are sent with it: as `keywords` where the model takes them,
otherwise in the `prompt`.
"""

from __future__ import annotations

import asyncio
import io
import math
import wave
from typing import Any, TypeGuard

import orjson

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.stt import (
    NO_HINTS,
    ListenedCall,
    Listening,
    SpeechHints,
    Transcript,
)
from cordboard.audio.vad import RATE
from cordboard.errors import FailureKind, RecogniserError
from cordboard.net.service_http import ServiceHttp
from cordboard.vendors.openai.config import OpenAIStt

BASE_URL = "https://api.openai.com/v1"
SILENCE_SECONDS = 6.0
"""Timeout of the answer, which comes in one piece."""
SHORTEST = RATE // 10
"""Samples; the service refuses files that are shorter than 0.1 s."""
MOST_WORDS = 50
ATTEMPTS = 2
WORTH_ANOTHER: frozenset[FailureKind] = frozenset(("connect", "dropped"))
UNTOLD = 0.9
"""The confidence of a text whose model reports none."""
_MOST_BYTES = 100_000
_MOST_TOKENS = 10**9
_LEAST_LOGPROB = -1e6
_NOTHING = Transcript("", 1.0, 0.0, 0.0)
_KEYWORD_MODELS = ("gpt-transcribe",)
_LOGPROB_MODELS = ("gpt-4o-transcribe", "gpt-4o-mini-transcribe")


class OpenAIRecogniser:
    """Implements `Recogniser` and, to report usage to each call, `CallRecogniser`."""

    judges_turns = False

    def __init__(self, settings: OpenAIStt, key: str) -> None:
        self._settings = settings
        self._http = ServiceHttp(
            "OpenAI's transcription",
            settings.base_url or BASE_URL,
            settings.request_headers(key),
            RecogniserError,
            connect_seconds=settings.connect_timeout_ms / 1000,
            silence_seconds=SILENCE_SECONDS,
        )

    def open(self, call: ListenedCall) -> Listening:
        return _CallListening(self, call)

    async def transcribe(
        self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
    ) -> Transcript:
        """See `Recogniser.transcribe`. Raises `RecogniserError` with its kind."""
        transcript, _ = await self.transcribed(pcm_8k, hints)
        return transcript

    async def transcribed(
        self, pcm_8k: bytes, hints: SpeechHints
    ) -> tuple[Transcript, Usage | None]:
        """Return the transcript and its usage, where the service reports it. Raises
        `RecogniserError`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if len(pcm_8k) < 2 * SHORTEST:
            return _NOTHING, None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                body = await self._ask(pcm_8k, hints)
                break
            except RecogniserError as error:
                if attempt == ATTEMPTS or error.kind not in WORTH_ANOTHER:
                    raise
        text, confidence, amounts = read_answer(body, seconds=len(pcm_8k) / 2 / RATE)
        took_ms = (loop.time() - began) * 1000
        transcript = Transcript(text, 0.0 if text else 1.0, confidence, took_ms)
        return transcript, Usage(self._settings.type, self._settings.model, amounts)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.close()

    async def _ask(self, pcm_8k: bytes, hints: SpeechHints) -> bytes:
        files = {"file": ("utterance.wav", as_wav(pcm_8k), "audio/wav")}
        form = transcription_form(self._settings, hints)
        body = b""
        async with self._http.post("/audio/transcriptions", data=form, files=files) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > _MOST_BYTES:
                    raise RecogniserError("OpenAI's transcription is too long", "garbage")
        return body


class _CallListening:
    """Implements `Listening`."""

    def __init__(self, recogniser: OpenAIRecogniser, call: ListenedCall) -> None:
        self._recogniser = recogniser
        self._call = call

    def hear(self, pcm_8k: bytes) -> None:
        """Do nothing: `transcribe` sends the sound."""

    async def transcribe(
        self,
        pcm_8k: bytes,
        hints: SpeechHints = NO_HINTS,
        *,
        speculative: bool = False,
        goes_on: bool = False,
    ) -> Transcript:
        """See `Listening.transcribe`. Returns no text for a voice that continues: an answer takes
        longer than the decision that needs it."""
        if goes_on:
            return _NOTHING
        transcript, usage = await self._recogniser.transcribed(pcm_8k, hints)
        if usage is not None:
            self._call.used(usage)
        return transcript

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def transcription_form(settings: OpenAIStt, hints: SpeechHints) -> dict[str, str | list[str]]:
    """Return the form fields beside the file."""
    words = list(dict.fromkeys((*settings.keywords, *hints.phrases)))[:MOST_WORDS]
    form: dict[str, str | list[str]] = {"model": settings.model, "response_format": "json"}
    if settings.language:
        form["language"] = settings.language
    prompt = settings.prompt
    if words and settings.model.startswith(_KEYWORD_MODELS):
        form["keywords[]"] = words
    elif words:
        prompt = f"{prompt} {', '.join(words)}".strip()
    if prompt:
        form["prompt"] = prompt
    if settings.temperature is not None:
        form["temperature"] = str(settings.temperature)
    if settings.model.startswith(_LOGPROB_MODELS):
        form["include[]"] = ["logprobs"]
    for name, value in settings.extra.items():
        form[name] = [str(one) for one in value] if isinstance(value, list) else str(value)
    return form


def read_answer(body: bytes, seconds: float) -> tuple[str, float, dict[str, float]]:
    """Return text, confidence and usage (`seconds` of sound where the service reports nothing
    else). Raises `RecogniserError`."""
    try:
        told: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RecogniserError("OpenAI's transcription is not JSON", "garbage") from error
    if not isinstance(told, dict) or not isinstance(told.get("text"), str):
        raise RecogniserError("OpenAI's transcription has no text", "garbage")
    text = told["text"].strip()
    return text, _confidence(told.get("logprobs")) if text else 0.0, _amounts(told, seconds)


def _confidence(logprobs: object) -> float:
    told = [
        item["logprob"]
        for item in (logprobs if isinstance(logprobs, list) else ())
        if isinstance(item, dict)
        and _is_number(item.get("logprob"))
        and _LEAST_LOGPROB <= item["logprob"] <= 0
    ]
    return math.exp(sum(told) / len(told)) if told else UNTOLD


def _amounts(told: dict[str, Any], seconds: float) -> dict[str, float]:
    usage = told.get("usage")
    if not isinstance(usage, dict) or usage.get("type") != "tokens":
        lasted = _amount(usage.get("seconds")) if isinstance(usage, dict) else None
        return {"seconds": seconds if lasted is None else lasted}
    details = usage.get("input_token_details")
    audio = _amount(details.get("audio_tokens")) if isinstance(details, dict) else None
    audio_tokens = audio or 0.0
    return {
        "input_audio_tokens": audio_tokens,
        "input_text_tokens": max(0.0, (_amount(usage.get("input_tokens")) or 0.0) - audio_tokens),
        "output_text_tokens": _amount(usage.get("output_tokens")) or 0.0,
    }


def _amount(value: object) -> float | None:
    """Return a possible amount; None for anything else."""
    return float(value) if _is_number(value) and 0 <= value <= _MOST_TOKENS else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_wav(pcm_8k: bytes) -> bytes:
    """Return s16 samples at 8 kHz as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(pcm_8k)
    return file.getvalue()
