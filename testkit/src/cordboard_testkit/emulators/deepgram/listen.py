"""Deepgram's streaming recognisers, emulated: `/v1/listen` (Nova) and `/v2/listen` (Flux).

They detect speech by loudness and take its text from the script (`Answer.heard`). Written after the
vendor's published specification and the types of its SDK (deepgram-sdk 7.17.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from websockets.asyncio.server import ServerConnection

from cordboard_testkit.emulators.deepgram.models import MODELS
from cordboard_testkit.emulators.deepgram.socket import (
    KEY,
    Check,
    DeepgramSocketEmulator,
    Query,
    Refusal,
    Session,
    checked,
    flag,
    fraction,
    one_of,
    text,
    whole,
)
from cordboard_testkit.emulators.heard_words import Ear, HeardWord, decoded
from cordboard_testkit.emulators.script import Script

INTERIM_MS = 200
"""Audio between two interim results; Flux reports its state about every 250 ms."""
UPDATE_MS = 240
CONFIDENCE = 0.97
EAGER_MS, SURE_MS = 160, 360
"""Silence after which Flux reports an eager end of turn, with any threshold below 1."""
_ENCODINGS = ("linear16", "mulaw", "alaw")
_FLUX_MODELS = ("flux-general-en", "flux-general-multi")
_RATES = one_of("8000", "16000", "24000", "44100", "48000")

V1_QUERY: Mapping[str, Check] = {
    "model": one_of(*MODELS),
    "language": text,
    "language_hint": text,
    "encoding": one_of(*_ENCODINGS),
    "sample_rate": _RATES,
    "channels": one_of("1"),
    "multichannel": one_of("false"),
    "endpointing": lambda value: value == "false" or whole(10, 60_000)(value),
    "utterance_end_ms": whole(1000, 5000),
    "keyterm": text,
    "keywords": text,
    "tag": text,
    "version": text,
    "redact": text,
    "replace": text,
    "search": text,
    "extra": text,
    **dict.fromkeys(
        (
            *("interim_results", "smart_format", "punctuate", "numerals", "profanity_filter"),
            *("mip_opt_out", "vad_events", "diarize", "dictation", "detect_entities"),
        ),
        flag,
    ),
}
V2_QUERY: Mapping[str, Check] = {
    "model": one_of(*_FLUX_MODELS),
    "encoding": one_of(*_ENCODINGS),
    "sample_rate": _RATES,
    "eot_threshold": fraction(0.5, 1.0),
    "eager_eot_threshold": fraction(0.3, 0.9),
    "eot_timeout_ms": whole(500, 60_000),
    "keyterm": text,
    "language_hint": text,
    "profanity_filter": flag,
    "numerals": flag,
    "redact": text,
    "mip_opt_out": flag,
    "tag": text,
}
_SEVERAL = ("keyterm", "keywords", "language_hint", "tag", "redact", "replace", "search", "extra")


class DeepgramListenEmulator(DeepgramSocketEmulator):
    """Both versions at one address."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        port: int = 0,
        turn_silence_ms: int = 600,
        idle_seconds: float = 10.0,
    ) -> None:
        """`turn_silence_ms`: silence after which the next voice is the script's next answer; Flux
        has a detector of its own."""
        super().__init__(script, key=key, port=port)
        self.turn_silence_ms = turn_silence_ms
        self.idle_seconds = idle_seconds

    def check(self, path: str, query: Query) -> None:
        known = {"/v1/listen": V1_QUERY, "/v2/listen": V2_QUERY}[path]
        checked(query, known, _SEVERAL)
        if "model" not in query:
            raise Refusal("model is missing")
        if ("encoding" in query) != ("sample_rate" in query):
            raise Refusal("encoding and sample_rate belong together")
        if "encoding" not in query:
            raise Refusal("raw sound needs encoding and sample_rate")
        model = query["model"][0]
        if path == "/v1/listen":
            if "keyterm" in query and not model.startswith("nova-3"):
                raise Refusal("keyterm is for nova-3 only")
            if "utterance_end_ms" in query and query.get("interim_results") != ("true",):
                raise Refusal("utterance_end_ms needs interim_results")
            return
        if "language_hint" in query and model != "flux-general-multi":
            raise Refusal("language_hint is for flux-general-multi only")
        eager = float(query.get("eager_eot_threshold", ("0",))[0])
        if eager > float(query.get("eot_threshold", ("0.7",))[0]):
            raise Refusal("eager_eot_threshold is above eot_threshold")

    def session(self, path: str, connection: ServerConnection, query: Query) -> Session:
        kind: type[_V1 | _V2] = _V1 if path == "/v1/listen" else _V2
        return kind(self, connection, query)


class _Listening(Session):
    """The audio handling of both versions."""

    def __init__(
        self, service: DeepgramListenEmulator, connection: ServerConnection, query: Query
    ) -> None:
        super().__init__(service, connection, query)
        self.idle_seconds = service.idle_seconds
        self._encoding = query["encoding"][0]
        self._model = query["model"][0]
        rate = int(query["sample_rate"][0])
        self.ear = Ear(service.prompter, rate, self.turn_silence(service))
        self._told_ms = 0.0

    def turn_silence(self, service: DeepgramListenEmulator) -> int:
        return service.turn_silence_ms

    async def take_sound(self, data: bytes) -> None:
        if not data:
            await self.refuse("an empty binary message")
        if self._encoding == "linear16" and len(data) % 2:
            self.service.violations.append("half a sample")
        pcm = decoded(data, self._encoding)
        step = self.frame_bytes
        for at in range(0, len(pcm), step):
            await self.heard(self.ear.hear(pcm[at : at + step]))

    @property
    def frame_bytes(self) -> int:
        """20 ms."""
        return int(self.query["sample_rate"][0]) // 50 * 2

    async def heard(self, news: str) -> None:
        """20 ms more."""


class _V1(_Listening):
    """Nova."""

    def __init__(
        self, service: DeepgramListenEmulator, connection: ServerConnection, query: Query
    ) -> None:
        super().__init__(service, connection, query)
        endpointing = query.get("endpointing", ("10",))[0]
        self._endpointing = None if endpointing == "false" else int(endpointing)
        self._interim = query.get("interim_results") == ("true",)
        self._vad_events = query.get("vad_events") == ("true",)
        self._final_ms = 0.0
        """Position up to which results are final."""
        self._endpointed = True

    async def begin(self) -> None:
        """It sends no message at first."""

    async def heard(self, news: str) -> None:
        ear = self.ear
        if news == "started":
            self._endpointed = False
            await self.fault("sound")
            if self._vad_events:
                at = ear.heard_ms / 1000
                await self.say({"type": "SpeechStarted", "channel": [0], "timestamp": at})
        if news in ("started", "resumed"):
            self._endpointed = False
        limit = self._endpointing
        if limit is not None and not self._endpointed and ear.quiet_ms >= limit:
            self._endpointed = True
            await self.fault("turn")
            await self._result(final=True, speech_final=True)
        elif ear.heard_ms - self._told_ms >= INTERIM_MS and ear.in_turn and self._interim:
            await self._result(final=False)
        elif ear.heard_ms - self._final_ms >= 5000 and not ear.in_turn:
            await self._result(final=True)

    async def take_text(self, told: dict[str, Any]) -> None:
        match told:
            case {"type": "Finalize", **rest} if not rest or list(rest) == ["channel"]:
                await self.fault("answer")
                if self.ear.heard_ms - self._final_ms > 20:
                    await self._result(final=True, from_finalize=True)
            case {"type": "KeepAlive", **rest} if not rest:
                pass
            case {"type": "CloseStream", **rest} if not rest:
                if self.ear.heard_ms > self._final_ms:
                    await self._result(final=True)
                await self.say(self._metadata())
                await self.close(1000)
            case {"type": "Configure"}:
                await self.say({"type": "ConfigureSuccess", "request_id": self.request_id})
            case _:
                await self.refuse(f"cannot be parsed: {told}")

    def error(self, description: str) -> dict[str, Any]:
        return {"type": "Error", "variant": "SchemaError", "description": description}

    async def _result(
        self, *, final: bool, speech_final: bool = False, from_finalize: bool = False
    ) -> None:
        ear = self.ear
        words = ear.give() if final else ear.new_words()
        start = self._final_ms / 1000
        duration = (ear.heard_ms - self._final_ms) / 1000
        self._told_ms = ear.heard_ms
        if final:
            self._final_ms = ear.heard_ms
        said = " ".join(word.text for word in words)
        alternative = {
            "transcript": said,
            "confidence": CONFIDENCE if words else 0.0,
            "words": [
                {**_word(word), "word": word.bare, "punctuated_word": word.text} for word in words
            ],
        }
        await self.say(
            {
                "type": "Results",
                "channel_index": [0, 1],
                "duration": round(duration, 4),
                "start": round(start, 4),
                "is_final": final,
                "speech_final": speech_final,
                "from_finalize": from_finalize,
                "channel": {"alternatives": [alternative]},
                "metadata": {
                    "request_id": self.request_id,
                    "model_info": {"name": self._model, "version": "1", "arch": "nova-3"},
                    "model_uuid": self.request_id,
                },
            }
        )

    def _metadata(self) -> dict[str, Any]:
        return {
            "type": "Metadata",
            "transaction_key": "deprecated",
            "request_id": self.request_id,
            "sha256": "0" * 64,
            "created": "2026-01-01T00:00:00.000Z",
            "duration": self.ear.heard_ms / 1000,
            "channels": 1,
        }


class _V2(_Listening):
    """Flux."""

    def __init__(
        self, service: DeepgramListenEmulator, connection: ServerConnection, query: Query
    ) -> None:
        self._eager = "eager_eot_threshold" in query
        self._never = float(query.get("eot_threshold", ("0.7",))[0]) >= 1.0
        super().__init__(service, connection, query)
        self._sequence = 0
        self._turn = 0
        self._turn_began_ms = 0.0
        self._eager_said = False

    def turn_silence(self, service: DeepgramListenEmulator) -> int:
        timeout = int(self.query.get("eot_timeout_ms", ("5000",))[0])
        return timeout if self._never else min(SURE_MS, timeout)

    async def begin(self) -> None:
        await self._tell({"type": "Connected", "request_id": self.request_id})

    async def heard(self, news: str) -> None:
        ear = self.ear
        if news == "started":
            await self.fault("sound")
            await self._turn_info("StartOfTurn", 0.1)
        elif news == "ended":
            await self.fault("turn")
            await self._end("timeout" if self._never else "model")
        elif news == "resumed" and self._eager_said:
            self._eager_said = False
            await self._turn_info("TurnResumed", 0.1)
        elif self._may_be_over():
            self._eager_said = True
            await self._turn_info("EagerEndOfTurn", 0.6)
        elif ear.heard_ms - self._told_ms >= UPDATE_MS:
            await self._turn_info("Update", 0.05)

    def _may_be_over(self) -> bool:
        ear = self.ear
        waiting = self._eager and not self._eager_said and ear.in_turn
        return waiting and ear.quiet_ms >= EAGER_MS and bool(ear.words())

    async def take_text(self, told: dict[str, Any]) -> None:
        match told:
            case {"type": "ForceEndTurn", **rest} if not rest:
                if self.ear.in_turn:
                    self.ear.in_turn = False
                    await self._end("manual")
            case {"type": "Configure", **rest} if rest.keys() <= {
                "thresholds",
                "keyterms",
                "language_hints",
                "numerals",
            }:
                await self._tell(
                    {
                        "type": "ConfigureSuccess",
                        "request_id": self.request_id,
                        "thresholds": rest.get("thresholds") or {},
                        "keyterms": rest.get("keyterms") or [],
                    }
                )
            case {"type": "CloseStream", **rest} if not rest:
                await self.close(1000)
            case _:
                await self.refuse(f"cannot be parsed: {told}")

    def error(self, description: str) -> dict[str, Any]:
        code = "UNPARSABLE_CLIENT_MESSAGE"
        self._sequence += 1
        return {
            "type": "Error",
            "sequence_id": self._sequence,
            "code": code,
            "description": description,
        }

    async def _end(self, trigger: str) -> None:
        self._eager_said = False
        await self.fault("answer")
        await self._turn_info("EndOfTurn", 0.9, trigger=trigger)
        self._turn += 1
        self._turn_began_ms = self.ear.heard_ms
        self.ear.give()

    async def _turn_info(self, event: str, confidence: float, **more: Any) -> None:
        ear = self.ear
        self._told_ms = ear.heard_ms
        words = ear.new_words() if ear.in_turn or event == "EndOfTurn" else []
        await self._tell(
            {
                "type": "TurnInfo",
                "request_id": self.request_id,
                "event": event,
                "turn_index": self._turn,
                "audio_window_start": self._turn_began_ms / 1000,
                "audio_window_end": ear.heard_ms / 1000,
                "transcript": " ".join(word.text for word in words),
                "words": [{**_word(word), "word": word.text} for word in words],
                "end_of_turn_confidence": confidence,
                **more,
            }
        )

    async def _tell(self, message: dict[str, Any]) -> None:
        await self.say({**message, "sequence_id": self._sequence})
        self._sequence += 1


def _word(word: HeardWord) -> dict[str, Any]:
    return {
        "start": round(word.start, 3),
        "end": round(word.end, 3),
        "confidence": CONFIDENCE,
    }
