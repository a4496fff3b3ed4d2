"""The dialogue of one call: decides the reaction to the caller's words.

`respond` first decides (pure and quick: a new state, sentences, perhaps a task), then acts: yields
the sentences one by one and runs the task's tool. The state is settled before the first sentence is
yielded, so an interruption between sentences leaves nothing half done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from cordboard.agent_api.dialogue import DialogueSession, Doubt
from cordboard.agents.rules import builtin
from cordboard.agents.rules.errands import Errands
from cordboard.agents.rules.grammar import Grammar, Reading
from cordboard.agents.rules.listening import (
    expected_in,
    find_doubt,
    hints_for,
    is_whole_answer,
    meaning_of,
)
from cordboard.agents.rules.matching import Look
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
from cordboard.speech.sentences import split_sentences
from cordboard.speech.yes_or_no import is_plain_answer, read_yes_or_no

_PICKS = {"first": 0, "former": 0, "second": 1, "last": 1, "latter": 1, "other": 1}
"""Words that choose between two by their order."""
_MOST_OFFERS = 2
"""Offers of a transfer in a row that the caller neither takes nor declines."""


@dataclass(slots=True)
class _Turn:
    """The reaction to the caller's words."""

    sentences: tuple[str, ...] = ()
    task: Task | None = None
    """Task to run after the sentences."""
    keys: bool = False
    """True if the caller may choose the task's destination by a key, after the sentences."""
    repeats: bool = False
    """True if it repeats the last answer, which stays the last answer."""


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
        """The last question, while it still waits for an answer."""
        self._open: tuple[State, tuple[str, ...]] | None = None
        """A question that waits while the caller asks something else."""
        self._unheard = False
        """The last question was cut off before the caller had heard any of it."""
        self._failures = 0
        """Turns in a row that were not understood."""
        self._last_answer: tuple[str, ...] = split_sentences(session.greeting)
        self._looked: Look | None = None
        self.task: Task | None = None
        """The task that is being discussed, or was run last."""

    # Dialogue and Doubter.

    def hints(self) -> tuple[str, ...]:
        return hints_for(self._state, self._grammar, self._rules)

    def is_complete(self, text: str) -> bool:
        if isinstance(self._state, Confirming) and is_plain_answer(text):
            return True
        return is_whole_answer(self._look(text), self._reading(text), self._state, self._grammar)

    def understood(self, text: str) -> str:
        """Return `text`: names are put right by listening again only."""
        return text

    def doubt(self, text: str) -> Doubt | None:
        """See `Doubter.doubt`."""
        return find_doubt(self._grammar, self._look(text), self._reading(text))

    def meaning(self, text: str, doubt: Doubt) -> str:
        """See `Doubter.meaning`."""
        reading = self._reading(text)
        if reading is None or reading.rival or not reading.sure:
            return ""
        expected = expected_in(self._state)
        intent = reading.intent or (expected.intent if expected else "")
        return meaning_of(self._grammar, reading, intent, doubt)

    async def respond(self, text: str) -> AsyncGenerator[str, None]:
        turn = self._decide(text)
        if turn.sentences and not turn.repeats:
            self._last_answer = turn.sentences
        for sentence in turn.sentences:
            yield sentence
        if turn.task is not None:
            if turn.keys:
                await self._errands.choose_by_key(turn.task)
                self._state, self._question = Idle(), ()
            async for sentence in self._carry_out(turn.task):
                yield sentence

    def interrupted(self, heard: str) -> None:
        """Do nothing: `say again` repeats the whole answer, however little of it was heard."""
        opening = " ".join(" ".join(self._question).split()[:2])
        self._unheard = opening not in " ".join(heard.split())

    # Understanding.

    def _look(self, text: str) -> Look:
        if self._looked is None or self._looked.text != text:
            self._looked = self._grammar.look(text, self._today())
        return self._looked

    def _reading(self, text: str) -> Reading | None:
        return self._grammar.understand(self._look(text), expected_in(self._state))

    def _decide(self, text: str) -> _Turn:
        reading = self._reading(text)
        if isinstance(self._state, (Confirming, Choosing, ChoosingTask)):
            answered = self._pick(text) or self._answered(text, reading)
            if answered is not None:
                return answered
        if reading is None:
            return self._not_understood(silent=not text.strip())
        if reading.intent in self._grammar.steering:
            return self._steer(reading.intent)
        if reading.intent == builtin.UNABLE:
            return self._unable()
        if not reading.intent:
            return self._take_values(reading)
        if isinstance(self._state, ChoosingTask):
            return self._begin(self._chosen(self._state.tasks, reading))
        task = self._task_of(reading)
        if reading.rival:
            self._failures = 0
            return self._ask_which_task((task, self._new_task(reading.rival)))
        if not reading.sure:
            return self._ask_which_task((task,))
        return self._begin(task)

    def _answered(self, text: str, reading: Reading | None) -> _Turn | None:
        """A yes or a no beside other words or thanks. `Not sure`, `yes, but why?` are neither."""
        answer = read_yes_or_no(text)
        if reading is not None and reading.intent != builtin.THANKS:
            answer = None if reading.verbatim or reading.slots else answer
        if answer is None:
            return None
        return self._yes() if answer else self._no()

    def _pick(self, text: str) -> _Turn | None:
        """`The second one.`"""
        tokens = self._look(text).tokens
        places = [_PICKS[token.text] for token in tokens if token.text in _PICKS]
        if not places or sum(token.is_content for token in tokens) > 2:
            return None
        number = places[-1]
        match self._state:
            case Choosing(task=task, slot=slot, guesses=guesses) if number < len(guesses):
                task.put(slot, Judged(guesses[number]))
                return self._go_on(task)
            case ChoosingTask(tasks=tasks) if number < len(tasks):
                return self._begin(tasks[number])
        return None

    def _chosen(self, tasks: Sequence[Task], reading: Reading) -> Task:
        """Return the one of two tasks that the caller names now, with its known values."""
        fresh = self._task_of(reading)
        for task in tasks:
            if task.intent == reading.intent:
                task.values |= fresh.values
                return task
        return fresh

    def _task_of(self, reading: Reading) -> Task:
        task = self._new_task(reading.intent)
        for slot, judged in reading.slots.items():
            task.put(slot, judged)
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

    def _steer(self, name: str) -> _Turn:
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
            return self._unable() if self._has_acted() else self._cancel(said)
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
                return _Turn(self._question)  # that yes answered something else
            case Confirming(task=task) if task.confirmed:  # its tool refused
                return self._ask(self._state, self._filled(self._phrases.what_instead))
            case Confirming(task=task):
                task.confirmed = True
                return self._go_on(task)
            case Choosing(task=task, slot=slot, guesses=(guess,)):
                task.put(slot, Judged(guess))
                return self._go_on(task)
            case ChoosingTask(tasks=(task,)):
                return self._begin(task)
            case Choosing() | ChoosingTask():
                return _Turn(self._question)
            case Offering(intent=name) if self._grammar.slots.get(name):
                return self._go_on(self._new_task(name))
            case Asking(task=task, slot=slot) if task.lists[slot] == builtin.DESTINATIONS:
                return self._offer_transfer(task)
            case Asking():
                return _Turn(self._question)
        self._state = Idle()
        return self._say(self._phrases.how_can_i_help)

    def _no(self) -> _Turn:
        self._failures = 0
        match self._state:
            case Confirming(task=task) if task.confirmed:  # its tool refused; `more` was asked
                turn = self._cancel()
                return self._no() if self._intent(task.intent).more else turn
            case Confirming(task=task) if task.lists and self._intent(task.intent).confirm:
                return self._ask(self._state, self._filled(self._phrases.what_instead))
            case Choosing(task=task):
                return self._go_on(task)
            case Asking() | Confirming() | ChoosingTask():
                return self._cancel()
            case Offering() if builtin.GOODBYE in self._grammar.intents:
                return self._begin(self._new_task(builtin.GOODBYE))
        self._state = Idle()
        return self._say(self._phrases.how_can_i_help)

    def _has_acted(self) -> bool:
        """True if nothing is open, and the last task did something that cannot be taken back."""
        task, state = self.task, self._state
        done = isinstance(state, Idle) or (isinstance(state, Offering) and bool(state.intent))
        acts = task is not None and task.intent not in self._grammar.harmless
        return done and acts and task is not None and self._intent(task.intent).tool is not None

    def _cancel(self, said: str | None = None) -> _Turn:
        self._state = Offering()
        self._question, self._open = (), None
        return self._say(said or self._phrases.cancelled)

    def _take_values(self, reading: Reading) -> _Turn:
        """An answer to a question, or a correction."""
        match self._state:
            case Asking(task=task) | Choosing(task=task) | Confirming(task=task):
                asked = self._state.slot if isinstance(self._state, Asking) else ""
                for slot, judged in reading.slots.items():
                    if not judged.is_unknown:
                        self._failures = 0
                    known = task.values.get(slot)
                    other = judged.value not in (None, known) and not reading.corrects
                    if asked and slot != asked and known and judged.value and other:
                        judged = Judged(None, (judged.value, known))  # not taken unasked
                    task.put(slot, judged)
                if isinstance(self._state, Choosing) and self._state.slot not in reading.slots:
                    task.guesses[self._state.slot] = self._state.guesses
                return self._go_on(task)
        return self._not_understood(silent=False)

    def _begin(self, task: Task) -> _Turn:
        if not task.unknown:
            self._failures = 0
        if isinstance(self._state, (Asking, Choosing, Confirming)):
            self._put_aside(self._state, task)
        elif task.intent not in self._grammar.harmless:
            self._open = None
        return self._go_on(task)

    def _put_aside(self, state: Asking | Choosing | Confirming, task: Task) -> None:
        """Begin a task while another one waits for an answer: a harmless one comes in between and
        takes over its values; the same one goes on with them; any other replaces it."""
        form = state.task
        if form.intent == task.intent:
            task.values = form.values | task.values
        elif task.intent in self._grammar.harmless:
            self._open = self._open or (state, self._question)
            for slot, name in task.lists.items():
                known = (v for other, v in form.values.items() if form.lists[other] == name)
                if slot not in task.guesses and (value := next(known, None)) is not None:
                    task.values.setdefault(slot, value)
                    task.unknown.discard(slot)
        else:
            self._open = None

    def _go_on(self, task: Task) -> _Turn:
        """Take the next step of a task: settle a guess, ask for a slot, confirm, or run it."""
        self.task = task
        intent = self._intent(task.intent)
        for slot, guesses in task.guesses.items():
            del task.guesses[slot]
            return self._ask(Choosing(task, slot, guesses), self._which(guesses))
        for slot in task.lists:
            if slot in task.unknown or (slot not in task.values and _is_required(intent, slot)):
                return self._ask_slot(task, slot)
        if intent.confirm and not task.confirmed:
            return self._ask(Confirming(task), self._filled(intent.confirm, task))
        self._state, self._question = self._open or (Idle(), ())
        self._open = None
        return _Turn(task=task)

    def _ask_slot(self, task: Task, slot: str) -> _Turn:
        intent = self._intent(task.intent)
        spec = intent.slots.get(slot)
        unknown = slot in task.unknown
        task.unknown.discard(slot)
        wrong = (spec.unknown if spec else None) or self._phrases.unknown
        named = {"slot": slot.replace("_", " ")}
        said = self._filled(wrong, **named) if unknown else ()
        if task.lists[slot] == builtin.DESTINATIONS:
            return self._offer_transfer(task, said)
        asked = task.asked.get(slot, 0)
        if asked > (spec.retries if spec else 2):
            return self._give_up()
        task.asked[slot] = asked + 1
        questions = (spec.ask if spec else ()) or (self._phrases.ask,)
        question = self._filled(questions[min(asked, len(questions) - 1)], **named)
        self._state = Asking(task, slot)
        self._question = question
        return _Turn(said + question)

    def _ask_which_task(self, tasks: tuple[Task, ...]) -> _Turn:
        self.task = tasks[0]
        titles = [self._intent(task.intent).title for task in tasks]
        return self._ask(ChoosingTask(tasks), self._which(titles))

    def _which(self, guesses: Sequence[Value | str]) -> tuple[str, ...]:
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
        fallback = self._rules.fallback
        texts = (fallback.silence if silent else ()) or fallback.reprompts
        if offered := self._offered():
            return self._offer_transfer(offered, self._filled(texts[0]))
        if self._failures > len(texts):
            return self._give_up()
        if isinstance(self._state, Asking):
            again = self._ask_slot(self._state.task, self._state.slot)
            if again.task is not None or self._offered():
                return again
            return _Turn(self._filled(texts[0]) + again.sentences)
        if isinstance(self._state, (Confirming, Choosing, ChoosingTask)):
            hint = self._filled(self._phrases.yes_or_no) if self._failures > 1 else ()
            return _Turn(self._filled(texts[0]) + hint + self._question)
        return self._say(texts[self._failures - 1])

    def _give_up(self) -> _Turn:
        """Pass the caller on, or offer to; end the call only if neither is possible."""
        self._failures = 0
        self._open = None
        fallback = self._rules.fallback
        if builtin.DESTINATIONS in self._grammar.finders and not fallback.way_out.transfer:
            task = self._new_task(builtin.TRANSFER)
            return self._offer_transfer(task, self._filled(fallback.reprompts[0]))
        self._state, self._question = Idle(), ()
        return _Turn(task=Task(builtin.WAY_OUT, {}))

    def _unable(self) -> _Turn:
        """Say that a request cannot be met, and offer a transfer if there is one."""
        self._failures = 0
        said = self._filled(self._phrases.unable)
        if builtin.DESTINATIONS not in self._grammar.finders:
            return _Turn(said)
        return self._offer_transfer(self._offered() or self._new_task(builtin.TRANSFER), said)

    def _offered(self) -> Task | None:
        """Return the transfer whose offer waits for an answer."""
        match self._state:
            case Asking(task=task) | Confirming(task=task) if "destination" in task.asked:
                return task if task.intent == builtin.TRANSFER else None
        return None

    def _offer_transfer(self, task: Task, said: tuple[str, ...] = ()) -> _Turn:
        """Offer the destinations, `_MOST_OFFERS` times; then pass the caller on, by a key if keys
        can be collected: a person understands more."""
        known = self._grammar.finders[builtin.DESTINATIONS].values
        first, *others = known.values()
        offers = task.asked["destination"] = task.asked.get("destination", 0) + 1
        if offers > _MOST_OFFERS:
            last = self._rules.fallback.way_out.transfer or "operator"
            task.put("destination", Judged(known.get(last.upper(), first)))
            if not (menu := self._errands.key_menu()):
                return replace(self._go_on(task), sentences=said)
            turn = self._ask(Asking(task, "destination"), said + menu)
            return replace(turn, task=task, keys=True)
        if others:
            state: State = Asking(task, "destination")
            text = self._phrases.offer_transfer if said else self._phrases.ask_destination
        else:
            task.put("destination", Judged(first))
            state, text = Confirming(task), self._phrases.offer_transfer
        named = {"destinations": self._errands.destinations()}
        return self._ask(state, said + self._filled(text, **named))

    # Acting.

    async def _carry_out(self, task: Task) -> AsyncIterator[str]:
        intent = self._intent(task.intent)
        for sentence in self._errands.before(task):
            yield sentence
        outcome = await self._errands.run(task)
        answer = outcome.answer
        goes_on = not (intent.hang_up or outcome.caller_left or outcome.declined)
        if self._question:  # the caller had asked something in between
            answer += self._question
        elif intent.more and goes_on:
            self._state = Offering(task.intent)
            answer += self._filled(intent.more, task)
        if outcome.refused:
            self._state, self._question = Confirming(task), answer
        self._last_answer = answer or self._last_answer
        for sentence in answer:
            yield sentence
        if intent.hang_up and outcome.worked:
            await self._errands.hang_up(task.intent)

    def _filled(self, text: str, task: Task | None = None, /, **more: object) -> tuple[str, ...]:
        return self._errands.filled(text, task, **more)


def _is_required(intent: Intent, slot: str) -> bool:
    spec = intent.slots.get(slot)
    return spec is None or spec.required
