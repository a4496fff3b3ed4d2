"""Beginning and aftermath of a written conversation, as with a call.

Its names and variables, its ledger and toolbox; the look-ups of `pre_call` and, from their results,
greeting and dialogue; the steps of `post_call`.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Mapping
from uuid import uuid4

from cordboard.agent_api.dialogue import AskTool, Brain, Dialogue, DialogueSession
from cordboard.calls import events
from cordboard.calls.binding import Binding
from cordboard.calls.call_costs import CallCosts
from cordboard.calls.call_firewall import CallFirewall
from cordboard.calls.offer import CallTest
from cordboard.calls.phases import CallPhases
from cordboard.calls.services import CallServices
from cordboard.chat.answering import model_of, notice
from cordboard.chat.disclosure import ChatDisclosure
from cordboard.config.call_variables import call_variables
from cordboard.generation.generation import Generation
from cordboard.tools.speech.template import fill_prompt
from cordboard.tools.tool_use import REAL

SOURCE = "chat"
"""Source of these conversations, in their ledgers."""


class Opening:
    """The beginning and the aftermath of one conversation."""

    def __init__(
        self,
        context: str,
        provider: str,
        generation: Generation,
        brain: Brain,
        services: CallServices,
        given: Mapping[str, str],
        on_limit: Callable[[str], None],
        test: CallTest | None = None,
    ) -> None:
        """`given`: variables about the writer, such as `caller_number`. `on_limit(goodbye)` is
        called when the conversation has reached its budget. `test`: set if it is one."""
        config = generation.config
        self.session_id = f"chat-{uuid4()}"
        self.generation = generation.number
        self.version = generation.version
        """Of the configuration; empty if it is not kept."""
        self.context_name = context
        self._context = config.contexts[context]
        self.provider_name = provider
        self.model = model_of(config, provider)
        self.notice = notice(config, context, provider)
        self._given = given
        self._started_at = datetime.datetime.now().astimezone()
        self.variables = self._fill_in()
        self._test = test
        self.toolbox = generation.admit(context, test.tools if test is not None else REAL)
        self._brain = brain
        self.ledger = services.ledger(self.session_id, self._started_at)
        self.disclosure = ChatDisclosure(self.ledger)
        """The words that say that an agent writes."""
        self._costs = CallCosts(
            context, config.prices, self._context.budget, self.ledger, services.metrics, on_limit
        )
        binding = Binding(context, self._context, provider, config.providers[provider])
        self._phases = CallPhases(
            binding, self.variables, self.ledger, services, self._started_at, "chat", test
        )
        self._pre_call = self._phases.pre_call(generation)
        self.firewall = CallFirewall(
            generation.policy,
            services.counts,
            self.ledger,
            services.metrics,
            context,
            given,
            lambda: self._pre_call.data,
            config.outbound,
        )

    def begin(self) -> None:
        """Record the start, and begin the context's look-ups."""
        self._phases.begin()
        started = self._started_at.isoformat(timespec="milliseconds")
        numbers = (
            self._given.get(name, "") for name in ("caller_number", "caller_name", "called_number")
        )
        caller, name, called = numbers
        self.ledger.record(
            events.Offered(
                self.session_id,
                started,
                SOURCE,
                caller,
                name,
                called,
                config=self.version,
                test=self._test is not None,
                trial=self._test.trial if self._test is not None else "",
            )
        )
        self.ledger.record(
            events.Bound(
                self.context_name,
                self.provider_name,
                self.generation,
                [spec.name for spec in self.toolbox.specs],
                list(self.toolbox.missing),
            )
        )
        self.ledger.record(events.Connected())
        self._pre_call.begin()

    async def dialogue(self, ask_tool: AskTool) -> tuple[Dialogue, str]:
        """Return the dialogue, and the greeting, once the look-ups that they need are done. The
        disclosure is ready then."""
        if self._context.uses_pre_call:
            await self._pre_call.done()
        saved = self._pre_call.saved()
        greeting = fill_prompt(self._context.greeting, self.variables, saved)
        disclosure = fill_prompt(self._context.disclosure, self.variables, saved)
        self.disclosure.begin(disclosure)
        prompt = fill_prompt(self._context.prompt, self.variables, saved)
        session = DialogueSession(
            prompt,
            self.toolbox.specs,
            ask_tool,
            self.variables,
            " ".join(filter(None, (disclosure, greeting))),
            used=self._costs.used,
        )
        return self._brain.open(session), greeting

    async def stop_lookups(self) -> None:
        """Stop unfinished look-ups at once."""
        await self._pre_call.close(0)

    async def close(self, outcome: str, reason: str, grace: float) -> None:
        """Stop unfinished look-ups (those that change the world have `grace` seconds), end the
        ledger, and hand over the steps of `post_call`."""
        await self._pre_call.close(grace)
        self._costs.close()
        await self.disclosure.close()
        now = asyncio.get_running_loop().time()
        costs = self._costs
        cost = None if costs.total is None else round(costs.total, 6)
        ended = events.Ended(outcome, reason, self.ledger.ms(now), cost, costs.currency)
        self.ledger.record(ended, at=now)
        self.ledger.close()
        await self._phases.post_call(ended, self._pre_call.data)

    def _fill_in(self) -> dict[str, str]:
        given = self._given
        return call_variables(
            call_id=self.session_id,
            context_name=self.context_name,
            provider_name=self.provider_name,
            caller_number=given.get("caller_number", ""),
            caller_name=given.get("caller_name", ""),
            called_number=given.get("called_number", ""),
            now=self._started_at,
            declared=self._context.variables,
            channel=given,
        )
