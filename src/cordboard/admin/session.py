"""Endpoints of the caller's own session: sign in, out, elevate, password, second factor."""

from __future__ import annotations

from pydantic import Field, SecretStr

from cordboard.accounts import factors
from cordboard.accounts.passwords import LONGEST, check_new
from cordboard.accounts.rights import Permission
from cordboard.accounts.store import Session
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Open, Scope, Takes
from cordboard.admin.guard import neighbourhood
from cordboard.admin.pace import SIGN_IN, SIGN_IN_ALL
from cordboard.admin.people import Sessions, session_row
from cordboard.errors import AccountRefused, RequestRefused
from cordboard.version import __version__

MOST_STRANGERS_BYTES = 8 * 1024
"""Bytes of a body of which the sender is not known yet."""


class Me(Gives):
    """The signed-in caller and their rights."""

    signed_in: bool
    name: str = ""
    role: str = ""
    permissions: list[Permission] = Field([])
    scopes: list[list[str]] = Field([])
    """Patterns of contexts; one must match in each list."""
    elevated: bool = False
    has_factor: bool = False
    version: str = __version__
    takes_passwords: bool = True
    has_oidc: bool = False
    """True if an identity provider can be used."""
    advice: str = ""
    """First step where there are no users yet."""


class SignIn(Takes):
    name: str = Field(max_length=64)
    password: SecretStr = Field(max_length=LONGEST)
    code: SecretStr = Field(SecretStr(""), max_length=64)
    """Of the authenticator app, or a recovery code."""


class Proof(Takes):
    """One of both; the code only of a user with a second factor."""

    password: SecretStr = Field(SecretStr(""), max_length=LONGEST)
    code: SecretStr = Field(SecretStr(""), max_length=64)


class Link(Takes):
    token: SecretStr = Field(max_length=100)
    """The part of the link behind `#link=`."""
    password: SecretStr = Field(max_length=LONGEST)


class NewPassword(Takes):
    password: SecretStr = Field(max_length=LONGEST)
    new: SecretStr = Field(max_length=LONGEST)


class Code(Takes):
    code: SecretStr = Field(max_length=64)


class NewFactor(Gives):
    secret: str
    """In base 32, to be typed into an authenticator app."""
    address: str
    """The same as an `otpauth:` address, for a QR code."""


class RecoveryCodes(Gives):
    codes: list[str]
    """Each replaces a code of the app once; they are not shown again."""


async def look(ask: Ask) -> Me:
    """Show who is signed in."""
    caller, accounts = ask.caller, ask.services.accounts
    if caller is None:
        known = await ask.services.run(accounts.users)
        advice = "" if known else "run `cordboard users add NAME` on the engine's machine"
        return Me(signed_in=False, advice=advice, **_ways(ask))
    user = caller.session.user if caller.session else None
    return Me(
        signed_in=True,
        name=caller.name,
        role=caller.role,
        permissions=sorted(caller.rights.permissions),
        scopes=[list(scope) for scope in caller.rights.scopes],
        elevated=caller.session is not None and caller.session.elevated,
        has_factor=user is not None and user.has_factor,
        **_ways(ask),
    )


def _ways(ask: Ask) -> dict[str, bool]:
    """Return the ways to sign in, and to prove again who one is."""
    services = ask.services
    return {"takes_passwords": services.takes_passwords, "has_oidc": services.oidc is not None}


async def sign_in(ask: Ask) -> Me:
    """Sign in by name and password, and a code where the user has a second factor.

    A wrong name, password or code have the same answer.
    """
    body: SignIn = ask.body
    _passwords_count(ask)
    _hold_back_strangers(ask, body.name)
    services = ask.services
    stored = await services.run(services.accounts.password, body.name)
    right = await services.is_right(body.password.get_secret_value(), stored)
    code = body.code.get_secret_value()
    if not (right and await services.run(services.accounts.take_code, body.name, code)):
        await ask.record(who=body.name, on=body.name, via="", result="refused")
        raise RequestRefused(401, "wrong", "name, password or code are wrong")
    await ask.record(who=body.name, on=body.name, via="session")
    return await _begin(ask, body.name, str(stored))


async def use_link(ask: Ask) -> Me:
    """Set the first password with a one-time link, and sign in."""
    body: Link = ask.body
    _passwords_count(ask)
    _hold_back_address(ask)
    services, token = ask.services, body.token.get_secret_value()
    user = await services.run(services.accounts.link_owner, token)
    if user is None:
        message = "the link was used before, was replaced by a newer one, or has expired"
        raise RequestRefused(401, "wrong", message)
    password = body.password.get_secret_value()
    _checked(password, user.name)
    stored = await services.hashed(password)
    await ask.record(who=user.name, on=user.name, via="link", role=str(user.role))
    await services.run(services.accounts.use_link, token, stored)
    return await _begin(ask, user.name, stored)


async def sign_out(ask: Ask) -> Done:
    """Sign out."""
    await ask.services.run(ask.services.accounts.end_session, ask.who.token)
    ask.new_session = ""
    return Done()


async def elevate(ask: Ask) -> Me:
    """Allow dangerous acts for ten minutes, after the password or a code was given again."""
    body: Proof = ask.body
    user = _session(ask).user
    _hold_back_user(ask)
    services, password = ask.services, body.password.get_secret_value()
    if password:
        _passwords_count(ask)
        stored = await services.run(services.accounts.password, user.name)
        right = await services.is_right(password, stored)
    else:
        code = body.code.get_secret_value()
        right = user.has_factor and await services.run(services.accounts.take_code, user.name, code)
    await ask.record(result="done" if right else "refused")
    if not right:
        raise RequestRefused(403, "wrong", "the password or the code is wrong")
    ask.new_session = await services.run(services.accounts.elevate, ask.who.token)
    return await _me(ask, ask.new_session)


async def list_others(ask: Ask) -> Sessions:
    """List one's other sessions."""
    own = _session(ask)
    found = await ask.services.run(ask.services.accounts.sessions)
    others = (each for each in found if each.user.name == own.user.name and each.id != own.id)
    return Sessions(sessions=[session_row(each, own) for each in others])


async def end_others(ask: Ask) -> Done:
    """End all one's other sessions."""
    _session(ask)
    await ask.services.run(ask.services.accounts.end_other_sessions, ask.who.token)
    return Done()


async def change_password(ask: Ask) -> Done:
    """Change one's password; all other sessions of the user end."""
    body: NewPassword = ask.body
    user = _session(ask).user
    _hold_back_user(ask)
    services = ask.services
    stored = await services.run(services.accounts.password, user.name)
    if not await services.is_right(body.password.get_secret_value(), stored):
        await ask.record(result="refused")
        raise RequestRefused(403, "wrong", "the password is wrong")
    new = body.new.get_secret_value()
    _checked(new, user.name)
    await ask.record()
    changed, token = await services.hashed(new), ask.who.token
    await services.run(services.accounts.set_password, user.name, str(stored), changed, token)
    return Done()


async def begin_factor(ask: Ask) -> NewFactor:
    """Make a second factor. It is needed from the moment when a code has confirmed it."""
    name = ask.who.name
    secret = await ask.services.run(ask.services.accounts.begin_factor, name)
    return NewFactor(secret=secret, address=factors.address(secret, name))


async def confirm_factor(ask: Ask) -> RecoveryCodes:
    """Confirm the second factor by a code of the app, and get recovery codes."""
    body: Code = ask.body
    _hold_back_user(ask)
    accounts, code = ask.services.accounts, body.code.get_secret_value()
    codes = await ask.services.run(accounts.confirm_factor, ask.who.name, code)
    return RecoveryCodes(codes=codes)


async def remove_factor(ask: Ask) -> Done:
    """Remove one's second factor."""
    await ask.services.run(ask.services.accounts.remove_factor, ask.who.name)
    return Done()


def _passwords_count(ask: Ask) -> None:
    """Raise `RequestRefused` 403 where everybody signs in by the identity provider."""
    if not ask.services.takes_passwords:
        message = "passwords are switched off here (admin.ui.sign_in.password)"
        raise RequestRefused(403, "no_passwords", message)


def _hold_back_address(ask: Ask) -> str:
    """Raise `RequestRefused` 429 if too many tries come from there; return where it is."""
    where = neighbourhood(ask.arrival.client)
    ask.services.paces.take(SIGN_IN, f"address {where}")
    return where


def _hold_back_strangers(ask: Ask, name: str) -> None:
    """Hold back guessing from one address, of one name, and of all. Raises `RequestRefused` 429.

    Guesses from many addresses keep the last two buckets empty. That does not keep a user out at an
    address from which they have signed in before.
    """
    if not ask.services.has_signed_in(name, _hold_back_address(ask)):
        ask.services.paces.take(SIGN_IN, f"name {name}")
        ask.services.paces.take(SIGN_IN_ALL, "")


def _hold_back_user(ask: Ask) -> None:
    """Hold back guessing with a stolen session. Strangers cannot empty this bucket."""
    ask.services.paces.take(SIGN_IN, f"user {ask.who.name}")


def _checked(password: str, user_name: str) -> None:
    try:
        check_new(password, user_name)
    except AccountRefused as error:
        raise RequestRefused(422, "weak_password", str(error)) from None


def _session(ask: Ask) -> Session:
    session = ask.who.session
    if session is None:
        raise RequestRefused(403, "forbidden", "this is for people, not for keys")
    return session


async def _begin(ask: Ask, name: str, password: str) -> Me:
    """Begin a session, if the hash of the password is still that one; a session that the browser
    had before ends."""
    services, client = ask.services, ask.arrival.client
    if ask.caller is not None and ask.caller.token:
        await services.run(services.accounts.end_session, ask.caller.token)
    begin = services.accounts.begin_session
    ask.new_session = await services.run(begin, name, client, password)
    services.remember(name, neighbourhood(client))
    return await _me(ask, ask.new_session)


async def _me(ask: Ask, token: str) -> Me:
    session = await ask.services.run(ask.services.accounts.session, token)
    if session is None:  # disabled at this moment
        raise RequestRefused(401, "signed_out", "sign in first")
    user = session.user
    return Me(
        signed_in=True,
        name=user.name,
        role=user.role,
        permissions=sorted(user.rights.permissions),
        scopes=[list(scope) for scope in user.rights.scopes],
        elevated=session.elevated,
        has_factor=user.has_factor,
        **_ways(ask),
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/session",
        takes=None,
        gives=Me,
        scope=Scope.NONE,
        may=Open.ANYONE,
        audit=UNRECORDED,
        does=look,
    ),
    Endpoint(
        "POST",
        "/session",
        takes=SignIn,
        gives=Me,
        scope=Scope.NONE,
        may=Open.ANYONE,
        audit="session.begin",
        does=sign_in,
        records_itself=True,
        pace=None,
        most_bytes=MOST_STRANGERS_BYTES,
    ),
    Endpoint(
        "POST",
        "/session/link",
        takes=Link,
        gives=Me,
        scope=Scope.NONE,
        may=Open.ANYONE,
        audit="session.link",
        does=use_link,
        records_itself=True,
        pace=None,
        most_bytes=MOST_STRANGERS_BYTES,
    ),
    Endpoint(
        "DELETE",
        "/session",
        takes=None,
        gives=Done,
        may=Open.SIGNED_IN,
        scope=Scope.NONE,
        audit="session.end",
        does=sign_out,
    ),
    Endpoint(
        "POST",
        "/session/elevate",
        takes=Proof,
        gives=Me,
        may=Open.SIGNED_IN,
        scope=Scope.NONE,
        audit="session.elevate",
        does=elevate,
        records_itself=True,
    ),
    Endpoint(
        "GET",
        "/session/others",
        takes=None,
        gives=Sessions,
        scope=Scope.NONE,
        may=Open.SIGNED_IN,
        audit=UNRECORDED,
        does=list_others,
    ),
    Endpoint(
        "DELETE",
        "/session/others",
        takes=None,
        gives=Done,
        scope=Scope.NONE,
        may=Open.SIGNED_IN,
        audit="session.end_others",
        does=end_others,
    ),
    Endpoint(
        "PUT",
        "/session/password",
        takes=NewPassword,
        gives=Done,
        may=Open.SIGNED_IN,
        scope=Scope.NONE,
        audit="session.password",
        does=change_password,
        records_itself=True,
    ),
    Endpoint(
        "POST",
        "/session/factor",
        takes=None,
        gives=NewFactor,
        may=Open.SIGNED_IN,
        scope=Scope.NONE,
        audit="session.factor",
        does=begin_factor,
        elevated=True,
    ),
    Endpoint(
        "POST",
        "/session/factor/confirm",
        takes=Code,
        gives=RecoveryCodes,
        may=Open.SIGNED_IN,
        scope=Scope.NONE,
        audit="session.factor.confirm",
        does=confirm_factor,
    ),
    Endpoint(
        "DELETE",
        "/session/factor",
        takes=None,
        gives=Done,
        may=Open.SIGNED_IN,
        scope=Scope.NONE,
        audit="session.factor.remove",
        does=remove_factor,
        elevated=True,
    ),
)
