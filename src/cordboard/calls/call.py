"""One phone call, from the offer to the record on disk.

    offered → connecting → talking → (transferring) → ending → recorded

`run` is the whole life of the call. Every path ends in the same `_end`, which closes the agent, the
tools, the media and the line, and leaves no resource of the call open. It returns the ledger's last
event and never raises. Several parts may end a call at the same time: the first reason given
counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Coroutine
from enum import StrEnum
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import structlog

from cordboard.agent_api.agent import Agent, AgentSession, Interrupted
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import HasVoice, Voice
from cordboard.calls import events
from cordboard.calls.binding import APOLOGY, Binding, variables_of
from cordboard.calls.call_control import CallControl
from cordboard.calls.call_costs import CallCosts
from cordboard.calls.call_firewall import CallFirewall
from cordboard.calls.callbacks import CallbackParts, Callbacks
from cordboard.calls.conversation import Conversation, Endings
from cordboard.calls.dtmf import Dtmf, KeyOutlets
from cordboard.calls.ending import STEP_LIMIT, CallEnding, give_back, step
from cordboard.calls.failure_apology import STOPPING, FailureApology
from cordboard.calls.key_menu import CallKeyMenu, MenuOutlets
from cordboard.calls.media.heard_proof import HeardProof
from cordboard.calls.media.sound import CallSound
from cordboard.calls.media.transcode import understood
from cordboard.calls.messages import Messages, Outbox
from cordboard.calls.offer import Media, Offer
from cordboard.calls.operator import OperatorControl
from cordboard.calls.outbound_order import NotReached
from cordboard.calls.phases import CallPhases
from cordboard.calls.reaching import Opening, Reaching
from cordboard.calls.recording.call_recording import (
    CONSENT,
    GREETING,
    RecordingState,
    is_proven,
    opening,
    spoken_opening,
)
from cordboard.calls.services import CallServices
from cordboard.errors import AgentError, CordboardError, LineError, LineGone, MediaError
from cordboard.generation.generation import Generation
from cordboard.tools.desk.desk import TOOL_GRACE, Desk
from cordboard.tools.speech.template import fill_prompt
from cordboard.tools.tool import may_collect_keys
from cordboard.tools.tool_use import REAL

log = structlog.get_logger()


_OUTCOMES = {
    "caller_hangup": "completed",
    "hangup": "completed",
    "transferred": "transferred",
    "trial_over": "completed",
}
"""Outcomes by the reason for the end of a line or its media; all others are failures."""
_REASONS = ((MediaError, "media_failed"), (AgentError, "agent_failed"), (LineError, "line_failed"))


WORDLESS = "I am sorry, I could not understand anything, so I will hang up now. Goodbye."
AGENT_START_LIMIT = 15.0
"""Timeout in seconds of an agent's start; the caller hears nothing meanwhile."""


class AgentStart:
    """The start of one agent: it prepares while the media comes up, and is then started.

    A failure during preparation is not reported here: `Agent.start` raises the same error again.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._preparing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have the agent prepare; returns at once."""
        self._preparing = asyncio.get_running_loop().create_task(self._prepare(), name="prepare")

    async def start(self, session: AgentSession) -> None:
        """Start the agent. Raises `AgentError` when it fails, or takes too long."""
        try:
            async with asyncio.timeout(AGENT_START_LIMIT):
                await self._agent.start(session)
        except TimeoutError:
            message = f"the agent did not start within {AGENT_START_LIMIT:g} s"
            raise AgentError(message, "connect") from None

    async def close(self) -> None:
        """Cancel a running preparation, and close the agent."""
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait((self._preparing,))
        await self._agent.close()

    async def _prepare(self) -> None:
        with contextlib.suppress(AgentError):
            await self._agent.prepare()


class CallState(StrEnum):
    OFFERED = "offered"
    CONNECTING = "connecting"
    TALKING = "talking"
    TRANSFERRING = "transferring"
    ENDING = "ending"
    RECORDED = "recorded"


class Call:
    """One call."""

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
        self._agent_start = AgentStart(agent)
        self._services = services
        self._metrics = services.metrics
        self._ending = CallEnding(services.metrics, self._trouble)
        self._media: Media | None = None
        self._conversation: Conversation | None = None
        self._sound: CallSound | None = None
        self._keys: Dtmf | None = None
        self._announcements: list[tuple[str, str]] = []  # spoken before the greeting
        self._proof: HeardProof | None = None
        self._proven: list[str] = []  # kinds of announcements that are proven heard
        self._agent_lost = False
        """True if the agent failed while the caller was elsewhere."""
        self._give_back = False
        """True if the dialplan gets the caller back, because no agent could serve them."""
        now = datetime.datetime.now().astimezone()
        self._variables = variables_of(offer, binding, now)
        self._ledger = services.ledger(offer.call_id, now)
        test = offer.test
        self._toolbox = generation.admit(binding.context_name, test.tools if test else REAL)
        rules = generation.config.firewall
        proves = rules.pin is not None or rules.callback is not None
        self._secret_keys = proves or may_collect_keys(self._toolbox.specs)
        self._recording = services.recording(binding, self._ledger, secret_keys=self._secret_keys)
        self.firewall = self._make_firewall()
        """Judges the call's acts by the operator's policy."""
        self.line = self._make_line()
        """The line and the caller, for the call's tools."""
        self.firewall.connect(self.line, binding.context, self._toolbox.specs)
        self.operator = self._make_operator()
        """The acts of people who watch the call."""
        self._last_words = FailureApology(
            services.apology, self.line, binding.context.on_failure, self._trouble
        )
        self._costs = self._make_costs()
        self._phases = CallPhases(binding, self._variables, self._ledger, services, now, test=test)
        self._pre_call = self._phases.pre_call(generation)
        self._reaching = self._make_reaching()
        self._menu: CallKeyMenu | None = None
        self._wordless: asyncio.TimerHandle | None = None
        """Timer of callers who say no word."""
        self._started_at = now
        self.state = CallState.OFFERED

    def _make_line(self) -> CallControl:
        return CallControl(
            self._ending,
            self._transferring,
            self._offer,
            self._binding,
            self._variables,
            self._generation.config.destinations,
            self._recording,
            self._ledger,
            self.firewall,
            self._voice,
            *self._make_messages(),
        )

    def _voice(self) -> Voice | None:
        return self._agent.own_voice() if isinstance(self._agent, HasVoice) else None

    def _make_messages(self) -> tuple[Messages, Callbacks]:
        """Return what takes messages, and requests to be called back."""
        offer, services, config = self._offer, self._services, self._generation.config
        runs = offer.test is None or offer.test.has_post_call
        queue, book = (services.post_call, services.callbacks) if runs else (None, None)
        outbox = Outbox(queue, offer.call_id, self._binding, self._variables, self._ledger)
        callbacks = CallbackParts(
            config,
            self.context_name,
            offer.caller_number,
            self.firewall,
            outbox,
            book,
            self._ledger,
        )
        messages = Messages(config.message, outbox, self._recording, self._ledger)
        return messages, Callbacks(callbacks)

    def _make_firewall(self) -> CallFirewall:
        offer = self._offer
        numbers = {"caller_number": offer.caller_number, "called_number": offer.called_number}
        return CallFirewall(
            self._generation.policy,
            self._services.counts,
            self._ledger,
            self._metrics,
            self._binding.context_name,
            {**offer.variables, **numbers},
            lambda: self._pre_call.data,
            self._generation.config.outbound,
        )

    def _make_operator(self) -> OperatorControl:
        return OperatorControl(
            self._agent,
            self._ending,
            self._ledger,
            self._binding.context,
            lambda: self.state is CallState.TALKING,
            self.firewall.confirmed_by,
            self.line,
            secret_keys=self._secret_keys,
        )

    def _make_costs(self) -> CallCosts:
        context = self._binding.context
        return CallCosts(
            self._binding.context_name,
            self._generation.config.prices,
            context.budget,
            self._ledger,
            self._metrics,
            self._over_budget,
        )

    def _make_reaching(self) -> Reaching | None:
        """Return the beginning of an outbound call; None for an incoming one."""
        outbound = self._offer.outbound
        if outbound is None:
            return None
        introduction = fill_prompt(outbound.order.introduction, self._variables, {})
        return Reaching(
            outbound,
            introduction,
            self._offer.control,
            self._ending,
            self._ledger,
            self._services.transcribe,
            lambda error: self._metrics.internal_error("answer"),
        )

    @property
    def call_id(self) -> str:
        return self._offer.call_id

    @property
    def offer(self) -> Offer:
        """The call as its source described it."""
        return self._offer

    @property
    def started_at(self) -> datetime.datetime:
        """Wall-clock time of the offer."""
        return self._started_at

    @property
    def cost(self) -> float | None:
        """The known cost so far; None when nothing is known."""
        return self._costs.total

    @property
    def currency(self) -> str:
        """The currency of `cost`; empty when nothing is known."""
        return self._costs.currency

    @property
    def recording(self) -> RecordingState:
        """State of the recording at this moment."""
        return self._recording.state

    @property
    def conversation(self) -> Conversation | None:
        """The conversation between caller and agent; None before the audio flows."""
        return self._conversation

    @property
    def ledger_path(self) -> Path:
        """The file of the ledger."""
        return self._ledger.path

    @property
    def context_name(self) -> str:
        return self._binding.context_name

    @property
    def provider_name(self) -> str:
        return self._binding.provider_name

    async def run(self) -> events.Ended:
        """Run the call until either side hangs up, the caller is transferred, or a failure."""
        structlog.contextvars.bind_contextvars(
            call_id=self.call_id,
            context_name=self.context_name,
            provider_name=self.provider_name,
        )
        log.info("call_started", source=self._offer.source)
        self._generation.acquire()
        outcome, reason = "failed", "internal_error"
        try:
            outcome, reason = await self._live()
        except LineGone:
            outcome, reason = "completed", "caller_hangup"
        except NotReached as error:
            outcome, reason = "not_reached", error.dialling.outcome
        except CordboardError as error:
            reason = next((name for kind, name in _REASONS if isinstance(error, kind)), reason)
            self._trouble(reason, str(error))
        except Exception as error:  # task border: the call still ends properly
            log.exception("call_failed", error=str(error))
            self._metrics.internal_error("call")
            self._trouble(reason, repr(error))
        finally:
            ended = await self._end(outcome, reason)
            self._generation.release()
        return ended

    def end(self, outcome: str, reason: str) -> None:
        """End the call now. The first reason given counts."""
        self._ending.end(outcome, reason)

    def close_down(self) -> None:
        """Announce to the caller that the line is closing, then end the call; at once while an
        outbound call has no opening yet: its agent cannot speak."""
        if self._reaching is not None and self.state is CallState.CONNECTING:
            self.end("shutdown", "engine_stopped")
        self._ending.after_speech("shutdown", "engine_stopped", STOPPING)

    def _transferring(self, on: bool) -> None:
        """Note that a transfer of the caller begins, or is over: those who talk go apart."""
        if on or self.state is CallState.TRANSFERRING:
            self.line.end_conference()
        if on:
            self.state = CallState.TRANSFERRING
            if self._reaching is not None:
                self._reaching.settle()
            if self._wordless is not None:
                self._wordless.cancel()  # they may be talking with a human
        else:
            self.state = CallState.ENDING if self._ending.is_over else CallState.TALKING
            if self._wordless is not None and not self._ending.is_over:
                self._await_words()
            if self._agent_lost:
                self._go_without_agent()

    # Set-up.

    async def _live(self) -> tuple[str, str]:
        self._introduce()
        self._pre_call.begin()
        self._agent_start.begin()
        self.state = CallState.CONNECTING
        try:
            media = await self._ending.unless_over(self._offer.media(self._agent.formats))
        except MediaError:
            self._give_back = True
            raise
        if media is None:
            return self._ending.result
        media = self._media = understood(media, self._agent.formats)
        media.on_closed(self._media_closed)
        conversation = self._conversation = self._converse(media)
        self._ledger.record(events.Connected())
        sound = self._connect(media, conversation)
        if self._binding.context.uses_pre_call:
            conversation.music.works(self._reaching is None)  # nothing sounds before an answer
            await self._ending.unless_over(self._pre_call.done())
            conversation.music.works(False)
        reached = None
        if self._reaching is not None:
            reached = await self._ending.unless_over(self._reaching.reach(sound))
            if reached is None:
                return self._ending.result
        session = self._session(media, sound, conversation, reached)
        try:
            await self._ending.unless_over(self._agent_start.start(session))
        except AgentError as error:
            await self._ending.unless_over(self._turn_away(conversation, media))
            if not self._ending.is_over:
                raise
            self._trouble("agent_failed", str(error))
        if self._ending.is_over:
            return self._ending.result
        self.state = CallState.TALKING
        if not self._ending.says_farewell:
            self._begin_to_talk(sound, conversation, reached, greets=bool(session.greeting))
        self._costs.begin()
        self._await_words()
        return await self._ending.wait(self._binding.context.max_duration_ms / 1000)

    def _begin_to_talk(
        self,
        sound: CallSound,
        conversation: Conversation,
        reached: Opening | None,
        *,
        greets: bool,
    ) -> None:
        """Connect caller and agent. A voicemail gets its message, and no conversation."""
        reaching = self._reaching
        if reaching is not None and reached is not None and reached.kind == "message":
            reaching.leave_message(conversation)
            return
        sound.listen(self._agent.hear)
        conversation.begin(greets=greets)
        if reaching is not None:
            announce = partial(self._announce, conversation, sound)
            reaching.watch(conversation, announce, self._retract)

    def _announce(self, conversation: Conversation, sound: CallSound) -> None:
        """Have the announcements spoken now: so far no human was there to hear them."""
        context = self._binding.context
        self._prove(conversation, sound, self._announcements)
        for text in spoken_opening(context, self._announcements):
            conversation.speech.say(Speech(text, "greeting"))

    def _retract(self) -> None:
        """Take back what is proven heard: who heard it was a machine."""
        for kind in self._proven:
            self._ledger.record(events.AnnouncementUnheard(kind, "machine"))
        if CONSENT in self._proven:
            self._recording.consent_void()
        self._proven.clear()

    def _introduce(self) -> None:
        """Record the caller, and the agent that answers."""
        self._phases.begin()
        self._ledger.record(
            events.Offered(
                self.call_id,
                self._started_at.isoformat(timespec="milliseconds"),
                self._offer.source,
                self._offer.caller_number,
                self._offer.caller_name,
                self._offer.called_number,
                self._offer.external_id,
                config=self._generation.version,
                test=self._offer.test is not None,
                trial=self._offer.test.trial if self._offer.test is not None else "",
                direction="in" if self._offer.outbound is None else "out",
            )
        )
        self._ledger.record(
            events.Bound(
                self.context_name,
                self.provider_name,
                self._generation.number,
                [spec.name for spec in self._toolbox.specs],
                list(self._toolbox.missing),
                list(self._binding.problems),
            )
        )
        for problem in self._binding.problems:
            log.warning("binding_problem", problem=problem)
            self._metrics.calls.binding_problem()

    def _converse(self, media: Media) -> Conversation:
        """Connect agent and caller, and the desk for the agent's tools."""
        conversation = Conversation(
            self._agent,
            media,
            self._ledger,
            self._metrics,
            Endings(
                self._agent_failed,
                self.line.end_after_speech,
                self._caller_silent,
                self._agent_stalled,
                self._costs.used,
                self._heard,
            ),
            self._binding.context.silence,
            self._offer.control.music,
            self._toolbox.known_secrets.text,
        )
        tools, tracing = conversation.tools, self._services.tracing
        tools.seat(
            Desk(
                self._toolbox,
                self.line,
                tools,
                self._loop.time,
                payload=lambda: self._agent.payload,
                tracing=tracing,
                guard=self.firewall,
            )
        )
        return conversation

    def _connect(self, media: Media, conversation: Conversation) -> CallSound:
        """Connect the sound and the keys of the line to their listeners."""
        sound = self._sound = CallSound(media)
        outlets = KeyOutlets(
            record=lambda key, secret, at: self._ledger.record(events.Key(key, secret), at),
            deliver=self._deliver_key,
            first_key=self._first_key,
            quiet_at=lambda: conversation.playout.quiet_at,
        )
        self._keys = Dtmf(outlets, sound, hold_back=self._secret_keys)
        self.line.connect(conversation, sound, self._keys)
        self.operator.connect(conversation, sound)
        self._ending.connect(conversation, sound)
        self._recording.connect(sound)
        self._menu = self._make_menu(conversation)
        media.on_dtmf(self._key)
        media.on_hold(self._hold)
        return sound

    def _make_menu(self, conversation: Conversation) -> CallKeyMenu | None:
        """Return the keys that the context offers, if any."""
        menu = self._binding.context.keys
        if menu is None:
            return None
        cuttable = self._binding.context.barge_in != "off"

        def say(text: str, cuts: bool) -> None:
            conversation.say_besides(Speech(text, "menu", interrupts=cuts and cuttable))

        outlets = MenuOutlets(
            say,
            partial(conversation.announce, interrupts=cuttable),
            self._first_key,
            self.line.transfer_after_speech,
            lambda text: self._ending.after_speech("completed", "agent_hangup", text),
            lambda error: self._metrics.internal_error("key_menu"),
        )
        return CallKeyMenu(menu, self._ledger, outlets)

    def _session(
        self,
        media: Media,
        sound: CallSound,
        conversation: Conversation,
        reached: Opening | None = None,
    ) -> AgentSession:
        context = self._binding.context
        apology = APOLOGY if self._binding.problems else ""
        saved = self._pre_call.saved()
        outbound = self._offer.outbound
        of_order = outbound.order.consent if outbound is not None else ""
        parts = [
            (kind, fill_prompt(text, self._variables, saved))
            for kind, text in opening(context, apology + context.greeting, of_order)
        ]
        self._announcements = [part for part in parts if part[0] != GREETING]
        if reached is not None:
            parts = reached.first_words(parts)
        self._prove(conversation, sound, parts)
        return AgentSession(
            call_id=self.call_id,
            context_name=self.context_name,
            prompt=fill_prompt(context.prompt, self._variables, saved),
            greeting=" ".join(text for _, text in parts),
            toolbox=self._toolbox.specs,
            format=media.format,
            emit=conversation.take,
            speaking=lambda: conversation.playout.speaking,
            watch_playout=sound.watch,
            variables=self._variables,
            opening=spoken_opening(context, parts),
        )

    def _prove(
        self, conversation: Conversation, sound: CallSound, parts: list[tuple[str, str]]
    ) -> None:
        """Have it recorded whether the caller hears those of these words that must be heard."""
        announced = [part for part in parts if is_proven(self._binding.context, part[0])]
        texts = dict(announced)
        audio = f"{sound.format.encoding} {sound.format.rate}"

        def heard(kind: str, audio_sha256: str) -> None:
            version = sha256(texts[kind].encode()).hexdigest()
            self._ledger.record(
                events.AnnouncementHeard(kind, texts[kind], version, audio_sha256, audio)
            )
            self._proven.append(kind)
            if kind == CONSENT:
                self._recording.consent_heard()

        def unheard(kind: str, reason: str) -> None:
            self._ledger.record(events.AnnouncementUnheard(kind, reason))

        if announced:
            if self._proof is not None:
                self._proof.close()
            self._proof = HeardProof(announced, heard, unheard)
            conversation.playout.prove(self._proof)

    async def _turn_away(self, conversation: Conversation, media: Media) -> None:
        """Apologise and transfer the caller, because there is no agent; without a voice or a
        destination, leave that to the dialplan."""
        said = await self._last_words.speak(conversation, media.format)
        self._give_back = not said
        await self._last_words.pass_on()

    # Events during the call.

    def _media_closed(self, reason: str) -> None:
        if self.line.transfers.gives_away and reason == "transferred":
            return  # caused by us: `transfer_after_speech` ends the call
        self.end(_OUTCOMES.get(reason, "failed"), reason)

    def _key(self, key: str) -> None:
        conversation, keys = self._conversation, self._keys
        if conversation is None or keys is None:
            return
        if self.line.transfers.asks_a_human:
            if conversation.press(key):
                self._first_key()
            return
        conversation.key_pressed()
        # A surplus key of a secret answers no question.
        answers = not keys.secret_now and conversation.press(key)
        if answers:
            self._first_key()
        if answers or self._recording.consents(key):
            self._ledger.record(events.Key(key))
        else:
            keys.press(key)

    def _hold(self, on: bool) -> None:
        """Note that the caller has put us on hold, or is back."""
        if self._conversation is not None and self._sound is not None:
            self._sound.caller_holds(on)
            self._conversation.caller_holds(on)

    def _deliver_key(self, key: str) -> None:
        if self.state is CallState.CONNECTING:
            return
        self._agent.hear_key(key)
        talks = self.state is CallState.TALKING and not self._ending.says_farewell
        if talks and self._menu is not None:
            self._menu.press(key)

    def _heard(self, understood: bool) -> None:
        if self._menu is not None and self.state is CallState.TALKING:
            self._menu.heard(understood)

    def _first_key(self) -> None:
        """Take back the prompt: a caller who presses keys does not listen any more."""
        if self._conversation is not None and self._binding.context.barge_in != "off":
            self._conversation.take(Interrupted(self._loop.time()))

    def _agent_failed(self, reason: str) -> None:
        self._trouble("agent", reason)
        self._go_without_agent()

    def _agent_stalled(self, reason: str) -> None:
        """Let the stalled agent recover: another connection or another agent may help."""
        self._trouble("agent_stalled", reason)
        if self._conversation is not None and self._agent.recover(reason):
            self._conversation.wait_again()
        else:
            self._go_without_agent()

    def _go_without_agent(self) -> None:
        """Apologise, then transfer the caller or hang up; later, if they are elsewhere now."""
        self._agent_lost = self.line.transfers.agent_failed()
        if self._agent_lost:
            return
        conversation, media = self._conversation, self._media
        if conversation is not None and media is not None:
            self._ending.after(self._apologise(conversation, media))

    async def _apologise(self, conversation: Conversation, media: Media) -> None:
        await self._last_words.apologise(conversation, media.format)
        self.end("failed", "agent_failed")

    def _caller_silent(self, goodbye: str) -> None:
        self._ending.after_speech("completed", "caller_silent", goodbye)

    def _await_words(self) -> None:
        """End the call politely if the caller says no word for too long; whom we call may."""
        limit_ms = self._generation.config.firewall.incoming.wordless_after_ms
        if limit_ms is not None and self._offer.test is None and self._reaching is None:
            self._wordless = self._loop.call_later(limit_ms / 1000, self._no_words_came)

    def _no_words_came(self) -> None:
        if self._conversation is not None and not self._conversation.understood:
            self._caller_silent(self._binding.context.silence.goodbye or WORDLESS)

    def _over_budget(self, goodbye: str) -> None:
        self._ending.after_speech("completed", "budget", goodbye)

    def _trouble(self, where: str, message: str) -> None:
        message = self._toolbox.known_secrets.text(message)
        self._ledger.record(events.Trouble(where, message))
        log.error("call_trouble", where=where, error=message)

    # Teardown.

    async def _end(self, outcome: str, reason: str) -> events.Ended:
        self.end(outcome, reason)
        outcome, reason = self._ending.result
        self.state = CallState.ENDING
        self._ending.close()
        self._costs.close()
        if self._wordless is not None:
            self._wordless.cancel()
        if self._keys is not None:
            self._keys.close()
        self._end_conversation()
        if self._conversation is not None:
            await self._step("music", self._conversation.music.ended())
        if self._proof is not None:
            self._proof.close()
        if self._reaching is not None:
            await self._step("answer", self._reaching.close())
        if self._menu is not None:
            await self._step("keys", self._menu.close())
        await self._step("takeover", self.operator.ended())
        await self._step("agent", self._agent_start.close())
        if outcome != "transferred":
            line = self._offer.control
            leave = give_back(line, "unavailable") if self._give_back else line.hangup()
            await self._step("hangup", leave)
        self._recording.stop()
        self.operator.close()
        if self._sound is not None:
            self._sound.close()
        if self._media is not None:
            await self._step("media", self._media.close())
        await self._step("line", self._offer.control.release())
        if self._conversation is not None:
            tools = self._conversation.tools.ended()
            await self._step("tools", tools, TOOL_GRACE + STEP_LIMIT)
        await self._step("pre_call", self._pre_call.close(TOOL_GRACE), TOOL_GRACE + STEP_LIMIT)
        costs = self._costs
        cost = None if costs.total is None else round(costs.total, 6)
        now = self._loop.time()
        ended = events.Ended(outcome, reason, self._ledger.ms(now), cost, costs.currency)
        self._ledger.record(ended, at=now)
        self._ledger.close()
        self._metrics.calls.ended(self.context_name, self.provider_name, outcome)
        self.state = CallState.RECORDED
        if self._offer.outbound is not None and self._reaching is not None:
            result = self._reaching.result(outcome, reason, ended.duration_ms)
            self._offer.outbound.finished(result)
        log.info("call_ended", outcome=outcome, reason=reason, duration_ms=ended.duration_ms)
        await self._step("post_call", self._phases.post_call(ended, self._pre_call.data))
        return ended

    def _end_conversation(self) -> None:
        """Stop speech and tools. A border: an agent's own callbacks run here."""
        if self._conversation is None:
            return
        try:
            self._conversation.end(TOOL_GRACE)
        except Exception as error:  # border: the line must be let go all the same
            log.exception("conversation_end_failed", error=repr(error))
            self._metrics.internal_error("call")
            self._trouble("conversation", repr(error))

    async def _step(
        self, name: str, work: Coroutine[Any, Any, None], limit: float = STEP_LIMIT
    ) -> None:
        await step(name, work, self._trouble, limit)
