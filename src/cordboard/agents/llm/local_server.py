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
from contextlib import aclosing
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
        self._ahead: deque[tuple[bytes, Future[None]]] = deque(maxlen=MOST_AHEAD)
        """Beginnings to be read, the next one first; a cancelled one is skipped."""
        self._known: deque[bytes] = deque(maxlen=MOST_AHEAD)
        """Beginnings that the server has read."""
        self._streams = 0
        self._reading: asyncio.Task[None] | None = None
        self._read_for: Future[None] | None = None
        """The beginning that is being read, or was the last one."""
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
        """Note the text to be read. That of a context (no messages) is read after `warm`, and its
        future is done already, because start-up does not wait for the server. A conversation that
        has begun is read at once, and only by a cold server."""
        done: Future[None] = Future()
        if self._cold:
            self._known.clear()
        elif beginning.messages:
            done.set_result(None)
            return done
        messages = beginning.messages or (CallerSaid(CALL_BEGINS),)
        body = orjson.dumps(self._wire.body(replace(beginning, messages=messages)))
        if beginning.messages:
            # A caller is there: this conversation comes before the prompts of other contexts.
            self._ahead.appendleft((body, done))
            done.add_done_callback(self._given_up)
            self._read_on()
        else:
            done.set_result(None)
            self._ahead.append((body, done))
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

    def _given_up(self, done: Future[None]) -> None:
        """Go on with the next beginning if the call of this one has ended. Not while the server is
        cold: the model that it loads serves all calls."""
        reading = self._reading
        if done.cancelled() and done is self._read_for and reading is not None and not self._cold:
            reading.cancel()
            reading.add_done_callback(lambda _: self._read_on())

    async def _read_ahead(self) -> None:
        """Read what is noted, one after the other, as long as no call needs the server."""
        while self._ahead and not self._streams:
            body, done = self._ahead.popleft()
            if body not in self._known and not done.cancelled():
                self._read_for = done
                try:
                    await self._read_one(body)
                except asyncio.CancelledError:
                    if not done.cancelled():  # another call needs the server now
                        self._ahead.appendleft((body, done))
                    raise
            if not done.done():
                done.set_result(None)

    async def _read_one(self, body: bytes) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self._begin_an_answer(body)
        except (RequestFailed, TimeoutError) as error:
            reason = str(error) or "it takes too long"
            log.warning("model_not_read_ahead", provider=self.provider, reason=reason)
        else:
            self._known.append(body)
            self._answered_at = time.monotonic()
            took = round((self._answered_at - began) * 1000)
            log.info("model_read_ahead", provider=self.provider, took_ms=took)

    async def _begin_an_answer(self, body: bytes) -> None:
        """Leave when the answer has begun: then the server has read the prompt. The length is not
        limited instead, because services disagree about the name: GPT-5 refuses `max_tokens`,
        Ollama ignores `max_completion_tokens` (ollama/ollama#7125). Raises `RequestFailed`."""
        reader, login = self._wire.reader(), await self._login()
        async with (
            self._http.request("POST", self._wire.path, content=body, headers=login) as response,
            aclosing(self._read(response, reader)) as events,
        ):
            async for _ in events:
                if reader.alive > 1:  # the first one may be the role alone, before the reading
                    return
        if not reader.alive:
            raise self._incomplete(reader)
