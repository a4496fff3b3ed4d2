"""Sign-in by an identity provider: a certified one, and one that lies."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.mcp_real.installed import installed

from cordboard.accounts.rights import EVERYWHERE, Role
from cordboard.admin.application import BASE
from cordboard.admin.oidc import OpenIdConnect
from cordboard.admin.oidc_session import CALLBACK
from cordboard.config.sections.admin import AdminOidc, AdminUi
from cordboard_testkit.emulators.http_service import HttpService
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

from .conftest import Browser, Room, code

OURS = "http://127.0.0.1:15001"
REDIRECT = f"{OURS}{BASE}{CALLBACK}"
SECRET = "a secret & its =s"


def settings(issuer: str, **more: Any) -> AdminOidc:
    return AdminOidc(issuer=issuer, client_id="cordboard", client_secret=SecretStr(SECRET), **more)


def use(room: Room, oidc: AdminOidc) -> None:
    room.services.oidc = OpenIdConnect(oidc, REDIRECT)


async def begun(browser: Browser, purpose: str = "sign_in") -> str:
    answer = await browser.post("/session/oidc", {"purpose": purpose})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["address"])


async def came_back(browser: Browser, address: str) -> str:
    """Follow the provider's last redirect, as a browser does; return where it leads."""
    query = urlsplit(address).query
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    kept = browser.headers
    browser.headers = {"Host": kept["Host"], **sent}
    try:
        answer = await browser.get(f"{CALLBACK}?{query}")
    finally:
        browser.headers = kept
    assert answer.status_code == 303, answer.text
    return unquote(answer.headers["location"])


# A certified provider.


@asynccontextmanager
async def certified() -> AsyncIterator[str]:
    port = free_port()
    npm = installed().folder / "npm" / "node_modules"
    process = await asyncio.create_subprocess_exec(
        str(installed().node),
        str(Path(__file__).parent / "identity_provider.mjs"),
        str(port),
        REDIRECT,
        env={"PATH": os.environ["PATH"], "NPM_FOLDER": str(npm)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while b"ready" not in (line := await process.stdout.readline()):
                assert line, "the identity provider has ended"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


class Person(httpx2.AsyncClient):
    """A browser on the provider's pages."""

    def __init__(self) -> None:
        super().__init__(timeout=PATIENCE)

    async def signs_in(self, address: str, name: str) -> str:
        """Fill in each page, until the provider sends the browser back to us."""
        answer = await self.get(address)
        while True:
            while answer.is_redirect:
                address = urljoin(str(answer.url), answer.headers["location"])
                if address.startswith(OURS):
                    return address
                answer = await self.get(address)
            assert answer.status_code == 200, answer.text
            [action] = re.findall(r'<form[^>]*action="([^"]+)"', answer.text)
            [prompt] = re.findall(r'name="prompt" value="([^"]+)"', answer.text)
            form = {"prompt": prompt, "login": name, "password": "any"}
            answer = await self.post(urljoin(str(answer.url), action), data=form)


async def test_people_sign_in_elevate_and_connect_by_a_certified_provider(room: Room) -> None:
    room.accounts.add("berta", Role.OPERATOR, (), EVERYWHERE)
    room.add("anna")
    async with certified() as issuer, Person() as berta:
        use(room, settings(issuer))
        browser = room.browser()
        assert (await browser.get("/session")).json()["has_oidc"] is True
        address = await berta.signs_in(await begun(browser), "berta")
        assert await came_back(browser, address) == "/"
        me = (await browser.get("/session")).json()
        assert (me["name"], me["role"], me["elevated"]) == ("berta", "operator", False)

        replayed = await came_back(browser, address)
        assert "was used" in replayed

        before = dict(browser.cookies)
        address = await berta.signs_in(await begun(browser, "elevate"), "berta")
        assert await came_back(browser, address) == "/"
        assert (await browser.get("/session")).json()["elevated"] is True
        assert browser.cookies != before

        # A name alone takes no account that has a password; its owner connects it.
        async with Person() as somebody:
            stranger = room.browser()
            address = await somebody.signs_in(await begun(stranger), "anna")
            assert "signs in in another way" in await came_back(stranger, address)
            owner = room.browser("anna", elevated=True)
            address = await somebody.signs_in(await begun(owner, "connect"), "anna")
            assert await came_back(owner, address) == "/"
        async with Person() as anna:
            browser = room.browser()
            address = await anna.signs_in(await begun(browser), "anna")
            assert await came_back(browser, address) == "/"
            assert (await browser.get("/session")).json()["name"] == "anna"
    actions = [(line["action"], line["result"], line["who"]) for line in room.entries()]
    assert ("session.begin", "done", "berta") in actions
    assert ("user.connect", "done", "anna") in actions
    assert ("session.begin", "refused", "berta") in actions  # the replay
    assert ("user.connect", "failed", "anna") in actions  # by a stranger


async def test_groups_make_users_and_their_roles(room: Room) -> None:
    async with certified() as issuer, Person() as person:
        use(room, settings(issuer, roles_claim="groups", roles={"voice-ops": "operator"}))
        browser = room.browser()
        address = await person.signs_in(await begun(browser), "ops-carla")
        assert await came_back(browser, address) == "/"
        assert (await browser.get("/session")).json()["role"] == "operator"
        async with Person() as other:
            refused = room.browser()
            address = await other.signs_in(await begun(refused), "dora")
            assert "in no group" in await came_back(refused, address)
        assert [user.name for user in room.accounts.users()] == ["ops-carla"]


# A provider that lies.


class Liar:
    """A provider of which a test changes the answers."""

    def __init__(self) -> None:
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.claims: dict[str, Any] = {}
        """Changes of the claims; None removes one."""
        self.sign: Callable[[dict[str, Any]], str] = self._signed
        self.discovery: dict[str, Any] = {}
        self.asked: list[Mapping[str, Any]] = []
        self.nonce = ""

    def _signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, "ES256", headers={"kid": "k1"})

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Liar]:
        routes = [
            Route("/.well-known/openid-configuration", self._discover),
            Route("/keys", self._keys),
            Route("/token", self._token, methods=["POST"]),
        ]
        async with HttpService(routes, port=self.port):
            yield self

    async def _discover(self, request: Request) -> JSONResponse:
        places = {
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return JSONResponse({"issuer": self.issuer, **places, **self.discovery})

    async def _keys(self, request: Request) -> JSONResponse:
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return JSONResponse({"keys": [{**public, "kid": "k1", "use": "sig"}, {"kty": "new"}]})

    async def _token(self, request: Request) -> JSONResponse:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        self.asked.append({**form, "authorization": request.headers.get("authorization", "")})
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "cordboard",
            "sub": "1",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce,
            "preferred_username": "berta",
            **self.claims,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        return JSONResponse({"id_token": self.sign(kept), "token_type": "Bearer"})


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    async with Liar().served() as made:
        yield made


async def finished(room: Room, liar: Liar, browser: Browser | None = None, **more: str) -> str:
    """Begin in a browser, and come back to it with a code."""
    browser = browser or room.browser()
    asked = parse_qs(urlsplit(await begun(browser)).query)
    liar.nonce = asked["nonce"][0]
    answer = {"code": "c1", "state": asked["state"][0], **more}
    return await came_back(browser, "?" + "&".join(f"{k}={v}" for k, v in answer.items() if v))


async def test_the_request_proves_where_it_comes_from(room: Room, liar: Liar) -> None:
    room.accounts.add("berta", Role.VIEWER, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    browser = room.browser()
    asked = parse_qs(urlsplit(await begun(browser)).query)
    assert (asked["redirect_uri"], asked["code_challenge_method"]) == ([REDIRECT], ["S256"])
    liar.nonce = asked["nonce"][0]
    assert await came_back(browser, f"?code=c1&state={asked['state'][0]}") == "/"
    [sent] = liar.asked
    digest = sha256(sent["code_verifier"].encode()).digest()
    assert urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"][0]
    assert SECRET not in json.dumps(sent)  # it is encoded before it is sent (RFC 6749, 2.3.1)


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"iss": "http://evil.example"}, "not in order"),
    "another audience": ({"aud": "somebody"}, "not in order"),
    "several audiences, no azp": ({"aud": ["cordboard", "x"]}, "another client"),
    "another client": ({"azp": "x"}, "another client"),
    "another sign-in": ({"nonce": "old"}, "another sign-in"),
    "no nonce": ({"nonce": None}, "another sign-in"),
    "expired": ({"exp": 1_000_000}, "expired"),
    "no end": ({"exp": None}, "not in order"),
    "an end that is no time": ({"exp": "never"}, ""),
    "no subject": ({"sub": None}, "not in order"),
    "no name": ({"preferred_username": None}, "no name"),
    "a name that is no name": ({"preferred_username": "../x"}, "no name"),
    "an unknown name": ({"preferred_username": "zoe"}, "no user zoe"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_token_that_is_not_for_us_signs_nobody_in(room: Room, liar: Liar, lie: str) -> None:
    room.accounts.add("berta", Role.ADMIN, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    liar.claims, words = LIES[lie]
    browser = room.browser()
    answer = await finished(room, liar, browser)
    assert answer.startswith("/#sign-in-failed=")
    assert words in answer
    assert (await browser.get("/session")).json()["signed_in"] is False


FORGERIES: dict[str, Callable[[Liar, dict[str, Any]], str]] = {
    "unsigned": lambda liar, claims: jwt.encode(claims, "", "none"),
    "by the public key as a shared secret": lambda liar, claims: jwt.encode(
        claims, json.dumps({"kid": "k1"}) * 3, "HS256", headers={"kid": "k1"}
    ),
    "by another key": lambda liar, claims: jwt.encode(
        claims, ec.generate_private_key(ec.SECP256R1()), "ES256", headers={"kid": "k1"}
    ),
    "by a key that nobody knows": lambda liar, claims: jwt.encode(
        claims, liar.key, "ES256", headers={"kid": "k2"}
    ),
    "no token": lambda liar, claims: "x.y",
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_token_signs_nobody_in(room: Room, liar: Liar, forgery: str) -> None:
    room.accounts.add("berta", Role.ADMIN, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    liar.sign = lambda claims: FORGERIES[forgery](liar, claims)
    browser = room.browser()
    assert (await finished(room, liar, browser)).startswith("/#sign-in-failed=")
    assert (await browser.get("/session")).json()["signed_in"] is False


async def test_a_way_back_counts_only_in_the_browser_that_began_it(room: Room, liar: Liar) -> None:
    """Otherwise a web page could sign its visitors in as somebody else."""
    room.accounts.add("berta", Role.ADMIN, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    attacker, victim = room.browser(), room.browser()
    asked = parse_qs(urlsplit(await begun(attacker)).query)
    liar.nonce = asked["nonce"][0]
    answer = await came_back(victim, f"?code=c1&state={asked['state'][0]}")
    assert "not begun in this browser" in answer
    assert liar.asked == []


async def test_an_answer_of_another_provider_is_not_believed(room: Room, liar: Liar) -> None:
    room.accounts.add("berta", Role.ADMIN, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    assert "another identity provider" in await finished(room, liar, iss="http://evil.example")
    liar.discovery = {"authorization_response_iss_parameter_supported": True}
    use(room, settings(liar.issuer))
    assert "another identity provider" in await finished(room, liar)
    assert await finished(room, liar, iss=liar.issuer, session_state="any", hd="x") == "/"


@pytest.mark.parametrize(
    ("discovery", "words"),
    [
        ({"issuer": "http://evil.example"}, "issuer"),
        ({"token_endpoint": "http://login.example/token"}, "https"),
        ({"jwks_uri": None}, "https"),
    ],
)
async def test_a_provider_that_is_not_in_order_is_named(
    room: Room, liar: Liar, discovery: dict[str, Any], words: str
) -> None:
    use(room, settings(liar.issuer))
    liar.discovery = discovery
    answer = await room.browser().post("/session/oidc", {})
    assert (answer.status_code, code(answer)) == (502, "identity_provider")
    assert words in answer.json()["error"]["message"]


async def test_a_provider_that_cannot_be_reached_is_said(room: Room) -> None:
    use(room, settings(f"http://127.0.0.1:{free_port()}"))
    answer = await room.browser().post("/session/oidc", {})
    assert (answer.status_code, code(answer)) == (502, "identity_provider")


async def test_a_new_sign_in_elevates_only_if_it_is_new_and_of_the_same_person(
    room: Room, liar: Liar
) -> None:
    room.accounts.add("berta", Role.ADMIN, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    browser = room.browser()
    assert await finished(room, liar, browser) == "/"
    for claims, words in (
        ({}, "did not ask you to sign in again"),
        ({"auth_time": int(time.time()) - 3_600}, "did not ask you to sign in again"),
        ({"auth_time": int(time.time()), "sub": "2"}, "another user"),
    ):
        liar.claims = claims
        asked = parse_qs(urlsplit(await begun(browser, "elevate")).query)
        assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
        liar.nonce = asked["nonce"][0]
        assert words in await came_back(browser, f"?code=c1&state={asked['state'][0]}")
        assert (await browser.get("/session")).json()["elevated"] is False


async def test_a_disabled_user_and_one_that_was_reset_stay_out(room: Room, liar: Liar) -> None:
    room.accounts.add("berta", Role.VIEWER, (), EVERYWHERE)
    use(room, settings(liar.issuer))
    assert await finished(room, liar) == "/"
    room.accounts.change("berta", Role.VIEWER, (), EVERYWHERE, disabled=True)
    assert "disabled" in await finished(room, liar)
    room.accounts.change("berta", Role.VIEWER, (), EVERYWHERE, disabled=False)
    room.accounts.reset("berta")
    liar.claims = {"sub": "2"}
    assert await finished(room, liar) == "/"
    liar.claims = {"sub": "1"}
    assert "signs in in another way" in await finished(room, liar)


async def test_passwords_can_be_switched_off(room: Room, liar: Liar) -> None:
    room.add("anna")
    room.services.takes_passwords = False
    answer = await room.browser().post("/session", {"name": "anna", "password": "x"})
    assert (answer.status_code, code(answer)) == (403, "no_passwords")
    use(room, settings(liar.issuer))
    for browser in (room.browser(), room.browser("anna")):
        ways = (await browser.get("/session")).json()
        assert (ways["takes_passwords"], ways["has_oidc"]) == (False, True)


async def test_other_pages_may_send_the_browser_to_the_callback_alone(room: Room) -> None:
    room.add("anna")
    browser = room.browser("anna")
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert code(await browser.get("/calls/live", headers=sent)) == "foreign_origin"
    sent["Sec-Fetch-Mode"] = "no-cors"
    browser.headers.pop("Origin")
    assert code(await browser.get(CALLBACK, headers=sent)) == "foreign_origin"


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (
        {"password": False},
        {"oidc": {"issuer": "http://login.example", "client_id": "c"}},
        {"oidc": {"issuer": "https://x.example", "client_id": "c", "roles_claim": "groups"}},
    ):
        with pytest.raises(ValueError, match=r"oidc|http|roles"):
            AdminUi.model_validate({"sign_in": wrong})
