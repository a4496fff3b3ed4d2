"""A draft that listens to live calls of one engine, and the comparison of its decisions.

    a new call of the context    a share of them is followed, by the call's id
    a turn is over               waits, with the few before it, for the one task that asks the draft
    the draft has decided        counted, and kept as an example if it differs

Nothing of it is in the way of calls: a turn is left out when the engine is busy
(`observe.degradation`) or too many wait, and nothing is awaited in a call. Brains that would use
this machine's processors for seconds (`model_file`) are refused.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import orjson
import structlog

from cordboard.agent_api.agent import Usage
from cordboard.agents.providers import Providers
from cordboard.calls.binding import bind, variables_of
from cordboard.calls.events import Ended, LedgerEvent
from cordboard.calls.offer import Offer
from cordboard.chat.shadow import Decision, LiveStory, LiveTurn, ShadowAgent, compare
from cordboard.cluster.config_wire import ShadowExample, ShadowOrder, ShadowReport
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config
from cordboard.errors import AgentError, CordboardError
from cordboard.generation.generation import Generation
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard.privacy.redaction import Redactor
from cordboard.tools.speech.template import fill_prompt

log = structlog.get_logger()

MOST_CALLS = 20
"""Live calls that a draft follows at the same time in one engine."""
MOST_WAITING = 20
"""Turns that wait for the draft; further ones are left out."""
TURN_SECONDS = 20.0
"""Time that the draft has for a turn."""
MOST_EXAMPLES = 20
"""Examples that are kept, the newest."""
_MOST_TEXT = 500
"""Characters of each text in an example."""


@dataclass(slots=True)
class FollowedCall:
    """A live call that a draft follows."""

    agent: ShadowAgent
    story: LiveStory = field(default_factory=LiveStory)


class Shadow:
    """One draft. Start `run` as a task; `close` at the end."""

    def __init__(
        self,
        order: ShadowOrder,
        generation: Generation,
        providers: Providers,
        degradation: Degradation,
        metrics: Metrics,
        lot: Callable[[str], int],
        redactor: Callable[[], Redactor],
    ) -> None:
        """`lot` gives each call a number below `FULL_SHARE`. `redactor`: that of the ledgers.
        Raises `AgentError` for a context that cannot be followed."""
        self.order = order
        self.report = ShadowReport("", order.at)
        config = generation.config
        self._provider = _provider_of(config, order.context)
        self._brain = providers.brain(order.context, self._provider)
        self._generation = generation
        self._providers = providers
        self._degradation = degradation
        self._metrics = metrics
        self._lot = lot
        self._redactor = redactor
        self._calls: dict[str, FollowedCall] = {}
        self._waiting: deque[tuple[str, ShadowAgent, LiveTurn]] = deque()
        self._more = asyncio.Event()
        self._taken = 0
        """Turns that were given to the draft, or wait for it."""

    def offer(self, offer: Offer, context: str) -> bool:
        """Follow a new call of a context, if it is one of the share; return True if it is
        followed."""
        order = self.order
        if context != order.context or self._lot(offer.call_id) >= order.share:
            return False
        if len(self._calls) >= MOST_CALLS or self._taken >= order.turns:
            return False
        self._calls[offer.call_id] = FollowedCall(self._agent(offer))
        return True

    def leave(self, call_id: str) -> None:
        """Do not follow a call, or no longer."""
        self._calls.pop(call_id, None)

    def _agent(self, offer: Offer) -> ShadowAgent:
        config, name = self._generation.config, self.order.context
        binding = replace(bind(offer, config), context_name=name, context=config.contexts[name])
        variables = variables_of(offer, binding, datetime.datetime.now().astimezone())
        context = config.contexts[name]
        return ShadowAgent(
            self._brain,
            fill_prompt(context.prompt, variables, {}),
            fill_prompt(context.greeting, variables, {}),
            self._generation.toolbox(name).specs,
            variables,
            self._redactor(),
            self._used,
        )

    def listen(self, call_id: str, event: LedgerEvent) -> None:
        """Take an event of a ledger. Called for each line: cheap."""
        call = self._calls.get(call_id)
        if call is None:
            return
        turn = call.story.take(event)
        if isinstance(event, Ended):
            del self._calls[call_id]
        if turn is None:
            return
        full = self._taken >= self.order.turns or len(self._waiting) >= MOST_WAITING
        if full or self._degradation.level > 0:
            self._count("skipped")
            return
        self._taken += 1
        self._waiting.append((call_id, call.agent, turn))
        self._more.set()

    async def run(self) -> None:
        """Ask the draft about one turn after the other, until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                call_id, agent, turn = self._waiting.popleft()
                if self._degradation.level > 0:
                    self._count("skipped")
                else:
                    await self._ask(call_id, agent, turn)

    async def _ask(self, call_id: str, agent: ShadowAgent, turn: LiveTurn) -> None:
        """Task border of one turn."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                draft = await agent.decide(turn)
        except (CordboardError, TimeoutError) as error:
            log.info("shadow_failed", call_id=call_id, turn=turn.turn, error=repr(error))
            self._count("failed")
            return
        except Exception as error:  # task border: live calls go on, and so do other turns
            log.exception("shadow_failed", call_id=call_id, error=repr(error))
            self._metrics.internal_error("shadow")
            self._count("failed")
            return
        # In a thread: with the same words again and again it takes longer than a frame of sound.
        verdict = await asyncio.to_thread(compare, turn.decision, draft)
        self._count(verdict)
        if verdict != "same":
            mask = self._generation.known_secrets.text
            texts = (turn.heard, _told(turn.decision), mask(_told(draft)))
            heard, live, other = (text[:_MOST_TEXT] for text in texts)
            example = ShadowExample(call_id, turn.turn, verdict, heard, live, other)
            examples = (*self.report.examples, example)[-MOST_EXAMPLES:]
            self.report = replace(self.report, examples=examples)

    def _count(self, what: str) -> None:
        self.report = replace(self.report, **{what: getattr(self.report, what) + 1})

    def _used(self, usage: Usage) -> None:
        for unit, amount in usage.amounts.items():
            self._metrics.costs.used(usage.provider, usage.model, unit, amount)

    async def close(self) -> None:
        """Close what the draft has of its own, after `run` was cancelled."""
        self._calls.clear()
        try:
            await self._generation.close()
        finally:
            await self._providers.close()


def _provider_of(config: Config, context: str) -> str:
    """Return the provider of a context. Raises `AgentError` for one that cannot listen in
    writing."""
    if context not in config.contexts:
        raise AgentError(f"the draft has no context {context}")
    name = config.contexts[context].provider or config.default_provider
    provider = config.providers[name]
    if not isinstance(provider, PipelineProvider):
        raise AgentError(f"{name} ({provider.type}) only hears and speaks: it cannot be compared")
    if provider.brain.model_file:
        raise AgentError(f"{name} would use this machine's processors, which live calls need")
    return name


def _told(decision: Decision) -> str:
    """Return a decision in words."""
    tools = [f"{each.name}({_arguments(each.arguments)})" for each in decision.tools]
    return " ".join([*tools, decision.words])


def _arguments(arguments: Mapping[str, object]) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except TypeError:
        return "..."
