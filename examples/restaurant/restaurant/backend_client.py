"""The MCP server's client of the backend: own token, timeout, errors as spoken sentences.

The token is fetched by client credentials, shared by all calls, renewed shortly before its end, and
once more when the backend refuses it. A `BackendError` carries a sentence for the guest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, TypeVar
from urllib.parse import quote_plus

import httpx2
from pydantic import BaseModel, ValidationError

NO_ANSWER = "I am sorry, our booking system does not answer at the moment. Please call again later."
BROKEN = "I am sorry, our booking system has a problem at the moment. Please call again later."
NO_ACCESS = "I am sorry, I have no access to our booking system at the moment."
_SPEAKABLE = (404, 409, 422)
_AHEAD_SHARE, _MOST_AHEAD = 0.2, 30.0
"""A token is renewed when this share of its lifetime is left, but at most this many seconds."""

Answer = TypeVar("Answer", bound=BaseModel)
log = logging.getLogger(__name__)


class BackendError(Exception):
    """The request failed; the text may be spoken."""


class BackendLogin:
    """Tokens for the backend."""

    def __init__(
        self, token_url: str, client_id: str, secret: str, http: httpx2.AsyncClient
    ) -> None:
        self._token_url = token_url
        # RFC 6749 2.3.1: both are form-encoded before they become HTTP Basic
        self._login = (quote_plus(client_id), quote_plus(secret))
        self._http = http
        self._token = ""
        self._renew_at = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """Return a valid token. Raises `httpx2.HTTPError` or `BackendError`."""
        if time.monotonic() >= self._renew_at:
            async with self._lock:  # fetched once for all who wait
                if time.monotonic() >= self._renew_at:
                    await self._fetch()
        return self._token

    def refused(self, token: str) -> None:
        """The backend refused this token: drop it."""
        if token == self._token:
            self._renew_at = 0.0

    async def _fetch(self) -> None:
        asked = time.monotonic()
        form = {"grant_type": "client_credentials", "audience": "backend"}
        answer = await self._http.post(self._token_url, data=form, auth=self._login)
        if answer.status_code != 200:
            log.error("the issuer refuses us a token: HTTP %d", answer.status_code)
            raise BackendError(NO_ACCESS)
        body = answer.json()
        lifetime = float(body["expires_in"])
        self._token = str(body["access_token"])
        self._renew_at = asked + lifetime - min(lifetime * _AHEAD_SHARE, _MOST_AHEAD)


class BackendClient:
    """The backend's API."""

    def __init__(
        self, url: str, login: BackendLogin, http: httpx2.AsyncClient, timeout: float
    ) -> None:
        """`timeout` in seconds, for all requests of one question."""
        self._url = url
        self._login = login
        self._http = http
        self._timeout = timeout

    async def ask(
        self,
        kind: type[Answer],
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Answer:
        """Return the backend's answer. Raises `BackendError`."""
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._request(method, path, query, body)
        except TimeoutError:
            log.error("backend %s %s: no answer in %.1f s", method, path, self._timeout)
            raise BackendError(NO_ANSWER) from None
        except (httpx2.HTTPError, KeyError, ValueError) as error:
            log.error("backend %s %s: %s", method, path, type(error).__name__)
            raise BackendError(NO_ANSWER) from error
        if answer.is_success:
            try:
                return kind.model_validate_json(answer.content)
            except ValidationError as error:
                log.error("backend %s %s: an answer of another shape", method, path)
                raise BackendError(BROKEN) from error
        raise _error(method, path, answer)

    async def _request(
        self, method: str, path: str, query: dict[str, Any] | None, body: dict[str, Any] | None
    ) -> httpx2.Response:
        token = await self._login.token()
        answer = await self._send(method, path, query, body, token)
        if answer.status_code == 401:
            self._login.refused(token)
            answer = await self._send(method, path, query, body, await self._login.token())
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None,
        body: dict[str, Any] | None,
        token: str,
    ) -> httpx2.Response:
        wanted = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return await self._http.request(
            method,
            f"{self._url}{path}",
            params=wanted,
            json=body,
            headers={"Authorization": f"Bearer {token}"},
        )


def _error(method: str, path: str, answer: httpx2.Response) -> BackendError:
    """The sentence for an invalid answer."""
    status = answer.status_code
    if status in _SPEAKABLE:
        try:
            error = answer.json()["error"]
            if error["code"] != "http":  # the sentence is the backend's own
                log.info("backend %s %s: %s", method, path, error["code"])
                return BackendError(str(error["message"]))
        except (ValueError, KeyError, TypeError):
            pass
    log.error("backend %s %s: HTTP %d", method, path, status)
    return BackendError(NO_ACCESS if status in (401, 403) else BROKEN)
