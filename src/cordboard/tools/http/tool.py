"""A tool of `kind: http`: one request to a web service, its answer as data and words.

A failure of the service or the network ends as a `ToolError` or `ToolTimeout` that a caller may
hear. The log line `http_tool_failed` has the facts for the operator: the tool, the host, the
status, the reason; no path, no header, no argument. A refusal that another try will not change
(400, 404, 422...) is a result, so that it is not retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from cordboard.config.schema import Config
from cordboard.config.tools.http_tool import HttpTool
from cordboard.errors import (
    HttpError,
    HttpTimeout,
    HttpUnavailable,
    ToolError,
    ToolTimeout,
    Unplaceable,
)
from cordboard.tools.http.answer import AnswerReader, HttpAnswer, status_error
from cordboard.tools.http.request import HttpRequest, RequestPlan
from cordboard.tools.http.shared import SharedClient
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.speech.speech import TOO_SLOW, UNAVAILABLE, UNUSABLE, spoken_error
from cordboard.tools.tool import (
    Effects,
    ErrorWords,
    JsonObject,
    Status,
    Tool,
    ToolResult,
    ToolRun,
    ToolSpec,
)

if TYPE_CHECKING:
    from cordboard.tools.http.client import Reach

NOT_FOUND = "Sorry, I could not find that."
REFUSED = "Sorry, that service did not accept this."
INLINE_BYTES = 64 * 1024
"""A longer answer is parsed beside the event loop."""

Read = TypeVar("Read")

log = structlog.get_logger()

_EFFECTS = {
    "GET": Effects.READ_ONLY,
    "HEAD": Effects.READ_ONLY,
    "PUT": Effects.IDEMPOTENT,
    "DELETE": Effects.IDEMPOTENT,
    "POST": Effects.DESTRUCTIVE,
    "PATCH": Effects.DESTRUCTIVE,
}
"""Effects of HTTP methods (RFC 9110, 9.2): a method that is not idempotent is neither retried nor
cancelled. The caller's approval is required only if the operator configures it."""


def http_tools(config: Config, shared: SharedClient) -> tuple[Tool, ...]:
    """The HTTP tools of a configuration; they share a client."""
    return tuple(
        HttpRequestTool(name, entry, shared)
        for name, entry in config.tools.items()
        if isinstance(entry, HttpTool)
    )


def http_spec(name: str, config: HttpTool) -> ToolSpec:
    """Return the agent's view of a tool, and its rules."""
    spec = ToolSpec(
        name=name,
        kind="http",
        description=name.replace("_", " "),
        parameters=config.schema_of_arguments,
        origin=f"http:{name}",
        effects=_EFFECTS[config.method],
        secret_arguments=config.secrets,
    )
    return apply_rules(spec, config)


class HttpRequestTool:
    """Implements `cordboard.tools.tool.Tool`."""

    def __init__(
        self,
        name: str,
        config: HttpTool,
        shared: SharedClient,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: seconds since 1970, for signatures."""
        self.spec = http_spec(name, config)
        self._config = config
        self._plan = RequestPlan(config)
        self._reader = AnswerReader(config.success, config.result, config.error_field)
        self._shared = shared
        self._clock = clock
        self._reach: Reach | None = None

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Make the request. Raises `ToolTimeout` or `ToolError`."""
        variables = run.line.variables
        try:
            request = self._plan.request(arguments, variables, _key(run), self._clock())
        except Unplaceable as error:
            self._tell(error.reason, None, run)
            return ToolResult(
                Status.ERROR, self._errors.error or str(error), {"error": error.reason}
            )
        try:
            answer = await self._answer(request)
            if not self._reader.is_success(answer.status):
                return await self._refused(answer, request, run)
            data = await _read(self._reader.data, answer)
        except HttpError as error:
            self._tell(str(error), request, run)
            raise self._speakable(error) from error
        if self._config.method == "HEAD":
            data = {"status": answer.status}
        return ToolResult(Status.OK, _words(answer, data), data)

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        client = await self._shared.client()
        if self._reach is None:
            from cordboard.tools.http.client import Reach

            config = self._config
            self._reach = Reach(
                config.allow_private,
                config.allow_hosts,
                config.follow_redirects,
                config.max_bytes,
            )
        return await client.send(request, self._reach)

    async def _refused(self, answer: HttpAnswer, request: HttpRequest, run: ToolRun) -> ToolResult:
        """Handle a status that is not a success: for the caller, the model and the operator."""
        error = status_error(answer.status)
        said = await _read(self._reader.message, answer)
        self._tell(f"{error}: {said}" if said else str(error), request, run, answer.status)
        if not self.spec.speech.speaks_errors:
            said = ""
        words = self._errors
        if isinstance(error, HttpUnavailable):
            raise ToolError(words.unavailable or said or UNAVAILABLE)
        own = NOT_FOUND if answer.status in (404, 410) else REFUSED
        data: JsonObject = {"http_status": answer.status}
        if said:
            data["error"] = said
        return ToolResult(Status.ERROR, words.error or (spoken_error(said) if said else own), data)

    def _speakable(self, error: HttpError) -> ToolError:
        words = self._errors
        if isinstance(error, HttpTimeout):
            return ToolTimeout(words.timeout or TOO_SLOW)
        if isinstance(error, HttpUnavailable):
            return ToolError(words.unavailable or UNAVAILABLE)
        return ToolError(words.error or UNUSABLE)

    @property
    def _errors(self) -> ErrorWords:
        return self.spec.speech.errors

    def _tell(self, error: str, request: HttpRequest | None, run: ToolRun, status: int = 0) -> None:
        log.warning(
            "http_tool_failed",
            call_id=run.line.call_id,
            tool=self.spec.origin,
            method=self._config.method,
            host=request.host if request is not None else "",
            status=status,
            error=error,
        )


async def _read(read: Callable[[HttpAnswer], Read], answer: HttpAnswer) -> Read:
    """Read an answer, a long one beside the event loop."""
    if len(answer.body) > INLINE_BYTES:
        return await asyncio.to_thread(read, answer)
    return read(answer)


def _key(run: ToolRun) -> str:
    """Return the idempotency key. A dialplan may give all its calls one id (bare AudioSocket), so
    the key must distinguish a retry from the same request in the next call."""
    begun = run.line.variables.get("current_datetime_iso", "")
    return f"{run.idempotency_key}@{begun}" if begun else run.idempotency_key


def _words(answer: HttpAnswer, data: Any) -> str:
    """Return a plain text, or JSON that is a string, as its own sentence; markup gives none."""
    if isinstance(data, str):
        return data
    if answer.kind == "text/plain" and isinstance(data, dict):
        return str(data.get("text", ""))
    return ""
