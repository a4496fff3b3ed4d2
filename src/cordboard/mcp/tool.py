"""An MCP server's tool as a `Tool`.

Its spec comes from the server's listing and the operator's settings, its calls go through the
supervised server, and its results are converted to data and a spoken message.

The server is an outsider: its definition has been cleaned (`definitions.definition`), its result is
checked against its own output schema, and its errors are passed on only as `ToolError`s that a
caller may hear. A call keeps the tools it began with; a tool that its server no longer lists, or
that was quarantined meanwhile, answers with an apology and is not called.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mcp_types as types
import structlog

from cordboard.config.mcp import McpDefaults
from cordboard.config.naming import exposed_name, mcp_origin
from cordboard.config.tools.entry import McpTool as ToolConfig
from cordboard.errors import (
    McpError,
    McpRefused,
    McpTimeout,
    McpUnavailable,
    SchemaRefused,
    ToolError,
    ToolTimeout,
)
from cordboard.mcp.definitions.definition import clean_description, read_tool
from cordboard.mcp.large_result import LARGE_BYTES
from cordboard.mcp.printable import printable
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.tools.desk.running import LATE_SECONDS
from cordboard.tools.known_secrets import without_parameters
from cordboard.tools.large_json import parse_large
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.schema.checker import ArgumentChecker, Checker
from cordboard.tools.speech import speech
from cordboard.tools.speech.speech import FAILED, TOO_SLOW, UNAVAILABLE, UNUSABLE
from cordboard.tools.tool import (
    Effects,
    ErrorWords,
    Filler,
    JsonObject,
    Limits,
    Speech,
    Status,
    ToolResult,
    ToolRun,
    ToolSpec,
)

WITHDRAWN = "Sorry, that service is no longer offered."

log = structlog.get_logger()


_SDK_PREFIX = re.compile(r"Error executing tool [^\s:]+: ")
"""The prefix that the official server SDKs put before a tool's own error text."""


async def read_any_result(
    result: types.CallToolResult, mask: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """Like `read_result` for any length: JSON in a long text is parsed off the event loop."""
    text = _text(result)
    unread = result.is_error or result.structured_content is not None or not _looks_like_json(text)
    if unread or len(text.encode("utf-8", "replace")) <= LARGE_BYTES:
        return read_result(result, mask)
    data = await asyncio.to_thread(_json_in, text)
    return _plain(result, text) if data is None else ToolResult(Status.OK, _only_text(data), data)


def read_result(
    result: types.CallToolResult, mask: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """Read a result. `isError` makes it an error regardless of its other content. The error text is
    masked by `mask`, because a server's message about a failed login often quotes the secret.

    The data comes from `structuredContent`, else from JSON in the text, else it is the text itself.
    A result that is only a sentence is also the message.
    """
    text = _text(result)
    if result.is_error:
        own_words = mask(_SDK_PREFIX.sub("", text, count=1))
        return ToolResult(Status.ERROR, speech.spoken_error(own_words), {"error": own_words})
    data = result.structured_content
    if data is None:
        data = _json_in(text)
    if data is None:
        return _plain(result, text)
    return ToolResult(Status.OK, _only_text(data), data)


def _text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def _plain(result: types.CallToolResult, text: str) -> ToolResult:
    if text.strip() == "null":
        return ToolResult(Status.OK, "", {"result": None})
    data = _content(text, result.content)
    return ToolResult(Status.OK, text or _words(data), data)


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "["}


def _json_in(text: str) -> Any:
    """Return the object or list in a text; None if it is plain text."""
    if not _looks_like_json(text):
        return None
    try:
        return parse_large(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def _only_text(data: Any) -> str:
    """Return the text of a result that is only a sentence: SDKs wrap it as `{"result": …}`."""
    if isinstance(data, dict) and len(data) == 1 and isinstance(data.get("result"), str):
        return str(data["result"])
    return ""


def _content(text: str, blocks: list[types.ContentBlock]) -> dict[str, Any]:
    """Return plain text, resources and their links; of other content only what it is, in words: a
    phone can neither show nor play it."""
    data: dict[str, Any] = {"text": text} if text else {}
    for block in blocks:
        if isinstance(block, types.ResourceLink):
            link = {"uri": str(block.uri), "name": block.title or block.name}
            told = {"description": block.description} if block.description else {}
            data.setdefault("links", []).append(link | told)
        elif isinstance(block, types.EmbeddedResource):
            resource = block.resource
            kept = {"uri": str(resource.uri)}
            if isinstance(resource, types.TextResourceContents):
                kept["text"] = resource.text
            else:
                kept["not_text"] = f"a file ({resource.mime_type or 'of an unknown kind'})"
            data.setdefault("resources", []).append(kept)
        elif isinstance(block, types.ImageContent | types.AudioContent):
            data.setdefault("not_text", []).append(_named(block))
    return data


def _named(block: types.ImageContent | types.AudioContent) -> str:
    what = "a picture" if isinstance(block, types.ImageContent) else "a sound"
    return f"{what} ({block.mime_type})"


def _words(data: dict[str, Any]) -> str:
    """Return the sentence for a result without text of its own."""
    texts = [kept["text"] for kept in data.get("resources", ()) if "text" in kept]
    if texts:
        return "\n".join(texts)
    if "not_text" in data:
        what = " and ".join(name.partition(" (")[0] for name in data["not_text"])
        return f"The answer is {what}, which I cannot give you on the phone."
    return ""


class McpTool:
    """One tool of one server."""

    def __init__(
        self,
        server: SupervisedServer,
        listed: types.Tool,
        override: ToolConfig | None = None,
        defaults: McpDefaults | None = None,
        name: str = "",
        is_offered: Callable[[], bool] = lambda: True,
    ) -> None:
        """`override` is the tool's entry under the server's `tools:`, if it has one; `defaults` are
        the server's (another generation's may differ); `name` is the exposed name, by default the
        one of the naming rule; `is_offered` returns False once the tool must not be called any
        more.

        Raises `SchemaRefused` for a tool whose definition is refused.
        """
        self.listed = read_tool(listed)
        if self.listed.arguments is None:
            raise SchemaRefused(self.listed.refusal)
        self.arguments: ArgumentChecker = self.listed.arguments
        """The checker of its arguments."""
        self.override = override
        self.defaults = server.config.defaults if defaults is None else defaults
        self.server = server
        self._server = server
        self._is_offered = is_offered
        self.spec = make_spec(server.id, self.listed, self.defaults, override, name)
        if self.listed.output_refusal:
            reason = self.listed.output_refusal
            log.warning("mcp_output_schema_ignored", tool=self.spec.origin, error=reason)

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Call the server. Raises `ToolTimeout` or `ToolError`."""
        if not self._is_offered():
            log.warning("mcp_tool_withdrawn", call_id=run.line.call_id, tool=self.spec.origin)
            raise ToolError(self._errors.unavailable or WITHDRAWN)

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            run.progress(printable(self._server.mask(message or ""), 200))

        if run.unrecorded:
            self._server.messages.hide(run.unrecorded)
        changes_the_world = self.spec.effects is Effects.DESTRUCTIVE
        try:
            result = await self._server.call(
                self.listed.name,
                arguments,
                self.spec.limits.timeout_ms / 1000,
                progressed,
                LATE_SECONDS if changes_the_world else 0.0,
            )
        except McpError as error:
            log.warning(
                "mcp_call_failed",
                call_id=run.line.call_id,
                server=self._server.id,
                tool=self.listed.name,
                error=str(error),
            )
            if isinstance(error, McpRefused):  # its words help a model; they are not for callers
                return self._failed(ToolResult(Status.ERROR, UNUSABLE, {"error": str(error)}), run)
            raise _speakable(error, self._errors) from error
        if not result.is_error and self.listed.output is not None:
            self._check_output(result.structured_content, self.listed.output)
        answer = await read_any_result(result, self._server.mask)
        return self._failed(answer, run) if answer.status is Status.ERROR else answer

    def _failed(self, answer: ToolResult, run: ToolRun) -> ToolResult:
        """Return an `isError` result as the operator wants it passed on."""
        if not self.spec.speech.speaks_errors:
            log.warning(
                "mcp_tool_error",
                call_id=run.line.call_id,
                tool=self.spec.origin,
                error=printable(without_parameters(answer.data["error"])),
            )
            answer = ToolResult(Status.ERROR, FAILED)
        return replace(answer, message=self._errors.error or answer.message)

    @property
    def _errors(self) -> ErrorWords:
        return self.spec.speech.errors

    def _check_output(self, structured: object, output: Checker) -> None:
        too_much = output.too_much(structured)
        if too_much:  # too costly to check; no code here relies on its shape
            log.info("mcp_result_unchecked", tool=self.spec.origin, reason=too_much)
        elif not output.is_valid(structured):
            problem = self._server.mask(next(output.problems(structured), ""))
            log.warning("mcp_result_invalid", tool=self.spec.origin, problem=printable(problem))
            raise ToolError(self._errors.error or UNUSABLE)


def make_spec(
    server: str,
    listed: types.Tool,
    defaults: McpDefaults,
    override: ToolConfig | None,
    name: str = "",
) -> ToolSpec:
    """Return the spec of a listed tool; the operator's settings override the server's."""
    own = override if override is not None else ToolConfig.model_validate({"name": listed.name})
    errors = defaults.error_messages
    effects = effects_of(listed.annotations)
    stated = listed.annotations is not None and listed.annotations.destructive_hint is True
    spec = ToolSpec(
        name=own.expose_as or name or exposed_name(server, listed.name),
        kind="mcp",
        description=listed.description or listed.name,
        parameters=listed.input_schema,
        origin=mcp_origin(server, listed.name),
        server=server,
        limits=Limits(timeout_ms=defaults.timeout_ms),
        speech=Speech(
            errors=ErrorWords(errors.timeout, errors.error, errors.unavailable),
            speaks_errors=defaults.speak_errors,
        ),
        filler=Filler(
            defaults.slow_response_threshold_ms,
            defaults.slow_response_message,
            defaults.slow_response_repeat_ms,
        ),
        effects=effects,
        # Most servers give no hints: approval is required only for declared destruction.
        approval="caller" if stated and effects is Effects.DESTRUCTIVE else "none",
    )
    spec = apply_rules(spec, own)
    return replace(spec, description=clean_description(spec.description))


def effects_of(annotations: types.ToolAnnotations | None) -> Effects:
    """Derive effects from the server's hints; as in the MCP specification, the default is
    destructive."""
    if annotations is None:
        return Effects.DESTRUCTIVE
    if annotations.read_only_hint:
        return Effects.READ_ONLY
    if annotations.idempotent_hint and annotations.destructive_hint is False:
        return Effects.IDEMPOTENT
    return Effects.DESTRUCTIVE


def _speakable(error: McpError, words: ErrorWords) -> ToolError:
    if isinstance(error, McpTimeout):
        return ToolTimeout(words.timeout or TOO_SLOW)
    if isinstance(error, McpUnavailable):
        return ToolError(words.unavailable or UNAVAILABLE)
    return ToolError(words.error or UNUSABLE)
