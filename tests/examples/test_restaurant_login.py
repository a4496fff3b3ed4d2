"""Who may come in: the issuer's tokens, and what the backend and the MCP server make of them."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from .conftest import ENGINE_CLIENT, MCP_CLIENT, System

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _refused(system: System, token: str) -> str:
    """What the backend says of a token that it refuses."""
    answer = await system.api("GET", "/tables", token=token)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_token"
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
    assert len(token) < 20 or token not in answer.text
    return str(answer.json()["error"]["message"])


def _changed(token: str, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
    """The same token with other claims, signed by somebody else."""
    told = jwt.decode(token, options={"verify_signature": False})
    key = key or rsa.generate_private_key(public_exponent=65537, key_size=2048)
    headers = {"kid": jwt.get_unverified_header(token)["kid"]}
    return jwt.encode({**told, **claims}, key, algorithm=algorithm, headers=headers)


async def test_a_token_opens_the_backend(system: System) -> None:
    token = await system.token()
    assert (await system.api("GET", "/tables", token=token)).status_code == 200
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["aud"], claims["scope"]) == ("backend", "backend.read backend.write")
    assert claims["iss"] == system.restaurant.issuer_url
    lifetime = system.restaurant.settings.token_lifetime
    assert lifetime - 5 < claims["exp"] - time.time() <= lifetime + 1


async def test_no_token_and_tokens_that_do_not_count_are_refused(system: System) -> None:
    good = await system.token()
    mcp = await system.token(ENGINE_CLIENT, audience="mcp")
    assert await _refused(system, "") == "a bearer token is needed"
    assert await _refused(system, "abc") == "this is not a token"
    assert await _refused(system, mcp) == "the token is for another audience"
    assert await _refused(system, _changed(good)) == "the token is not valid"
    unsigned = ".".join([*good.split(".")[:2], ""])
    assert await _refused(system, unsigned) == "the token is not valid"
    by_name = _changed(good, key="the public key as a secret" * 3, algorithm="HS256")
    assert await _refused(system, by_name) == "the token is not signed with RS256"


async def test_an_expired_token_is_refused(system: System) -> None:
    system.restaurant.faults.expired_tokens = True
    try:
        expired = await system.token()
    finally:
        system.restaurant.faults.expired_tokens = False
    assert await _refused(system, expired) == "the token has expired"


async def test_a_token_of_a_key_that_is_no_longer_vouched_for_is_refused(system: System) -> None:
    old = await system.token()
    assert (await system.api("GET", "/tables", token=old)).status_code == 200
    await system.restaurant.issuer.change_key()
    assert (await system.api("GET", "/tables")).status_code in (200, 401)  # the new key is seen
    for _ in range(100):  # keys are fetched at most once a second
        if (await system.api("GET", "/tables")).status_code == 200:
            break
    else:
        pytest.fail("the new key is never taken")
    assert await _refused(system, old) == "the token is signed with an unknown key"


async def test_a_scope_that_is_missing_is_told(system: System) -> None:
    token = await system.token(scope="backend.read")
    assert (await system.api("GET", "/customers", token=token)).status_code == 200
    body = {"rating": 5}
    answer = await system.api("POST", "/feedback", token=token, json=body)
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == "the token lacks the scope backend.write"
    assert 'scope="backend.write"' in answer.headers["www-authenticate"]


async def test_the_secret_may_be_sent_in_the_form_instead(system: System) -> None:
    form = {
        "grant_type": "client_credentials",
        "client_id": MCP_CLIENT,
        "client_secret": system.restaurant.settings.mcp_secret,
    }
    answer = await system.http.post(system.restaurant.token_url, data=form)
    assert answer.status_code == 200
    assert answer.json()["token_type"] == "Bearer"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("client", "form", "status", "code"),
    [
        (MCP_CLIENT, {"secret": "wrong"}, 401, "invalid_client"),
        ("nobody", {"secret": ""}, 401, "invalid_client"),
        (MCP_CLIENT, {"grant_type": "password"}, 400, "unsupported_grant_type"),
        (MCP_CLIENT, {"scope": "backend.read admin"}, 400, "invalid_scope"),
        (MCP_CLIENT, {"audience": "mcp"}, 400, "invalid_target"),
        (ENGINE_CLIENT, {"audience": "backend"}, 400, "invalid_target"),
        (MCP_CLIENT, {"client_secret": "x"}, 400, "invalid_request"),
        (MCP_CLIENT, {"padding": "x" * 9_000}, 413, "invalid_request"),
    ],
)
async def test_the_issuer_refuses(
    system: System, client: str, form: dict[str, str], status: int, code: str
) -> None:
    answer = await system.ask_token(client, **form)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert ("www-authenticate" in answer.headers) is (status == 401)
    assert system.restaurant.settings.mcp_secret not in answer.text


@pytest.mark.parametrize(
    ("body", "kind", "authorization"),
    [
        ("{}", "application/json", None),
        ("grant_type=a&grant_type=b", "application/x-www-form-urlencoded", None),
        ("a=%ff%fe", "application/x-www-form-urlencoded", "Basic ???"),
        ("grant_type=client_credentials", "application/x-www-form-urlencoded", "Bearer abc"),
    ],
)
async def test_what_is_no_request_for_a_token_is_refused(
    system: System, body: str, kind: str, authorization: str | None
) -> None:
    headers = {"Content-Type": kind}
    if authorization:
        headers["Authorization"] = authorization
    answer = await system.http.post(system.restaurant.token_url, content=body, headers=headers)
    assert answer.status_code in (400, 401)
    assert answer.json()["error"] in ("invalid_request", "invalid_client")


async def test_what_the_issuer_says_of_itself(system: System) -> None:
    url = system.restaurant.issuer_url
    told = (await system.http.get(f"{url}/.well-known/oauth-authorization-server")).json()
    assert told["token_endpoint"] == system.restaurant.token_url
    keys = (await system.http.get(told["jwks_uri"])).json()["keys"]
    assert [set(key) for key in keys] == [{"kty", "use", "alg", "kid", "n", "e"}], "public only"


async def test_the_mcp_server_asks_for_a_token_of_its_own_audience_and_scope(
    system: System,
) -> None:
    """A backend token is no way in, a token without the scope neither; it says where to ask."""
    url, hello = system.restaurant.mcp_url, {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    statuses = {}
    tokens = {
        "none": "",
        "backend": await system.token(),
        "write only": await system.token(ENGINE_CLIENT, scope="mcp.write"),
    }
    for name, token in tokens.items():
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = await system.http.post(url, json=hello, headers=headers)
        statuses[name] = answer.status_code
        assert "resource_metadata=" in answer.headers["www-authenticate"]
    assert statuses == {"none": 401, "backend": 401, "write only": 403}
