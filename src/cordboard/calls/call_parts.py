"""The parts of one call: made at its offer, and those of its talk once its sound is open.

`calls.call` is the life of the call; this module makes and connects the objects that live with it.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import HasVoice, Voice
from cordboard.calls import events
from cordboard.calls.binding import Binding, variables_of
from cordboard.calls.call_control import CallControl
from cordboard.calls.call_costs import CallCosts
from cordboard.calls.call_firewall import CallFirewall
from cordboard.calls.callbacks import CallbackParts, Callbacks
from cordboard.calls.conversation import Conversation, Endings
from cordboard.calls.dtmf import Dtmf, KeyOutlets
from cordboard.calls.ending import CallEnding
from cordboard.calls.failure_apology import FailureApology
from cordboard.calls.first_words import FirstWords
from cordboard.calls.key_menu import CallKeyMenu, MenuOutlets
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.messages import Messages, Outbox
from cordboard.calls.offer import Media, Offer
from cordboard.calls.operator import OperatorControl
from cordboard.calls.phases import CallPhases, PreCall
from cordboard.calls.reaching import Reaching
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.calls.resumption import NOT_RECORDED_YET, CallSoFar, uses_by_name
from cordboard.calls.services import CallServices
from cordboard.generation.generation import Generation
from cordboard.tools.desk.desk import Desk
from cordboard.tools.speech.template import fill_prompt
from cordboard.tools.tool import may_collect_keys
from cordboard.tools.tool_use import REAL
from cordboard.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class CallBasis:
    """An admitted call before its parts are made."""

    offer: Offer
    binding: Binding
    generation: Generation
    agent: Agent
    services: CallServices
    began: datetime.datetime
    """Wall-clock time of the offer, with its zone."""
    so_far: CallSoFar | None = None
    """The call in another engine, if it began there."""

    @property
    def voice(self) -> Voice | None:
        """The agent's own voice, if it has one now."""
        return self.agent.own_voice() if isinstance(self.agent, HasVoice) else None


@dataclass(frozen=True, slots=True)
class CallOutlets:
    """The call, as its parts see it. All return at once."""

    trouble: Callable[[str, str], None]
    """`trouble(where, message)`: something failed."""
    transferring: Callable[[bool], None]
    """A transfer of the caller begins, or is over."""
    talks: Callable[[], bool]
    """True if the agent has started and the call does not end."""
    over_budget: Callable[[str], None]
    """The budget is used up; say this goodbye and end the call."""
    agent_failed: Callable[[str], None]
    """The agent cannot continue, for this reason."""
    agent_stalled: Callable[[str], None]
    """The agent does not answer any more, for this reason."""
    caller_silent: Callable[[str], None]
    """The caller does not answer; say this goodbye and end the call."""
    heard: Callable[[bool], None]
    """See `calls.conversation.Endings.heard`."""
    deliver_key: Callable[[str], None]
    """A key of the caller that no tool has collected."""
    first_key: Callable[[], None]
    """The caller answers by a key: the rest of the prompt need not be heard."""


@dataclass(frozen=True, slots=True)
class CallParts:
    """The parts that a call has from its offer to its end."""

    variables: dict[str, str]
    ledger: Ledger
    toolbox: Toolbox
    secret_keys: bool
    """True if a tool or the firewall may ask the caller for secret keys."""
    ending: CallEnding
    recording: CallRecording
    firewall: CallFirewall
    line: CallControl
    operator: OperatorControl
    costs: CallCosts
    phases: CallPhases
    pre_call: PreCall
    last_words: FailureApology
    first_words: FirstWords
    reaching: Reaching | None
    """The beginning of an outbound call; None for an incoming one."""


@dataclass(frozen=True, slots=True)
class TalkParts:
    """The parts that need the caller's sound."""

    conversation: Conversation
    sound: CallSound
    keys: Dtmf
    menu: CallKeyMenu | None
    """The keys that the context offers, if any."""


def make_parts(basis: CallBasis, outlets: CallOutlets) -> CallParts:
    """Make the parts of a call. Lazy servers that its tools need begin to start."""
    offer, binding, services = basis.offer, basis.binding, basis.services
    config, context, test = basis.generation.config, binding.context, offer.test
    variables = variables_of(offer, binding, basis.began)
    so_far = basis.so_far
    passed = so_far.seen_ms / 1000 if so_far is not None else 0.0
    ledger = services.ledger(offer.call_id, basis.began, passed)
    toolbox = basis.generation.admit(binding.context_name, test.tools if test else REAL)
    proves = config.firewall.pin is not None or config.firewall.callback is not None
    secret_keys = proves or may_collect_keys(toolbox.specs)
    earlier = so_far.recording if so_far is not None else NOT_RECORDED_YET
    recording = services.recording(binding, ledger, secret_keys=secret_keys, earlier=earlier)
    ending = CallEnding(services.metrics, outlets.trouble)
    phases = CallPhases(binding, variables, ledger, services, basis.began, test=test)
    pre_call = phases.pre_call(basis.generation, so_far)
    firewall = _make_firewall(basis, ledger, pre_call)
    line = CallControl(
        ending,
        outlets.transferring,
        offer,
        binding,
        variables,
        config.destinations,
        recording,
        ledger,
        firewall,
        lambda: basis.voice,
        *_make_messages(basis, variables, ledger, recording, firewall),
    )
    firewall.connect(line, context, toolbox.specs)
    if so_far is not None:
        firewall.resume(so_far, toolbox.specs)
    operator = OperatorControl(
        basis.agent,
        ending,
        ledger,
        context,
        outlets.talks,
        firewall.confirmed_by,
        line,
        secret_keys=secret_keys,
    )
    return CallParts(
        variables=variables,
        ledger=ledger,
        toolbox=toolbox,
        secret_keys=secret_keys,
        ending=ending,
        recording=recording,
        firewall=firewall,
        line=line,
        operator=operator,
        costs=_make_costs(basis, ledger, outlets),
        phases=phases,
        pre_call=pre_call,
        last_words=FailureApology(services.apology, line, context.on_failure, outlets.trouble),
        first_words=FirstWords(context, ledger, recording, so_far),
        reaching=_make_reaching(basis, variables, ledger, ending, firewall),
    )


def _make_messages(
    basis: CallBasis,
    variables: dict[str, str],
    ledger: Ledger,
    recording: CallRecording,
    firewall: CallFirewall,
) -> tuple[Messages, Callbacks]:
    """Return what takes messages, and requests to be called back."""
    offer, services, config = basis.offer, basis.services, basis.generation.config
    runs = offer.test is None or offer.test.has_post_call
    queue, book = (services.post_call, services.callbacks) if runs else (None, None)
    outbox = Outbox(queue, offer.call_id, basis.binding, variables, ledger)
    callbacks = CallbackParts(
        config,
        basis.binding.context_name,
        offer.caller_number,
        firewall,
        outbox,
        book,
        ledger,
    )
    return Messages(config.message, outbox, recording, ledger), Callbacks(callbacks)


def _make_firewall(basis: CallBasis, ledger: Ledger, pre_call: PreCall) -> CallFirewall:
    offer = basis.offer
    numbers = {"caller_number": offer.caller_number, "called_number": offer.called_number}
    return CallFirewall(
        basis.generation.policy,
        basis.services.counts,
        ledger,
        basis.services.metrics,
        basis.binding.context_name,
        {**offer.variables, **numbers},
        lambda: pre_call.data,
        basis.generation.config.outbound,
        blocks=basis.services.callbacks,
    )


def _make_costs(basis: CallBasis, ledger: Ledger, outlets: CallOutlets) -> CallCosts:
    return CallCosts(
        basis.binding.context_name,
        basis.generation.config.prices,
        basis.binding.context.budget,
        ledger,
        basis.services.metrics,
        outlets.over_budget,
        basis.so_far.cost if basis.so_far is not None else None,
    )


def _make_reaching(
    basis: CallBasis,
    variables: dict[str, str],
    ledger: Ledger,
    ending: CallEnding,
    firewall: CallFirewall,
) -> Reaching | None:
    outbound, services = basis.offer.outbound, basis.services
    if outbound is None:
        return None
    dial = outbound.dial

    async def dialled() -> None:
        await dial()
        firewall.usage.answered()

    return Reaching(
        replace(outbound, dial=dialled),
        fill_prompt(outbound.order.introduction, variables, {}),
        basis.offer.control,
        ending,
        ledger,
        services.transcribe,
        lambda error: services.metrics.internal_error("answer"),
    )


def make_talk(basis: CallBasis, parts: CallParts, outlets: CallOutlets, media: Media) -> TalkParts:
    """Make the parts that need the caller's sound, and connect all parts with them. The recording
    begins, unless it waits for a consent."""
    conversation = _make_conversation(basis, parts, outlets, media)
    sound = CallSound(media)
    key_outlets = KeyOutlets(
        record=lambda key, secret, at: parts.ledger.record(events.Key(key, secret), at),
        deliver=outlets.deliver_key,
        first_key=outlets.first_key,
        quiet_at=lambda: conversation.playout.quiet_at,
    )
    keys = Dtmf(key_outlets, sound, hold_back=parts.secret_keys)
    parts.line.connect(conversation, sound, keys)
    parts.operator.connect(conversation, sound)
    parts.ending.connect(conversation, sound)
    resumed = basis.offer.resumed
    if resumed is None or resumed.hand_over is None:  # else once the caller has come
        parts.recording.connect(sound)
    parts.first_words.connect(conversation, sound)
    return TalkParts(conversation, sound, keys, _make_menu(basis, parts, outlets, conversation))


def _make_conversation(
    basis: CallBasis, parts: CallParts, outlets: CallOutlets, media: Media
) -> Conversation:
    """Return the conversation of agent and caller, with the desk for the agent's tools."""
    agent, services, so_far = basis.agent, basis.services, basis.so_far
    endings = Endings(
        outlets.agent_failed,
        parts.line.end_after_speech,
        outlets.caller_silent,
        outlets.agent_stalled,
        parts.costs.used,
        outlets.heard,
    )
    conversation = Conversation(
        agent,
        media,
        parts.ledger,
        services.metrics,
        endings,
        basis.binding.context.silence,
        basis.offer.control.music,
        parts.toolbox.known_secrets.text,
    )
    if so_far is not None:
        conversation.go_on(so_far.last_turn, understood=so_far.caller_spoke)
    tools = conversation.tools
    desk = Desk(
        parts.toolbox,
        parts.line,
        tools,
        asyncio.get_running_loop().time,
        payload=lambda: agent.payload,
        tracing=services.tracing,
        guard=parts.firewall,
        uses=uses_by_name(so_far) if so_far is not None else {},
    )
    tools.seat(desk)
    return conversation


def _make_menu(
    basis: CallBasis, parts: CallParts, outlets: CallOutlets, conversation: Conversation
) -> CallKeyMenu | None:
    context, internal_error = basis.binding.context, basis.services.metrics.internal_error
    if context.keys is None:
        return None
    cuttable = context.barge_in != "off"

    def say(text: str, cuts: bool) -> None:
        conversation.say_besides(Speech(text, "menu", interrupts=cuts and cuttable))

    menu = MenuOutlets(
        say,
        partial(conversation.announce, interrupts=cuttable),
        outlets.first_key,
        parts.firewall.prove_for,
        parts.line.transfer_after_speech,
        lambda text: parts.ending.after_speech("completed", "agent_hangup", text),
        lambda error: internal_error("key_menu"),
    )
    return CallKeyMenu(context.keys, parts.ledger, menu)
