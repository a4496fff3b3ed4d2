"""What `mcp:` may say: the MCP servers, how they are reached, watched and what they may offer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, SecretStr, model_validator

from cordboard.config.patterns import HEADER_NAME, HEADER_VALUE, URL, ServerId, ToolName
from cordboard.config.section import Section
from cordboard.config.tools.rules import ErrorMessages, FillerTexts, ToolRules

McpTransport: TypeAlias = Literal["stdio", "http", "sse"]
McpLock: TypeAlias = Literal["off", "warn", "enforce"]

_TOKEN = re.compile(r"[\x21-\x7e]+")
_OWN_HEADERS = {
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Set by the transport; with other values it would not work, or reach another host."""


class McpRestart(Section):
    """What happens when an MCP server dies or cannot be reached."""

    enabled: bool = Field(True, description="Whether to start it again.")
    max_restarts: int = Field(
        5, ge=0, description="Restarts within `window_ms` before the server is given up for a time."
    )
    window_ms: int = Field(
        600_000,
        ge=1_000,
        description="Restarts longer ago than this are forgiven; a server that was given up is "
        "tried again after so long.",
    )
    healthy_ms: int = Field(
        60_000, ge=100, description="After so long in good health all is forgiven."
    )
    backoff_ms: int = Field(1_000, ge=10, description="First pause; doubles with each failure.")
    max_backoff_ms: int = Field(30_000, ge=10, description="Longest pause.")


class McpBreaker(Section):
    """When a server that is up but does not answer is left alone for a while."""

    failures: int = Field(
        5,
        ge=0,
        description="Calls in a row that timed out or broke before further ones are refused at "
        "once; 0 = never.",
    )
    open_ms: int = Field(
        15_000, ge=100, description="For how long. Then one call is tried; if it fails, again."
    )


class McpDefaults(Section):
    """Rules for every tool of a server, unless the tool says otherwise."""

    timeout_ms: int = Field(
        10_000, ge=50, le=600_000, description="How long a tool may take to answer."
    )
    slow_response_threshold_ms: int = Field(
        0, ge=0, description="After this time the caller is told to wait; 0 = never."
    )
    slow_response_message: FillerTexts = Field(
        ("One moment, please.",),
        description="What the caller is told then: a sentence, or a list of which never the same "
        "is said twice running.",
    )
    slow_response_repeat_ms: int = Field(
        0, ge=0, description="After each such time more another sentence; 0 = never."
    )
    error_messages: ErrorMessages = Field(
        ErrorMessages(), description="What the caller is told when a tool fails."
    )
    speak_errors: bool = Field(
        True,
        description="`false` = what the server says about a failure (`isError`) reaches neither "
        "caller nor model: the caller hears an apology, the model learns that it failed, and the "
        "words stand in the log.",
    )


class McpTool(ToolRules):
    """One tool of a server: offered at all, under which name, spoken how. Rules that are left out
    are those of the server's `defaults`."""

    name: str = Field(description="The tool's name as the server gives it.")
    expose_as: ToolName | None = Field(None, description="Default: mcp_{server}_{tool}.")


class McpAuth(Section):
    """How the engine shows a remote server who it is."""

    type: Literal["bearer", "client_credentials", "private_key_jwt"] = Field(
        description="`bearer` = a fixed token; the others fetch one by OAuth 2.0 (RFC 6749 4.4, "
        "RFC 7523)."
    )
    token: SecretStr | None = Field(None, description="The fixed token (`bearer`).")
    token_url: str | None = Field(
        None, pattern=URL, description="The authorisation server's token endpoint (OAuth)."
    )
    client_id: str | None = Field(None, min_length=1, description="Who we are there (OAuth).")
    client_secret: SecretStr | None = Field(None, description="Of `client_credentials`.")
    send_secret: Literal["basic", "post"] = Field(
        "basic", description="Where the secret goes: the Authorization header, or the form."
    )
    private_key: SecretStr | None = Field(None, description="PEM, of `private_key_jwt`.")
    algorithm: Literal["RS256", "ES256", "EdDSA"] = Field(
        "RS256", description="How the assertion is signed."
    )
    key_id: str | None = Field(None, description="`kid` in the assertion's header.")
    scopes: tuple[str, ...] = Field((), description="Scopes to ask for.")
    audience: str | None = Field(None, description="Audience to ask for.")
    resource: str | None = Field(
        None,
        description="The resource to ask for (RFC 8707). Default: the `url`; empty = none, "
        "where the token endpoint does not know it.",
    )
    assertion_audience: str | None = Field(
        None,
        description="Whom the assertion of `private_key_jwt` is for. Default: `token_url`; some "
        "want their issuer.",
    )

    @model_validator(mode="after")
    def _complete(self) -> McpAuth:
        needed = {
            "bearer": ("token",),
            "client_credentials": ("token_url", "client_id", "client_secret"),
            "private_key_jwt": ("token_url", "client_id", "private_key"),
        }[self.type]
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"`type: {self.type}` needs {', '.join(missing)}")
        if self.token is not None and not _TOKEN.fullmatch(self.token.get_secret_value()):
            raise ValueError("`token` has characters that no token has (a space, a line break?)")
        return self


class McpServer(Section):
    """One MCP server: a supervised subprocess (`stdio`), or a remote one (`http`, `sse`)."""

    transport: McpTransport = Field(
        "stdio",
        description="`stdio` = a program of ours; `http` = streamable HTTP; `sse` = the HTTP "
        "transport of 2024, for old servers.",
    )
    command: tuple[str, ...] = Field((), description="Program and its arguments (`stdio`).")
    env: dict[str, str] = Field(
        default_factory=dict,
        description="Environment variables it gets besides a minimum (`stdio`); never logged.",
    )
    cwd: Path | None = Field(
        None, description="Working directory (`stdio`). Default: the engine's."
    )
    url: str | None = Field(
        None,
        pattern=URL,
        description="Where it is (`http`, `sse`). https:// is needed unless it is on loopback.",
    )
    plain_http: bool = Field(
        False, description="Allow http:// to a host that is not loopback: a network you trust."
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="HTTP headers sent with each request; never logged."
    )
    auth: McpAuth | None = Field(None, description="How to log in (`http`, `sse`).")
    protocol: Literal["auto", "legacy", "2026-07-28"] = Field(
        "auto",
        description="MCP revision: `legacy` = the handshake up to 2025-11-25. `auto` asks, and "
        "remembers the answer.",
    )
    enabled: bool = Field(True, description="Whether to use it.")
    start: Literal["boot", "lazy"] = Field(
        "boot",
        description="`boot` = with the engine; `lazy` = at the first call in a context that lists "
        "one of its tools (which must be named under `tools`).",
    )
    start_timeout_ms: int = Field(
        15_000, ge=100, description="How long it may take to list its tools."
    )
    stop_grace_ms: int = Field(
        2_000,
        ge=0,
        le=60_000,
        description="How long it may take to end: half after its input closes, half after SIGTERM.",
    )
    restart: McpRestart = Field(McpRestart(), description="What happens when it dies.")
    breaker: McpBreaker = Field(
        McpBreaker(), description="When a server that does not answer is left alone."
    )
    defaults: McpDefaults = Field(McpDefaults(), description="Rules for each of its tools.")
    tools: tuple[McpTool, ...] = Field((), description="Empty = all tools of the server.")

    @model_validator(mode="after")
    def _reachable(self) -> McpServer:
        if self.transport == "stdio":
            if not self.command:
                raise ValueError("`transport: stdio` needs `command`")
            foreign = [name for name in ("url", "headers", "auth") if getattr(self, name)]
        else:
            if not self.url:
                raise ValueError(f"`transport: {self.transport}` needs `url`")
            foreign = [name for name in ("command", "env", "cwd") if getattr(self, name)]
        if foreign:
            raise ValueError(f"`transport: {self.transport}` knows no `{foreign[0]}`")
        for name, value in self.headers.items():
            if not HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise ValueError(
                    f"`headers` cannot have {name!r}: it is no header, or the engine's own"
                )
            if not HEADER_VALUE.fullmatch(value.get_secret_value()):
                raise ValueError(f"`headers.{name}` has characters that HTTP does not allow")
        return self


class Mcp(Section):
    """The MCP servers."""

    enabled: bool = Field(True, description="False: no server is started.")
    lock: McpLock = Field(
        "warn",
        description="What happens when a tool is not as `lock_file` has it: `off` = nothing; "
        "`warn` = a warning; `enforce` = it is not offered until it is accepted.",
    )
    lock_file: Path = Field(
        Path("mcp.lock"),
        description="The accepted definitions; beside the configuration file unless absolute.",
    )
    servers: dict[ServerId, McpServer] = Field(
        default_factory=dict, description="The servers by name."
    )
