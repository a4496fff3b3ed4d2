"""Endpoints of the sign-in by an identity provider (`cordboard.admin.oidc`)."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pydantic import ConfigDict, Field
from starlette.responses import RedirectResponse, Response

from cordboard.accounts.rights import EVERYWHERE, Role
from cordboard.accounts.store import USER_NAME, User
from cordboard.admin.endpoint import Ask, Content, Endpoint, Gives, Open, Scope, Takes
from cordboard.admin.guard import neighbourhood
from cordboard.admin.pace import PROVIDER, PROVIDER_ALL
from cordboard.api.answers import JsonAnswer
from cordboard.errors import AccountRefused, RequestRefused

if TYPE_CHECKING:
    from cordboard.admin.oidc import Flow, Identity, OpenIdConnect

CALLBACK = "/session/oidc/callback"
COOKIE_SECONDS = 600
_NAME = re.compile(USER_NAME)
_STRONGEST = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)


class Begin(Takes):
    purpose: Literal["sign_in", "elevate", "connect"] = "sign_in"
    """`elevate`: allow dangerous acts, after a new sign-in at the provider; `connect`: let one's
    identity there sign in as the user who is signed in here."""

    def facts(self) -> dict[str, Any]:
        """Return the purpose."""
        return {"purpose": self.purpose}


class Began(Gives):
    address: str
    """The provider's page, to which the browser goes."""


class Callback(Takes):
    """The provider's answer, by way of the browser. Further parameters are ignored, as OAuth 2.0
    demands (RFC 6749, section 4.1.2)."""

    model_config = ConfigDict(extra="ignore")

    state: str = Field("", max_length=200)
    code: str = Field("", max_length=4_000)
    iss: str | None = Field(None, max_length=500)
    error: str | None = Field(None, max_length=200)


async def begin_oidc(ask: Ask) -> Response:
    """Begin a sign-in by the identity provider.

    The answer has the address of the provider's page. The browser comes back to the callback, and
    from there to the page, at `/`, or at `/#sign-in-failed=<why>`.
    """
    body: Begin = ask.body
    _hold_back(ask)
    token = ""
    if body.purpose != "sign_in":
        if ask.caller is None or ask.caller.session is None:
            raise RequestRefused(401, "signed_out", "sign in first")
        if body.purpose == "connect" and not ask.caller.session.elevated:
            message = "give your password or a code again first (POST /session/elevate)"
            raise RequestRefused(403, "not_elevated", message)
        token = ask.caller.token
    await ask.record()
    browser = secrets.token_urlsafe(32)
    address = await _provider(ask).begin(body.purpose, browser, token)
    answer = JsonAnswer(Began(address=address).model_dump())
    _set_browser(ask, answer, browser)
    return answer


async def finish_oidc(ask: Ask) -> Response:
    """Finish a sign-in by the identity provider: the browser's way back.

    It redirects to the page; a failure is named behind the `#`.
    """
    query: Callback = ask.query
    if not _provider(ask).knows(query.state):
        _hold_back(ask)
    given = query.model_dump(exclude_none=True)
    try:
        flow, identity = await _provider(ask).finish(given, ask.cookie(_cookie(ask)))
        await _DOES[flow.purpose](ask, flow, identity)
    except (RequestRefused, AccountRefused) as error:
        if ask.done is not None:
            await ask.record_failure(str(error))
        else:
            await ask.record(result="refused", detail={"by": "oidc", "why": str(error)})
        answer = RedirectResponse(f"/#sign-in-failed={quote(str(error))}", 303)
    else:
        answer = RedirectResponse("/", 303)
    _set_browser(ask, answer, "")
    return answer


async def _sign_in(ask: Ask, flow: Flow, identity: Identity) -> None:
    services, accounts = ask.services, ask.services.accounts
    role = _role_of(ask, identity)
    user = await services.run(accounts.identified, identity.issuer, identity.subject)
    if user is None:
        user = await _first_time(ask, identity, role)
    elif role is not None and user.role is not role:
        detail = {"by": "oidc", "role": role}
        await ask.record(action="user.change", who=user.name, on=user.name, detail=detail, via="")
        await services.run(
            accounts.change, user.name, role, user.grants, user.scope, disabled=user.disabled
        )
    detail = {"by": "oidc"}
    await ask.record(who=user.name, on=user.name, role=str(user.role), via="session", detail=detail)
    client = ask.arrival.client
    ask.new_session = await services.run(
        accounts.begin_session_as, identity.issuer, identity.subject, client
    )
    services.remember(user.name, neighbourhood(client))


async def _first_time(ask: Ask, identity: Identity, role: Role | None) -> User:
    """Return the user of an identity that is seen for the first time."""
    services, accounts, name = ask.services, ask.services.accounts, identity.name
    if not _NAME.fullmatch(name):
        raise RequestRefused(
            401, "wrong", "the identity provider gives no name that a user may have (name_claim)"
        )
    known = await services.run(accounts.user, name)
    if known is None and role is None:
        raise RequestRefused(401, "wrong", f"there is no user {name} here; ask an admin to add one")
    detail = {"by": "oidc", "subject": identity.subject[:200]}
    if known is None and role is not None:
        await ask.record(
            action="user.add", who=name, on=name, detail={**detail, "role": role}, via=""
        )
        await services.run(accounts.add, name, role, (), EVERYWHERE)
    await ask.record(action="user.connect", who=name, on=name, detail=detail, via="")
    connect = accounts.connect
    return await services.run(connect, name, identity.issuer, identity.subject, unclaimed=True)


async def _elevate(ask: Ask, flow: Flow, identity: Identity) -> None:
    services, accounts = ask.services, ask.services.accounts
    session = await services.run(accounts.session, flow.token)
    user = await services.run(accounts.identified, identity.issuer, identity.subject)
    if session is None or user is None or session.user.name != user.name:
        raise RequestRefused(401, "wrong", "that is the identity of another user")
    if not _provider(ask).is_fresh(identity):
        message = "the identity provider did not ask you to sign in again"
        raise RequestRefused(401, "wrong", message)
    await ask.record(
        action="session.elevate", who=user.name, role=str(user.role), detail={"by": "oidc"}
    )
    ask.new_session = await services.run(accounts.elevate, flow.token)


async def _connect(ask: Ask, flow: Flow, identity: Identity) -> None:
    services, accounts = ask.services, ask.services.accounts
    session = await services.run(accounts.session, flow.token)
    if session is None:
        raise RequestRefused(401, "signed_out", "sign in first")
    name, detail = session.user.name, {"by": "oidc", "subject": identity.subject[:200]}
    await ask.record(action="user.connect", who=name, on=name, detail=detail)
    await services.run(accounts.connect, name, identity.issuer, identity.subject)


def _hold_back(ask: Ask) -> None:
    """Raise `RequestRefused` 429 for too many tries: of an address, and of all."""
    ask.services.paces.take(PROVIDER, f"address {neighbourhood(ask.arrival.client)}")
    ask.services.paces.take(PROVIDER_ALL, "")


_DOES = {"sign_in": _sign_in, "elevate": _elevate, "connect": _connect}


def _role_of(ask: Ask, identity: Identity) -> Role | None:
    """Return the strongest role of a person's groups; None where groups do not count. Raises
    `RequestRefused` for a person in none of them."""
    roles = _provider(ask).roles
    if not roles:
        return None
    given = {roles[group] for group in identity.groups if group in roles}
    for role in _STRONGEST:
        if role in given:
            return role
    raise RequestRefused(401, "wrong", "you are in no group that may sign in here")


def _provider(ask: Ask) -> OpenIdConnect:
    if ask.services.oidc is None:
        raise RequestRefused(404, "not_there", "there is no identity provider (admin.ui.sign_in)")
    return ask.services.oidc


def _cookie(ask: Ask) -> str:
    """Return the cookie that binds a sign-in to its browser. `Lax`, as the way back begins at the
    provider."""
    if ask.arrival.secure:
        return "__Host-cordboard-oidc"
    return f"cordboard-oidc-{ask.services.port()}"


def _set_browser(ask: Ask, answer: Response, value: str) -> None:
    answer.set_cookie(
        _cookie(ask),
        value,
        max_age=COOKIE_SECONDS if value else 0,
        httponly=True,
        secure=ask.arrival.secure,
        samesite="lax",
    )


ENDPOINTS = (
    Endpoint(
        "POST",
        "/session/oidc",
        may=Open.ANYONE,
        scope=Scope.NONE,
        takes=Begin,
        gives=Began,
        audit="session.oidc",
        does=begin_oidc,
        records_itself=True,
        pace=None,
        most_bytes=8 * 1024,
    ),
    Endpoint(
        "GET",
        CALLBACK,
        may=Open.ANYONE,
        scope=Scope.NONE,
        takes=None,
        asks=Callback,
        gives=Content(("text/html",)),
        audit="session.begin",
        does=finish_oidc,
        records_itself=True,
        from_elsewhere=True,
    ),
)
