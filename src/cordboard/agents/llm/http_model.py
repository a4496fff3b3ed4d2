"""A language model behind HTTP: the shell around a vendor's wire.

One client per brain, shared by all its calls: connections are kept, and `warm` opens one while the
greeting is spoken. A request that fails before its first piece is retried a few times, within
`MOST_WAITING`; after the first piece never, because words have been spoken.

Failures are raised as `BrainError` with the kind that `cordboard.net.failures` gives them; a silent
stream is `stalled`, one without a meaningful event is `garbage`. No message contains a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx2
import orjson
import structlog

from cordboard.agent_api.language_model import Finished, ModelEvent, ModelRequest
from cordboard.agents.llm.wire import AnswerReader, Broken, Read, Wire
from cordboard.config.sections.language_model import ModelBrain
from cordboard.errors import BrainError, FailureKind
from cordboard.net.backoff import Backoff
from cordboard.net.failures import RequestFailed
from cordboard.net.server_events import events_or_whole
from cordboard.net.service_http import ServiceHttp
from cordboard.net.token_command import TokenCommand
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import SchemaProfile

KEEP_SECONDS = 90.0
"""Seconds for which an idle connection is kept: callers think, and services close after some
minutes."""
MOST_WAITING = 3.0
"""Seconds of waiting between attempts, in total: a caller is on the line."""
RETRIES = Backoff(first=0.15, most=MOST_WAITING)
DRAIN_SECONDS = 0.05
MOST_CONNECTIONS = 200
_WORTH_KEEPING = 65_536
"""Bytes of an unused answer that are read so that its connection can be used again."""

log = structlog.get_logger()


class HttpModel:
    """Implements `LanguageModel`. Made without an event loop."""

    def __init__(self, wire: Wire, settings: ModelBrain, key: str) -> None:
        self._wire = wire
        self._settings = settings
        self._key = key
        self._first_seconds = settings.first_token_ms / 1000
        command = settings.token_command
        self._http = ServiceHttp(
            wire.provider,
            wire.base_url,
            {"Content-Type": "application/json", **wire.headers("" if command else key)},
            connect_seconds=settings.connect_timeout_ms / 1000,
            silence_seconds=None,
            keep_seconds=KEEP_SECONDS,
            connections=MOST_CONNECTIONS,
            key=key,
        )
        self._tokens = TokenCommand(command, settings.token_lifetime_s) if command else None
        self._warming: asyncio.Task[None] | None = None
        self._closed = False
        self._used_at = float("-inf")
        """Loop time of the last answer: until `KEEP_SECONDS` later there is a connection."""

    @property
    def provider(self) -> str:
        return self._wire.provider

    @property
    def model(self) -> str:
        return self._wire.model

    @property
    def sends_calls(self) -> bool:
        """True for a vendor's own service; a server elsewhere may have any model behind it."""
        return self._settings.base_url is None

    @property
    def schemas(self) -> SchemaProfile:
        return self._wire.schemas

    @property
    def payload(self) -> PayloadLimits:
        return self._wire.payload

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        whole = False
        try:
            async with aclosing(self._tries(request)) as pieces:
                async for piece in pieces:
                    whole = isinstance(piece, Finished)
                    yield piece
        finally:
            if not whole:  # its connection is gone, and the caller's next turn is near
                self._used_at = float("-inf")
                self.warm()

    async def _tries(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        body = orjson.dumps(self._wire.body(request))
        loop = asyncio.get_running_loop()
        waited, tries, renew = 0.0, 0, True
        until = loop.time() + self._first_limit()
        while True:
            began = False
            try:
                async with aclosing(self._once(body)) as pieces:
                    async for piece in pieces:
                        began = True
                        yield piece
                return
            except RequestFailed as error:
                if self._tokens is not None and error.kind == "auth" and not began and renew:
                    renew = False
                    if self._tokens.forget():
                        continue
                pause = RETRIES.pause(tries) if error.after is None else error.after
                tries += 1
                too_late = waited + pause > MOST_WAITING or loop.time() + pause > until
                hopeless = not error.again or too_late
                if began or hopeless or tries > self._settings.max_retries:
                    raise BrainError(str(error), error.kind) from error
                log.warning("model_tried_again", provider=self.provider, reason=str(error))
                waited += pause
                await asyncio.sleep(pause)

    def load(self) -> None:
        """Do nothing: there is nothing to load."""

    def warm(self) -> None:
        loop = asyncio.get_running_loop()
        busy = self._warming is not None and not self._warming.done()
        if self._closed or busy or loop.time() - self._used_at < KEEP_SECONDS:
            return
        self._warming = loop.create_task(self._warm())

    async def close(self) -> None:
        """Close the client. Calls still open then keep no connections between their answers."""
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.cancel()
            await asyncio.wait((warming,))
        self._closed = True
        if self._tokens is not None:
            await self._tokens.close()
        await self._http.close()

    async def _warm(self) -> None:
        """Request the model's description: it costs nothing, and leaves a connection."""
        path, seconds = self._wire.models_path, self._first_seconds
        try:
            async with (
                asyncio.timeout(2 * seconds),
                self._http.request(
                    "GET",
                    path,
                    answer_seconds=seconds,
                    any_status=True,
                    headers=await self._login(),
                ) as response,
            ):
                read = 0
                async for piece in response.aiter_bytes():
                    read += len(piece)
                    if read > _WORTH_KEEPING:
                        break
        except (RequestFailed, TimeoutError) as error:
            log.warning("model_not_warm", provider=self.provider, reason=str(error))
        else:
            self._used_at = asyncio.get_running_loop().time()

    # One request.

    async def _login(self) -> dict[str, str]:
        """Return the headers with a token. Raises `RequestFailed`."""
        if self._tokens is None:
            return {}
        return {"Authorization": f"Bearer {await self._tokens.token()}"}

    def _first_limit(self) -> float:
        """Return the seconds that the model has for its first word."""
        return self._first_seconds

    async def _once(self, body: bytes) -> AsyncGenerator[ModelEvent, None]:
        loop = asyncio.get_running_loop()
        stall = self._settings.stall_ms / 1000
        first = self._first_limit()
        try:
            async with asyncio.timeout(first):
                login = await self._login()
        except TimeoutError:
            words = f"{self.provider}: the token command takes longer than the first word may"
            raise RequestFailed(words, "stalled", again=False) from None
        async with self._http.request(
            "POST", self._wire.path, answer_seconds=first, content=body, headers=login
        ) as response:
            reader = self._wire.reader()
            deadline = loop.time() + first
            async with aclosing(self._read(response, reader)) as batches:
                while True:
                    alive = reader.alive
                    batch = await self._next(batches, deadline)
                    if batch is None:
                        break
                    for piece in batch:
                        if isinstance(piece, Broken):
                            raise self._broken(piece)
                        if isinstance(piece, Finished):
                            self._note(reader)
                            await self._drain(batches)
                            yield piece
                            return
                        yield piece
                    if reader.alive != alive:
                        deadline = max(deadline, loop.time() + stall)
            raise self._incomplete(reader)

    @staticmethod
    async def _drain(batches: AsyncGenerator[list[Read], None]) -> None:
        """Read the rest, usually a few bytes: only then the connection can be used again."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in batches:
                    pass
        except (TimeoutError, httpx2.HTTPError, httpx2.StreamError, RequestFailed):
            return

    async def _next(
        self, batches: AsyncGenerator[list[Read], None], deadline: float
    ) -> list[Read] | None:
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(batches, None)
        except TimeoutError:
            raise self._failed("has fallen silent", "stalled") from None

    async def _read(
        self, response: httpx2.Response, reader: AnswerReader
    ) -> AsyncGenerator[list[Read], None]:
        """Yield the readings of each event."""
        try:
            async for event in events_or_whole(response):
                if event.data:
                    yield reader.take(event)
        except httpx2.SSEError:
            raise self._failed("sent an event that is too long", "garbage") from None
        except (httpx2.TransportError, httpx2.StreamError):
            whole = reader.end()
            if not whole:
                raise
            yield whole  # it broke after the answer's end
            return
        yield reader.end()

    # Failures.

    def _broken(self, broken: Broken) -> RequestFailed:
        words = broken.message.replace(self._key, "***") if self._key else broken.message
        message = f"{self.provider} gave up: {words}"
        return RequestFailed(message, broken.kind, again=broken.again)

    def _incomplete(self, reader: AnswerReader) -> RequestFailed:
        self._note(reader)
        if reader.malformed and not reader.alive:
            return self._failed("sent an unreadable answer", "garbage", again=True)
        return self._failed("ended in the middle of its answer", "dropped", again=True)

    def _failed(self, words: str, kind: FailureKind, *, again: bool = False) -> RequestFailed:
        return RequestFailed(f"{self.provider} {words}", kind, again=again)

    def _note(self, reader: AnswerReader) -> None:
        self._used_at = asyncio.get_running_loop().time()
        if reader.malformed:
            log.warning("model_malformed", provider=self.provider, events=reader.malformed)
