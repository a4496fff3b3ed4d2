"""The actions of a dialogue: run a task's tool, transfer the caller, hang up.

With the sentences that belong to them. All words come from the rules or from a tool's reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import builtin
from cordboard.agents.rules.grammar import Grammar
from cordboard.agents.rules.speech import fill, fill_arguments
from cordboard.agents.rules.states import Task
from cordboard.agents.rules.values import Judged
from cordboard.config.rules import Failure, Intent, Rules
from cordboard.speech.sentences import split_sentences
from cordboard.tools.tool import Status, ToolReply

_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_EXAMPLES = 3
_EXAMPLES = "{examples}"
_KEY_SECONDS = 6
"""Wait for a key after the menu; the caller's words are answered after it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task."""

    answer: tuple[str, ...]
    worked: bool
    caller_left: bool
    declined: bool = False
    """The caller was asked for approval, and did not say yes."""
    refused: bool = False
    """The tool failed and said why; another value, confirmed anew, may do."""


class Errands:
    """Carries out the tasks of one call."""

    def __init__(self, rules: Rules, grammar: Grammar, session: DialogueSession) -> None:
        self._rules = rules
        self._phrases = rules.phrases
        self._grammar = grammar
        self._session = session
        self._tools = frozenset(spec.name for spec in session.toolbox)

    def before(self, task: Task) -> tuple[str, ...]:
        """Return the sentences to say before the result is known."""
        intent = self._grammar.intents[task.intent]
        if intent.before:
            return self.filled(intent.before, task)
        if not intent.transfer:
            return ()
        name = fill_arguments(intent.transfer, self._fillings(task))
        known = builtin.destinations_of(self._session.toolbox)
        return self.filled(self._phrases.transferring, destination=known.get(name, name))

    async def run(self, task: Task) -> Outcome:
        """Run the task's tool, if it has one, and return the outcome. Never raises for its
        failure."""
        intent = self._grammar.intents[task.intent]
        reply = await self._run_tool(intent, task)
        worked = reply is None or reply.ok
        back = reply is not None and bool(reply.data.get("caller_is_back"))
        left = worked and bool(intent.transfer) and not back
        declined = reply is not None and reply.refused == "approval"
        error = reply is not None and reply.status is Status.ERROR
        refused = error and bool(task.lists and intent.confirm)
        return Outcome(self._answer(intent, task, reply), worked, left, declined, refused)

    async def hang_up(self, why: str) -> None:
        """End the call after the caller has heard the current sentence, where the toolbox
        allows."""
        if builtin.HANG_UP_TOOL in self._tools:
            reason = "caller said goodbye" if why == builtin.GOODBYE else why
            await self._session.ask_tool(builtin.HANG_UP_TOOL, {"reason": reason})

    def key_menu(self) -> tuple[str, ...]:
        """Return the sentences that offer the destinations by keys, where keys can be collected."""
        named = builtin.destinations_of(self._session.toolbox).values()
        if builtin.KEYS_TOOL not in self._tools or not 1 < len(named) < 10:
            return ()
        press = self._phrases.press
        lines = (self.filled(press, key=n, destination=each) for n, each in enumerate(named, 1))
        return tuple(sentence for line in lines for sentence in line)

    async def choose_by_key(self, task: Task) -> None:
        """Wait for a key of the menu, and put its destination into the task."""
        wanted = {"count": 1, "terminator": "", "timeout_seconds": _KEY_SECONDS}
        reply = await self._session.ask_tool(builtin.KEYS_TOOL, wanted)
        named = self._grammar.finders[builtin.DESTINATIONS].values.values()
        keys = {str(number): each for number, each in enumerate(named, 1)}
        if chosen := keys.get(str(reply.data.get("digits"))):
            task.put("destination", Judged(chosen))

    async def _run_tool(self, intent: Intent, task: Task) -> ToolReply | None:
        tool = builtin.TRANSFER_TOOL if intent.transfer else intent.tool
        if tool is None:
            return None
        template = {"destination": intent.transfer} if intent.transfer else intent.arguments
        if template is None:
            template = {slot: f"{{{slot}}}" for slot in task.lists}
        arguments = fill_arguments(template, self._fillings(task))
        return await self._session.ask_tool(tool, arguments, confirmed=task.confirmed)

    def _answer(self, intent: Intent, task: Task, reply: ToolReply | None) -> tuple[str, ...]:
        said = _answer_of(intent, task) or intent.say
        if reply is None:
            if said is None and task.intent == builtin.GOODBYE:
                said = self._phrases.farewell
            return self.filled(said, task) if said else ()
        if not reply.ok:
            return self._failed(reply, intent, task)
        if said is not None:
            return self.filled(said, task, message=reply.message, data=reply.data)
        silent = intent.transfer and not reply.data.get("caller_is_back")
        return () if silent else split_sentences(reply.message)

    def _failed(self, reply: ToolReply, intent: Intent, task: Task) -> tuple[str, ...]:
        if reply.refused == "approval":  # its words are for a model, not for the caller
            return self.filled(self._phrases.cancelled)
        own = intent.failures.get(cast(Failure, reply.status.value))
        if own is not None:
            return self.filled(own, task, message=reply.message, data=reply.data)
        # The message of a refusal is written for a model: a limit, or a problem with arguments.
        words = () if reply.status is Status.REFUSED else split_sentences(reply.message)
        return words or self.filled(self._phrases.tool_failed)

    # Words.

    def filled(self, text: str, task: Task | None = None, /, **more: object) -> tuple[str, ...]:
        """Fill a text's placeholders, sentence by sentence; a sentence that names examples is left
        out where there are none."""
        examples = self.examples()
        if not examples and _EXAMPLES in text:
            rest = [sentence for sentence in split_sentences(text) if _EXAMPLES not in sentence]
            text = " ".join(rest) or text
        fillings = {**self._fillings(task), "examples": examples, **more}
        return split_sentences(fill(text, fillings))

    def examples(self) -> str:
        """Return example requests for callers, from the rules' own examples."""
        examples = [intent.example for intent in self._grammar.intents.values() if intent.example]
        return " Or: ".join(examples[:_MOST_EXAMPLES])

    def destinations(self) -> str:
        """Return all transfer destinations, as a list to be spoken."""
        *names, last = builtin.destinations_of(self._session.toolbox).values()
        return f"{', '.join(names)} {self._phrases.or_} {last}" if names else last

    def _fillings(self, task: Task | None) -> dict[str, object]:
        return {**self._session.variables, **(task.values if task is not None else {})}


def _answer_of(intent: Intent, task: Task) -> str | None:
    """Return the answer for the value of a slot, if the rules have one."""
    for slot, answers in intent.answers.items():
        known = {value.lower(): text for value, text in answers.items()}
        value = task.values.get(slot)
        said = str(value.value).lower() if value is not None else ""
        weekday = value.spoken.partition(" ")[0].lower() if value is not None else ""
        if text := known.get(said) or known.get(weekday if _ISO_DAY.fullmatch(said) else ""):
            return text
    return None
