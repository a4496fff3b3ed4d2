"""An MCP server's tool as a `Tool`: its spec from the server's listing and the operator's words,
its run through the supervised server, its result read into data and words.

The server is an outsider: its description is stripped of invisible characters and capped, its
result is checked against its own output schema, and its errors never pass on as anything but
`ToolError`s that a caller may hear.
"""

from __future__ import annotations

import unicodedata

import mcp_types as types
import structlog

from cordboard.config.mcp import McpDefaults
from cordboard.config.mcp import McpTool as ToolConfig
from cordboard.errors import (
    McpError,
    McpTimeout,
    McpUnavailable,
    SchemaRefused,
    ToolError,
    ToolTimeout,
)
from cordboard.mcp.result import read_result
from cordboard.mcp.server import SupervisedServer
from cordboard.tools.naming import exposed_name, mcp_origin
from cordboard.tools.schema import Validator, compile_schema
from cordboard.tools.tool import (
    CallLine,
    Effects,
    Filler,
    JsonObject,
    Limits,
    Speech,
    ToolResult,
    ToolSpec,
)

MAX_DESCRIPTION = 1024
"""Characters; OpenAI's limit for a function's description."""
UNAVAILABLE = "Sorry, that service is not available right now."
UNUSABLE = "Sorry, that service gave an answer I cannot use."
TOO_SLOW = "Sorry, that service takes too long to answer."

log = structlog.get_logger()


class McpTool:
    """One tool of one server."""

    def __init__(
        self,
        server: SupervisedServer,
        listed: types.Tool,
        override: ToolConfig | None = None,
        defaults: McpDefaults | None = None,
    ) -> None:
        """`override` is the tool's entry under the server's `tools:`, if it has one; `defaults`
        are the server's (those of another generation may differ)."""
        self.listed = listed
        self.override = override
        self.defaults = server.config.defaults if defaults is None else defaults
        self.server = server
        self._server = server
        self._spec = make_spec(server.id, listed, self.defaults, override)
        self._output = _output_check(self._spec.origin, listed.output_schema)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: JsonObject, line: CallLine) -> ToolResult:
        """Call the server. Raises `ToolTimeout` or `ToolError`."""
        try:
            result = await self._server.call(
                self.listed.name, arguments, self._spec.limits.timeout_ms / 1000
            )
        except McpError as error:
            log.warning(
                "mcp_call_failed",
                call_id=line.call_id,
                server=self._server.id,
                tool=self.listed.name,
                error=str(error),
            )
            raise _speakable(error) from error
        if not result.is_error and self._output is not None:
            self._check_output(result, self._output)
        return read_result(result)

    def _check_output(self, result: types.CallToolResult, output: Validator) -> None:
        if output.is_valid(result.structured_content):
            return
        problem = next((e.message for e in output.iter_errors(result.structured_content)), "")
        log.warning("mcp_result_invalid", tool=self._spec.origin, problem=problem[:300])
        raise ToolError(UNUSABLE)


def make_spec(
    server: str, listed: types.Tool, defaults: McpDefaults, override: ToolConfig | None
) -> ToolSpec:
    """All that the engine knows of a listed tool; the operator's words go before the server's."""
    own = override if override is not None else ToolConfig.model_validate({"name": listed.name})
    timeout = own.timeout_ms if own.timeout_ms is not None else defaults.timeout_ms
    threshold = own.slow_response_threshold_ms
    return ToolSpec(
        name=own.expose_as or exposed_name(server, listed.name),
        kind="mcp",
        description=clean_description(own.description or listed.description or listed.name),
        parameters=listed.input_schema,
        origin=mcp_origin(server, listed.name),
        server=server,
        limits=Limits(timeout_ms=timeout),
        speech=Speech(own.speech_field, own.speech_template),
        filler=Filler(
            defaults.slow_response_threshold_ms if threshold is None else threshold,
            own.slow_response_message or defaults.slow_response_message,
        ),
        effects=effects_of(listed.annotations),
    )


def effects_of(annotations: types.ToolAnnotations | None) -> Effects:
    """Effects by the server's hints; as in the MCP specification, silence means destructive."""
    if annotations is None:
        return Effects.DESTRUCTIVE
    if annotations.read_only_hint:
        return Effects.READ_ONLY
    if annotations.idempotent_hint and annotations.destructive_hint is False:
        return Effects.IDEMPOTENT
    return Effects.DESTRUCTIVE


def clean_description(text: str) -> str:
    """Visible text only (no bidirectional or zero-width tricks), capped."""
    visible = "".join(
        character
        for character in text[: 8 * MAX_DESCRIPTION]
        if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Co", "Cs"}
    ).strip()
    return visible if len(visible) <= MAX_DESCRIPTION else visible[: MAX_DESCRIPTION - 1] + "…"


def _output_check(origin: str, schema: JsonObject | None) -> Validator | None:
    if schema is None:
        return None
    try:
        return compile_schema(schema)
    except SchemaRefused as error:
        log.warning("mcp_output_schema_ignored", tool=origin, error=str(error))
        return None


def _speakable(error: McpError) -> ToolError:
    if isinstance(error, McpTimeout):
        return ToolTimeout(TOO_SLOW)
    return ToolError(UNAVAILABLE if isinstance(error, McpUnavailable) else UNUSABLE)
