"""Section `admin`: the token of programs, and the admin port with its accounts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from cordboard.config.patterns import PUBLIC_URL, Port, checked_path
from cordboard.config.peers import Peer, network_of
from cordboard.config.remote_url import is_loopback, url_problem
from cordboard.config.section import Section


class AdminSessions(Section):
    """Life of a person's sign-in."""

    idle_minutes: int = Field(
        60, ge=1, le=1_440, description="Minutes without a request after which it ends."
    )
    hours: int = Field(12, ge=1, le=168, description="Hours after which it ends in any case.")


class AdminTls(Section):
    """The admin port's own certificate, in place of a proxy's."""

    certificate: Path = Field(description="PEM file of the certificate and its chain.")
    key: Path = Field(description="PEM file of its private key.")


class AdminOidc(Section):
    """Sign-in by an identity provider (OpenID Connect), such as Keycloak, Entra ID or Google.

    Register this application there with the address `<address>/api/v1/session/oidc/callback`.
    """

    issuer: str = Field(
        max_length=500,
        description="The provider's issuer, exactly as it names itself, such as "
        "https://login.example.org/realms/shop.",
    )
    client_id: str = Field(min_length=1, max_length=200, description="The name of this client.")
    client_secret: SecretStr | None = Field(
        None, description='The secret of this client, usually "${OIDC_SECRET}".'
    )
    scopes: tuple[str, ...] = Field(
        ("profile", "email"), description="What is asked for besides `openid`."
    )
    name_claim: str = Field(
        "preferred_username",
        min_length=1,
        description="Claim with the name of the user here. `email` counts only if the provider "
        "has verified it.",
    )
    roles_claim: str = Field(
        "",
        description="Claim with the groups of a person, such as `groups` or "
        "`realm_access.roles`. Left out: users are added here, by `cordboard users add`.",
    )
    roles: dict[str, Literal["viewer", "operator", "admin"]] = Field(
        {},
        description="The role of each group. People in one of them become users at their first "
        "sign-in, their role follows their groups, and others are refused.",
    )

    @field_validator("issuer")
    @classmethod
    def _an_address(cls, issuer: str) -> str:
        problem = url_problem(issuer, plain_http=False)
        if problem:
            raise ValueError(problem)
        return issuer

    @model_validator(mode="after")
    def _roles_come_together(self) -> AdminOidc:
        if bool(self.roles) != bool(self.roles_claim):
            raise ValueError("`roles_claim` and `roles` need each other")
        return self


class AdminSignIn(Section):
    """The ways to sign in."""

    password: bool = Field(True, description="Whether passwords are accepted.")
    oidc: AdminOidc | None = Field(None, description="An identity provider.")

    @model_validator(mode="after")
    def _there_is_a_way(self) -> AdminSignIn:
        if not (self.password or self.oidc):
            raise ValueError("without `password`, `oidc` must be set, or nobody could sign in")
        return self


class AdminUi(Section):
    """The admin port: accounts, audit, calls and the engine, for people and programs."""

    enabled: bool = Field(False, description="Whether the port is opened.")
    host: str = Field(
        "127.0.0.1",
        description="Address to bind to. Off loopback it needs `tls`, or `public_url` with https "
        "and `trusted_proxies`.",
    )
    port: Port = Field(15001, description="TCP port; 0 = any free one.")
    public_url: str = Field(
        "",
        pattern=PUBLIC_URL,
        description="Address by which browsers reach it, such as https://voice.example.org. "
        "Default: its own address.",
    )
    trusted_proxies: tuple[Peer, ...] = Field(
        (),
        description="Addresses and networks of reverse proxies whose `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are believed. From other addresses such requests are refused.",
    )
    tls: AdminTls | None = Field(None, description="A certificate of its own. Left out: http.")
    data: Path = Field(
        Path("var/admin"),
        description="Folder of the accounts and the audit, of the versions of this file "
        "(`cordboard config history`) and of stored secrets; mode 0700. Used whether the port is "
        "open or not.",
    )
    edit: Literal["file", "off"] = Field(
        "file",
        description="Publishing of this file from the port: `file` = people with the grant "
        "`publish` write it; `off` = it is changed elsewhere, and drafts become patches.",
    )
    sessions: AdminSessions = Field(AdminSessions(), description="Life of a person's sign-in.")
    calls: int = Field(
        4, ge=0, le=100, description="Calls from browsers at a time; a person has at most 2."
    )
    extensions: tuple[str, ...] = Field(
        (),
        description="Extensions that browsers may call through Asterisk, as EXTENSION@CONTEXT of "
        "its dialplan; `*` stands for any characters, `?` for one. Default: none. Everything that "
        "the dialplan does there can be caused from a browser.",
    )
    audit_months: int | None = Field(
        None,
        ge=12,
        description="Months for which the audit is kept, besides the present one. Left out: all.",
    )
    sign_in: AdminSignIn = Field(AdminSignIn(), description="The ways to sign in.")

    @field_validator("extensions")
    @classmethod
    def _extensions(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        if any(not re.fullmatch(r"[\w*?#+-]{1,80}@[\w*?-]{1,80}", each, re.A) for each in patterns):
            raise ValueError("expected EXTENSION@CONTEXT, such as 7??@from-internal")
        return patterns

    @field_validator("data")
    @classmethod
    def _a_path(cls, data: Path) -> Path:
        return checked_path(data)

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        if any(network_of(proxy) is None for proxy in proxies):
            raise ValueError("expected addresses (10.0.0.5) and networks (10.0.0.0/24), no names")
        return proxies

    @property
    def address(self) -> str:
        """The address for people, without a slash at its end."""
        if self.public_url:
            return self.public_url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        host = f"[{host}]" if ":" in host else host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}"

    @model_validator(mode="after")
    def _passwords_travel_encrypted(self) -> AdminUi:
        behind_proxy = self.public_url.startswith("https://") and self.trusted_proxies
        if not (is_loopback(self.host) or self.tls or behind_proxy):
            raise ValueError(
                f"host {self.host!r} can be reached by other machines, and passwords would cross "
                "the network unencrypted. Either leave out `host`; or set `tls: {certificate: "
                "FILE, key: FILE}`; or, behind a reverse proxy, set `public_url: https://NAME` "
                "and `trusted_proxies: [ADDRESS OF THE PROXY]`"
            )
        if self.tls and self.public_url.startswith("http://"):
            raise ValueError("with `tls`, `public_url` begins with https://")
        return self


class Admin(Section):
    """Access to changes and details of the running engine, by HTTP or the command line."""

    token: SecretStr | None = Field(
        None,
        description='Bearer token, usually "${CORDBOARD_TOKEN}", of requests that change something '
        "or read details, and off loopback of all but `/live`. "
        "Left out: such requests are refused.",
    )
    ui: AdminUi = Field(AdminUi(), description="The admin port, with accounts.")
