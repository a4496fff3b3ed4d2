"""The settings of the example: every value from the environment, with a default that works.

`Settings()` is usable as it is: loopback, fixed ports, a SQLite file beside this package and
secrets generated for this run. `from_environment` reads the `RESTAURANT_...` variables (and the
engine's `CORDBOARD_TOKEN`) and names an invalid one. No other module of the package reads the
environment.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

VAR = Path(__file__).resolve().parents[1] / "var"
"""The default folder of the example's files."""


class SettingsError(Exception):
    """An invalid variable; the text names it and the expected value."""


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one run. Times are in seconds."""

    host: str = "127.0.0.1"
    issuer_port: int = 8180
    backend_port: int = 8181
    mcp_port: int = 8182
    """Port 0 takes any free one."""
    database_url: str = f"sqlite:///{VAR / 'restaurant.sqlite'}"
    """SQLAlchemy's; SQLite or PostgreSQL."""
    token_lifetime: float = 300.0
    backend_timeout: float = 5.0
    """The MCP server's timeout for the backend."""
    engine_secret: str = field(default_factory=_secret, repr=False)
    """Secret of the client `cordboard`, which may use the MCP server."""
    mcp_secret: str = field(default_factory=_secret, repr=False)
    """Secret of the client `restaurant-mcp`, which may use the backend."""
    admin_token: str = field(default_factory=_secret, repr=False)
    """Token of the engine, for conversations in writing (`cordboard chat --url`)."""
    faults_route: bool = False
    """True if the backend has `/admin/faults`, for this machine only."""


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Read the settings from the environment. Raises `SettingsError`."""
    plain = Settings()
    return Settings(
        host=environ.get("RESTAURANT_HOST") or plain.host,
        issuer_port=_port(environ, "RESTAURANT_ISSUER_PORT", plain.issuer_port),
        backend_port=_port(environ, "RESTAURANT_BACKEND_PORT", plain.backend_port),
        mcp_port=_port(environ, "RESTAURANT_MCP_PORT", plain.mcp_port),
        database_url=environ.get("RESTAURANT_DATABASE_URL") or plain.database_url,
        token_lifetime=_seconds(environ, "RESTAURANT_TOKEN_LIFETIME_S", plain.token_lifetime),
        backend_timeout=_seconds(environ, "RESTAURANT_BACKEND_TIMEOUT_S", plain.backend_timeout),
        engine_secret=_given_secret(environ, "RESTAURANT_CLIENT_SECRET", plain.engine_secret),
        mcp_secret=_given_secret(environ, "RESTAURANT_MCP_SECRET", plain.mcp_secret),
        admin_token=environ.get("CORDBOARD_TOKEN") or plain.admin_token,
        faults_route=_switch(environ, "RESTAURANT_FAULTS"),
    )


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise SettingsError(f"{name}: expected a port from 0 to 65535, found {text!r}")
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.1 <= value <= 86_400:
        raise SettingsError(f"{name}: expected seconds from 0.1 to 86400, found {text!r}")
    return value


def _given_secret(environ: Mapping[str, str], name: str, default: str) -> str:
    text = environ.get(name, "")
    if text and (len(text) < 16 or not text.isascii() or not text.isprintable()):
        raise SettingsError(f"{name}: expected at least 16 printable ASCII characters")
    return text or default


def _switch(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "").lower()
    if text not in ("", "0", "1", "true", "false"):
        raise SettingsError(f"{name}: expected 0 or 1, found {text!r}")
    return text in ("1", "true")
