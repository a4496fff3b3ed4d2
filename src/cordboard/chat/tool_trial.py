"""Operator's try of one tool, as an agent would use it: through a desk, without a caller.

The desk checks, limits, times and records it as always, and refuses a tool that the context does
not list. In addition the answer is shown in full, and in the form for each kind of agent. The
variables are those of a call whose number and name are unknown. Each try leaves a ledger of its own
(`try-….jsonl`), beside those of the calls.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

import orjson
import structlog

from cordboard.agent_api.provider import tool_user, tool_users
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.calls.open_calls import OpenCall
from cordboard.calls.services import CallServices
from cordboard.chat.sessions import known_context
from cordboard.chat.tool_record import ToolRecord
from cordboard.chat.trial_runs import Trial
from cordboard.config.call_variables import call_variables
from cordboard.config.plugins import installed
from cordboard.errors import ChatRefused, TrialRefused
from cordboard.generation.generation import Generation
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.desk.replies import data_for
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits, as_payload
from cordboard.tools.tool import Effects, JsonObject, ToolAsk, ToolReply

SOURCE = "try"
"""Source of tries, in their ledgers."""
MOST_AT_ONCE = 8
WHOLE = PayloadLimits(max_bytes=1_000_000, max_depth=64, max_items=10_000, max_text=200_000)
"""Limits of the data in the report."""

Outcome = Literal["run", "not_in_toolbox", "no_such_tool", "not_there_now", "needs_approval"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TrialReport:
    """The result of a try."""

    call_id: str
    """Id of the try, and name of its ledger."""
    outcome: Outcome
    reply: ToolReply
    payloads: Mapping[str, JsonObject]
    """By the kind of provider: the data for an agent of that kind (`payload`), its size as JSON,
    and the parts that the agent would not get (`cut`)."""


class ToolTrials:
    """Tries of the tools of one engine."""

    def __init__(self, generation: Callable[[], Generation], services: CallServices) -> None:
        self._generation = generation
        self._services = services
        self._running = 0

    async def run(
        self,
        name: str,
        context: str,
        arguments: JsonObject,
        *,
        limits: Mapping[str, PayloadLimits],
        approve: bool,
        effects: Collection[Effects] = tuple(Effects),
        trial: Trial | None = None,
    ) -> TrialReport:
        """Try a tool by its exposed name, as an agent of that context may use it, and report the
        reply within each of `limits`. `approve` stands for the caller's yes. `trial`: in place of
        the configuration in force. Raises `ChatRefused` (unknown_context, full), and
        `TrialRefused` for a tool with other effects than these."""
        generation = trial.generation if trial is not None else self._generation()
        known_context(generation.config, context, trial)
        if self._running >= MOST_AT_ONCE:
            raise ChatRefused("full", f"{MOST_AT_ONCE} tries are running already")
        self._running += 1
        generation.acquire()
        try:
            return await self._run(
                generation, name, context, arguments, limits, approve, effects, trial
            )
        finally:
            generation.release()
            self._running -= 1

    async def _run(
        self,
        generation: Generation,
        name: str,
        context: str,
        arguments: JsonObject,
        limits: Mapping[str, PayloadLimits],
        approve: bool,
        effects: Collection[Effects],
        trial: Trial | None,
    ) -> TrialReport:
        call_id = f"try-{uuid4()}"
        settings = generation.config.contexts[context]
        provider_name = settings.provider or generation.config.default_provider
        toolbox = generation.admit(context)
        offered = toolbox.find(name)
        if offered is not None and offered.spec.effects not in effects:
            raise TrialRefused(f"{name} is {offered.spec.effects}: its effects have just changed")
        now = datetime.datetime.now().astimezone()
        ledger = self._begin_ledger(call_id, now, generation, context, trial)
        specs, number = [spec.name for spec in toolbox.specs], generation.number
        ledger.record(events.Bound(context, provider_name, number, specs, list(toolbox.missing)))
        variables = call_variables(
            call_id=call_id,
            context_name=context,
            provider_name=provider_name,
            caller_number="",
            caller_name="",
            called_number="",
            now=now,
            declared=settings.variables,
        )
        desk = Desk(
            toolbox,
            NoCaller(call_id, context, provider_name, variables),
            ToolRecord(ledger, self._services.metrics, context),
            asyncio.get_running_loop().time,
            payload=lambda: WHOLE,
            tracing=self._services.tracing,
        )
        try:
            reply = await desk.run(ToolAsk("1.1", name, arguments, 1, confirmed=approve))
        finally:
            ended = ledger.ms(asyncio.get_running_loop().time())
            ledger.record(events.Ended("completed", "try", ended))
            ledger.close()
            ledger.settle()
        outcome: Outcome = "run"
        if name in toolbox.missing:
            outcome = "not_there_now"
        elif offered is None:
            outcome = "not_in_toolbox" if name in generation.catalogue else "no_such_tool"
        elif offered.spec.approval == "caller" and not approve:
            outcome = "needs_approval"
        return TrialReport(call_id, outcome, reply, payloads(reply, limits))

    def _begin_ledger(
        self,
        call_id: str,
        now: datetime.datetime,
        generation: Generation,
        context: str,
        trial: Trial | None,
    ) -> Ledger:
        settings = generation.config.contexts[context]
        provider_name = settings.provider or generation.config.default_provider
        ledger = self._services.ledger(call_id, now)
        started_at = now.isoformat(timespec="milliseconds")
        ledger.note(OpenCall("try", call_id, context, provider_name, started_at))
        began = events.Offered(
            call_id,
            started_at,
            SOURCE,
            "",
            "",
            "",
            config=generation.version,
            test=True,
            trial=trial.id if trial is not None else "",
        )
        ledger.record(began)
        return ledger


def payload_limits(provider: str | None) -> dict[str, PayloadLimits]:
    """Return the limits of all agents and language models by type, or of one: `pipeline` is the
    limit of the rules. Raises `NotThere`."""
    if provider == "pipeline":
        return {provider: DEFAULT_LIMITS}
    if provider is not None:
        return {provider: tool_user(installed(), provider).payload}
    users = tool_users(installed())
    return {"pipeline": DEFAULT_LIMITS} | {name: each.payload for name, each in users.items()}


def payloads(reply: ToolReply, limits: Mapping[str, PayloadLimits]) -> dict[str, JsonObject]:
    """Return the reply in the form for agents of each kind."""
    return {kind: _payload(reply, each) for kind, each in limits.items()}


def _payload(reply: ToolReply, limits: PayloadLimits) -> JsonObject:
    data, cut = data_for(limits, reply.data, reply.message, reply.control)
    control = {**reply.control, "truncated": True} if cut and data else reply.control
    given = as_payload(replace(reply, data=data, control=control))
    return {"payload": given, "bytes": len(orjson.dumps(given)), "cut": list(cut)}
