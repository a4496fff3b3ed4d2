"""Sign-in by an identity provider: OpenID Connect Core 1.0, code flow with PKCE (RFC 7636).

    page → POST /session/oidc → address of the provider → the provider's own page
         → GET /session/oidc/callback?code&state → session

Each flow is bound to the browser that began it by a cookie, and is used once; the ID token's
signature, issuer, audience, times and nonce are checked. A secret of the engine is sent to the
provider's token endpoint alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode

import jwt

from cordboard.accounts.rights import Role
from cordboard.config.remote_url import url_problem
from cordboard.config.sections.admin import AdminOidc
from cordboard.errors import RequestRefused
from cordboard.net.failures import HTTP_ERRORS
from cordboard.net.service_http import client_for

FLOW_SECONDS = 600
"""Time that a person may take on the provider's page."""
MOST_FLOWS = 1_000
DISCOVERY_SECONDS = 3_600
KEYS_AGAIN_SECONDS = 60
"""Shortest time between two requests of the provider's keys: an unknown key makes a new one."""
REQUEST_SECONDS = 10.0
MOST_BYTES = 256 * 1024
"""Bytes of an answer of the provider."""
CLOCK_SECONDS = 60
"""Difference of the clocks that is accepted."""
FRESH_SECONDS = 120
"""Age of a sign-in at the provider that allows dangerous acts here."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures by a public key; `none` and those by a shared secret are not accepted."""

Purpose = Literal["sign_in", "elevate", "connect"]


@dataclass(frozen=True, slots=True)
class Flow:
    """One way to the provider and back."""

    purpose: Purpose
    browser: str
    """SHA-256 of the cookie of the browser that began it."""
    nonce: str
    verifier: str
    ends_at: float
    token: str = field(default="", repr=False)
    """Of the session that is to be elevated or connected."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person, as the provider knows them."""

    issuer: str
    subject: str
    name: str
    """Value of `name_claim`; empty if the token has none that can be believed."""
    groups: frozenset[str]
    """Values of `roles_claim`."""
    signed_in_at: float | None
    """Unix seconds; None if the provider does not say."""


@dataclass(frozen=True, slots=True)
class _Provider:
    """The provider's discovery document (OpenID Connect Discovery 1.0, section 3)."""

    authorization: str
    token: str
    keys: str
    user_info: str
    """Empty if it has none."""
    by_body: bool
    """True if it takes the secret in the body only."""
    names_itself: bool
    """True if it adds `iss` to its answers (RFC 9207)."""


class OpenIdConnect:
    """The sign-in by one provider. Belongs to one event loop."""

    def __init__(
        self, settings: AdminOidc, redirect: str, clock: Callable[[], float] = time.time
    ) -> None:
        """`redirect`: address of the callback, as it is registered at the provider."""
        self._settings = settings
        self._redirect = redirect
        self._clock = clock
        self._flows: dict[str, Flow] = {}
        """By state; the oldest first."""
        self._provider: tuple[float, _Provider] | None = None
        self._keys: tuple[float, dict[str, jwt.PyJWK]] | None = None
        self._reading = asyncio.Lock()

    async def begin(self, purpose: Purpose, browser: str, token: str = "") -> str:
        """Return the address at the provider. `browser`: the value of the browser's cookie.

        Raises `RequestRefused` 502 when the provider cannot be asked.
        """
        provider = await self._discovered()
        now = self._clock()
        for state in [state for state, flow in self._flows.items() if flow.ends_at <= now]:
            del self._flows[state]
        if len(self._flows) >= MOST_FLOWS:
            del self._flows[next(iter(self._flows))]
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        flow = Flow(
            purpose,
            _sha256(browser),
            secrets.token_urlsafe(32),
            verifier,
            now + FLOW_SECONDS,
            token,
        )
        self._flows[state] = flow
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(("openid", *self._settings.scopes)),
            "state": state,
            "nonce": flow.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        if purpose == "elevate":
            asked |= {"prompt": "login", "max_age": "0"}
        mark = "&" if "?" in provider.authorization else "?"
        return f"{provider.authorization}{mark}{urlencode(asked)}"

    def knows(self, state: str) -> bool:
        """Return True if a sign-in was begun with this state, and has not come back."""
        return state in self._flows

    async def finish(self, answer: Mapping[str, str], browser: str) -> tuple[Flow, Identity]:
        """Return the flow and the person of a callback; its flow cannot be used again.

        Raises `RequestRefused`: 401 for a callback that is not believed, 502 for a provider that
        fails.
        """
        flow = self._flows.pop(answer.get("state", ""), None)
        if flow is None or flow.ends_at <= self._clock() or flow.browser != _sha256(browser):
            raise _wrong("this sign-in was not begun in this browser, was used, or took too long")
        provider = await self._discovered()
        issuer = answer.get("iss")
        if issuer != self._settings.issuer and (issuer is not None or provider.names_itself):
            raise _wrong("the answer comes from another identity provider")
        if answer.get("error"):
            raise _wrong(f"the identity provider has refused it: {_printable(answer['error'])}")
        if not answer.get("code"):
            raise _wrong("the answer of the identity provider has no code")
        given = await self._exchanged(provider, answer["code"], flow)
        claims = await self._verified(provider, given.get("id_token"), flow.nonce)
        claims = await self._with_user_info(provider, claims, given.get("access_token"))
        return flow, self._identity(claims)

    # The provider's answers.

    async def _discovered(self) -> _Provider:
        async with self._reading:
            known = self._provider
            if known is None or self._clock() - known[0] >= DISCOVERY_SECONDS:
                issuer = self._settings.issuer.rstrip("/")
                found = await self._asked("GET", f"{issuer}/.well-known/openid-configuration")
                known = self._provider = self._clock(), self._read_discovery(found)
            return known[1]

    def _read_discovery(self, found: Mapping[str, Any]) -> _Provider:
        if found.get("issuer") != self._settings.issuer:
            named = _printable(found.get("issuer"))
            raise _failed(f"it says that its issuer is {named}, not {self._settings.issuer}")
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return _Provider(
            authorization=_address(found, "authorization_endpoint"),
            token=_address(found, "token_endpoint"),
            keys=_address(found, "jwks_uri"),
            user_info=_address(found, "userinfo_endpoint") if "userinfo_endpoint" in found else "",
            by_body="client_secret_basic" not in methods,
            names_itself=found.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _exchanged(self, provider: _Provider, code: str, flow: Flow) -> dict[str, Any]:
        """Return the tokens for a code."""
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "client_id": settings.client_id,
            "code_verifier": flow.verifier,
        }
        secret = settings.client_secret.get_secret_value() if settings.client_secret else ""
        sent: dict[str, Any] = {"data": form}
        if secret and provider.by_body:
            form["client_secret"] = secret
        elif secret:  # both parts are form-encoded first (RFC 6749, section 2.3.1)
            sent["auth"] = (quote(settings.client_id, safe=""), quote(secret, safe=""))
        return await self._asked("POST", provider.token, **sent)

    async def _with_user_info(
        self, provider: _Provider, claims: dict[str, Any], token: object
    ) -> dict[str, Any]:
        """Return the claims with those that a provider gives at its UserInfo endpoint only, as the
        specification has it for this flow (OpenID Connect Core 1.0, sections 5.3 and 5.4)."""
        wanted = {self._settings.name_claim, self._settings.roles_claim.partition(".")[0]} - {""}
        if wanted <= claims.keys() or not provider.user_info or not isinstance(token, str):
            return claims
        headers = {"Authorization": f"Bearer {token}"}
        info = await self._asked("GET", provider.user_info, headers=headers)
        if info.get("sub") != claims["sub"]:
            raise _wrong("the identity provider tells about another person")
        return info | claims

    async def _verified(self, provider: _Provider, token: object, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""
        settings = self._settings
        if not isinstance(token, str):
            raise _failed("its token endpoint gave no ID token")
        try:
            head = jwt.get_unverified_header(token)
            key = await self._key(provider, str(head.get("kid", "")))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=settings.client_id,
                issuer=settings.issuer,
                leeway=CLOCK_SECONDS,
                options={
                    "require": ["exp", "iat", "iss", "sub", "aud"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.PyJWTError as error:
            raise _wrong(f"the ID token is not in order: {_printable(error)}") from None
        now, expires = self._clock(), claims["exp"]
        if not isinstance(expires, int | float) or expires + CLOCK_SECONDS <= now:
            raise _wrong("the ID token has expired; are the clocks right?")
        if claims.get("nonce") != nonce:
            raise _wrong("the ID token was made for another sign-in")
        audience = claims["aud"]
        several = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", settings.client_id if not several else None) != settings.client_id:
            raise _wrong("the ID token was made for another client")
        return claims

    async def _key(self, provider: _Provider, key_id: str) -> jwt.PyJWK:
        async with self._reading:
            known = self._keys
            stale = known is None or (
                key_id not in known[1] and self._clock() - known[0] >= KEYS_AGAIN_SECONDS
            )
            if stale:
                found = await self._asked("GET", provider.keys)
                known = self._keys = self._clock(), _read_keys(found)
        keys = known[1] if known is not None else {}
        if not key_id and len(keys) == 1:
            return next(iter(keys.values()))
        if key_id not in keys:
            raise _wrong("the ID token is signed with a key that the identity provider lacks")
        return keys[key_id]

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        settings = self._settings
        name = claims.get(settings.name_claim)
        if settings.name_claim == "email" and claims.get("email_verified") is not True:
            name = None
        groups: Any = claims
        for part in settings.roles_claim.split("."):
            groups = groups.get(part) if isinstance(groups, Mapping) and part else None
        if isinstance(groups, str):
            groups = groups.split()
        signed_in_at = claims.get("auth_time")
        return Identity(
            issuer=settings.issuer,
            subject=str(claims["sub"]),
            name=name.lower() if isinstance(name, str) else "",
            groups=frozenset(map(str, groups)) if isinstance(groups, list) else frozenset(),
            signed_in_at=signed_in_at if isinstance(signed_in_at, int | float) else None,
        )

    @property
    def roles(self) -> Mapping[str, Role]:
        """Roles by group; empty where groups do not count."""
        return {group: Role(role) for group, role in self._settings.roles.items()}

    def is_fresh(self, identity: Identity) -> bool:
        """Return True if the person has just signed in at the provider."""
        since = identity.signed_in_at
        return since is not None and self._clock() - since <= FRESH_SECONDS

    async def _asked(self, method: str, url: str, **content: Any) -> dict[str, Any]:
        """Return the JSON object of an answer. Raises `RequestRefused` 502."""
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                await client_for(url, {"Accept": "application/json"}, REQUEST_SECONDS) as client,
                client.stream(method, url, **content) as response,
            ):
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > MOST_BYTES:
                        raise _failed("its answer is too long")
                status = response.status_code
        except TimeoutError:
            raise _failed("it does not answer") from None
        except (*HTTP_ERRORS, OSError) as error:
            raise _failed(f"it cannot be reached ({type(error).__name__})") from error
        try:
            answer = json.loads(bytes(body))
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _failed(f"its answer (HTTP {status}) is no JSON object")
        if status != 200:
            raise _failed(f"it answers HTTP {status}: {_printable(answer.get('error', ''))}")
        return answer


def _address(found: Mapping[str, Any], key: str) -> str:
    place = found.get(key)
    if not isinstance(place, str) or url_problem(place, plain_http=False):
        raise _failed(f"its {key} is no https address")
    return place


def _read_keys(found: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Return the keys for signatures that we understand, by id."""
    keys: dict[str, jwt.PyJWK] = {}
    given = found.get("keys")
    for each in given if isinstance(given, list) else []:
        if not isinstance(each, dict) or each.get("kty") == "oct" or each.get("use") == "enc":
            continue
        try:
            keys[str(each.get("kid", ""))] = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # of a kind that we do not know
    return keys


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _printable(value: object) -> str:
    """Return untrusted words as a short line."""
    return "".join(letter for letter in str(value) if letter.isprintable())[:200]


def _wrong(message: str) -> RequestRefused:
    return RequestRefused(401, "wrong", message)


def _failed(message: str) -> RequestRefused:
    return RequestRefused(502, "identity_provider", f"the identity provider failed: {message}")
