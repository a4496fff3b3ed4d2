"""Measures the engine's recognition of spoken questions, and its lookups.

Each question is a call of its own: a simulated caller on the AudioSocket protocol speaks it over an
8 kHz u-law line to an engine in this process (the demo's configuration without its greeting) and
hangs up when the tool was called. *As heard* is the recogniser's text, the ledger's `caller.text`
of the question; *as understood* is the text that the engine used, its `understood`: with names that
a second recognition has settled, and those that the brain was certain of in their own spelling. The
target for word errors applies to the text as heard, the stricter of the two. *Looked up* is the
`icao` of the tool call. A lookup is right when it was for the requested code and no other; where no
code was requested, when there was no lookup. When the agent asks back ("Did you mean Oslo
Gardermoen?") and is right, the caller says yes; such a question is counted separately, not as
understood at once.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.caller import human_letters, spelled, spoken
from bench.engine_process import demo_config
from bench.options import Options
from bench.questions import (
    ALPHABET,
    QUESTIONS,
    SPELLED,
    Question,
)
from bench.report import Report, Target
from bench.word_errors import errors, words
from bench.written import SETS, add_text, add_trades
from cordboard.calls.events import Answering, Heard, LedgerEvent, Offered, ToolCalled
from cordboard.config.schema import Config
from cordboard.errors import AsteriskMissing, CallOver
from cordboard.speech.sentences import split_sentences
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.simulated_call import bench
from cordboard_testkit.timeline import Samples

CONTEXT = "demo"
AT_ONCE = 4
"""Calls at the same time, to save time."""
PATIENCE = 5.0
"""Seconds after the last word in which the tool must be called."""
LAST_HEARD = 3.0
"""Seconds to wait for a second sentence; the engine may have taken both as one."""
NOISE_DBFS = -37.0
YES = "Yes."
HELD_OUT_ROW = "held-out questions"
"""The row of the targets, which was not used for tuning."""
RIGHT_AT_ONCE = 95.0
WORD_ERRORS = 5.0
"""The targets, in percent."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Asked:
    """One question and its outcome."""

    text: str
    icao: str
    sound: Samples
    heard: list[str] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    understood: list[str] = field(default_factory=list)
    """The heard text, as the engine used it."""
    confirmed: bool = False
    """The agent asked back and the caller said yes."""
    called: asyncio.Event = field(default_factory=asyncio.Event)
    all_heard: asyncio.Event = field(default_factory=asyncio.Event)
    """True if the engine heard as many turns as there are sentences."""

    @property
    def right(self) -> bool:
        """Looked up right, at once or after a yes."""
        return set(self.looked_up) == ({self.icao} if self.icao else set())

    @property
    def at_once(self) -> bool:
        return self.right and not self.confirmed

    @property
    def word_errors(self) -> int:
        return errors(words(self.text), words(" ".join(self.heard)))

    @property
    def word_errors_as_understood(self) -> int:
        return errors(words(self.text), words(" ".join(self.understood)))

    def take(self, event: LedgerEvent) -> None:
        match event:
            case Heard(text=text, understood=understood):
                if not self.confirmed:
                    self.heard.append(text)
                    self.understood.append(understood or text)
                    if len(self.heard) >= len(split_sentences(self.text)):
                        self.all_heard.set()
            case ToolCalled(arguments=arguments):
                self.looked_up.append(str(arguments.get("icao", "")))
                self.called.set()
            case Answering(text=text):
                self.answers.append(text)


async def measure(progress: Progress, options: Options) -> Report:
    """`--only text` and `--only trades` are in writing and take a second; `spoken` is the rest."""
    parts = options.only or ("spoken", "text", "trades")
    if unknown := [part for part in parts if part not in ("spoken", "text", "trades")]:
        raise ValueError(f"no such part: {', '.join(unknown)}; there are spoken, text, trades")
    report = await _measure_spoken(progress) if "spoken" in parts else Report("understanding")
    if "text" in parts:
        await add_text(report)
    if "trades" in parts:
        await add_trades(report)
    return report


async def _measure_spoken(progress: Progress) -> Report:
    rows = {name: _spoken(asked) for name, asked in SETS.items() if asked}
    rows[f"first, noise {NOISE_DBFS:.0f} dBFS"] = _spoken(QUESTIONS, NOISE_DBFS)
    human = await _human(progress)
    if human:
        rows["human recordings, spelled"] = human
    everyone: dict[str, Asked] = {}
    config = demo_config()
    yes = spoken(YES)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            bench(
                _without_greeting(config),
                CONTEXT,
                "audiosocket",
                Path(folder),
                _Listener(everyone),
                progress,
            ) as place,
            MediaThread() as media,
        ):
            for name, asked in rows.items():
                line = _Line(place.engine.audiosocket_port, media, yes, _names(config))
                await _ask_all(asked, line, everyone)
                right = sum(question.at_once for question in asked)
                progress(f"{name}: {right} of {len(asked)} looked up right at once")
    return _report(rows, with_human=bool(human))


def _spoken(questions: Sequence[Question], noise_dbfs: float | None = None) -> list[Asked]:
    return [
        Asked(q.text, q.icao, spoken(q.text, q.speed, noise_dbfs, british=q.british))
        for q in questions
    ]


async def _human(progress: Progress) -> list[Asked]:
    """Codes in a human's recorded spelling alphabet; none when the recordings are missing."""
    try:
        letters = await human_letters(sorted(set("".join(SPELLED).lower())))
    except AsteriskMissing as missing:
        progress(f"no human recordings: {missing}")
        return []
    if not letters:
        progress("no human recordings: Asterisk's sounds have no phonetic/ folder")
        return []
    return [
        Asked(" ".join(ALPHABET[letter] for letter in code.lower()), code, spelled(code, letters))
        for code in SPELLED
    ]


def _without_greeting(config: Config) -> Config:
    quiet = config.contexts[CONTEXT].model_copy(update={"greeting": ""})
    return config.model_copy(update={"contexts": {**config.contexts, CONTEXT: quiet}})


def _names(config: Config) -> dict[str, str]:
    """The agent's name of each aerodrome."""
    rules = config.contexts[CONTEXT].rules
    assert rules is not None
    return {code: names[0] for code, names in rules.lists["aerodrome"].values.items()}


class _Listener:
    """Assigns each question the events of its call, by the caller's UUID."""

    def __init__(self, everyone: dict[str, Asked]) -> None:
        self._everyone = everyone
        self._calls: dict[str, Asked] = {}

    def __call__(self, call_id: str, _: int, event: LedgerEvent) -> None:
        if isinstance(event, Offered) and event.external_id in self._everyone:
            self._calls[call_id] = self._everyone[event.external_id]
        if call_id in self._calls:
            self._calls[call_id].take(event)


@dataclass(frozen=True, slots=True)
class _Line:
    """The parameters of a call."""

    port: int
    media: MediaThread
    yes: Samples
    names: dict[str, str]


async def _ask_all(questions: list[Asked], line: _Line, everyone: dict[str, Asked]) -> None:
    free = asyncio.Semaphore(AT_ONCE)

    async def ask(question: Asked) -> None:
        async with free:
            caller = SimulatedCaller("127.0.0.1", line.port, media=line.media)
            everyone[str(caller.uuid)] = question
            async with caller:
                with suppress(CallOver):
                    await _ask(caller, question, line)

    await asyncio.gather(*map(ask, questions))


async def _ask(caller: SimulatedCaller, question: Asked, line: _Line) -> None:
    caller.say(question.sound)
    await caller.said()
    if await _called(question):
        # An answer to the first sentence must not keep the second from being heard and counted.
        if len(split_sentences(question.text)) > 1:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_HEARD):
                    await question.all_heard.wait()
        return
    if question.icao and question.answers[-1:] == [f"Did you mean {line.names[question.icao]}?"]:
        question.confirmed = True
        caller.say(line.yes)
        await caller.said()
        await _called(question)


async def _called(question: Asked) -> bool:
    """True if the tool is called within `PATIENCE`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await question.called.wait()
    return question.called.is_set()


def _outcome(question: Asked) -> str:
    """The codes looked up; the agent's answer when it asked back or made no lookup."""
    codes = " ".join(question.looked_up)
    if question.at_once:
        return codes
    return f"{codes or '-'} ({question.answers[0] if question.answers else 'no answer'})"


def _rate(asked: list[Asked], word_errors: Callable[[Asked], int]) -> float:
    """Word errors in percent of the words spoken."""
    spoken_words = sum(len(words(question.text)) for question in asked)
    return 100 * sum(map(word_errors, asked)) / spoken_words


def _heard_rate(asked: list[Asked]) -> float:
    return _rate(asked, lambda question: question.word_errors)


def _understood_rate(asked: list[Asked]) -> float:
    return _rate(asked, lambda question: question.word_errors_as_understood)


def _targets(held_out: list[Asked]) -> list[Target]:
    at_once = 100 * sum(question.at_once for question in held_out) / len(held_out)
    return [
        Target("word errors, as heard", _heard_rate(held_out), WORD_ERRORS, "%"),
        Target("looked up right at once", at_once, RIGHT_AT_ONCE, "%", at_least=True),
    ]


def _report(rows: dict[str, list[Asked]], *, with_human: bool) -> Report:
    report = Report("understanding")
    heads = ["speech", "n", "words", "wrong words, as heard", "as understood"]
    report.table(
        "Heard and looked up",
        [*heads, "right at once", "or after a yes", "wrong"],
        [
            [
                name,
                str(len(asked)),
                str(sum(len(words(q.text)) for q in asked)),
                f"{_heard_rate(asked):.1f} %",
                f"{_understood_rate(asked):.1f} %",
                f"{sum(q.at_once for q in asked)}/{len(asked)}",
                f"{sum(q.right for q in asked)}/{len(asked)}",
                str(sum(bool(q.looked_up) and not q.right for q in asked)),
            ]
            for name, asked in rows.items()
        ],
    )
    wrong = [
        [name, q.text, " / ".join(q.heard) or "(nothing)", q.icao, _outcome(q)]
        for name, asked in rows.items()
        for q in asked
        if q.word_errors or not q.at_once
    ]
    if wrong:
        report.table(
            "Everything that was heard or looked up otherwise",
            ["speech", "said", "heard", "asked for", "looked up"],
            wrong,
        )
    if not with_human:
        report.notes.append("human recordings: not measured, they are not installed")
    if HELD_OUT_ROW in rows:
        report.targets = _targets(rows[HELD_OUT_ROW])
    else:
        report.notes.append("no held-out questions: no target can be judged, the others flatter")
    report.figures = {
        name: [
            {
                "said": q.text,
                "heard": q.heard,
                "understood": q.understood,
                "word_errors": q.word_errors,
                "word_errors_as_understood": q.word_errors_as_understood,
                "asked_for": q.icao,
                "looked_up": q.looked_up,
                "answered": q.answers,
                "confirmed": q.confirmed,
            }
            for q in asked
        ]
        for name, asked in rows.items()
    }
    return report
