"""A language model on a server of one's own (Ollama, llama.cpp, vLLM), which may be cold.

Such a server may load its model only when it is first asked (and unload it again: Ollama after five
idle minutes), and without a large GPU it reads a new prompt for tens of seconds. So a cold server
has more time for its first word (`cold_start_ms`), and it reads the beginning of the conversations
ahead: at start-up each context's prompt and tools, and when a call finds it cold, that call's. The
servers keep what they have read, so that a call's answer waits for its new words only. An answer
comes first: it stops a reading, which goes on once the server has been idle.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import replace

import orjson
import structlog

from cordboard.agent_api.language_model import CallerSaid, ModelEvent, ModelRequest
from cordboard.agents.llm.http_model import HttpModel
from cordboard.agents.llm.messages import CALL_BEGINS
from cordboard.agents.llm.wire import Wire
from cordboard.config.sections.language_model import ModelBrain
from cordboard.net.failures import RequestFailed

COLD_AFTER = 240.0
"""Seconds without an answer after which the server may have unloaded the model."""
READ_SECONDS = 300.0
"""Timeout of one reading ahead. No caller waits for it, and a busy CPU takes minutes."""
MOST_AHEAD = 16
"""Most beginnings that wait to be read, or are known; the oldest are dropped."""
IDLE_SECONDS = 30.0
"""Seconds after an answer in which nothing is read: many servers keep one conversation only, and
reading another between two turns would cost the caller that."""

log = structlog.get_logger()


class LocalServerModel(HttpModel):
    """Implements `LanguageModel` and `ReadsAhead`."""

    def __init__(self, wire: Wire, settings: ModelBrain, key: str, cold_seconds: float) -> None:
        super().__init__(wire, settings, key)
        self._cold_seconds = max(cold_seconds, self._first_seconds)
        self._answered_at = float("-inf")
        """Monotonic time of the last sign that the model is loaded."""
        self._ahead: deque[bytes] = deque(maxlen=MOST_AHEAD)
        self._known: deque[bytes] = deque(maxlen=MOST_AHEAD)
        """Beginnings that the server has read."""
        self._streams = 0
        self._reading: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None

    @property
    def _cold(self) -> bool:
        return time.monotonic() - self._answered_at > COLD_AFTER

    def _first_limit(self) -> float:
        return self._cold_seconds if self._cold else self._first_seconds

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self._streams += 1
        self._stop_reading()
        try:
            async with aclosing(super().stream(request)) as pieces:
                async for piece in pieces:
                    self._answered_at = time.monotonic()
                    yield piece
        finally:
            self._streams -= 1
            if self._ahead and not self._closed:
                self._pause = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._read_on)

    def read_ahead(self, beginning: ModelRequest) -> Future[None]:
        """Note the text to be read. The future is done already, because start-up does not wait for
        the server; the reading begins with `warm`. Only a cold server reads a conversation that has
        begun."""
        done: Future[None] = Future()
        done.set_result(None)
        cold = self._cold
        if cold or not beginning.messages:
            messages = beginning.messages or (CallerSaid(CALL_BEGINS),)
            body = self._wire.body(replace(beginning, messages=messages))
            body.pop("max_completion_tokens", None)
            read = orjson.dumps(body | {"max_tokens": 1})
            if read not in tuple(self._ahead) and (cold or read not in tuple(self._known)):
                # A caller is there: this conversation comes before the prompts of other contexts.
                (self._ahead.appendleft if beginning.messages else self._ahead.append)(read)
            if beginning.messages:
                self._read_on()
        return done

    def warm(self) -> None:
        super().warm()
        self._read_on()

    async def close(self) -> None:
        """Stop reading, and close the client."""
        self._closed = True
        self._stop_reading()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait((reading,))
        await super().close()

    def _stop_reading(self) -> None:
        """Leave the server to a caller. Not while it is cold: Ollama stops loading a model when the
        client leaves (`aborting load`), and would begin anew."""
        if self._pause is not None:
            self._pause.cancel()
        if self._reading is not None and not self._cold:
            self._reading.cancel()

    def _read_on(self) -> None:
        busy = self._reading is not None and not self._reading.done()
        if self._ahead and not busy and not self._closed:
            self._reading = asyncio.get_running_loop().create_task(self._read_ahead())

    async def _read_ahead(self) -> None:
        """Read what is noted, one after the other, as long as no call needs the server."""
        while self._ahead and not self._streams:
            body, began = self._ahead[0], time.monotonic()
            try:
                login = await self._login()
                async with (
                    asyncio.timeout(READ_SECONDS),
                    self._http.request(
                        "POST", self._wire.path, content=body, headers=login
                    ) as response,
                ):
                    async for _ in response.aiter_bytes():
                        pass
            except (RequestFailed, TimeoutError) as error:
                reason = str(error) or "it takes too long"
                log.warning("model_not_read_ahead", provider=self.provider, reason=reason)
            else:
                self._known.append(body)
                self._answered_at = time.monotonic()
                took = round((self._answered_at - began) * 1000)
                log.info("model_read_ahead", provider=self.provider, took_ms=took)
            with suppress(ValueError):  # it was dropped meanwhile
                self._ahead.remove(body)
