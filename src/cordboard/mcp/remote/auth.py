"""Authentication with a remote MCP server: a fixed token, or one fetched by OAuth 2.0.

`TokenSource` fetches by client credentials (RFC 6749 4.4), with a secret or with a signed assertion
(RFC 7523), and names the server as `resource` (RFC 8707). A token is refreshed in the background
shortly before it expires. Concurrent calls share one fetch, and a call never waits for another
call. (The SDK's own provider holds a lock across the whole request: three calls of 1 s took 3.0 s;
mcp 2.3.0, `client/auth/oauth2.py`, measured.) After a failure the token endpoint is not contacted
for a while, and waiting calls fail at once. There is no discovery: the operator writes the
endpoint, and no server can make the engine send its secret anywhere else.
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
"""Assumed lifetime, in seconds, of a token without `expires_in`."""
MAX_LIFETIME = 86_400.0
AHEAD_SHARE, MAX_AHEAD = 0.2, 60.0
"""A token is refreshed when this share of its lifetime, at most this many seconds, is left."""
SPARE_SHARE, MAX_SPARE = 0.05, 10.0
"""A token is not used any more when this share, at most this many seconds, is left."""
PAUSES = Backoff(first=1.0, most=60.0)
"""Back-off after failures of the token endpoint."""
REFUSAL_PAUSE = 5.0
"""Minimum seconds between fetches when a server refuses every token."""

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
    """Make the credentials of an `auth:` section. `hide` is called with each fetched token."""
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
    """An access token; times in seconds of the event loop's clock."""

    value: str
    refresh_at: float
    expires_at: float


class TokenSource:
    """Fetches and refreshes one server's tokens by client credentials."""

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
        """Return a valid token. Raises `McpError` if none can be fetched."""
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
        """Forget a token that the server refused. Return True if another one may be tried."""
        if self._token is None or authorization != f"Bearer {self._token.value}":
            return True  # another call has already noticed
        now = asyncio.get_running_loop().time()
        if now < self._refusal_pause_until:
            return False
        self._refusal_pause_until = now + REFUSAL_PAUSE
        self._token = None
        return True

    async def close(self) -> None:
        """Cancel a running fetch. Idempotent."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            fetching.cancel()
            with suppress(asyncio.CancelledError, McpError):
                await fetching
        await self._channel.close()

    def _fetch(self) -> asyncio.Task[Token]:
        """Return the running fetch; start one if there is none."""
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
            if auth.send_secret == "post":  # noqa: S105  (a word, not a secret)
                form.update(client_id=client_id, client_secret=secret)
            else:  # RFC 6749 2.3.1: both are form-encoded first
                pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
                headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return form, headers


def assertion(auth: McpAuth, now: float) -> str:
    """Return the signed JWT for the login; `now` is Unix time. Raises `McpLoginFailed`."""
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
            f"auth.private_key is not a private key in PEM that {auth.algorithm} can use"
        ) from None


def read_token(status: int, body: bytes, asked: float) -> Token:
    """Parse a token endpoint's answer; `asked` is the time of the request. Raises `McpError`."""
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
        raise McpError("it gave a token that is not a bearer token")
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
