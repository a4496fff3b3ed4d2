"""One phone call, from the offer to the record on disk.

    offered → connecting → talking → (transferring) → ending → recorded

`run` is the whole life of the call. Every path ends in the same `_end`, which closes the agent, the
tools, the media and the line, and leaves no resource of the call open. It returns the ledger's last
event and never raises. Several parts may end a call at the same time: the first reason given
counts.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from cordboard.agent_api.agent import Agent, AgentSession, Interrupted, Said
from cordboard.agent_api.speech import Speech
from cordboard.agents.fallback.resumed import ResumedAgent
from cordboard.calls import events
from cordboard.calls.agent_start import AgentStart
from cordboard.calls.binding import APOLOGY, Binding
from cordboard.calls.bridging_music import BridgingMusic
from cordboard.calls.call_parts import CallBasis, CallOutlets, TalkParts, make_parts, make_talk
from cordboard.calls.call_usage import SpentOutlets
from cordboard.calls.conversation import Conversation
from cordboard.calls.ending import STEP_LIMIT, give_back, step
from cordboard.calls.failure_apology import STOPPING
from cordboard.calls.first_words import spoken_opening
from cordboard.calls.introduction import Introduction
from cordboard.calls.key_menu import CallKeyMenu
from cordboard.calls.media.transcode import understood
from cordboard.calls.media.waiting import WaitingMedia
from cordboard.calls.offer import Media, Offer
from cordboard.calls.outbound_order import NotReached
from cordboard.calls.reaching import Opening
from cordboard.calls.recording.call_recording import RecordingState
from cordboard.calls.resumption import MOVED, CallSoFar
from cordboard.calls.services import CallServices
from cordboard.calls.speech_pause import Rest
from cordboard.errors import (
    AgentError,
    CallerStays,
    CordboardError,
    LineError,
    LineGone,
    MediaError,
)
from cordboard.firewall.counts import Direction
from cordboard.generation.generation import Generation
from cordboard.tools.desk.desk import TOOL_GRACE
from cordboard.tools.speech.template import fill_prompt

log = structlog.get_logger()


_OUTCOMES = {
    "caller_hangup": "completed",
    "hangup": "completed",
    "transferred": "transferred",
    "trial_over": "completed",
    "fenced": MOVED,
    "handed_over": MOVED,
}
"""Outcomes by the reason for the end of a line or its media; all others are failures."""
_REASONS = ((MediaError, "media_failed"), (AgentError, "agent_failed"), (LineError, "line_failed"))


WORDLESS = "I am sorry, I could not understand anything, so I will hang up now. Goodbye."
STAYED = "caller_stayed"
"""Reason for the end of a call whose caller was to come from another engine, and has not."""


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
        so_far: CallSoFar | None = None,
    ) -> None:
        """`so_far`: the call in another engine, if it began there."""
        self._loop = asyncio.get_running_loop()
        self._offer = offer
        self._binding = binding
        self._generation = generation
        self._so_far = so_far
        if so_far is not None:
            agent = ResumedAgent(agent, so_far.last_turn, so_far.seat)
        self._agent = agent
        self._agent_start = AgentStart(agent)
        self._metrics = services.metrics
        began = so_far.started_at if so_far is not None else None
        self._started_at = began or datetime.datetime.now().astimezone()
        self._basis = CallBasis(
            offer, binding, generation, agent, services, self._started_at, so_far
        )
        self._outlets = CallOutlets(
            trouble=self._trouble,
            transferring=self._transferring,
            talks=lambda: self.state is CallState.TALKING,
            over_budget=self._over_budget,
            agent_failed=self._agent_failed,
            agent_stalled=self._agent_stalled,
            caller_silent=self._caller_silent,
            heard=self._heard,
            deliver_key=self._deliver_key,
            first_key=self._first_key,
        )
        parts = self._parts = make_parts(self._basis, self._outlets)
        self._ledger = parts.ledger
        self._introduction = Introduction(self._basis, parts)
        self._ending = parts.ending
        self._pre_call = parts.pre_call
        self._reaching = parts.reaching
        self.firewall = parts.firewall
        """Judges the call's acts by the operator's policy."""
        self.line = parts.line
        """The line and the caller, for the call's tools."""
        self.operator = parts.operator
        """The acts of people who watch the call."""
        self._first_words: Sequence[tuple[str, str]] = ()
        """Kind and text of the first words that another engine has not spoken to their end."""
        self._bridging_music = BridgingMusic(offer.control.music, binding.context.silence.music)
        self._media: Media | None = None
        hand_over = offer.resumed.hand_over if offer.resumed is not None else None
        self._hand_over = hand_over
        """Set while the caller is still with the engine that hands the call over."""
        if hand_over is not None:
            self._ledger.hold()
        self._releasing: asyncio.Task[None] | None = None
        """Writes the lines that were held until the caller came."""
        self._talk: TalkParts | None = None
        self._agent_lost = False
        """True if the agent failed while the caller was elsewhere."""
        self._give_back = False
        """True if the dialplan gets the caller back, because no agent could serve them."""
        self._wordless: asyncio.TimerHandle | None = None
        """Timer of callers who say no word."""
        self.state = CallState.OFFERED

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
        return self._parts.costs.total

    @property
    def currency(self) -> str:
        """The currency of `cost`; empty when nothing is known."""
        return self._parts.costs.currency

    @property
    def recording(self) -> RecordingState:
        """State of the recording at this moment."""
        return self._parts.recording.state

    @property
    def conversation(self) -> Conversation | None:
        """The conversation between caller and agent; None before the audio flows."""
        return self._talk.conversation if self._talk is not None else None

    @property
    def rest(self) -> Rest:
        """How far the call may go on in another engine now."""
        talk, ending = self._talk, self._ending
        if talk is None or self.state is not CallState.TALKING:
            return Rest.BUSY
        if ending.is_over or ending.says_farewell or self.line.engaged or self.operator.acts:
            return Rest.BUSY
        if self.line.apart or (talk.menu is not None and talk.menu.busy):
            return Rest.BUSY
        return talk.conversation.rest

    @property
    def copied_lines(self) -> tuple[bytes, ...]:
        """The first lines of the ledger, if another engine wrote them."""
        return self._so_far.lines if self._so_far is not None else ()

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
            if self._hand_over is None:
                self._count()  # nothing is awaited since the call was judged
            outcome, reason = await self._live()
        except LineGone:
            outcome, reason = "completed", "caller_hangup"
        except CallerStays as error:
            log.info("caller_stays", why=str(error))
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

    # From the offer to the talk.

    def _count(self) -> None:
        """Count the call for the firewall's caps, until it is over; tests by people do not
        count."""
        if self._offer.test is not None:
            return
        direction: Direction = "in" if self._offer.outbound is None else "out"
        trunk = self._offer.trunk
        if self._so_far is not None and (offered := self._so_far.offered) is not None:
            direction, trunk = "out" if offered.direction == "out" else "in", offered.trunk
        outlets = SpentOutlets(self._reached, self._warn, self._over_budget)
        resumed = self._so_far is not None
        self.firewall.begin(direction, trunk, lambda: self.cost, outlets, resumed=resumed)

    async def _live(self) -> tuple[str, str]:
        if self._so_far is not None:
            await self._introduction.go_on(self._so_far)
            if self._so_far.ended is not None:
                return self._so_far.ended.outcome, self._so_far.ended.reason
            if self._so_far.connected_ms is not None and self._hand_over is None:
                self._bridging_music.begin()
        self._introduction.agent_answers()
        if not self._is_full:
            self._pre_call.begin()
            self._agent_start.begin()
        self.state = CallState.CONNECTING
        media = await self._open_media()
        if media is None:
            return self._ending.result
        self._media = media
        media.on_closed(self._media_closed)
        self._ledger.record(events.Connected())
        talk = self._talk = make_talk(self._basis, self._parts, self._outlets, media)
        media.on_dtmf(self._key)
        media.on_hold(self._hold)
        if self._is_full:
            await self._end_music()
            await self._ending.unless_over(self._turn_away(talk.conversation, media))
            return "failed", "no_room"
        return await self._serve(media, talk)

    async def _open_media(self) -> Media | None:
        """Return the caller's media in a format of the agent; None if the call is over. Those of a
        caller who is still with another engine have no sound yet."""
        formats = self._agent.formats
        if self._hand_over is not None:
            return WaitingMedia(formats[0])
        try:
            media = await self._ending.unless_over(self._offer.media(formats))
        except MediaError:
            self._give_back = True
            raise
        return understood(media, formats) if media is not None else None

    async def _take_caller(self, talk: TalkParts) -> None:
        """Have the caller come from the other engine: the agent is ready. Raises `CallerStays`."""
        waiting = self._media
        if self._hand_over is None or not isinstance(waiting, WaitingMedia):
            return
        media: Media | None = None
        try:
            media = await self._ending.unless_over(self._offer.media((waiting.format,)))
        finally:
            if self._hand_over.came:
                self._hand_over = None
                self._give_back = media is None
        if media is None:
            return
        waiting.connect(understood(media, (waiting.format,)))
        self._count()
        self._parts.recording.connect(talk.sound)
        self._releasing = self._loop.create_task(self._ledger.release(), name="release ledger")

    async def _serve(self, media: Media, talk: TalkParts) -> tuple[str, str]:
        """Have the agent talk with the caller, until the call is over."""
        conversation, sound = talk.conversation, talk.sound
        if self._binding.context.uses_pre_call:
            # Nothing sounds before an answer, and where another engine still has the caller.
            conversation.music.works(self._reaching is None and self._hand_over is None)
            await self._ending.unless_over(self._pre_call.done())
            conversation.music.works(False)
        reached = None
        if self._reaching is not None:
            reached = await self._ending.unless_over(self._reaching.reach(sound))
            if reached is None:
                return self._ending.result
        session = self._session(media, talk, reached)
        try:
            await self._ending.unless_over(self._agent_start.start(session))
        except AgentError as error:
            if self._hand_over is not None:
                raise  # the caller is fine where they are
            await self._end_music()
            await self._ending.unless_over(self._turn_away(conversation, media))
            if not self._ending.is_over:
                raise
            self._trouble("agent_failed", str(error))
        await self._take_caller(talk)
        if self._ending.is_over:
            return self._ending.result
        self.state = CallState.TALKING
        await self._end_music()
        if not self._ending.says_farewell:
            self._begin_to_talk(talk, reached, greets=bool(session.greeting))
        served = self._served
        self._parts.costs.begin(served)
        self._await_words()
        longest = self._binding.context.max_duration_ms / 1000
        return await self._ending.wait(max(0.0, longest - served))

    @property
    def _served(self) -> float:
        """Seconds for which another engine has served the caller."""
        so_far = self._so_far
        if so_far is None or so_far.connected_ms is None:
            return 0.0
        return (so_far.seen_ms - so_far.connected_ms) / 1000

    async def _end_music(self) -> None:
        """End the music that a caller hears who waits for this engine."""
        try:
            await self._bridging_music.end()
        except LineError as error:
            self._trouble("music", str(error))

    def _begin_to_talk(self, talk: TalkParts, reached: Opening | None, *, greets: bool) -> None:
        """Connect caller and agent. A voicemail gets its message, and no conversation."""
        reaching, words = self._reaching, self._parts.first_words
        if reaching is not None and reached is not None and reached.kind == "message":
            reaching.leave_message(talk.conversation)
            return
        talk.sound.listen(self._agent.hear)
        talk.conversation.begin(greets=greets)
        if (so_far := self._resumes) is not None:
            if not so_far.is_unnoticed:
                text = so_far.words(self._binding.context.resume)
                talk.conversation.speech.say(Speech(text, "reprompt"))
            words.speak(self._first_words)
        if reaching is not None:
            reaching.watch(talk.conversation, words.announce, words.retract)

    @property
    def _resumes(self) -> CallSoFar | None:
        """The conversation in another engine; None if it begins here."""
        return self._so_far if self._so_far is not None and self._so_far.has_begun else None

    @property
    def _is_full(self) -> bool:
        """True if there is no engine with room for a call that was taken over."""
        return self._offer.resumed is not None and not self._offer.resumed.has_room

    def _session(
        self, media: Media, talk: TalkParts, reached: Opening | None = None
    ) -> AgentSession:
        context, words = self._binding.context, self._parts.first_words
        variables = self._parts.variables
        apology = APOLOGY if self._binding.problems else ""
        saved = self._pre_call.saved()
        outbound = self._offer.outbound
        of_order = outbound.order.consent if outbound is not None else ""
        parts = words.compose(
            apology + context.greeting, of_order, lambda text: fill_prompt(text, variables, saved)
        )
        if reached is not None:
            parts = reached.first_words(parts)
        words.prove(parts)
        prompt = fill_prompt(context.prompt, variables, saved)
        history: tuple[Said, ...] = ()
        if (so_far := self._resumes) is not None:
            self._first_words, parts = parts, []
            prompt = f"{prompt}\n\n{so_far.note(self._parts.toolbox.specs)}".strip()
            history = so_far.said
            if not so_far.is_unnoticed:
                history = (*history, Said("agent", so_far.words(context.resume)))
        return AgentSession(
            call_id=self.call_id,
            context_name=self.context_name,
            prompt=prompt,
            greeting=" ".join(text for _, text in parts),
            toolbox=self._parts.toolbox.specs,
            format=media.format,
            emit=talk.conversation.take,
            speaking=lambda: talk.conversation.playout.speaking,
            watch_playout=talk.sound.watch,
            variables=variables,
            history=history,
            opening=spoken_opening(context, parts),
        )

    async def _turn_away(self, conversation: Conversation, media: Media) -> None:
        """Apologise and transfer the caller, because there is no agent; without a voice or a
        destination, leave that to the dialplan."""
        said = await self._parts.last_words.speak(conversation, media.format)
        self._give_back = not said
        await self._parts.last_words.pass_on()

    # Events during the call.

    def _media_closed(self, reason: str) -> None:
        if self.line.transfers.gives_away and reason == "transferred":
            return  # caused by us: `transfer_after_speech` ends the call
        self.end(_OUTCOMES.get(reason, "failed"), reason)

    def _key(self, key: str) -> None:
        talk = self._talk
        if talk is None:
            return
        conversation, keys = talk.conversation, talk.keys
        if self.line.transfers.asks_a_human:
            if conversation.press(key):
                self._first_key()
            return
        conversation.key_pressed()
        # A surplus key of a secret answers no question.
        answers = not keys.secret_now and conversation.press(key)
        if answers:
            self._first_key()
        if answers or self._parts.recording.consents(key):
            self._ledger.record(events.Key(key))
        else:
            keys.press(key)

    def _hold(self, on: bool) -> None:
        """Note that the caller has put us on hold, or is back."""
        if self._talk is not None:
            self._talk.sound.caller_holds(on)
            self._talk.conversation.caller_holds(on)

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

    @property
    def _menu(self) -> CallKeyMenu | None:
        return self._talk.menu if self._talk is not None else None

    def _first_key(self) -> None:
        """Take back the prompt: a caller who presses keys does not listen any more."""
        if self.conversation is not None and self._binding.context.barge_in != "off":
            self.conversation.take(Interrupted(self._loop.time()))

    def _agent_failed(self, reason: str) -> None:
        self._trouble("agent", reason)
        self._go_without_agent()

    def _agent_stalled(self, reason: str) -> None:
        """Let the stalled agent recover: another connection or another agent may help."""
        self._trouble("agent_stalled", reason)
        if self.conversation is not None and self._agent.recover(reason):
            self.conversation.wait_again()
        else:
            self._go_without_agent()

    def _go_without_agent(self) -> None:
        """Apologise, then transfer the caller or hang up; later, if they are elsewhere now."""
        self._agent_lost = self.line.transfers.agent_failed()
        if self._agent_lost:
            return
        conversation, media = self.conversation, self._media
        if conversation is not None and media is not None:
            self._ending.after(self._apologise(conversation, media))

    async def _apologise(self, conversation: Conversation, media: Media) -> None:
        await self._parts.last_words.apologise(conversation, media.format)
        self.end("failed", "agent_failed")

    def _caller_silent(self, goodbye: str) -> None:
        self._ending.after_speech("completed", "caller_silent", goodbye)

    def _await_words(self) -> None:
        """End the call politely if the caller says no word for too long; whom we call may."""
        limit_ms = self._generation.config.firewall.incoming.wordless_after_ms
        if limit_ms is not None and self._offer.test is None and self._reaching is None:
            self._wordless = self._loop.call_later(limit_ms / 1000, self._no_words_came)

    def _no_words_came(self) -> None:
        if self.conversation is not None and not self.conversation.understood:
            self._caller_silent(self._binding.context.silence.goodbye or WORDLESS)

    def _reached(self) -> bool:
        """Return True if a cap may end the call now: the caller is with the agent, or is still
        being called."""
        rings = self.state is CallState.CONNECTING and self._reaching is not None
        open_ = not (self._ending.is_over or self._ending.says_farewell)
        return open_ and self._talk is not None and (rings or self.state is CallState.TALKING)

    def _warn(self, warning: Speech) -> None:
        """Have the agent speak a warning, or drop it."""
        if self._talk is not None and self.state is CallState.TALKING:
            self._talk.conversation.say_besides(warning)
        else:
            warning.drop()

    def _over_budget(self, goodbye: str) -> None:
        """End the call; at once while an outbound call has no opening yet (`close_down`)."""
        if self._reaching is not None and self.state is CallState.CONNECTING:
            self.end("completed", "budget")
        self._ending.after_speech("completed", "budget", goodbye)

    def _trouble(self, where: str, message: str) -> None:
        message = self._parts.toolbox.known_secrets.text(message)
        self._ledger.record(events.Trouble(where, message))
        log.error("call_trouble", where=where, error=message)

    # Teardown.

    async def _end(self, outcome: str, reason: str) -> events.Ended:
        self.end(outcome, reason)
        outcome, reason = self._ending.result
        if self._hand_over is not None:
            self._hand_over.failed(reason)
            outcome, reason = MOVED, STAYED
            self._ledger.discard()
        self.state = CallState.ENDING
        self._ending.close()
        parts, talk = self._parts, self._talk
        parts.costs.close()
        self.firewall.usage.close()
        if self._wordless is not None:
            self._wordless.cancel()
        if talk is not None:
            talk.keys.close()
            self._end_conversation(talk.conversation)
            await self._step("music", talk.conversation.music.ended())
        await self._step("music", self._bridging_music.end())
        parts.first_words.close()
        if self._reaching is not None:
            await self._step("answer", self._reaching.close())
        if talk is not None and talk.menu is not None:
            await self._step("keys", talk.menu.close())
        await self._step("takeover", self.operator.ended())
        await self._step("agent", self._agent_start.close())
        if outcome not in ("transferred", MOVED):
            line = self._offer.control
            leave = give_back(line, "unavailable") if self._give_back else line.hangup()
            await self._step("hangup", leave)
        parts.recording.stop()
        self.operator.close()
        if talk is not None:
            talk.sound.close()
        if self._media is not None:
            await self._step("media", self._media.close())
        await self._step("line", self._offer.control.release())
        if talk is not None:
            tools = talk.conversation.tools.ended()
            await self._step("tools", tools, TOOL_GRACE + STEP_LIMIT)
        await self._step("pre_call", self._pre_call.close(TOOL_GRACE), TOOL_GRACE + STEP_LIMIT)
        cost = None if self.cost is None else round(self.cost, 6)
        now = self._loop.time()
        ended = events.Ended(outcome, reason, self._ledger.ms(now), cost, self.currency)
        self._ledger.record(ended, at=now)
        self._ledger.close()
        self._metrics.calls.ended(self.context_name, self.provider_name, outcome)
        self.state = CallState.RECORDED
        if self._offer.outbound is not None and self._reaching is not None:
            result = self._reaching.result(outcome, reason, ended.duration_ms)
            self._offer.outbound.finished(result)
        log.info("call_ended", outcome=outcome, reason=reason, duration_ms=ended.duration_ms)
        await self._step("post_call", parts.phases.post_call(ended, self._pre_call.data))
        return ended

    def _end_conversation(self, conversation: Conversation) -> None:
        """Stop speech and tools. A border: an agent's own callbacks run here."""
        try:
            conversation.end(TOOL_GRACE)
        except Exception as error:  # border: the line must be let go all the same
            log.exception("conversation_end_failed", error=repr(error))
            self._metrics.internal_error("call")
            self._trouble("conversation", repr(error))

    async def _step(
        self, name: str, work: Coroutine[Any, Any, None], limit: float = STEP_LIMIT
    ) -> None:
        await step(name, work, self._trouble, limit)
