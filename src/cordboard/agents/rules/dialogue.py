"""The dialogue of one call: what the caller's words lead to.

`respond` first decides (pure and quick: a new state, what to say, perhaps a task), then acts: says
the sentences one by one and runs the task's tool. The state is settled before the first sentence
is given out, so an interruption between sentences leaves nothing half done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from cordboard.agent_api.dialogue import DialogueSession, Doubt
from cordboard.agents.rules import builtin
from cordboard.agents.rules.doubts import find_doubt, meaning_of
from cordboard.agents.rules.errands import Errands
from cordboard.agents.rules.expectations import (
    active_intents,
    hints_for,
    is_whole_answer,
)
from cordboard.agents.rules.grammar import (
    CHANGE_TO,
    PICK,
    VALUE_OF,
    Grammar,
    Look,
    Reading,
)
from cordboard.agents.rules.questions import asks_anything
from cordboard.agents.rules.speech import split_sentences
from cordboard.agents.rules.states import (
    Asking,
    Choosing,
    ChoosingTask,
    Confirming,
    Idle,
    Offering,
    State,
    Task,
)
from cordboard.agents.rules.values import Judged, Value
from cordboard.config.rules import Intent, Rules
from cordboard.speech.yes_or_no import is_plain_answer, read_yes_or_no

_TIE = 0.1
"""Two intents whose costs differ less cannot be told apart, unless the better one fits exactly."""
_EXACT = 0.05


@dataclass(slots=True)
class _Turn:
    """What to do about what the caller said."""

    sentences: tuple[str, ...] = ()
    task: Task | None = None
    """To be carried out after the sentences."""
    way_out: bool = False
    repeats: bool = False
    """The last answer again: it stays the last answer."""


class RulesDialogue:
    """Implements `cordboard.agent_api.dialogue.Dialogue`."""

    def __init__(
        self,
        rules: Rules,
        grammar: Grammar,
        session: DialogueSession,
        today: Callable[[], date],
    ) -> None:
        self._rules = rules
        self._phrases = rules.phrases
        self._grammar = grammar
        self._session = session
        self._today = today
        self._errands = Errands(rules, grammar, session)
        self._state: State = Idle()
        self._question: tuple[str, ...] = ()
        """What was asked last and still waits for an answer."""
        self._unheard = False
        """It was cut off before the caller had heard any of it."""
        self._failures = 0
        """Turns in a row that were not understood."""
        self._last_answer: tuple[str, ...] = split_sentences(session.greeting)
        self._looked: Look | None = None
        self._named: Mapping[str, Value] = {}
        """List → the value of it that the caller named in the last turn: `there`."""
        self._answered = True
        """Whether what was looked up last was said to its end."""
        self._told = False
        """The last turn told something, asked nothing, and led to nothing: the question follows."""

    # The door.

    def hints(self) -> tuple[str, ...]:
        return hints_for(self._state, self._grammar, self._rules)

    def is_complete(self, text: str) -> bool:
        readings = self._readings(text)
        if not readings:
            return isinstance(self._state, Confirming) and is_plain_answer(text)
        return is_whole_answer(readings, self._state, self._grammar)

    def understood(self, text: str) -> str:
        """The caller's words with misheard names put right, as far as they were understood for
        sure in the present state: to be called before `respond`. Else `text` itself."""
        readings = self._readings(text)
        if not readings or self._looked is None:
            return text
        return self._grammar.understood(self._looked, readings[0])

    def doubt(self, text: str) -> Doubt | None:
        """See `Doubter.doubt`."""
        readings = self._readings(text)
        if self._looked is None or not self._looked.tokens:
            return None
        best = readings[0] if readings else None
        if self._grammar.about_there(self._looked, best, self._named, waiting=self._is_waiting):
            return None
        active = active_intents(self._state, self._grammar)
        return find_doubt(self._grammar, self._looked, best, active)

    def meaning(self, text: str, doubt: Doubt) -> str:
        """See `Doubter.meaning`."""
        readings = self._readings(text)
        if not readings or self._rival(readings):
            return ""
        intent = readings[0].intent
        if intent.startswith((VALUE_OF, CHANGE_TO)):
            match self._state:
                case Asking(task=task) | Choosing(task=task) | Confirming(task=task):
                    intent = task.intent
        return meaning_of(self._grammar, readings[0], intent, doubt)

    async def respond(self, text: str) -> AsyncGenerator[str, None]:
        turn = self._decide(text)
        self._answered = turn.task is None
        if turn.sentences and not turn.repeats:
            self._last_answer = turn.sentences
        for sentence in turn.sentences:
            yield sentence
        if turn.task is not None:
            async for sentence in self._carry_out(turn.task):
                yield sentence
            self._answered = True
        if turn.way_out:
            async for sentence in self._leave():
                yield sentence

    def interrupted(self, heard: str) -> None:
        """The whole answer stays what `say again` repeats, however little of it was heard."""
        self._answered = False
        opening = " ".join(" ".join(self._question).split()[:2])
        self._unheard = opening not in " ".join(heard.split())

    # Understanding.

    def _readings(self, text: str) -> list[Reading]:
        if self._looked is None or self._looked.text != text:
            self._looked = self._grammar.look(text, self._today())
        return self._grammar.readings(self._looked, active_intents(self._state, self._grammar))

    def _decide(self, text: str) -> _Turn:
        readings = self._readings(text)
        if there := self._about_there(readings):
            readings = [there]
        self._told = False
        if not readings:
            return self._in_other_words(text) or self._not_understood(silent=not text.strip())
        best = readings[0]
        if rival := self._rival(readings):
            self._failures = 0
            return self._ask_which_task((self._task_of(best), self._task_of(rival)))
        if best.intent in builtin.STEERING:
            return self._steer(best)
        if best.intent.startswith(PICK):
            return self._pick(int(best.intent.removeprefix(PICK)))
        if best.intent.startswith((VALUE_OF, CHANGE_TO)):
            return self._take_value(best)
        return self._begin(self._task_of(best))

    def _in_other_words(self, text: str) -> _Turn | None:
        """A yes or a no that no sentence has: `I'd rather not`."""
        answer = read_yes_or_no(text) if isinstance(self._state, Confirming) else None
        if answer is None:
            return None
        return self._yes() if answer else self._no()

    def _about_there(self, readings: Sequence[Reading]) -> Reading | None:
        """The reading with the place named in the turn before, and what `there` is from now on."""
        if self._looked is None:
            return None
        best = readings[0] if readings else None
        there = self._grammar.about_there(self._looked, best, self._named, waiting=self._is_waiting)
        if there is None:
            self._named = self._grammar.named(self._looked)
        return there

    @property
    def _is_waiting(self) -> bool:
        """Whether the caller still waits for an answer about what he named, or has yet to ask."""
        return self._told or not self._answered

    def _rival(self, readings: Sequence[Reading]) -> Reading | None:
        """Another intent that fits as well, when both can be asked about."""
        if not readings or readings[0].cost <= _EXACT:
            return None
        first = readings[0]
        second = next((other for other in readings if other.intent != first.intent), None)
        if second is None:
            return None
        named = all(
            reading.intent in self._grammar.intents and self._intent(reading.intent).title
            for reading in (first, second)
        )
        return second if named and second.cost - first.cost < _TIE else None

    def _task_of(self, reading: Reading) -> Task:
        task = self._new_task(reading.intent)
        for slot, judged in reading.slots.items():
            _put(task, slot, judged)
        return task

    def _new_task(self, name: str) -> Task:
        task = Task(name, self._grammar.slots[name])
        for slot, spec in self._intent(name).slots.items():
            if spec.default is not None:
                known = self._grammar.finders[task.lists[slot]].values.get(spec.default.upper())
                task.values[slot] = known or Value(spec.default, spec.default)
        return task

    def _intent(self, name: str) -> Intent:
        return self._grammar.intents[name]

    # Deciding.

    def _steer(self, reading: Reading) -> _Turn:
        name = reading.intent
        if name == builtin.YES:
            return self._yes()
        if name == builtin.NO:
            return self._no()
        self._failures = 0
        if name == builtin.REPEAT:
            again = self._last_answer or (self._phrases.how_can_i_help,)
            return _Turn(again, repeats=True)
        said = self._intent(name).say
        if name == builtin.CANCEL:
            return self._cancel(said)
        if name == builtin.HELP:
            text = self._phrases.help if self._errands.examples() else self._phrases.no_help
            return _Turn(self._filled(said or text) + self._question)
        if said:
            return _Turn(self._filled(said) + self._question)
        text = self._phrases.welcome if name == builtin.THANKS else self._phrases.how_can_i_help
        return _Turn(self._question or self._filled(text))

    def _yes(self) -> _Turn:
        self._failures = 0
        match self._state:
            case Confirming() if self._unheard:
                self._unheard = False
                return _Turn(self._question)  # that yes was to something else
            case Confirming(task=task):
                task.confirmed = True
                return self._go_on(task)
            case Choosing(task=task, slot=slot, guesses=(guess,)):
                return self._go_on(_with_value(task, slot, guess))
            case Choosing() | ChoosingTask():
                return _Turn(self._question)
            case Offering(intent=name) if self._grammar.slots.get(name):
                return self._go_on(self._new_task(name))
            case Asking():
                return _Turn(self._question)
        self._state = Idle()
        return self._say(self._phrases.how_can_i_help)

    def _no(self) -> _Turn:
        self._failures = 0
        match self._state:
            case Confirming(task=task) if task.lists:
                return self._ask(self._state, self._filled(self._phrases.what_instead))
            case Choosing(task=task):
                return self._go_on(task)
            case Asking() | Confirming() | ChoosingTask():
                return self._cancel()
            case Offering() if builtin.GOODBYE in self._grammar.intents:
                return self._begin(self._new_task(builtin.GOODBYE))
        self._state = Idle()
        return self._say(self._phrases.how_can_i_help)

    def _cancel(self, said: str | None = None) -> _Turn:
        self._state = Offering()
        self._question = ()
        return self._say(said or self._phrases.cancelled)

    def _pick(self, number: int) -> _Turn:
        """`The second one.`"""
        self._failures = 0
        match self._state:
            case Choosing(task=task, slot=slot, guesses=guesses):
                return self._go_on(_with_value(task, slot, guesses[number]))
            case ChoosingTask(tasks=tasks):
                return self._begin(tasks[number])
        return self._not_understood(silent=False)

    def _take_value(self, reading: Reading) -> _Turn:
        """An answer to a question, or a correction."""
        name = reading.intent.partition(":")[2]
        (judged,) = reading.slots.values()
        if isinstance(self._state, ChoosingTask):
            chosen = [
                t for t in self._state.tasks if judged.value and t.intent == judged.value.value
            ]
            return self._begin(chosen[0]) if chosen else self._not_understood(silent=False)
        if not isinstance(self._state, (Asking, Choosing, Confirming)):
            return self._not_understood(silent=False)
        task = self._state.task
        slot = self._slot_for(name)
        if not judged.is_unknown:
            self._failures = 0
        _put(task, slot, judged)
        return self._go_on(task)

    def _slot_for(self, list_name: str) -> str:
        """The slot that a value of this list is meant for, in the present state."""
        if isinstance(self._state, (Asking, Choosing)):
            slot = self._state.slot
            if self._state.task.lists[slot] == list_name:
                return slot
        assert isinstance(self._state, (Asking, Choosing, Confirming))  # noqa: S101
        return next(s for s, found in self._state.task.lists.items() if found == list_name)

    def _begin(self, task: Task) -> _Turn:
        if not task.unknown:
            self._failures = 0
        return self._go_on(task)

    def _go_on(self, task: Task) -> _Turn:
        """The next step of a task: settle a guess, ask for a slot, confirm, or carry it out."""
        intent = self._intent(task.intent)
        for slot, guesses in task.guesses.items():
            del task.guesses[slot]
            return self._ask(Choosing(task, slot, guesses), self._which(guesses))
        for slot in task.lists:
            if slot in task.unknown or (slot not in task.values and _is_required(intent, slot)):
                return self._ask_slot(task, slot)
        if intent.confirm and not task.confirmed:
            return self._ask(Confirming(task), self._filled(intent.confirm, task))
        self._state = Idle()
        self._question = ()
        return _Turn(task=task)

    def _ask_slot(self, task: Task, slot: str) -> _Turn:
        intent = self._intent(task.intent)
        spec = intent.slots.get(slot)
        unknown = slot in task.unknown
        task.unknown.discard(slot)
        asked = task.asked.get(slot, 0)
        if asked > (spec.retries if spec else 2):
            return self._give_up()
        task.asked[slot] = asked + 1
        named = {"slot": slot.replace("_", " "), "destinations": self._errands.destinations()}
        default = self._phrases.ask
        if task.lists[slot] == builtin.DESTINATIONS:
            default = self._phrases.ask_destination
        questions = (spec.ask if spec else ()) or (default,)
        question = self._filled(questions[min(asked, len(questions) - 1)], **named)
        self._state = Asking(task, slot)
        self._question = question
        if not unknown:
            return _Turn(question)
        text = (spec.unknown if spec else None) or self._phrases.unknown
        return _Turn(self._filled(text, **named) + question)

    def _ask_which_task(self, tasks: tuple[Task, Task]) -> _Turn:
        first, second = (self._intent(task.intent).title for task in tasks)
        question = self._filled(self._phrases.which_one, first=first, second=second)
        return self._ask(ChoosingTask(tasks), question)

    def _which(self, guesses: Sequence[Value]) -> tuple[str, ...]:
        if len(guesses) == 1:
            return self._filled(self._phrases.did_you_mean, first=guesses[0])
        return self._filled(self._phrases.which_one, first=guesses[0], second=guesses[1])

    def _ask(self, state: State, question: tuple[str, ...]) -> _Turn:
        self._state = state
        self._question, self._unheard = question, False
        return _Turn(question)

    def _say(self, text: str) -> _Turn:
        return _Turn(self._filled(text))

    # When nothing was understood.

    def _not_understood(self, *, silent: bool) -> _Turn:
        self._failures += 1
        self._told = self._looked is not None and not asks_anything(self._looked.tokens)
        fallback = self._rules.fallback
        texts = (fallback.silence if silent else ()) or fallback.reprompts
        if self._failures > len(texts):
            return self._give_up()
        if isinstance(self._state, Asking):
            again = self._ask_slot(self._state.task, self._state.slot)
            if again.way_out:
                return again
            return _Turn(self._filled(texts[0]) + again.sentences)
        if isinstance(self._state, (Confirming, Choosing, ChoosingTask)):
            hint = self._filled(self._phrases.yes_or_no) if self._failures > 1 else ()
            return _Turn(self._filled(texts[0]) + hint + self._question)
        return self._say(texts[self._failures - 1])

    def _give_up(self) -> _Turn:
        self._failures = 0
        self._state = Idle()
        self._question = ()
        return _Turn(self._filled(self._rules.fallback.way_out.say), way_out=True)

    # Acting.

    async def _carry_out(self, task: Task) -> AsyncIterator[str]:
        intent = self._intent(task.intent)
        for sentence in self._errands.before(task):
            yield sentence
        outcome = await self._errands.run(task)
        answer = outcome.answer
        goes_on = not (intent.hang_up or outcome.caller_left or outcome.declined)
        if intent.more and goes_on:
            self._state = Offering(task.intent)
            answer += self._filled(intent.more, task)
        for sentence in self._keep(answer):
            yield sentence
        if intent.hang_up and outcome.worked:
            await self._errands.hang_up(task.intent)

    async def _leave(self) -> AsyncIterator[str]:
        for sentence in self._keep(await self._errands.leave()):
            yield sentence

    def _keep(self, answer: tuple[str, ...]) -> tuple[str, ...]:
        """Remember what is about to be said, whole, for `say again`."""
        if answer:
            self._last_answer = answer
        return answer

    def _filled(self, text: str, task: Task | None = None, /, **more: object) -> tuple[str, ...]:
        return self._errands.filled(text, task, **more)


def _put(task: Task, slot: str, judged: Judged) -> None:
    task.guesses.pop(slot, None)
    task.unknown.discard(slot)
    if judged.value is not None:
        task.values[slot] = judged.value
        return
    task.values.pop(slot, None)
    if judged.guesses:
        task.guesses[slot] = judged.guesses
    else:
        task.unknown.add(slot)


def _with_value(task: Task, slot: str, value: Value) -> Task:
    _put(task, slot, Judged(value))
    return task


def _is_required(intent: Intent, slot: str) -> bool:
    spec = intent.slots.get(slot)
    return spec is None or spec.required
