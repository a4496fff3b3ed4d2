"""A language model behind HTTP: the shell around a vendor's wire.

One client per brain, shared by all its calls: connections are kept, and `warm` opens one while the
greeting is spoken. A request that fails before its first piece is sent again, a few times and
within `MOST_WAITING`; after the first piece never, for then words have been spoken.

What goes wrong comes out as `BrainError` with its kind: 401 and 403 `auth`, 402 and 429 `quota`,
other refusals `refused`, 5xx and no connection `connect`, a broken stream `dropped`, a silent one
`stalled`, one of which nothing made sense `garbage`. No message bears a key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import httpx2
import orjson
import structlog

from cordboard.agent_api.language_model import Finished, ModelEvent, ModelRequest
from cordboard.agents.llm.wire import AnswerReader, Broken, Read, Wire
from cordboard.config.providers.brains import ModelBrain
from cordboard.errors import BrainError, FailureKind
from cordboard.net.server_events import EventParser, EventsTooLong
from cordboard.net.service_http import words_of_error
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.version import __version__

KEEP_SECONDS = 90.0
"""How long an idle connection is kept: callers think, and services close after some minutes."""
WRITE_SECONDS = 5.0
MOST_WAITING = 3.0
"""Seconds to wait for another try, all together: somebody is on the line."""
FIRST_PAUSE = 0.15
DRAIN_SECONDS = 0.05
MOST_CONNECTIONS = 200
_WORTH_READING = 4_096
_AGAIN = {408, 409, 429, 500, 502, 503, 504, 529}
_USED_UP = ("insufficient_quota", "billing", "exceeded your current quota")

log = structlog.get_logger()


class _Failed(BrainError):
    """A request came to nothing."""

    def __init__(
        self, message: str, kind: FailureKind, *, again: bool, after: float | None = None
    ) -> None:
        super().__init__(message, kind)
        self.again = again
        self.after = after
        """Seconds that the service wants waited."""


class HttpModel:
    """Implements `LanguageModel`. Made without an event loop."""

    def __init__(self, wire: Wire, settings: ModelBrain, key: str) -> None:
        self._wire = wire
        self._settings = settings
        self._key = key
        self._client: httpx2.AsyncClient | None = None
        self._warming: asyncio.Task[None] | None = None
        self._answering = 0
        """Answers that are being given."""
        self._closed = False
        self._used_at = float("-inf")
        """Loop time of the last answer: until `KEEP_SECONDS` later a connection is there."""

    @property
    def provider(self) -> str:
        return self._wire.provider

    @property
    def model(self) -> str:
        return self._wire.model

    @property
    def schemas(self) -> SchemaProfile:
        return self._wire.schemas

    @property
    def payload(self) -> PayloadLimits:
        return self._wire.payload

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self._answering += 1
        whole = False
        try:
            async with aclosing(self._tries(request)) as pieces:
                async for piece in pieces:
                    whole = isinstance(piece, Finished)
                    yield piece
        finally:
            self._answering -= 1
            await self._close_if_over()
            if not whole:  # its connection is gone, and the caller's next turn is near
                self._used_at = float("-inf")
                self.warm()

    async def _tries(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        body = orjson.dumps(self._wire.body(request))
        loop = asyncio.get_running_loop()
        waited, tries = 0.0, 0
        until = loop.time() + self._settings.first_token_ms / 1000
        while True:
            began = False
            try:
                async with aclosing(self._once(body)) as pieces:
                    async for piece in pieces:
                        began = True
                        yield piece
                return
            except _Failed as error:
                pause = FIRST_PAUSE * 2**tries if error.after is None else error.after
                tries += 1
                too_late = waited + pause > MOST_WAITING or loop.time() + pause > until
                hopeless = not error.again or too_late
                if began or hopeless or tries > self._settings.max_retries:
                    raise BrainError(str(error), error.kind) from error
                log.warning("model_tried_again", provider=self.provider, reason=str(error))
                waited += pause
                await asyncio.sleep(pause)

    def load(self) -> None:
        """There is nothing to load."""

    def warm(self) -> None:
        loop = asyncio.get_running_loop()
        busy = self._warming is not None and not self._warming.done()
        if self._closed or busy or loop.time() - self._used_at < KEEP_SECONDS:
            return
        self._warming = loop.create_task(self._warm())

    async def close(self) -> None:
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.cancel()
            await asyncio.wait((warming,))
        self._closed = True
        await self._close_if_over()

    async def _close_if_over(self) -> None:
        """Once it is closed, calls that go on keep no connections between their answers."""
        if self._closed and self._answering == 0:
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()

    # One request.

    async def _once(self, body: bytes) -> AsyncGenerator[ModelEvent, None]:
        client = await self._opened()
        loop = asyncio.get_running_loop()
        first = self._settings.first_token_ms / 1000
        stall = self._settings.stall_ms / 1000
        request = client.build_request(
            "POST", self._url(self._wire.path), content=body, headers=self._headers()
        )
        response = await self._sent(client, request, first)
        try:
            if not response.is_success:
                raise await self._refused(response, first)
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
        finally:
            await response.aclose()

    @staticmethod
    async def _drain(batches: AsyncGenerator[list[Read], None]) -> None:
        """Read what is left, a few bytes usually: only then the connection can be used again."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in batches:
                    pass
        except (TimeoutError, _Failed):
            return

    async def _next(
        self, batches: AsyncGenerator[list[Read], None], deadline: float
    ) -> list[Read] | None:
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(batches, None)
        except TimeoutError:
            raise self._failed("has fallen silent", "stalled", again=False) from None

    async def _sent(
        self, client: httpx2.AsyncClient, request: httpx2.Request, seconds: float
    ) -> httpx2.Response:
        try:
            async with asyncio.timeout(seconds):
                return await client.send(request, stream=True)
        except TimeoutError:
            raise self._failed("does not answer", "stalled", again=False) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise self._failed(f"cannot be reached ({_name(error)})", "connect") from error
        except httpx2.TransportError as error:
            raise self._failed(f"broke off ({_name(error)})", "dropped") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.CookieConflict) as error:
            raise self._failed(f"cannot be asked ({_name(error)})", "connect") from error

    async def _read(
        self, response: httpx2.Response, reader: AnswerReader
    ) -> AsyncGenerator[list[Read], None]:
        """What each piece of the network's brings."""
        parser = EventParser()
        try:
            async for piece in response.aiter_bytes():
                yield [read for event in parser.feed(piece) for read in reader.take(event)]
        except EventsTooLong:
            raise self._failed("sends what has no end", "garbage", again=False) from None
        except (httpx2.TransportError, httpx2.StreamError) as error:
            whole = reader.end()
            if not whole:
                raise self._failed(f"broke off ({_name(error)})", "dropped") from error
            yield whole  # it broke after the answer's end
            return
        except httpx2.HTTPError as error:
            raise self._failed(f"cannot be read ({_name(error)})", "garbage") from error
        yield [*(read for event in parser.end() for read in reader.take(event)), *reader.end()]

    async def _warm(self) -> None:
        try:
            await self._look()
        except BrainError as error:
            log.warning("model_not_warm", provider=self.provider, reason=str(error))

    async def _look(self) -> None:
        """Ask what there is to know of the model: it costs nothing, and leaves a connection."""
        client = await self._opened()
        seconds = self._settings.first_token_ms / 1000
        request = client.build_request(
            "GET", self._url(self._wire.models_path), headers=self._headers()
        )
        response = await self._sent(client, request, seconds)
        try:
            await self._words(response, seconds)
            self._used_at = asyncio.get_running_loop().time()
        finally:
            await response.aclose()

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            secure = self._wire.base_url.startswith("https:")
            verify = await asyncio.to_thread(httpx2.create_ssl_context) if secure else False
            if self._client is None:
                self._client = httpx2.AsyncClient(
                    headers={"User-Agent": f"cordboard/{__version__}"},
                    timeout=httpx2.Timeout(
                        connect=self._settings.connect_timeout_ms / 1000,
                        read=None,
                        write=WRITE_SECONDS,
                        pool=self._settings.connect_timeout_ms / 1000,
                    ),
                    verify=verify,
                    limits=httpx2.Limits(
                        max_connections=MOST_CONNECTIONS,
                        max_keepalive_connections=MOST_CONNECTIONS,
                        keepalive_expiry=KEEP_SECONDS,
                    ),
                )
        return self._client

    def _url(self, path: str) -> str:
        return self._wire.base_url.rstrip("/") + path

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", **self._wire.headers(self._key)}

    # What went wrong.

    async def _refused(self, response: httpx2.Response, seconds: float) -> _Failed:
        words = await self._words(response, seconds)
        return self._refusal(response.status_code, words, response.headers.get("retry-after"))

    def _refusal(self, status: int, body: bytes, retry_after: str | None) -> _Failed:
        words = words_of_error(body)
        kind: FailureKind = "refused"
        if status in (401, 403) or (status == 400 and b"API_KEY_INVALID" in body):  # Gemini's 400
            kind, words = "auth", ""
        elif status in (402, 429, 529):
            kind = "quota"
        elif status >= 500 or status == 408:
            kind = "connect"
        used_up = any(word in body.decode("utf-8", "replace") for word in _USED_UP)
        told = f": {self._unkeyed(words)}" if words else ""
        does = f"does not accept the key (HTTP {status})" if kind == "auth" else ""
        message = f"{self.provider} {does or f'answers HTTP {status}'}{told}"
        again = status in _AGAIN and not used_up
        return _Failed(message, kind, again=again, after=_seconds(retry_after))

    @staticmethod
    async def _words(response: httpx2.Response, seconds: float) -> bytes:
        body = b""
        try:
            async with asyncio.timeout(seconds):
                async for piece in _pieces(response):
                    body += piece
                    if len(body) > _WORTH_READING:
                        break
        except (TimeoutError, httpx2.HTTPError, httpx2.StreamError):
            return b""
        return body

    def _broken(self, broken: Broken) -> _Failed:
        message = f"{self.provider} gave up: {self._unkeyed(broken.message)}"
        return _Failed(message, broken.kind, again=broken.again)

    def _incomplete(self, reader: AnswerReader) -> _Failed:
        self._note(reader)
        if reader.malformed and not reader.alive:
            return self._failed("answers what makes no sense", "garbage")
        return self._failed("ended in the middle of its answer", "dropped")

    def _failed(self, what: str, kind: FailureKind, *, again: bool = True) -> _Failed:
        return _Failed(f"{self.provider} {what}", kind, again=again)

    def _note(self, reader: AnswerReader) -> None:
        self._used_at = asyncio.get_running_loop().time()
        if reader.malformed:
            log.warning("model_malformed", provider=self.provider, events=reader.malformed)

    def _unkeyed(self, words: str) -> str:
        return words.replace(self._key, "***") if self._key else words


async def _pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    async for piece in response.aiter_bytes():
        yield piece


def _seconds(retry_after: str | None) -> float | None:
    """Of a `Retry-After` in seconds; a date is not followed."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None


def _name(error: Exception) -> str:
    return type(error).__name__
