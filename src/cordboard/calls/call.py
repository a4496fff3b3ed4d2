"""One phone call, from the offer to the record on disk.

    offered → connecting → talking → (transferring) → ending → recorded

`run` is the whole life. Whatever happens, it passes through the same `_end`, which closes the
agent, the tools, the media and the line, and leaves nothing of the call behind. It returns the
ledger's last event and never raises.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from cordboard.agents.base import Agent, AgentSession
from cordboard.calls import events
from cordboard.calls.binding import APOLOGY, Binding
from cordboard.calls.conversation import Conversation
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.offer import Media, Offer, TransferTarget
from cordboard.config.variables import call_variables, fill
from cordboard.errors import CordboardError, LineError, LineGone, TransferFailed
from cordboard.generation import Generation
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk import Desk

log = structlog.get_logger()

FAREWELL_LIMIT = 20.0
"""Longest wait, in seconds, for the agent to finish speaking before the line is ended anyway."""
STEP_LIMIT = 5.0
"""Longest time one step of the clean-up may take."""
AGENT_START_LIMIT = 15.0
TROUBLE = "I am sorry, something went wrong on our side. Please call again later. Goodbye."
TOO_LONG = "I am sorry, this call has reached its time limit. Goodbye."


class CallState(StrEnum):
    OFFERED = "offered"
    CONNECTING = "connecting"
    TALKING = "talking"
    TRANSFERRING = "transferring"
    ENDING = "ending"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class CallServices:
    """What all calls of an engine share."""

    writer: LedgerWriter
    metrics: Metrics
    directory: Path
    listener: Callable[[str, int, events.LedgerEvent], None] | None = None
    """Gets (call_id, at_ms, event) of every ledger event."""


class Call:
    """One call. Implements `cordboard.tools.tool.CallLine`."""

    def __init__(
        self,
        offer: Offer,
        binding: Binding,
        generation: Generation,
        agent: Agent,
        services: CallServices,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._offer = offer
        self._binding = binding
        self._generation = generation
        self._agent = agent
        self._services = services
        self._metrics = services.metrics
        self._ending: asyncio.Future[tuple[str, str]] = self._loop.create_future()
        """Outcome and reason, once the call is to end."""
        self._farewell: asyncio.Task[None] | None = None
        self._media: Media | None = None
        self._conversation: Conversation | None = None
        now = datetime.datetime.now().astimezone()
        self._variables = call_variables(
            caller_number=offer.caller_number,
            caller_name=offer.caller_name,
            called_number=offer.called_number,
            call_id=offer.call_id,
            context_name=binding.context_name,
            provider_name=binding.provider_name,
            now=now,
            declared=binding.context.variables,
            channel=offer.variables,
        )
        self._ledger = Ledger(
            services.writer,
            services.directory / f"{now:%Y-%m-%d}" / f"{offer.call_id}.jsonl",
            self._loop.time(),
            self._tell,
            self._loop.time,
        )
        self._started_at = now
        self.state = CallState.OFFERED

    @property
    def call_id(self) -> str:
        return self._offer.call_id

    @property
    def context_name(self) -> str:
        return self._binding.context_name

    @property
    def provider_name(self) -> str:
        return self._binding.provider_name

    @property
    def variables(self) -> Mapping[str, str]:
        return self._variables

    async def run(self) -> events.Ended:
        """Live. Ends when either side hangs up, the call is passed on, or something fails."""
        structlog.contextvars.bind_contextvars(
            call_id=self.call_id, context=self.context_name, provider=self.provider_name
        )
        self._generation.acquire()
        outcome, reason = "failed", "internal_error"
        try:
            outcome, reason = await self._live()
        except LineGone:
            outcome, reason = "completed", "caller_hangup"
        except (CordboardError, TimeoutError) as error:
            reason = self._trouble("call", error)
        except Exception as error:  # task border: the call still ends in order
            log.exception("call_failed", error=str(error))
            self._trouble("call", error)
        finally:
            ended = await self._end(outcome, reason)
            self._generation.release()
        return ended

    def end(self, outcome: str, reason: str) -> None:
        """End the call now. The first reason given counts."""
        if not self._ending.done():
            self._ending.set_result((outcome, reason))

    def end_after_speech(self, reason: str, outcome: str = "completed") -> None:
        """End the call when the caller has heard what the agent is saying."""
        if self._farewell is None and self._conversation is not None:
            self._conversation.uninterruptible = True
            self._farewell = self._loop.create_task(self._say_farewell(outcome, reason))

    async def transfer_after_speech(self, destination: str) -> None:
        """Let the agent finish, then pass the caller on. Raises `LineError`s; the call goes on."""
        configured = self._generation.config.tools.transfer.destinations[destination]
        if self._conversation is None:
            raise TransferFailed("the call is not connected")
        await self._conversation.playout.drained()
        self.state = CallState.TRANSFERRING
        try:
            await self._offer.control.transfer(
                TransferTarget(
                    destination,
                    configured.type,
                    configured.target,
                    configured.context,
                    configured.priority,
                )
            )
        except LineError as error:
            self.state = CallState.TALKING
            self._ledger.record(events.Transferred(destination, ok=False, error=str(error)))
            raise
        self._ledger.record(events.Transferred(destination, ok=True))
        self.end("transferred", f"transfer:{destination}")

    # The way up.

    async def _live(self) -> tuple[str, str]:
        self._ledger.record(
            events.Offered(
                self.call_id,
                self._started_at.isoformat(timespec="milliseconds"),
                self._offer.source,
                self._offer.caller_number,
                self._offer.caller_name,
                self._offer.called_number,
            )
        )
        toolbox = self._generation.catalogue.toolbox(self._binding.context.tools)
        self._ledger.record(
            events.Bound(
                self.context_name,
                self.provider_name,
                self._generation.number,
                [spec.name for spec in toolbox.specs],
                list(toolbox.missing),
                list(self._binding.problems),
            )
        )
        for problem in self._binding.problems:
            log.warning("binding_problem", problem=problem)
        self.state = CallState.CONNECTING
        media = await self._unless_ending(self._offer.media())
        if media is None:
            return self._ending.result()
        self._media = media
        media.on_closed(self._media_closed)
        conversation = Conversation(
            self._agent, media, self._ledger, self._metrics, self._agent_failed, self._agent_ended
        )
        conversation.seat(Desk(toolbox, self, conversation))
        self._conversation = conversation
        self._ledger.record(events.Connected())
        async with asyncio.timeout(AGENT_START_LIMIT):
            await self._agent.start(self._session(media, conversation))
        media.on_dtmf(self._key)
        media.on_audio(self._agent.hear)
        self.state = CallState.TALKING
        limit = self._loop.call_later(self._binding.context.max_duration_ms / 1000, self._too_long)
        try:
            return await self._ending
        finally:
            limit.cancel()

    def _session(self, media: Media, conversation: Conversation) -> AgentSession:
        context = self._binding.context
        apology = APOLOGY if self._binding.problems else ""
        return AgentSession(
            call_id=self.call_id,
            context_name=self.context_name,
            prompt=fill(context.prompt, self._variables),
            greeting=apology + fill(context.greeting, self._variables),
            toolbox=self._generation.catalogue.toolbox(context.tools).specs,
            format=media.format,
            emit=conversation.take,
            speaking=lambda: conversation.playout.speaking,
            variables=self._variables,
        )

    async def _unless_ending(self, opening: Awaitable[Media]) -> Media | None:
        """Wait for the media, or for the end of the call, whichever comes first."""
        task = asyncio.ensure_future(opening)
        both: set[asyncio.Future[Any]] = {task, self._ending}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    # What happens on the way.

    def _media_closed(self, reason: str) -> None:
        outcome = "completed" if reason in ("caller_hangup", "hangup") else "failed"
        self.end(outcome, reason)

    def _key(self, key: str) -> None:
        self._ledger.record(events.Key(key))
        self._agent.hear_key(key)

    def _agent_failed(self, reason: str) -> None:
        self._ledger.record(events.Trouble("agent", reason))
        log.error("agent_failed", reason=reason)
        if self._conversation is None or self._conversation.uninterruptible:
            self.end("failed", "agent_failed")
            return
        self._conversation.say(TROUBLE)
        self.end_after_speech("agent_failed", "failed")

    def _agent_ended(self, reason: str) -> None:
        self.end_after_speech(reason)

    def _too_long(self) -> None:
        if self._conversation is not None and self._farewell is None:
            self._conversation.say(TOO_LONG)
        self.end_after_speech("max_duration")

    async def _say_farewell(self, outcome: str, reason: str) -> None:
        if self._conversation is not None:
            try:
                async with asyncio.timeout(FAREWELL_LIMIT):
                    await self._conversation.spoken_out()
            except TimeoutError:
                log.warning("farewell_cut", limit=FAREWELL_LIMIT)
        self.end(outcome, reason)

    def _trouble(self, where: str, error: BaseException) -> str:
        self._ledger.record(events.Trouble(where, str(error) or type(error).__name__))
        log.error("call_trouble", where=where, error=str(error))
        return type(error).__name__

    # The way down.

    async def _end(self, outcome: str, reason: str) -> events.Ended:
        self.state = CallState.ENDING
        self.end(outcome, reason)
        if self._farewell is not None:
            self._farewell.cancel()
        await self._step("agent", self._agent.close())
        if self._conversation is not None:
            await self._step("tools", self._conversation.close())
        if outcome != "transferred":
            await self._step("hangup", self._offer.control.hangup())
        if self._media is not None:
            await self._step("media", self._media.close())
        await self._step("line", self._offer.control.release())
        ended = events.Ended(outcome, reason, self._ledger.ms(self._loop.time()))
        self._ledger.record(ended)
        self._ledger.close()
        self._metrics.call_ended(self.context_name, self.provider_name, outcome)
        self.state = CallState.RECORDED
        log.info("call_ended", outcome=outcome, reason=reason, duration_ms=ended.duration_ms)
        return ended

    async def _step(self, name: str, work: Awaitable[None]) -> None:
        """One step of the clean-up; its failure must not keep the others from happening."""
        try:
            async with asyncio.timeout(STEP_LIMIT):
                await work
        except Exception as error:  # noqa: BLE001 - border: the next steps must run
            log.error("call_cleanup_failed", step=name, error=repr(error))
            self._ledger.record(events.Trouble(name, repr(error)))

    def _tell(self, at_ms: int, event: events.LedgerEvent) -> None:
        if self._services.listener is not None:
            self._services.listener(self.call_id, at_ms, event)
