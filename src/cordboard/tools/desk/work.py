"""What is done for one run of a tool: the caller's yes, a kept answer, the tool and its retries.

A task border: whatever happens in a tool ends here as a result. Only cancelling passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from cordboard.errors import LineError, ToolError, ToolTimeout
from cordboard.tools.desk.approval import Approvals
from cordboard.tools.desk.policy import DeskPolicy
from cordboard.tools.desk.running import TOO_SLOW, Run
from cordboard.tools.result_cache import CacheKey, ResultCache, cache_key
from cordboard.tools.speech import speech
from cordboard.tools.speech.speakable import plain
from cordboard.tools.tool import Effects, Status, ToolResult, ToolSpec
from cordboard.tools.toolbox import Toolbox

BACK_OFF = 0.1
"""Seconds before the second try; doubled before each further one."""
MAX_OWN_CACHE = 100
"""Answers that one call keeps for itself."""
MAX_OWN_CACHE_BYTES = 1024 * 1024

log = structlog.get_logger()


class DeskWork:
    """The work of one call's desk."""

    def __init__(
        self,
        approvals: Approvals,
        policy: DeskPolicy,
        toolbox: Toolbox,
        clock: Callable[[], float],
    ) -> None:
        """The toolbox's cache keeps answers for all calls; without one they are kept for this call
        only."""
        self._approvals = approvals
        self._policy = policy
        self._shared = toolbox.cache
        self._known = toolbox.known_secrets
        self._own: ResultCache | None = None
        self._clock = clock

    async def do(self, run: Run) -> ToolResult:
        """Everything, in the desk's order."""
        try:
            refusal = await self._approval(run)
            if refusal is not None:
                return refusal
            kept = self._kept_answer(run)
            if kept is not None:
                return kept
            run.begin()
            result = await self._known.masked(await self._result(run))
            self._keep(run, result)
        except Exception as error:  # task border: a bug here or in a tool must not end the call
            who = {"call_id": run.line.call_id, "tool": run.spec.origin}
            if run.asked.keys:  # a traceback may quote them
                log.error("tool_crashed", type=type(error).__name__, **who)
            else:
                log.exception("tool_crashed", **who)
            return ToolResult(Status.ERROR, speech.FAILED)
        return result

    async def _approval(self, run: Run) -> ToolResult | None:
        """The refusal, unless the caller says yes or need not be asked."""
        spec, asked = run.spec, run.asked
        if spec.approval != "caller" or asked.ask.confirmed:
            return None
        run.pause()
        approved = False
        try:
            refusal = await self._approvals.refusal(spec, asked.recorded.arguments)
            approved = refusal is None
            return refusal
        finally:
            run.resume()
            if not approved:
                self._policy.give_back(asked.ask, spec)
                run.refused = "approval"

    def _kept_answer(self, run: Run) -> ToolResult | None:
        place = self._cache(run)
        if place is None:
            return None
        cache, key = place
        kept = cache.get(key, self._clock())
        if kept is not None:
            run.source = "cache"
            self._policy.give_back(run.asked.ask, run.spec)
        return kept

    def _keep(self, run: Run, result: ToolResult) -> None:
        place = self._cache(run)
        if place is not None:
            cache, key = place
            cache.put(key, result, self._clock(), run.spec.limits.cache_ttl_ms / 1000)

    def _cache(self, run: Run) -> tuple[ResultCache, CacheKey] | None:
        """Where the answer to this ask is kept, if it may be."""
        spec = run.spec
        may = spec.limits.cache_ttl_ms > 0 and spec.effects is Effects.READ_ONLY
        if not may or run.asked.keys:
            return None
        key = cache_key(spec.origin, *run.key)
        if spec.limits.cache_scope == "all" and self._shared is not None:
            return self._shared, key
        if self._own is None:
            self._own = ResultCache(MAX_OWN_CACHE, MAX_OWN_CACHE_BYTES)
        return self._own, key

    async def _result(self, run: Run) -> ToolResult:
        """What the tool answers, its failures included. May hold secrets."""
        words = run.spec.speech.errors
        try:
            return _checked(await _tries(run), run.spec)
        except ToolTimeout as error:
            return ToolResult(Status.TIMEOUT, speech.spoken_error(str(error)))
        except TimeoutError:
            said = speech.spoken_error(words.timeout) if words.timeout else TOO_SLOW
            return ToolResult(Status.TIMEOUT, said)
        except (ToolError, LineError) as error:
            return ToolResult(Status.ERROR, speech.spoken_error(str(error)), {"error": str(error)})


def _checked(result: object, spec: ToolSpec) -> ToolResult:
    """What a tool gave, which may be anything."""
    if not isinstance(result, ToolResult):
        log.error("tool_answered_nonsense", tool=spec.origin, type=type(result).__name__)
        return ToolResult(Status.ERROR, speech.FAILED)
    if result.status is Status.REFUSED:
        return ToolResult(result.status, plain(result.message), result.data, result.control)
    return result


async def _tries(run: Run) -> ToolResult:
    """One run, and the retries that the tool's limits and effects allow."""
    spec = run.spec
    left = 0 if spec.effects is Effects.DESTRUCTIVE else spec.limits.retries
    wait = BACK_OFF
    while True:
        run.tries += 1
        try:
            return await run.tool.run(run.arguments, run)
        except ToolTimeout:
            raise
        except ToolError as error:
            if left == 0:
                raise
            log.info("tool_retried", tool=spec.origin, error=type(error).__name__, left=left)
        left -= 1
        await asyncio.sleep(wait)
        wait *= 2
