"""Deepgram's streaming speech synthesis, emulated: `/v1/speak`.

Written after the vendor's published specification and the types of its SDK (deepgram-sdk 7.17.0).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from cordboard.audio.g711 import linear_to_alaw, linear_to_ulaw
from cordboard_testkit.emulators.deepgram.models import VOICES
from cordboard_testkit.emulators.deepgram.socket import (
    KEY,
    Check,
    DeepgramSocketEmulator,
    Ended,
    Query,
    Refusal,
    Session,
    checked,
    flag,
    fraction,
    one_of,
)
from cordboard_testkit.emulators.script import Script
from cordboard_testkit.emulators.speech import Beeper, Speaker

MOST_CHARACTERS = 2000
FLUSHES, FLUSHES_WITHIN = 20, 60.0
PIECE_MS = 100

SPEAK_QUERY: Mapping[str, Check] = {
    "model": one_of(*VOICES),
    "encoding": one_of("linear16", "mulaw", "alaw"),
    "sample_rate": one_of("8000", "16000", "24000", "32000", "48000"),
    "speed": fraction(0.7, 1.5),
    "mip_opt_out": flag,
}


class DeepgramSpeakEmulator(DeepgramSocketEmulator):
    """The voice; by default tones."""

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
        super().__init__(script, key=key, port=port)
        self.speaker = speaker or Beeper()
        self.piece_seconds = piece_seconds
        self.spoken: list[str] = []

    def check(self, path: str, query: Query) -> None:
        checked(query, {"/v1/speak": SPEAK_QUERY}[path], ())
        encoding = query.get("encoding", ("linear16",))[0]
        rate = query.get("sample_rate", ("8000",))[0]
        if encoding != "linear16" and rate not in ("8000", "16000"):
            raise Refusal("encoding and sample_rate do not fit together")

    def session(self, path: str, connection: ServerConnection, query: Query) -> Session:
        return _Speaking(self, connection, query)


class _Speaking(Session):
    """One connection."""

    idle_seconds = 60.0

    def __init__(
        self, service: DeepgramSpeakEmulator, connection: ServerConnection, query: Query
    ) -> None:
        super().__init__(service, connection, query)
        self._emulator = service
        self._encoding = query.get("encoding", ("linear16",))[0]
        self._rate = int(query.get("sample_rate", ("24000",))[0])
        self._model = query.get("model", ("aura-asteria-en",))[0]
        self._text = ""
        self._speaking: asyncio.Task[None] | None = None
        self._flushed = 0
        self._cleared = 0
        self._flushes: list[float] = []

    async def begin(self) -> None:
        await self.say(
            {
                "type": "Metadata",
                "request_id": self.request_id,
                "model_name": self._model,
                "model_version": "1",
                "model_uuid": self.request_id,
            }
        )

    async def take_sound(self, data: bytes) -> None:
        await self.refuse("no sound is expected")

    async def take_text(self, told: dict[str, Any]) -> None:
        match told:
            case {"type": "Speak", "text": str(said), **rest} if not rest:
                if len(self._text) + len(said) > MOST_CHARACTERS:
                    await self.refuse("more than 2000 characters")
                self._text += said
            case {"type": "Flush", **rest} if not rest:
                await self._flush()
            case {"type": "Clear", **rest} if not rest:
                await self._stop()
                self._text = ""
                await self.say({"type": "Cleared", "sequence_id": self._cleared})
                self._cleared += 1
            case {"type": "Close", **rest} if not rest:
                if self._speaking is not None:
                    await asyncio.gather(self._speaking, return_exceptions=True)
                await self.close(1000)
            case _:
                await self.refuse(f"cannot be parsed: {told}")

    def error(self, description: str) -> dict[str, Any]:
        return {"type": "Error", "err_code": "DATA-0000", "description": description}

    async def _flush(self) -> None:
        now = time.monotonic()
        self._flushes = [at for at in self._flushes if now - at < FLUSHES_WITHIN]
        if len(self._flushes) >= FLUSHES:
            self.service.violations.append("more than 20 flushes in 60 s")
            words = "too many Flush messages in 60 seconds"
            await self.say({"type": "Warning", "code": "FLUSH_LIMIT", "description": words})
            return
        self._flushes.append(now)
        text, self._text = self._text, ""
        before = self._speaking
        self._speaking = asyncio.create_task(self._speak(text, before))

    async def _speak(self, text: str, before: asyncio.Task[None] | None) -> None:
        """Task border: errors that end the connection end here."""
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        try:
            await self.fault("answer")
            self._emulator.spoken.append(text)
            pcm = self._emulator.speaker.speak(text, self._rate)
            step = self._rate * PIECE_MS // 1000 * 2
            for at in range(0, len(pcm), step):
                await self.sound(self._coded(pcm[at : at + step]))
                await asyncio.sleep(self._emulator.piece_seconds)
                await self.fault("sound")
            await self.say({"type": "Flushed", "sequence_id": self._flushed})
            self._flushed += 1
        except (Ended, ConnectionClosed):
            return

    async def _stop(self) -> None:
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.gather(self._speaking, return_exceptions=True)
            self._speaking = None

    def _coded(self, pcm: bytes) -> bytes:
        match self._encoding:
            case "mulaw":
                return linear_to_ulaw(pcm)
            case "alaw":
                return linear_to_alaw(pcm)
        return pcm
