"""The interface of brains: the text side of a pipeline.

A `Brain` is shared by all calls of a context; `open` returns the `Dialogue` of one call. A dialogue
takes the caller's words and yields its answer, sentence by sentence; its tool calls run while it
waits. The same interface serves the offline rules and a streamed LLM.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from cordboard.agent_api.agent import Said, Usage
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import JsonObject, ToolReply, ToolSpec


class AskTool(Protocol):
    """Runs a tool for a dialogue."""

    def __call__(
        self, name: str, arguments: JsonObject, *, confirmed: bool = False
    ) -> Awaitable[ToolReply]:
        """Run a tool by its exposed name and wait for its answer.

        `confirmed`: the dialogue already has the caller's yes to this very call, so the desk need
        not ask for it. Never raises for a tool's failure.
        """


@dataclass(frozen=True, slots=True)
class DialogueSession:
    """The data and callbacks of a dialogue."""

    prompt: str
    toolbox: tuple[ToolSpec, ...]
    ask_tool: AskTool
    variables: Mapping[str, str] = field(default_factory=dict)
    greeting: str = ""
    """The agent's first words to the caller; the first thing that can be repeated."""
    history: tuple[Said, ...] = ()
    """The conversation before, with another agent; without the text passed to `respond`."""
    used: Callable[[Usage], None] = lambda _: None
    """Called when the dialogue has used something that costs money."""


class Dialogue(Protocol):
    """The text side of one call."""

    def hints(self) -> tuple[str, ...]:
        """Return words and phrases that the recogniser should expect in the caller's next turn."""

    def is_complete(self, text: str) -> bool:
        """True if a partial text already is a complete answer (`yes`, four letters)."""

    def understood(self, text: str) -> str:
        """Return the caller's words with certain mishearings corrected, else `text` itself. For the
        record, of the words that `respond` gets next. Changes nothing."""

    def respond(self, text: str) -> AsyncGenerator[str, None]:
        """Answer a caller's turn (empty text: nothing was understood), sentence by sentence.

        Closing the generator abandons the answer (the caller interrupted).
        """

    def interrupted(self, heard: str) -> None:
        """Take the part of the last answer that the caller had heard when it was cut."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A doubt about a name in a turn: it was misheard, or may have been."""

    names: tuple[str, ...]
    """All names that callers may use here, in each wording."""
    alike: tuple[str, ...] = ()
    """Names that sound a little like the written one, the most alike first."""
    guesses: frozenset[str] = frozenset()
    """The names that the brain would ask about ("did you mean ..."); listening again may confirm
    one of these, and nothing else. Empty: any name is possible."""
    others: tuple[str, ...] = ()
    """Names that sound almost like the one that was recognised with certainty, and are not known
    names. The only question is whether one of them was spoken."""


@runtime_checkable
class Doubter(Protocol):
    """A dialogue that knows when it is in doubt, and can interpret an alternative text. For other
    dialogues the recogniser does not listen again."""

    def doubt(self, text: str) -> Doubt | None:
        """Return the doubt about a name in `text` that listening again may settle; None if there is
        none."""

    def meaning(self, text: str, doubt: Doubt) -> str:
        """Return the action that `text` would lead to in place of the doubtful words, equal for
        texts with the same meaning. Empty where the brain would ask back, or where listening again
        must not decide. Changes nothing."""


@runtime_checkable
class Preparer(Protocol):
    """A dialogue that can begin an answer before the end of the turn is certain."""

    def prepare(self, text: str) -> None:
        """Prepare an answer to `text`, which may be the whole turn: `respond` may come with the
        same words. Until then nothing is spoken and no action is taken."""

    def forget(self) -> None:
        """Drop the prepared answer: the caller continues."""

    def close(self) -> None:
        """Drop everything that is prepared: the call is over. Idempotent."""


@runtime_checkable
class Overhearer(Protocol):
    """A dialogue that must know the sentences that the engine speaks for it."""

    def said_besides(self, text: str) -> None:
        """Note that the engine spoke this to the caller; the dialogue did not produce it."""


class Brain(Protocol):
    """Creates dialogues."""

    @property
    def payload(self) -> PayloadLimits:
        """The largest tool result that a dialogue can take."""

    def open(self, session: DialogueSession) -> Dialogue: ...
