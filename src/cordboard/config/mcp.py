"""`mcp:`: the MCP servers, their connections, supervision and tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, SecretStr, model_validator

from cordboard.config.patterns import HEADER_NAME, HEADER_VALUE, URL, ServerId
from cordboard.config.section import Section
from cordboard.config.sections.tool import ErrorMessages, FillerTexts
from cordboard.config.tools.entry import McpTool

McpTransport: TypeAlias = Literal["stdio", "http", "sse"]
McpRun: TypeAlias = Literal["node", "cluster"]
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
"""Headers set by the transport; other values would break it, or reach another host."""


class McpRestart(Section):
    """Restarts of an MCP server that died or cannot be reached."""

    enabled: bool = Field(True, description="Whether to start it again.")
    max_restarts: int = Field(
        5, ge=0, description="Restarts within `window_ms` before the server is given up for a time."
    )
    window_ms: int = Field(
        600_000,
        ge=1_000,
        description="Restarts longer ago than this no longer count; a server that was given up is "
        "tried again after the same time.",
    )
    healthy_ms: int = Field(
        60_000,
        ge=100,
        description="Time in good health after which earlier restarts no longer count.",
    )
    backoff_ms: int = Field(1_000, ge=10, description="First pause; doubles with each failure.")
    max_backoff_ms: int = Field(30_000, ge=10, description="Longest pause.")


class McpBreaker(Section):
    """Circuit breaker for a server that is up but does not answer."""

    failures: int = Field(
        5,
        ge=0,
        description="Calls in a row that timed out or broke before further ones are refused at "
        "once; 0 = never.",
    )
    open_ms: int = Field(
        15_000,
        ge=100,
        description="Duration of the break. Then one call is tried; if it fails, "
        "the break is repeated.",
    )


class McpDefaults(Section):
    """Rules for every tool of a server, unless the tool says otherwise."""

    timeout_ms: int = Field(10_000, ge=50, le=600_000, description="Timeout of a tool's answer.")
    slow_response_threshold_ms: int = Field(
        0, ge=0, description="Time after which the caller hears a filler; 0 = never."
    )
    slow_response_message: FillerTexts = Field(
        ("One moment, please.",),
        description="The fillers: a sentence, or a list; no sentence is spoken twice in a row.",
    )
    slow_response_repeat_ms: int = Field(
        0, ge=0, description="Time until each further filler; 0 = none."
    )
    error_messages: ErrorMessages = Field(
        ErrorMessages(), description="What the caller hears when a tool fails."
    )
    speak_errors: bool = Field(
        True,
        description="`false` = the server's error text (`isError`) reaches neither caller nor "
        "model: the caller hears an apology, the model learns that it failed, and the text is in "
        "the log.",
    )


class McpAuth(Section):
    """Authentication at a remote server."""

    type: Literal["bearer", "client_credentials", "private_key_jwt"] = Field(
        description="`bearer` = a fixed token; the others fetch one by OAuth 2.0 (RFC 6749 4.4, "
        "RFC 7523)."
    )
    token: SecretStr | None = Field(None, description="The fixed token (`bearer`).")
    token_url: str | None = Field(
        None, pattern=URL, description="The authorisation server's token endpoint (OAuth)."
    )
    client_id: str | None = Field(None, min_length=1, description="Our client id (OAuth).")
    client_secret: SecretStr | None = Field(None, description="Secret of `client_credentials`.")
    send_secret: Literal["basic", "post"] = Field(
        "basic", description="Place of the secret: the Authorization header, or the form."
    )
    private_key: SecretStr | None = Field(None, description="Key of `private_key_jwt`, as PEM.")
    algorithm: Literal["RS256", "ES256", "EdDSA"] = Field(
        "RS256", description="Signature algorithm of the assertion."
    )
    key_id: str | None = Field(None, description="`kid` in the assertion's header.")
    scopes: tuple[str, ...] = Field((), description="Scopes to request.")
    audience: str | None = Field(None, description="Audience to request.")
    resource: str | None = Field(
        None,
        description="The resource to request (RFC 8707). Default: the `url`; empty = none, for "
        "token endpoints that do not know it.",
    )
    assertion_audience: str | None = Field(
        None,
        description="Audience of the assertion of `private_key_jwt`. Default: `token_url`; some "
        "servers want their issuer.",
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
        description="Environment variables added to a minimum (`stdio`); never logged.",
    )
    cwd: Path | None = Field(
        None, description="Working directory (`stdio`). Default: the engine's."
    )
    url: str | None = Field(
        None,
        pattern=URL,
        description="Its address (`http`, `sse`). https:// is required except on loopback.",
    )
    plain_http: bool = Field(
        False, description="Allow http:// to a host that is not loopback: a network you trust."
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="HTTP headers sent with each request; never logged."
    )
    auth: McpAuth | None = Field(None, description="Authentication (`http`, `sse`).")
    protocol: Literal["auto", "legacy", "2026-07-28"] = Field(
        "auto",
        description="MCP revision: `legacy` = the handshake up to 2025-11-25. `auto` tries, and "
        "remembers the result.",
    )
    enabled: bool = Field(True, description="Whether to use it.")
    start: Literal["boot", "lazy"] = Field(
        "boot",
        description="`boot` = with the engine; `lazy` = at the first call in a context that lists "
        "one of its tools (which must be named under `tools`).",
    )
    run: McpRun = Field(
        "node",
        description="`node` = each engine of a cluster runs its own; `cluster` = one engine runs "
        "it for all (`stdio` only).",
    )
    required: bool = Field(
        False,
        description="Whether calls need it: `/ready` is 503 until it is ready, and while it is "
        "down. Calls that come in all the same are answered.",
    )
    start_timeout_ms: int = Field(15_000, ge=100, description="Timeout for listing its tools.")
    stop_grace_ms: int = Field(
        2_000,
        ge=0,
        le=60_000,
        description="Timeout of its shutdown: half after its input closes, half after SIGTERM.",
    )
    restart: McpRestart = Field(McpRestart(), description="Restarts when it dies.")
    breaker: McpBreaker = Field(
        McpBreaker(), description="Circuit breaker when it does not answer."
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
        if self.run == "cluster" and self.transport != "stdio":
            raise ValueError(
                f"`run: cluster` is for `transport: stdio`; each engine connects to a server of "
                f"`transport: {self.transport}` by itself"
            )
        if self.required and self.start == "lazy":
            raise ValueError("`required: true` needs `start: boot`; a lazy server waits for a call")
        for name, value in self.headers.items():
            if not HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise ValueError(
                    f"`headers` cannot have {name!r}: it is not a header, or the engine's own"
                )
            if not HEADER_VALUE.fullmatch(value.get_secret_value()):
                raise ValueError(f"`headers.{name}` has characters that HTTP does not allow")
        return self


class Mcp(Section):
    """The MCP servers."""

    enabled: bool = Field(True, description="False: no server is started.")
    lock: McpLock = Field(
        "warn",
        description="Effect of a tool that differs from `lock_file`: `off` = none; `warn` = a "
        "warning; `enforce` = it is not offered until it is accepted.",
    )
    lock_file: Path = Field(
        Path("mcp.lock"),
        description="The accepted definitions; beside the configuration file unless absolute.",
    )
    servers: dict[ServerId, McpServer] = Field(
        default_factory=dict, description="The servers by name."
    )
