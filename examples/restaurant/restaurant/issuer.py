"""The issuer: access tokens for programs, by OAuth 2.0 client credentials (RFC 6749 4.4).

    POST /token                 client id and secret by HTTP Basic or in the form; wants `audience`,
                                takes `scope`; answers with a JWT (RS256, RFC 9068)
    GET /.well-known/jwks.json  the public keys (RFC 7517)
    GET /.well-known/oauth-authorization-server   where these are (RFC 8414)

A client gets tokens for the audiences it is registered for, with the scopes it has there. The key
is made at the start and not stored, so a restart invalidates all tokens. Errors are those of RFC
6749 5.2 and never contain a secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from .faults import Faults

MAX_FORM = 8 * 1024
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


@dataclass(frozen=True, slots=True)
class Client:
    """A program that may request tokens."""

    client_id: str
    secret: str
    audiences: Mapping[str, tuple[str, ...]]
    """The audiences of its tokens, each with the scopes."""


class OAuthError(Exception):
    """A refusal, by its code in RFC 6749 5.2."""

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.status = status


class SigningKey:
    """An RSA key of this run."""

    def __init__(self) -> None:
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public: dict[str, Any] = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        self.key_id = hashlib.sha256(str(public["n"]).encode()).hexdigest()[:16]
        self.public = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": self.key_id,
            "n": public["n"],
            "e": public["e"],
        }


class Issuer:
    """Issues tokens."""

    def __init__(
        self, url: str, clients: tuple[Client, ...], lifetime: float, faults: Faults
    ) -> None:
        """`url` is the issuer in the tokens; `lifetime` is in seconds."""
        self.url = url
        self.issued = 0
        """Number of issued tokens."""
        self._clients = {client.client_id: client for client in clients}
        self._lifetime = lifetime
        self._faults = faults
        self._key = SigningKey()

    async def change_key(self) -> None:
        """Sign with a new key from now on, and withdraw the old one."""
        self._key = await asyncio.to_thread(SigningKey)

    def token(self, form: Mapping[str, str], authorization: str | None) -> dict[str, Any]:
        """The answer of the token endpoint. Raises `OAuthError`."""
        client = self._authenticate(form, authorization)
        if form.get("grant_type") != "client_credentials":
            raise OAuthError("unsupported_grant_type", "expected client_credentials")
        audience = form.get("audience") or _only(client.audiences)
        if audience not in client.audiences:
            raise OAuthError("invalid_target", "no tokens for that audience")
        allowed = client.audiences[audience]
        wanted = tuple(form.get("scope", "").split()) or allowed
        if not set(wanted) <= set(allowed):
            raise OAuthError("invalid_scope", "this client does not have that scope")
        self.issued += 1
        return {
            "access_token": self._sign(client.client_id, audience, " ".join(wanted)),
            "token_type": "Bearer",
            "expires_in": max(1, int(self._lifetime)),
            "scope": " ".join(wanted),
        }

    def keys(self) -> dict[str, Any]:
        return {"keys": [self._key.public]}

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/.well-known/jwks.json",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }

    def _authenticate(self, form: Mapping[str, str], authorization: str | None) -> Client:
        if authorization is not None:
            if "client_secret" in form:
                raise OAuthError("invalid_request", "the secret is in two places")
            client_id, secret = _basic(authorization)
        else:
            client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        client = self._clients.get(client_id)
        expected = client.secret if client is not None else secrets.token_urlsafe(32)
        if not hmac.compare_digest(secret.encode(), expected.encode()) or client is None:
            raise OAuthError("invalid_client", "unknown client or wrong secret", 401)
        return client

    def _sign(self, client_id: str, audience: str, scope: str) -> str:
        now = time.time()
        issued = now - 3600 if self._faults.expired_tokens else now
        claims = {
            "iss": self.url,
            "sub": client_id,
            "client_id": client_id,
            "aud": audience,
            "scope": scope,
            "iat": int(issued),
            "exp": math.ceil(issued + max(1.0, self._lifetime)),  # never before `expires_in`
            "jti": secrets.token_urlsafe(12),
        }
        headers = {"kid": self._key.key_id, "typ": "at+jwt"}
        return jwt.encode(claims, self._key.private, algorithm="RS256", headers=headers)


def issuer_app(issuer: Issuer) -> Starlette:
    """The HTTP side."""

    async def token(request: Request) -> JSONResponse:
        try:
            form = await _form(request)
            answer = issuer.token(form, request.headers.get("authorization"))
        except OAuthError as error:
            body = {"error": error.code, "error_description": str(error)}
            headers = dict(_NO_STORE)
            if error.status == 401:
                headers["WWW-Authenticate"] = 'Basic realm="restaurant"'
            return JSONResponse(body, error.status, headers)
        return JSONResponse(answer, headers=_NO_STORE)

    async def keys(request: Request) -> JSONResponse:
        return JSONResponse(issuer.keys())

    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(issuer.metadata())

    return Starlette(
        routes=[
            Route("/token", token, methods=["POST"]),
            Route("/.well-known/jwks.json", keys),
            Route("/.well-known/oauth-authorization-server", metadata),
        ]
    )


async def _form(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "expected application/x-www-form-urlencoded")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise OAuthError("invalid_request", "the form is too large", 413)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=40)
    except ValueError:
        raise OAuthError("invalid_request", "the form cannot be read") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise OAuthError("invalid_request", "a parameter is given twice")
    return form


def _basic(authorization: str) -> tuple[str, str]:
    """Client id and secret of an Authorization header; both are form-encoded (RFC 6749 2.3.1)."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        pair = (
            base64.b64decode(encoded, validate=True).decode() if scheme.lower() == "basic" else ""
        )
    except (binascii.Error, ValueError):
        pair = ""
    client_id, colon, secret = pair.partition(":")
    if not colon:
        raise OAuthError("invalid_client", "expected HTTP Basic authorization", 401)
    return unquote_plus(client_id), unquote_plus(secret)


def _only(audiences: Mapping[str, object]) -> str:
    """The audience of a client that has only one."""
    if len(audiences) != 1:
        raise OAuthError("invalid_request", "audience: expected one")
    return next(iter(audiences))
