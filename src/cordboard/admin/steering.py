"""Endpoints that reach into a live call: say, hint, whisper, flag, listen
(`cordboard.calls.operator`)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.calls import context_of_call, live_call
from cordboard.admin.endpoint import Ask, Done, Endpoint, Frames, Gives, Takes
from cordboard.admin.sockets import TOO_SLOW, SocketClosed
from cordboard.calls.operator import OperatorControl
from cordboard.calls.recording.listening import Listener
from cordboard.calls.transfer.aside import Hearer
from cordboard.errors import RequestRefused

MOST_LISTENERS = 3
"""People who listen at a time, in one engine."""
MOST_WORDS = 500
"""Characters of a sentence or a note: OpenAI Live takes no more than 500 tokens."""
PROTOCOL = "cordboard.listen.v1"


class Say(Takes):
    text: str = Field(min_length=1, max_length=MOST_WORDS)
    interrupt: bool = False
    """In place of the agent's present answer; otherwise after it."""

    def facts(self) -> dict[str, Any]:
        """Return no words: they are in the ledger."""
        return {"characters": len(self.text), "interrupt": self.interrupt}


class Said(Gives):
    state: Literal["begun", "waiting"]
    """`waiting`: the agent has it, and will say it when it can, for example after the caller."""


class Hint(Takes):
    text: str = Field(min_length=1, max_length=MOST_WORDS)

    def facts(self) -> dict[str, Any]:
        """Return no words: they are in the ledger."""
        return {"characters": len(self.text)}


class Whisper(Takes):
    text: str = Field(min_length=1, max_length=MOST_WORDS)
    to: Hearer = "human"
    """`human`: of a transfer, while they are asked or talk with the caller; `operator`: of a
    conference."""

    def facts(self) -> dict[str, Any]:
        """Return no words: they are in the ledger."""
        return {"characters": len(self.text), "to": self.to}


class Flag(Takes):
    text: str = Field("", max_length=MOST_WORDS)

    def facts(self) -> dict[str, Any]:
        """Return no words: they are in the ledger."""
        return {"characters": len(self.text)}


class Ticket(Gives):
    ticket: str
    """For `GET /listen/{call_id}`, once, within 15 s."""
    delay_ms: int
    """The sound is late by this."""


class Hearing(Gives):
    """The first frame of a listener, in text; binary ones follow (docs/admin-live-control.md)."""

    encoding: Literal["slin", "ulaw"]
    rate: int
    from_ms: int
    """Time of the first sample in the ledger."""
    delay_ms: int


async def say(ask: Ask) -> Said:
    """Have the agent say this to the caller, in its own voice. Answers when it has begun.

    The ledger has it as said by an operator, and the agent's model knows of it.
    """
    body: Say = ask.body
    begun = await live_call(ask).operator.say(body.text, ask.who.name, interrupt=body.interrupt)
    return Said(state="begun" if begun else "waiting")


async def hint(ask: Ask) -> Done:
    """Give the agent's model a note for its next turns. The caller does not hear it."""
    live_call(ask).operator.hint(ask.body.text, ask.who.name)
    return Done()


async def whisper(ask: Ask) -> Said:
    """Have this spoken to one party alone, in the agent's voice. Answers when it has begun."""
    body: Whisper = ask.body
    begun = await live_call(ask).operator.whisper(body.text, ask.who.name, body.to)
    return Said(state="begun" if begun else "waiting")


async def flag(ask: Ask) -> Done:
    """Mark this moment of the call, in its ledger."""
    live_call(ask).operator.flag(ask.body.text, ask.who.name)
    return Done()


async def verify(ask: Ask) -> Done:
    """Vouch for the caller, for tools and destinations with `step_up` (docs/firewall.md)."""
    live_call(ask).operator.verify(ask.who.name)
    return Done()


async def listen(ask: Ask) -> Ticket:
    """Get the ticket to listen to a call, in both directions and late. It has no way back."""
    operator = _heard(ask)
    ticket = ask.services.tickets.give(ask.who.holder, "listen", ask.params["call_id"])
    return Ticket(ticket=ticket, delay_ms=operator.delay_ms)


async def hear(ask: Ask) -> None:
    """Listen to a call (websocket): a text frame `Hearing`, then binary frames with both sides."""
    operator, services = _heard(ask), ask.services
    services.listeners += 1
    try:
        with operator.listen(ask.who.name) as listener:
            await _stream(ask, operator, listener)
        if listener.too_slow:
            ask.socket.end(TOO_SLOW, "the listener does not take the sound")
            await asyncio.sleep(0)  # `end` cancels this task
    finally:
        services.listeners -= 1
        if ask.done is not None:
            ended = replace(ask.done[1], action="call.listened", detail={"of": ask.done[0]})
            await asyncio.shield(services.run(services.audit.append, ended))


async def _stream(ask: Ask, operator: OperatorControl, listener: Listener) -> None:
    first = Hearing(
        encoding="ulaw" if listener.encoding == "ulaw" else "slin",
        rate=listener.rate,
        from_ms=listener.from_ms,
        delay_ms=operator.delay_ms,
    )
    await ask.socket.send(first.model_dump_json())
    gone = asyncio.ensure_future(_until_gone(ask, listener))
    try:
        async for frame in listener.frames():
            await ask.socket.send(frame)
    finally:
        gone.cancel()


async def _until_gone(ask: Ask, listener: Listener) -> None:
    """End the listening when the client goes. Frames of the client are dropped."""
    try:
        while True:
            await ask.socket.receive()
    except SocketClosed:
        listener.end()


def _heard(ask: Ask) -> OperatorControl:
    """Return the call's operator control. Raises `RequestRefused` if that is forbidden now."""
    operator, services = live_call(ask).operator, ask.services
    if not operator.may_listen:
        message = "the call's context forbids listening (listening.enabled)"
        raise RequestRefused(409, "not_allowed_here", message)
    if services.admission.overloaded or services.listeners >= MOST_LISTENERS:
        headers = {"Retry-After": "10"}
        message = f"the engine is busy, or {MOST_LISTENERS} people listen already"
        raise RequestRefused(503, "busy", message, headers=headers)
    return operator


ENDPOINTS = (
    Endpoint(
        "POST",
        "/calls/{call_id}/say",
        may=Permission.CALLS_CONTROL,
        scope=context_of_call,
        takes=Say,
        gives=Said,
        audit="call.say",
        does=say,
        forwards=True,
        repeatable=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/hint",
        may=Permission.CALLS_CONTROL,
        scope=context_of_call,
        takes=Hint,
        gives=Done,
        audit="call.hint",
        does=hint,
        forwards=True,
        repeatable=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/whisper",
        may=Permission.CALLS_CONTROL,
        scope=context_of_call,
        takes=Whisper,
        gives=Said,
        audit="call.whisper",
        does=whisper,
        forwards=True,
        repeatable=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/flag",
        may=Permission.CALLS_NOTE,
        scope=context_of_call,
        takes=Flag,
        gives=Done,
        audit="call.flag",
        does=flag,
        forwards=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/verify",
        may=Permission.CALLS_CONTROL,
        scope=context_of_call,
        takes=None,
        gives=Done,
        audit="call.verify",
        does=verify,
        forwards=True,
        repeatable=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/listen",
        may=Permission.CALLS_LISTEN,
        scope=context_of_call,
        takes=None,
        gives=Ticket,
        audit="call.listen_ticket",
        does=listen,
        forwards=True,
    ),
    Endpoint(
        "GET",
        "/listen/{call_id}",
        may=Permission.CALLS_LISTEN,
        scope=context_of_call,
        takes=None,
        gives=Frames(PROTOCOL, (), (Hearing,), ticket="listen"),
        audit="call.listen",
        does=hear,
        forwards=True,
    ),
)
