"""Logging in to remote servers: a token endpoint on loopback that checks all it is shown."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.mcp.conftest import until

from cordboard.config.mcp import McpAuth, McpServer
from cordboard.config.schema import Config
from cordboard.errors import McpError, McpLoginFailed, McpUnavailable
from cordboard.generation.generation import Generation
from cordboard.mcp.connection import Connection, connect
from cordboard.mcp.negotiation import Negotiation
from cordboard.mcp.remote.auth import MAX_LIFETIME, Token, TokenSource, credentials, read_token
from cordboard.mcp.remote.http_transport import remote_transport
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.masking import MASK
from cordboard.tools.tool import ToolAsk

from .http_servers import LEGACY, MODERN, Faulty, RawServer, Request, Wire, faulty

PATIENCE = 60.0
SECRET = "hunter2 with:odd/characters+é"
SERVER_URL = "https://tools.example.com/mcp"


@dataclass
class TokenEndpoint:
    """Gives out token-1, token-2, ...; remembers what it was asked."""

    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lifetime: object = 3600
    status: int = 200
    answer: bytes | None = None
    """In place of a token."""
    held: asyncio.Event | None = None
    """Answers only when it is set."""

    def __post_init__(self) -> None:
        self.http = RawServer(self.handle)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.port}/token"

    async def handle(self, request: Request, wire: Wire) -> None:
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        fields = parse_qs(request.body.decode(), strict_parsing=True)
        assert all(len(values) == 1 for values in fields.values())
        self.forms.append({name: values[0] for name, values in fields.items()})
        self.headers.append(request.headers)
        number = len(self.forms)
        if self.held is not None:
            await self.held.wait()
        if self.answer is not None:
            await wire.answer(self.status, self.answer, "application/json", location="/other")
            return
        token = {"access_token": f"token-{number}", "token_type": "Bearer"}
        await wire.json(self.status, {**token, "expires_in": self.lifetime})


@asynccontextmanager
async def token_endpoint(**settings: Any) -> AsyncIterator[TokenEndpoint]:
    endpoint = TokenEndpoint(**settings)
    await endpoint.http.start()
    try:
        yield endpoint
    finally:
        await endpoint.http.stop()


def by_secret(endpoint: TokenEndpoint, **settings: Any) -> McpAuth:
    return McpAuth.model_validate(
        {
            "type": "client_credentials",
            "token_url": endpoint.url,
            "client_id": "us:and more",
            "client_secret": SECRET,
            **settings,
        }
    )


@asynccontextmanager
async def source(auth: McpAuth) -> AsyncIterator[TokenSource]:
    found = credentials(auth, SERVER_URL, plain_http=False)
    assert isinstance(found, TokenSource)
    yield found
    await found.close()


# --- what is asked of the token endpoint --------------------------------------------------------


async def test_the_secret_goes_into_the_header() -> None:
    async with token_endpoint() as endpoint:
        auth = by_secret(endpoint, scopes=["read", "write"], audience="tools")
        async with source(auth) as tokens:
            assert await tokens.authorization() == "Bearer token-1"
        assert endpoint.forms == [
            {
                "grant_type": "client_credentials",
                "scope": "read write",
                "audience": "tools",
                "resource": SERVER_URL,
            }
        ]
        scheme, _, pair = endpoint.headers[0]["authorization"].partition(" ")
        assert scheme == "Basic"
        name, _, secret = base64.b64decode(pair).decode().partition(":")
        assert unquote_plus(name) == "us:and more"
        assert unquote_plus(secret) == SECRET


async def test_the_secret_goes_into_the_form_if_wished() -> None:
    async with token_endpoint() as endpoint:
        async with source(by_secret(endpoint, send_secret="post", resource="")) as tokens:
            await tokens.authorization()
        assert "authorization" not in endpoint.headers[0]
        assert endpoint.forms == [
            {
                "grant_type": "client_credentials",
                "client_id": "us:and more",
                "client_secret": SECRET,
            }
        ]


KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def by_key(endpoint: TokenEndpoint, algorithm: str, **settings: Any) -> McpAuth:
    pem = KEYS[algorithm].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return McpAuth.model_validate(
        {
            "type": "private_key_jwt",
            "token_url": endpoint.url,
            "client_id": "us",
            "private_key": pem.decode(),
            "algorithm": algorithm,
            **settings,
        }
    )


@pytest.mark.parametrize("algorithm", list(KEYS))
async def test_the_assertion_is_signed_and_fits(algorithm: str) -> None:
    async with token_endpoint() as endpoint:
        async with source(by_key(endpoint, algorithm, key_id="key-7")) as tokens:
            await tokens.authorization()
        form = endpoint.forms[0]
        assert form["client_assertion_type"].endswith(":client-assertion-type:jwt-bearer")
        public = KEYS[algorithm].public_key()
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        required = ["iss", "sub", "aud", "iat", "exp", "jti"]
        claims = jwt.decode(
            form["client_assertion"],
            pem,
            algorithms=[algorithm],
            audience=endpoint.url,
            issuer="us",
            options={"require": required},
        )
        assert claims["sub"] == form["client_id"] == "us"
        assert 0 < claims["exp"] - claims["iat"] <= 300
        assert jwt.get_unverified_header(form["client_assertion"])["kid"] == "key-7"


async def test_each_assertion_is_another_and_may_be_for_an_issuer() -> None:
    async with token_endpoint(lifetime=1) as endpoint:
        auth = by_key(endpoint, "ES256", assertion_audience="https://issuer.example.com")
        async with source(auth) as tokens:
            first = await tokens.authorization()
            assert first is not None
            assert tokens.refused(first)
            await tokens.authorization()
        claims = [
            jwt.decode(form["client_assertion"], options={"verify_signature": False})
            for form in endpoint.forms
        ]
        assert claims[0]["jti"] != claims[1]["jti"]
        assert {claim["aud"] for claim in claims} == {"https://issuer.example.com"}


@pytest.mark.parametrize("key", ["no key at all", "-----BEGIN PRIVATE KEY-----\nhunter2\n"])
async def test_a_key_that_cannot_be_used_is_told_without_showing_it(key: str) -> None:
    async with token_endpoint() as endpoint:
        async with source(by_key(endpoint, "RS256", private_key=key)) as tokens:
            with pytest.raises(McpLoginFailed, match="not a private key in PEM that") as caught:
                await tokens.authorization()
        assert "hunter2" not in repr(caught.value)
        assert caught.value.__cause__ is None
        assert endpoint.forms == []


# --- when it is asked ----------------------------------------------------------------------------


async def test_a_token_is_fetched_once_however_many_wait() -> None:
    async with token_endpoint(held=asyncio.Event()) as endpoint:
        async with source(by_secret(endpoint)) as tokens:
            waiting = [asyncio.create_task(tokens.authorization()) for _ in range(20)]
            impatient = waiting[0]
            await until(lambda: bool(endpoint.forms))
            impatient.cancel()  # who gives up does not spoil it for the others
            assert endpoint.held is not None
            endpoint.held.set()
            results = await asyncio.gather(*waiting[1:])
            assert set(results) == {"Bearer token-1"}
            assert await tokens.authorization() == "Bearer token-1"
        assert len(endpoint.forms) == 1


async def test_a_token_is_fetched_ahead_of_its_end_and_nobody_waits() -> None:
    async with token_endpoint() as endpoint, _with_old_token(endpoint, 50.0) as tokens:
        assert await tokens.authorization() == "Bearer old"
        fetching = tokens._fetching
        assert fetching is not None
        await asyncio.wait_for(asyncio.shield(fetching), PATIENCE)
        assert await tokens.authorization() == "Bearer token-1"
        assert len(endpoint.forms) == 1


async def test_an_old_token_serves_while_the_endpoint_is_down() -> None:
    endpoint = TokenEndpoint(status=503, answer=b"")
    await endpoint.http.start()
    async with _with_old_token(endpoint, 50.0) as tokens:
        for _ in range(5):
            assert await tokens.authorization() == "Bearer old"
            if tokens._fetching is not None:
                await asyncio.wait({tokens._fetching})
        assert len(endpoint.forms) == 1  # and it is not asked again at once
    await endpoint.http.stop()


async def test_a_token_past_its_end_is_not_used() -> None:
    async with token_endpoint() as endpoint, _with_old_token(endpoint, -1.0) as tokens:
        assert await tokens.authorization() == "Bearer token-1"


@asynccontextmanager
async def _with_old_token(endpoint: TokenEndpoint, left: float) -> AsyncIterator[TokenSource]:
    async with source(by_secret(endpoint)) as tokens:
        now = asyncio.get_running_loop().time()
        tokens._token = Token("old", refresh_at=now - 1, expires_at=now + left)
        yield tokens


@pytest.mark.parametrize(
    ("status", "answer", "kind", "said"),
    [
        (
            401,
            b'{"error": "invalid_client", "error_description": "hunter2"}',
            McpLoginFailed,
            "its token endpoint refuses us: invalid_client (HTTP 401)",
        ),
        (400, b"<h1>hunter2</h1>", McpLoginFailed, "no reason given (HTTP 400)"),
        (503, b"", McpUnavailable, "it is not available (HTTP 503)"),
        (307, b"", McpError, "redirects us too many times"),
        (302, b"", McpError, "would lose the message"),
        (200, b"[]", McpError, "it gave no access token"),
        (200, b"{", McpError, "it gave no access token"),
        (200, b'{"access_token": "a\\r\\nX-Evil: 1"}', McpError, "it gave no access token"),
        (200, b'{"access_token": "a", "token_type": "mac"}', McpError, "not a bearer token"),
        (200, b" " * 70_000, McpError, "longer than 65536 bytes"),
    ],
)
async def test_a_failing_endpoint_is_told_without_secrets_and_then_left_alone(
    status: int, answer: bytes, kind: type[McpError], said: str
) -> None:
    async with token_endpoint(status=status, answer=answer) as endpoint:
        async with source(by_secret(endpoint)) as tokens:
            with pytest.raises(kind) as caught:
                await tokens.authorization()
            asked = len(endpoint.forms)
            for _ in range(5):  # at once, with the same words
                with pytest.raises(kind):
                    await tokens.authorization()
        assert said in str(caught.value)
        assert "token endpoint" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert len(endpoint.forms) == asked


async def test_an_endpoint_that_is_not_there_is_told_and_asked_again_later() -> None:
    async with token_endpoint() as endpoint, source(by_secret(endpoint)) as tokens:
        await endpoint.http.stop()
        with pytest.raises(McpUnavailable, match="token endpoint failed: it cannot be reached"):
            await tokens.authorization()
        await endpoint.http.start()
        tokens._pause_until = 0.0  # the pause is over
        assert await tokens.authorization() == "Bearer token-1"


# --- what it answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "lifetime"),
    [
        (100, 100.0),
        ("100", 100.0),
        (100.5, 100.5),
        (10**12, MAX_LIFETIME),
        (-5, 1.0),
        (None, 300.0),
        ("soon", 300.0),
        (True, 300.0),
        ([1], 300.0),
    ],
)
def test_how_long_a_token_is_used(said: object, lifetime: float) -> None:
    body = json.dumps({"access_token": "t", "expires_in": said}).encode()
    token = read_token(200, body, asked=1_000.0)
    assert 1_000.0 < token.refresh_at < token.expires_at < 1_000.0 + lifetime
    spare = 1_000.0 + lifetime - token.expires_at
    assert spare <= min(10, lifetime / 10)


@given(st.binary(max_size=200) | st.from_type(dict).map(lambda value: repr(value).encode()))
def test_whatever_it_answers_is_a_token_or_an_error(body: bytes) -> None:
    for status in (200, 400, 500):
        try:
            token = read_token(status, body, 0.0)
        except McpError:
            continue
        assert token.value


# --- with a server --------------------------------------------------------------------------------


@asynccontextmanager
async def logged_in(server: Faulty, auth: dict[str, Any]) -> AsyncIterator[Connection]:
    config = McpServer.model_validate({"transport": "http", "url": server.url, "auth": auth})
    transport = remote_transport("far", config)
    async with connect(transport, PATIENCE, Negotiation(handshake_first=False)) as connection:
        await connection.list_tools(PATIENCE)
        yield connection


def oauth(endpoint: TokenEndpoint) -> dict[str, Any]:
    return {
        "type": "client_credentials",
        "token_url": endpoint.url,
        "client_id": "us",
        "client_secret": SECRET,
    }


async def test_a_fixed_token_is_shown_and_its_refusal_is_told() -> None:
    async with faulty(protocol=MODERN, authorization="Bearer right") as server:
        async with logged_in(server, {"type": "bearer", "token": "right"}) as connection:
            await connection.call("echo", {"text": "x"}, PATIENCE)
        asked = len(server.http.requests)
        with pytest.raises(McpLoginFailed, match="does not accept our credentials") as caught:
            async with logged_in(server, {"type": "bearer", "token": "wrong"}):
                pytest.fail("logged in")
        assert "wrong" not in str(caught.value)
        assert len(server.http.requests) - asked <= 2  # not tried again and again


@pytest.mark.parametrize("protocol", [MODERN, LEGACY])
async def test_calls_overlap_under_one_login(protocol: str) -> None:
    """Three calls are with the server at one moment: none waits for the answer to another."""
    async with (
        token_endpoint() as endpoint,
        faulty(protocol=protocol, authorization="Bearer token-1") as server,
        logged_in(server, oauth(endpoint)) as connection,
    ):
        calls = [asyncio.create_task(connection.call("mute", {}, 2 * PATIENCE)) for _ in range(3)]
        requests = server.http.requests
        await until(lambda: len([r for r in requests if b'"mute"' in r.body]) == 3)
        assert not any(call.done() for call in calls)
        server.release.set()
        await asyncio.gather(*calls)
        assert len(endpoint.forms) == 1


async def test_a_token_that_is_refused_is_replaced_once_for_all_calls() -> None:
    async with (
        token_endpoint() as endpoint,
        faulty(protocol=MODERN, authorization="Bearer token-1") as server,
        logged_in(server, oauth(endpoint)) as connection,
    ):
        server.authorization = "Bearer token-2"  # the first was revoked
        calls = (connection.call("echo", {"text": str(n)}, PATIENCE) for n in range(8))
        results = await asyncio.gather(*calls)
        assert [result.content[0].text for result in results] == [str(n) for n in range(8)]  # type: ignore[union-attr]
        assert len(endpoint.forms) == 2


async def test_a_server_that_refuses_every_token_does_not_make_us_ask_for_ever() -> None:
    async with (
        token_endpoint() as endpoint,
        faulty(protocol=MODERN, authorization="Bearer token-1") as server,
        logged_in(server, oauth(endpoint)) as connection,
    ):
        server.authorization = "Bearer none"
        for _ in range(5):
            with pytest.raises(McpLoginFailed, match="HTTP 401"):
                await connection.call("echo", {"text": "x"}, PATIENCE)
        assert len(endpoint.forms) == 2


async def test_calls_fail_in_words_while_no_token_is_to_be_had() -> None:
    refusal = {"status": 401, "answer": b'{"error": "invalid_client"}'}
    async with token_endpoint(**refusal) as endpoint, faulty() as server:
        with pytest.raises(McpLoginFailed, match="token endpoint refuses us: invalid_client"):
            async with logged_in(server, oauth(endpoint)):
                pytest.fail("logged in")
        assert server.http.requests == []


async def test_a_fetched_token_that_the_server_repeats_is_not_shown() -> None:
    async with (
        token_endpoint() as endpoint,
        faulty(protocol=MODERN, authorization="Bearer token-1") as server,
    ):
        login = {"transport": "http", "url": server.url, "auth": oauth(endpoint)}
        supervised = SupervisedServer("far", McpServer.model_validate(login))
        supervised.start()
        try:
            assert await supervised.wait_ready(PATIENCE)
            with pytest.raises(McpError, match=r"not with Bearer \*\*\*"):
                await supervised.call("repeats_login", {}, PATIENCE)
        finally:
            await supervised.close()


async def test_nor_is_it_passed_on_in_a_good_answer() -> None:
    async with (
        token_endpoint() as endpoint,
        faulty(protocol=MODERN, authorization="Bearer token-1") as server,
    ):
        login = {"transport": "http", "url": server.url, "auth": oauth(endpoint)}
        contexts = {"demo": {"tools": ["far.*"]}}
        config = {"mcp": {"servers": {"far": login}, "lock": "off"}, "contexts": contexts}
        generation = Generation(Config.model_validate(config))
        generation.start()
        try:
            assert await generation.fleet.wait_settled(PATIENCE)
            desk = Desk(generation.toolbox("demo"), NoCaller("call-1", "demo"))
            reply = await desk.run(ToolAsk("1", "mcp_far_thanks_for_login", {}))
            assert reply.message == f"Thank you for Bearer {MASK}."
            assert "token-1" not in str(reply)
        finally:
            await generation.close()


async def test_closing_while_a_token_is_fetched_leaves_nothing() -> None:
    async with token_endpoint(held=asyncio.Event()) as endpoint:
        before = asyncio.all_tasks()
        tokens = credentials(by_secret(endpoint), SERVER_URL, plain_http=False)
        waiting = asyncio.create_task(tokens.authorization())
        await until(lambda: bool(endpoint.forms))
        waiting.cancel()
        await tokens.close()
        await until(lambda: not (asyncio.all_tasks() - before or endpoint.http.open))
