"""How the engine shows a remote MCP server who it is: a fixed token, or one fetched by OAuth 2.0.

`TokenSource` fetches by client credentials (RFC 6749 4.4), with a secret or with a signed assertion
(RFC 7523), naming the server as `resource` (RFC 8707). A token is used until shortly before its
end and fetched anew ahead of that, in the background; it is fetched once however many calls wait,
and no call ever waits for another call. (The SDK's own provider holds a lock across the whole
request: three calls of 1 s took 3.0 s; mcp 2.3.0, `client/auth/oauth2.py`, measured.) A token
endpoint that fails is left alone for a while, and waiting calls are told at once. Nothing is
discovered: the operator writes the endpoint, and no server can send our secret anywhere else.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

import jwt
import structlog

from cordboard.config.mcp import McpAuth
from cordboard.errors import McpError, McpLoginFailed, McpUnavailable
from cordboard.mcp.remote.http_channel import (
    Channel,
    Credentials,
    NoCredentials,
    read_body,
    status_error,
)
from cordboard.net.backoff import Backoff

FETCH_SECONDS = 15.0
MAX_ANSWER_BYTES = 64 * 1024
ASSERTION_SECONDS = 120
DEFAULT_LIFETIME = 300.0
"""Of a token whose end is not said."""
MAX_LIFETIME = 86_400.0
AHEAD_SHARE, MAX_AHEAD = 0.2, 60.0
"""A token is fetched anew when this share of its life is left, at most so many seconds."""
SPARE_SHARE, MAX_SPARE = 0.05, 10.0
"""It is no longer used when this is left."""
PAUSES = Backoff(first=1.0, most=60.0)
"""After a failure of the token endpoint."""
REFUSAL_PAUSE = 5.0
"""A server that refuses every token makes us fetch one no more often than this."""

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")

log = structlog.get_logger()


def credentials(
    auth: McpAuth | None,
    server_url: str,
    plain_http: bool,
    hide: Callable[[str], None] = lambda token: None,
) -> Credentials:
    """What an `auth:` section asks for. `hide` is told each token that is fetched."""
    if auth is None:
        return NoCredentials()
    if auth.type == "bearer" and auth.token is not None:
        return FixedToken(auth.token.get_secret_value())
    return TokenSource(auth, server_url, plain_http, hide)


class FixedToken(NoCredentials):
    """A token from the configuration."""

    def __init__(self, token: str) -> None:
        self._value = f"Bearer {token}"

    async def authorization(self) -> str | None:
        return self._value


@dataclass(frozen=True, slots=True)
class Token:
    """An access token; the times are the event loop's, in seconds."""

    value: str
    refresh_at: float
    expires_at: float


class TokenSource:
    """Tokens by client credentials, for one server."""

    def __init__(
        self,
        auth: McpAuth,
        server_url: str,
        plain_http: bool,
        hide: Callable[[str], None] = lambda token: None,
    ) -> None:
        self._hide = hide
        self._auth = auth
        self._server_url = server_url
        self._channel = Channel(auth.token_url or "", plain_http=plain_http)
        self._token: Token | None = None
        self._fetching: asyncio.Task[Token] | None = None
        self._failures = 0
        self._failure: McpError | None = None
        self._pause_until = 0.0
        self._refusal_pause_until = 0.0

    async def authorization(self) -> str | None:
        """A token that is good for now. Raises `McpError` when there is none to be had."""
        now = asyncio.get_running_loop().time()
        token = self._token
        if token is not None and now < token.expires_at:
            if now >= token.refresh_at and now >= self._pause_until:
                self._fetch()
            return f"Bearer {token.value}"
        if self._fetching is None and now < self._pause_until and self._failure is not None:
            raise type(self._failure)(str(self._failure))
        fetched = await asyncio.shield(self._fetch())
        return f"Bearer {fetched.value}"

    def refused(self, authorization: str) -> bool:
        """Forget a token that the server does not take; whether another may be tried."""
        if self._token is None or authorization != f"Bearer {self._token.value}":
            return True  # another call has noticed it before
        now = asyncio.get_running_loop().time()
        if now < self._refusal_pause_until:
            return False
        self._refusal_pause_until = now + REFUSAL_PAUSE
        self._token = None
        return True

    async def close(self) -> None:
        """Give up what is being fetched. Idempotent."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            fetching.cancel()
            with suppress(asyncio.CancelledError, McpError):
                await fetching
        await self._channel.close()

    def _fetch(self) -> asyncio.Task[Token]:
        """The one fetch that is under way, begun if there is none."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_once(), name="mcp token")
            self._fetching.add_done_callback(self._fetched)
        return self._fetching

    def _fetched(self, task: asyncio.Task[Token]) -> None:
        self._fetching = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._token = task.result()
            self._hide(self._token.value)
            self._failures, self._failure, self._pause_until = 0, None, 0.0
        elif isinstance(error, McpError):
            pause = PAUSES.pause(self._failures)
            self._failures += 1
            self._failure = error
            self._pause_until = asyncio.get_running_loop().time() + pause
            log.warning(
                "mcp_token_failed",
                endpoint=self._channel.url.host,
                error=str(error),
                pause_ms=int(pause * 1000),
            )

    async def _fetch_once(self) -> Token:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                await self._channel.open()
                form, headers = await self._request()
                asked = asyncio.get_running_loop().time()
                async with self._channel.request(
                    "POST", headers, urlencode(form).encode()
                ) as response:
                    body = await read_body(response, MAX_ANSWER_BYTES)
                return read_token(response.status_code, body, asked)
        except TimeoutError as error:
            raise McpUnavailable("its token endpoint did not answer in time") from error
        except McpLoginFailed:
            raise
        except McpError as error:
            raise type(error)(f"its token endpoint failed: {error}") from error

    async def _request(self) -> tuple[dict[str, str], dict[str, str]]:
        auth = self._auth
        client_id = auth.client_id or ""
        form = {"grant_type": "client_credentials"}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        if auth.scopes:
            form["scope"] = " ".join(auth.scopes)
        if auth.audience:
            form["audience"] = auth.audience
        resource = self._server_url if auth.resource is None else auth.resource
        if resource:
            form["resource"] = resource
        if auth.type == "private_key_jwt":
            form["client_id"] = client_id
            form["client_assertion_type"] = _ASSERTION_TYPE
            # Reading and using a key takes milliseconds; not on the event loop.
            form["client_assertion"] = await asyncio.to_thread(assertion, auth, time.time())
        elif auth.client_secret is not None:
            secret = auth.client_secret.get_secret_value()
            if auth.send_secret == "post":  # noqa: S105  (a word, no secret)
                form.update(client_id=client_id, client_secret=secret)
            else:  # RFC 6749 2.3.1: both are form-encoded first
                pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
                headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return form, headers


def assertion(auth: McpAuth, now: float) -> str:
    """The signed JWT by which we log in; `now` is Unix time. Raises `McpLoginFailed`."""
    claims = {
        "iss": auth.client_id,
        "sub": auth.client_id,
        "aud": auth.assertion_audience or auth.token_url,
        "iat": int(now),
        "exp": int(now) + ASSERTION_SECONDS,
        "jti": str(uuid.uuid4()),
    }
    headers = {"kid": auth.key_id} if auth.key_id else None
    key = auth.private_key.get_secret_value() if auth.private_key is not None else ""
    try:
        return jwt.encode(claims, key, algorithm=auth.algorithm, headers=headers)
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        # Not chained: the text of the cause may show the key.
        raise McpLoginFailed(
            f"auth.private_key is no private key in PEM that {auth.algorithm} can use"
        ) from None


def read_token(status: int, body: bytes, asked: float) -> Token:
    """A token endpoint's answer; `asked` is when it was asked. Raises `McpError`."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    if not 200 <= status < 300:
        raise _refusal(status, answer.get("error"))
    value, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise McpError("it gave no access token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise McpError("it gave a token that is no bearer token")
    lifetime = _lifetime(answer.get("expires_in"))
    return Token(
        value,
        refresh_at=asked + lifetime - min(lifetime * AHEAD_SHARE, MAX_AHEAD),
        expires_at=asked + lifetime - min(lifetime * SPARE_SHARE, MAX_SPARE),
    )


def _lifetime(said: object) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(said, (int, float, str)) and not isinstance(said, bool):
            seconds = float(said)
            if seconds == seconds:  # not NaN
                return min(max(seconds, 1.0), MAX_LIFETIME)
    return DEFAULT_LIFETIME


def _refusal(status: int, code: object) -> McpError:
    if status in (400, 401, 403):
        word = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "no reason given"
        return McpLoginFailed(f"its token endpoint refuses us: {word} (HTTP {status})")
    return status_error(status)
