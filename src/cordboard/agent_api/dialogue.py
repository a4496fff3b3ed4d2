"""The door of the brains: the text side of a pipeline.

A `Brain` is shared by all calls of a context; `open` gives the `Dialogue` of one call. A dialogue
gets what the caller said and yields what to say, sentence by sentence; tools it asks for run while
it waits. The same door serves the offline rules and a streamed LLM.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from cordboard.agent_api.agent import Said, Usage
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import JsonObject, ToolReply, ToolSpec


class AskTool(Protocol):
    """How a dialogue has a tool run."""

    def __call__(
        self, name: str, arguments: JsonObject, *, confirmed: bool = False
    ) -> Awaitable[ToolReply]:
        """Run a tool by its exposed name and wait for its answer.

        `confirmed`: the dialogue itself has had the caller's yes to this very ask, so that the desk
        need not ask for it. Never raises for a tool's failure.
        """
        ...


@dataclass(frozen=True, slots=True)
class DialogueSession:
    """What a dialogue may know and do."""

    prompt: str
    toolbox: tuple[ToolSpec, ...]
    ask_tool: AskTool
    variables: Mapping[str, str] = field(default_factory=dict)
    greeting: str = ""
    """What the caller has been told first; the first thing that can be repeated."""
    history: tuple[Said, ...] = ()
    """What was said before, by another agent; without what `respond` gets."""
    used: Callable[[Usage], None] = lambda _: None
    """Told what the dialogue has used up that costs money."""


class Dialogue(Protocol):
    """The text side of one call."""

    def hints(self) -> tuple[str, ...]:
        """Words and phrases the recogniser should expect in the caller's next turn."""
        ...

    def is_complete(self, text: str) -> bool:
        """Whether a partial text already is a whole answer (`yes`, four letters)."""
        ...

    def understood(self, text: str) -> str:
        """The caller's words with what was surely misheard put right, else `text` itself: for the
        record, of the words that `respond` gets next. It changes nothing."""
        ...

    def respond(self, text: str) -> AsyncGenerator[str, None]:
        """Answer a caller's turn (empty text: nothing was understood), sentence by sentence.

        Closing the generator abandons the answer (the caller interrupted).
        """
        ...

    def interrupted(self, heard: str) -> None:
        """Learn what the caller had heard of the last answer when it was cut."""
        ...


@dataclass(frozen=True, slots=True)
class Doubt:
    """A turn in which some name was misheard, or may have been."""

    names: tuple[str, ...]
    """All that callers may name here, in each wording."""
    alike: tuple[str, ...] = ()
    """Those that sound a little like what was written, the most alike first."""
    guesses: frozenset[str] = frozenset()
    """What the brain would ask about ("did you mean ..."): another hearing may make that sure, and
    nothing else. Empty: anything may have been said."""
    others: tuple[str, ...] = ()
    """With these the name was heard surely, but sounds almost like one of them, which is none of
    the known ones. The only question is whether that was said."""


@runtime_checkable
class Doubter(Protocol):
    """A dialogue that knows when it is in doubt, and can tell what another text would mean. For the
    others no second hearing takes place."""

    def doubt(self, text: str) -> Doubt | None:
        """Whether `text` leaves a name in doubt, so that listening again may settle it."""
        ...

    def meaning(self, text: str, doubt: Doubt) -> str:
        """What would be done now if `text` had been said instead of what is in doubt, equal for
        texts that mean the same; empty where it would be asked back, or where another hearing must
        not decide. It changes nothing."""
        ...


@runtime_checkable
class Preparer(Protocol):
    """A dialogue that can begin to think of an answer before it is sure that there is to be one."""

    def prepare(self, text: str) -> None:
        """The caller's turn may be over with these words: `respond` may come with them. Nothing is
        said and nothing is done of what is thought, unless it does."""
        ...

    def forget(self) -> None:
        """The caller goes on, or is gone: what was prepared is dropped."""
        ...


@runtime_checkable
class Overhearer(Protocol):
    """A dialogue that wants to know what the line says for it."""

    def said_besides(self, text: str) -> None:
        """The caller is told this, which the dialogue did not think of."""
        ...


class Brain(Protocol):
    """What makes dialogues."""

    @property
    def payload(self) -> PayloadLimits:
        """How much of a tool's result a dialogue can take."""
        ...

    def open(self, session: DialogueSession) -> Dialogue: ...
