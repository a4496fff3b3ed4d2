"""HTTP requests of the parts of a pipeline to their services.

One client per part: its connections are kept, so that the next sentence or utterance pays no
handshake. What goes wrong comes out as the part's own error with its kind, and never bears a key.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from cordboard.errors import AgentError, FailureKind
from cordboard.version import __version__

KEEP_SECONDS = 30.0
"""How long an unused connection is kept."""
WRITE_SECONDS = 5.0
_MOST_WORDS = 300
"""Of what a service says about an error."""
_WORTH_READING = 4_096
_KEYS = re.compile(r"\b(?:sk|xi|key|Bearer|Token)[-_ ][\w*.-]{6,}")


def kind_of_status(status: int) -> FailureKind:
    """What an HTTP status that is no success means for the conversation."""
    if status in (401, 403):
        return "auth"
    if status in (402, 429):
        return "quota"
    if status >= 500 or status == 408:
        return "dropped"
    return "refused"


def words_of_error(body: bytes) -> str:
    """What a service says is wrong, of the forms that the services use, in one short line.

    OpenAI: `{"error": {"message"}}`; ElevenLabs: `{"detail": {"message"}}`; Deepgram:
    `{"err_code", "err_msg"}`. A key that is quoted is taken out.
    """
    try:
        told: Any = json.loads(body)
    except ValueError:
        return ""
    for key in ("error", "detail", "err_msg", "message"):
        if isinstance(told, dict) and key in told:
            told = told[key]
            if isinstance(told, dict):
                told = told.get("message", "")
            break
    if not isinstance(told, str):
        return ""
    return _KEYS.sub("***", " ".join(told.split()))[:_MOST_WORDS]


class PartHttp:
    """Requests to one service. Made without an event loop; opened by the first request."""

    def __init__(
        self,
        service: str,
        base_url: str,
        headers: Mapping[str, str],
        error: type[AgentError],
        *,
        connect_seconds: float,
        silence_seconds: float,
    ) -> None:
        """`service`: as messages name it. `silence_seconds`: how long it may send nothing."""
        self._service = service
        self._base_url = base_url.rstrip("/")
        self._headers = {"User-Agent": f"cordboard/{__version__}", **headers}
        self._error = error
        self._timeout = httpx2.Timeout(
            connect=connect_seconds,
            read=silence_seconds,
            write=WRITE_SECONDS,
            pool=connect_seconds,
        )
        self._client: httpx2.AsyncClient | None = None
        self._running = 0
        self._ended = False

    @asynccontextmanager
    async def post(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        form: Mapping[str, str | list[str]] | None = None,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer's body, piece by piece; leaving the context ends the request.

        Raises the part's error: for a status that is no success, and for all that goes wrong while
        the body is read inside the context.
        """
        self._running += 1
        try:
            client = await self._opened()
            async with client.stream(
                "POST",
                f"{self._base_url}{path}",
                params=dict(params or {}),
                json=body,
                data=dict(form) if form is not None else None,
                files=dict(files) if files is not None else None,
            ) as response:
                if not response.is_success:
                    raise await self._refused(response)
                yield response.aiter_bytes()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise self._problem("cannot be reached", "connect", error) from error
        except httpx2.TimeoutException as error:
            raise self._problem("has fallen silent", "stalled", error) from error
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise self._problem("broke off", "dropped", error) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.CookieConflict) as error:
            raise self._problem("answers what makes no sense", "garbage", error) from error
        finally:
            self._running -= 1
            await self._close_if_ended()

    async def close(self) -> None:
        """Close all connections when no request runs: now, and after each that may still come."""
        self._ended = True
        await self._close_if_ended()

    async def _close_if_ended(self) -> None:
        if not self._ended or self._running:
            return
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            secure = self._base_url.startswith("https:")
            verify = await asyncio.to_thread(httpx2.create_ssl_context) if secure else False
            if self._client is None:
                self._client = httpx2.AsyncClient(
                    headers=self._headers,
                    timeout=self._timeout,
                    verify=verify,
                    limits=httpx2.Limits(keepalive_expiry=KEEP_SECONDS),
                )
        return self._client

    async def _refused(self, response: httpx2.Response) -> AgentError:
        status = response.status_code
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _WORTH_READING:
                break
        kind = kind_of_status(status)
        words = words_of_error(body)
        if status == 401 and "quota" in words.lower():
            kind = "quota"  # ElevenLabs answers so when an account is used up
        does = f"answers HTTP {status}"
        if kind == "auth":
            does = f"does not accept the key (HTTP {status})"
            if "permission" not in words.lower():
                words = ""  # some repeat the key in part
        told = f": {words}" if words else ""
        return self._error(f"{self._service} {does}{told}", kind)

    def _problem(self, what: str, kind: FailureKind, error: Exception) -> AgentError:
        return self._error(f"{self._service} {what} ({type(error).__name__})", kind)
