"""Shadow: a draft of the configuration decides what it would do in a live call, and is compared.

    events of a live call ──> `LiveStory` ──> a turn: the caller's words, tools, the agent's words
    the conversation so far, these words ──> the draft's dialogue ──> `Decision`
    both decisions ──> `compare`

The draft sees what the ledger has, so no more than records may have. Each turn is decided anew,
with the conversation as it really was before: the draft answers the live caller, not its own past.
It runs no tool. A tool call that the live agent made in the same turn gets the live reply; any
other gets a refusal that says so. Nothing of it is heard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

import orjson

from cordboard.agent_api.agent import Said, Usage
from cordboard.agent_api.dialogue import Brain, DialogueSession, Preparer
from cordboard.calls import events
from cordboard.privacy.redaction import CallRedaction, Redactor
from cordboard.tools.tool import JsonObject, Status, ToolReply, ToolSpec

Verdict: TypeAlias = Literal["same", "other_tool", "other_arguments", "other_words"]
ALIKE = 0.6
"""Part of the words that two answers have in common, in order, from which on they count as the
same: two answers of a language model are rarely the same to the word."""
MOST_SAID = 100
"""Sentences of the conversation that a draft gets, the newest."""
MOST_ASKED = 10
"""Tool calls of a draft in one turn; further ones are refused."""
REFUSED = (
    "This agent listens silently: the tool was not run, because the live agent did not call it."
)
_MOST_WORDS = 500
"""Words of an answer that are compared."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """A tool call."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """The acts of an agent in one turn."""

    tools: tuple[ToolDecision, ...] = ()
    words: str = ""


@dataclass(slots=True)
class LiveAsk:
    """A tool call of the live agent, and its reply."""

    ask_id: str
    decision: ToolDecision
    reply: events.ToolAnswered | None = None
    """None: there was none in this turn."""


@dataclass(slots=True)
class LiveTurn:
    """One turn of a live call."""

    turn: int
    heard: str
    history: tuple[Said, ...] = ()
    """The conversation before."""
    asks: list[LiveAsk] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def decision(self) -> Decision:
        return Decision(tuple(ask.decision for ask in self.asks), " ".join(self.said))


class LiveStory:
    """Follows the ledger of one live call."""

    def __init__(self) -> None:
        self._said: list[Said] = []
        self._turn: LiveTurn | None = None

    def take(self, event: events.LedgerEvent) -> LiveTurn | None:
        """Take an event; return the turn that it completes: the caller speaks again, or the call is
        over. Cheap."""
        turn = self._turn
        if isinstance(event, events.Heard):
            if event.said_by or not event.text:
                return None
            history = (*self._said, *_words_of(turn))[-MOST_SAID:]
            self._said = [*history]
            self._turn = LiveTurn(event.turn, event.understood or event.text, history)
            return turn
        if isinstance(event, events.Ended):
            self._turn = None
            return turn
        if isinstance(event, events.Answering) and not event.said_by:
            if turn is not None:
                turn.said.append(event.text)
            else:
                self._said.append(Said("agent", event.text))
        elif turn is None:
            return None
        elif isinstance(event, events.BargedIn):
            turn.said = [event.heard] if event.heard else []
        elif isinstance(event, events.ToolCalled) and not event.parent:
            turn.asks.append(LiveAsk(event.ask_id, ToolDecision(event.name, event.arguments)))
        elif isinstance(event, events.ToolAnswered):
            for ask in turn.asks:
                if ask.ask_id == event.ask_id:
                    ask.reply = event
        return None


def _words_of(turn: LiveTurn | None) -> tuple[Said, ...]:
    if turn is None:
        return ()
    words = " ".join(turn.said)
    return (Said("caller", turn.heard), *((Said("agent", words),) if words else ()))


class ShadowAgent:
    """The draft's agent of one call."""

    def __init__(
        self,
        brain: Brain,
        prompt: str,
        greeting: str,
        toolbox: tuple[ToolSpec, ...],
        variables: Mapping[str, str],
        redactor: Redactor,
        used: Callable[[Usage], None],
    ) -> None:
        """`prompt` and `greeting` are filled in. `used` takes the usage of services."""
        self._brain = brain
        self._session = DialogueSession(
            prompt, toolbox, self._refuse, variables, greeting, used=used
        )
        self._redaction = CallRedaction(redactor)

    async def decide(self, live: LiveTurn) -> Decision:
        """Return what the draft would do in a turn. Raises `CordboardError`, and whatever a brain
        raises."""
        asked: list[ToolDecision] = []

        async def ask(name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
            decision = ToolDecision(name, self._redaction.data(dict(arguments)))
            asked.append(decision)
            return _reply(live, decision, len(asked))

        session = replace(self._session, ask_tool=ask, history=live.history)
        dialogue = self._brain.open(session)
        said: list[str] = []
        try:
            async with aclosing(dialogue.respond(live.heard)) as sentences:
                said.extend([sentence async for sentence in sentences])
        finally:
            if isinstance(dialogue, Preparer):
                dialogue.close()
        return Decision(tuple(asked), self._redaction.text(" ".join(said)))

    async def _refuse(
        self, name: str, arguments: JsonObject, *, confirmed: bool = False
    ) -> ToolReply:
        return _refusal(name, "")


def _reply(live: LiveTurn, asked: ToolDecision, count: int) -> ToolReply:
    """Return the live reply to the same tool call, else a refusal."""
    for ask in live.asks if count <= MOST_ASKED else ():
        if ask.reply is not None and _same_call(ask.decision, asked):
            found = ask.reply
            return ToolReply(
                f"shadow-{count}", asked.name, Status(found.status), found.message, dict(found.sent)
            )
    return _refusal(asked.name, f"shadow-{count}")


def _refusal(name: str, ask_id: str) -> ToolReply:
    return ToolReply(ask_id, name, Status.REFUSED, REFUSED, tries=0)


def compare(live: Decision, draft: Decision) -> Verdict:
    """Return the first difference of two decisions: tools, their arguments, words."""
    if sorted(each.name for each in live.tools) != sorted(each.name for each in draft.tools):
        return "other_tool"
    if sorted(map(_key, live.tools)) != sorted(map(_key, draft.tools)):
        return "other_arguments"
    return "same" if likeness(live.words, draft.words) >= ALIKE else "other_words"


def likeness(one: str, other: str) -> float:
    """Return the part of words that two texts have in common, in order: 0 to 1."""
    first, second = _words(one), _words(other)
    if not first and not second:
        return 1.0
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())[:_MOST_WORDS]


def _same_call(one: ToolDecision, other: ToolDecision) -> bool:
    return _key(one) == _key(other)


def _key(decision: ToolDecision) -> tuple[str, bytes]:
    try:
        arguments = orjson.dumps(decision.arguments, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # beyond what JSON has
        arguments = repr(sorted(decision.arguments.items())).encode("utf-8", "replace")
    return decision.name, arguments
