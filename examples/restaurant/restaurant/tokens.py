"""Access control: checks the tokens of the clients of the backend and of the MCP server.

A `Verifier` knows one issuer and one audience. It fetches the issuer's public keys when it needs
them, keeps them for a while, and fetches again for a key it does not know (but not more often than
once a second). A token must be signed with RS256 by such a key, be for this audience, from this
issuer, and not expired; there is no leeway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import jwt

from .errors import IssuerUnavailable

KEEP_SECONDS = 300.0
PAUSE_SECONDS = 1.0
FETCH_SECONDS = 5.0
_NEEDED = ["exp", "iat", "iss", "aud", "sub"]


class TokenRefused(Exception):
    """An invalid token; the text has the reason and is fit for `error_description`."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The contents of a token."""

    client_id: str
    scopes: frozenset[str]
    expires_at: int
    """Unix time."""
    issuer: str


class Verifier:
    """Checks tokens of one issuer for one audience."""

    def __init__(self, issuer: str, audience: str, http: httpx2.AsyncClient) -> None:
        self._issuer = issuer
        self._audience = audience
        self._http = http
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._lock = asyncio.Lock()

    async def verify(self, token: str) -> Grant:
        """Return the token's contents. Raises `TokenRefused`, or `IssuerUnavailable`."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefused("this is not a token") from None
        if header.get("alg") != "RS256":
            raise TokenRefused("the token is not signed with RS256")
        key = await self._key(str(header.get("kid", "")))
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audience,
                issuer=self._issuer,
                options={"require": _NEEDED},
            )
        except jwt.PyJWTError as error:
            raise TokenRefused(_reason(error)) from None
        return _grant(claims)

    async def _key(self, key_id: str) -> jwt.PyJWK:
        old = time.monotonic() - self._fetched_at
        if old > KEEP_SECONDS or (key_id not in self._keys and old > PAUSE_SECONDS):
            async with self._lock:
                if time.monotonic() - self._fetched_at > min(old, PAUSE_SECONDS):
                    await self._fetch()
        if key_id not in self._keys:
            raise TokenRefused("the token is signed with an unknown key")
        return self._keys[key_id]

    async def _fetch(self) -> None:
        url = f"{self._issuer}/.well-known/jwks.json"
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                answer = await self._http.get(url)
            answer.raise_for_status()
            keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        except (httpx2.HTTPError, TimeoutError, jwt.PyJWTError, ValueError) as error:
            raise IssuerUnavailable("the issuer's keys cannot be fetched") from error
        self._keys = {key.key_id: key for key in keys if key.key_id}
        self._fetched_at = time.monotonic()


def _reason(error: jwt.PyJWTError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has expired"
        case jwt.InvalidAudienceError():
            return "the token is for another audience"
        case jwt.InvalidIssuerError():
            return "the token is from another issuer"
        case _:
            return "the token is not valid"


def _grant(claims: Mapping[str, Any]) -> Grant:
    return Grant(
        client_id=str(claims.get("client_id") or claims["sub"]),
        scopes=frozenset(str(claims.get("scope", "")).split()),
        expires_at=int(claims["exp"]),
        issuer=str(claims["iss"]),
    )
