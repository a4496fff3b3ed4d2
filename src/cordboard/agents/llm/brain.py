"""`LlmBrain`: a language model as the text side of a pipeline, and of written conversations.

A dialogue keeps the conversation, and passes each turn to the tool loop. It may get a turn's
probable words ahead (`prepare`): then the model begins to think, and if the turn comes with those
very words, its answer is ready sooner. An answer prepared in vain is not spoken, acted on or
remembered; it is paid for, as far as the service had got.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import replace

import structlog

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agent_api.language_model import LanguageModel, ModelRequest, ReadsAhead
from cordboard.agents.llm.messages import History
from cordboard.agents.llm.tool_loop import Answering, LoopParts
from cordboard.config.sections.language_model import LanguageModelBrain
from cordboard.errors import BrainError
from cordboard.speech.yes_or_no import is_plain_answer
from cordboard.tools.payload import DATA_NOTE, PayloadLimits
from cordboard.tools.provider_schema import ProviderTool, for_provider_list
from cordboard.tools.tool import ToolSpec

MOST_TOOLBOXES = 256
"""Most toolboxes whose declarations are kept: one for each context, and those of earlier
configurations."""

log = structlog.get_logger()


class LlmBrain:
    """Implements `cordboard.agent_api.dialogue.Brain`. Shared by all calls."""

    def __init__(
        self,
        model: LanguageModel,
        settings: LanguageModelBrain,
        problem: BrainError | None = None,
    ) -> None:
        """`problem`: why it cannot think at all, such as a missing key; then `open` raises it."""
        self._model = model
        self._settings = settings
        self._problem = problem
        self._declared: dict[tuple[int, ...], _Declared] = {}

    @property
    def payload(self) -> PayloadLimits:
        return self._model.payload

    @property
    def problem(self) -> BrainError | None:
        """The reason why it cannot think at all; None if it can."""
        return self._problem

    def declare(self, toolbox: Sequence[ToolSpec]) -> None:
        """Build the declarations of a toolbox now (2.3 ms for 30), so that no conversation
        waits for them."""
        self._declarations(tuple(toolbox))

    def warm(self, toolbox: Sequence[ToolSpec], prompt: str = "") -> None:
        """Load the model, and let it read a context's prompt and tools now, so that no call waits
        for that. Blocks."""
        tools = self._declarations(tuple(toolbox))
        if self._problem is not None:
            return
        try:
            self._model.load()
            if isinstance(self._model, ReadsAhead):
                self._model.read_ahead(
                    ModelRequest(self._system(prompt, tools), (), tools)
                ).result()
        except BrainError as error:
            log.error("model_not_loaded", provider=self._model.provider, reason=str(error))
            self._problem = error

    def open(self, session: DialogueSession) -> LlmDialogue:
        """Open a dialogue. Raises `BrainError` when there is no key."""
        if self._problem is not None:
            raise BrainError(str(self._problem), self._problem.kind)
        self._model.warm()
        tools = self._declarations(session.toolbox)
        settings = self._settings
        parts = LoopParts(
            self._model,
            self._system(session.prompt, tools),
            tools,
            session.ask_tool,
            session.used,
            settings.max_rounds,
            settings.speak_results,
        )
        history = History(
            session.greeting,
            session.history,
            most_turns=settings.max_history_turns,
            most_tokens=settings.max_history_tokens,
        )
        dialogue = LlmDialogue(parts, history, eager=settings.eager)
        dialogue.read_ahead()
        return dialogue

    def begin(self) -> None:
        """Let a server of one's own read ahead; needs the event loop, as `warm` does not."""
        if self._problem is None and isinstance(self._model, ReadsAhead):
            self._model.warm()

    async def close(self) -> None:
        """Close the connections to the service. Idempotent."""
        await self._model.close()

    def _system(self, prompt: str, tools: tuple[ProviderTool, ...]) -> str:
        notes = (prompt, self._settings.spoken_style, DATA_NOTE if tools else "")
        return "\n\n".join(note for note in notes if note)

    def _declarations(self, toolbox: tuple[ToolSpec, ...]) -> tuple[ProviderTool, ...]:
        key = tuple(map(id, toolbox))
        declared = self._declared.get(key)
        if declared is None:
            tools, problems = for_provider_list(toolbox, self._model.schemas)
            for problem in problems:
                log.warning("tool_not_offered", provider=self._model.provider, reason=str(problem))
            declared = self._declared[key] = (toolbox, tools)
            for oldest in [*self._declared][:-MOST_TOOLBOXES]:
                del self._declared[oldest]
        return declared[1]


_Declared = tuple[tuple[ToolSpec, ...], tuple[ProviderTool, ...]]
"""Holds the specs themselves: while they are kept, their ids cannot be reused."""


class LlmDialogue:
    """The text side of one call. Implements `Dialogue`, `Preparer`, `Overhearer` and
    `TakesNotes`."""

    def __init__(self, parts: LoopParts, history: History, *, eager: bool) -> None:
        self._parts = parts
        self._history = history
        self._eager = eager
        self._draft: tuple[str, Answering] | None = None
        """The prepared answer, with the words it is for."""
        self._answering: Answering | None = None
        """The last answer."""
        self._dropping: set[asyncio.Task[None]] = set()
        self._reading: Future[None] | None = None
        """The last beginning that the model was given to read ahead."""

    def hints(self) -> tuple[str, ...]:
        """Return nothing: the words that a model expects are not known."""
        return ()

    def is_complete(self, text: str) -> bool:
        return is_plain_answer(text)

    def understood(self, text: str) -> str:
        return text

    async def respond(self, text: str) -> AsyncGenerator[str, None]:
        answering = self._taken(text)
        async with aclosing(answering.sentences()) as sentences:
            async for sentence in sentences:
                yield sentence
        self.read_ahead()

    def read_ahead(self) -> None:
        """Let the model read the conversation so far, while the caller listens."""
        parts = self._parts
        if isinstance(parts.model, ReadsAhead):
            self._stop_reading()
            beginning = ModelRequest(parts.system, self._history.messages(), parts.tools)
            self._reading = parts.model.read_ahead(beginning)

    def interrupted(self, heard: str) -> None:
        self.forget()
        if self._answering is not None:
            self._answering.stop()
        self._history.interrupted(heard)

    def said_besides(self, text: str) -> None:
        self.forget()
        self._history.said_besides(text)

    def take_note(self, text: str) -> bool:
        """See `agent_api.agent.TakesNotes`. The note is a part of the system prompt from now on:
        not all services take system messages within a conversation."""
        self.forget()
        self._parts = replace(self._parts, system=f"{self._parts.system}\n\n{text}")
        return True

    def prepare(self, text: str) -> None:
        busy = self._answering is not None and self._answering.going_on
        if not self._eager or busy or not text:
            return
        if self._draft is not None and self._draft[0] == text:
            return
        self.forget()
        self._draft = text, self._begun(text)

    def forget(self) -> None:
        draft, self._draft = self._draft, None
        if draft is not None:
            dropping = asyncio.get_running_loop().create_task(draft[1].stopped())
            self._dropping.add(dropping)
            dropping.add_done_callback(self._dropping.discard)

    def close(self) -> None:
        """Leave the model to the other calls."""
        self.forget()
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def _taken(self, text: str) -> Answering:
        """Return the answer to a turn that is certain: the prepared one, or a new one."""
        draft = self._draft
        if draft is not None and draft[0] == text:
            self._draft = None
            answering = draft[1]
        else:
            self.forget()
            answering = self._begun(text)
        self._history.add(answering.turn)
        self._answering = answering
        answering.sure()
        return answering

    def _begun(self, text: str) -> Answering:
        self._stop_reading()  # the answer's request has all that was to be read
        return Answering(self._parts, self._history.messages(), self._history.turn(text))
