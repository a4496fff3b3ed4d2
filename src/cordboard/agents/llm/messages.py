"""The conversation as a model sees it: whole turns, cut at the point the caller has heard.

Pure: no clock, no socket. A turn is the caller's words and everything that followed. The unheard
part of an answer was not spoken to the caller, so it is removed; the results of tools stay, because
the tools ran. Where a turn was cut, the next one says so to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import orjson

from cordboard.agent_api.agent import Said
from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Message,
    ToolAnswered,
    ToolWish,
)

NOT_UNDERSTOOD = "(The caller said something that could not be understood.)"
CALL_BEGINS = "(The call begins.)"
"""Stands for the caller where a service requires them to speak first."""
CUT_NOTE = "(The caller interrupted you; your last answer was heard only as far as it stands here.)"
GIVEN_UP = {
    "status": "cancelled",
    "message": "Not waited for: the caller interrupted. It may have been done all the same.",
}
OWN_ID = "own0"
"""Prefix of our own tool call ids, where the service gave none. They have nine letters and digits,
because Mistral's models accept no others."""
CHARACTERS_A_TOKEN = 4
KEEP_SHARE = 0.75
"""A conversation that has become too long is shortened to this share at once: its beginning then
stays the same for some turns, and services' caches depend on that."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(slots=True)
class Turn:
    """The caller's words (none: the greeting) and everything that followed."""

    messages: list[Message] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(_size(message) for message in self.messages) // CHARACTERS_A_TOKEN + 1


class History:
    """One call's conversation."""

    def __init__(
        self, greeting: str, said: Iterable[Said], *, most_turns: int, most_tokens: int
    ) -> None:
        """`said`: the conversation before this agent took over; then it has not greeted."""
        self._most_turns = most_turns
        self._most_tokens = most_tokens
        self._cut = False
        self._turns: list[Turn] = [Turn()]
        before = [*said]
        for one in before:
            if one.who == "caller":
                self._turns.append(Turn([CallerSaid(one.text)]))
            elif one.text:
                self._turns[-1].messages.append(AgentSaid(one.text))
        if greeting and not before:
            self._turns[0].messages.append(AgentSaid(greeting))

    def turn(self, text: str) -> Turn:
        """Return a turn with this text, not yet added to the conversation."""
        words = text or NOT_UNDERSTOOD
        return Turn([CallerSaid(f"{CUT_NOTE}\n{words}" if self._cut else words)])

    def add(self, turn: Turn) -> None:
        """Add the turn as the last one; it may still grow."""
        self._cut = False
        self._turns.append(turn)
        self._shorten()

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation before the next turn. Services need their sealed thoughts back
        only where tools were not yet followed by words."""
        said = [message for turn in self._turns for message in turn.messages]
        open_ = said and isinstance(said[-1], ToolAnswered)
        last = max((at for at, one in enumerate(said) if isinstance(one, AgentSaid)), default=-1)
        return tuple(
            replace(message, kept=())
            if isinstance(message, AgentSaid) and message.kept and not (open_ and at == last)
            else message
            for at, message in enumerate(said)
        )

    def said_besides(self, text: str) -> None:
        """Add a sentence of the agent's line that this brain did not produce."""
        self._turns[-1].messages.append(AgentSaid(text))

    def interrupted(self, heard: str) -> None:
        """Cut the last answer: of its words only `heard` were spoken."""
        turn = self._turns[-1]
        before = [text.text for text in turn.messages if isinstance(text, AgentSaid)]
        turn.messages[:] = cut_at(turn.messages, heard)
        after = [text.text for text in turn.messages if isinstance(text, AgentSaid)]
        self._cut = self._cut or before != after

    def _shorten(self) -> None:
        turns = self._turns
        sizes = [turn.tokens for turn in turns]
        if len(turns) <= self._most_turns and sum(sizes) <= self._most_tokens:
            return
        most_turns = max(1, int(self._most_turns * KEEP_SHARE))
        most_tokens = self._most_tokens * KEEP_SHARE
        while len(turns) > 1 and (len(turns) > most_turns or sum(sizes) > most_tokens):
            del turns[0], sizes[0]


def cut_at(messages: Sequence[Message], heard: str) -> list[Message]:
    """Return a turn's messages with only those of the agent's words that occur in `heard`.

    `heard` may contain questions of the engine, so it is compared word by word: an answer's words
    count as heard as long as they occur in it, in their order.
    """
    left = [word.casefold() for word in _WORD.findall(heard)]
    kept: list[Message] = []
    for message in messages:
        if not isinstance(message, AgentSaid):
            kept.append(message)
            continue
        text, left = _heard_of(message.text, left)
        if text or message.wishes:
            whole = text == message.text
            thoughts = message.kept if message.wishes else ()
            kept.append(message if whole else replace(message, text=text, kept=thoughts))
    return kept


def complete(messages: list[Message]) -> None:
    """Give each tool call without an answer one: it was given up."""
    answered: set[str] = set()
    last: AgentSaid | None = None
    for message in reversed(messages):
        if isinstance(message, AgentSaid):
            last = message
            break
        if isinstance(message, ToolAnswered):
            answered.add(message.wish_id)
    messages += [
        ToolAnswered(wish.wish_id, wish.name, dict(GIVEN_UP), failed=True)
        for wish in (last.wishes if last is not None else ())
        if wish.wish_id not in answered
    ]


def with_own_ids(wishes: Sequence[ToolWish], taken: Iterable[str]) -> tuple[ToolWish, ...]:
    """Return tool calls with unique ids: compatible services give no ids, or the same one twice."""
    seen = set(taken)
    named: list[ToolWish] = []
    for wish in wishes:
        wish_id = wish.wish_id
        number = 1
        while not wish_id or wish_id in seen:
            wish_id = f"{OWN_ID}{len(seen) + number:05}"
            number += 1
        seen.add(wish_id)
        named.append(wish if wish_id == wish.wish_id else replace(wish, wish_id=wish_id))
    return tuple(named)


def _heard_of(text: str, heard: list[str]) -> tuple[str, list[str]]:
    """Return the beginning of `text` whose words occur in `heard`, and the rest of `heard`."""
    end, at = 0, 0
    for word in _WORD.finditer(text):
        try:
            at = heard.index(word[0].casefold(), at) + 1
        except ValueError:
            return text[:end].rstrip(), heard[at:]
        end = word.end()
    return text, heard[at:]


def _size(message: Message) -> int:
    """Return the size in characters."""
    match message:
        case CallerSaid(text):
            return len(text) + 8
        case AgentSaid(text, wishes, kept):
            asked = sum(len(wish.name) + len(wish.arguments) + 40 for wish in wishes)
            return len(text) + asked + sum(len(orjson.dumps(block)) for block in kept) + 8
        case ToolAnswered(_, name, payload, _):
            return len(orjson.dumps(payload)) + len(name) + 40
