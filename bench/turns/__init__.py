"""Turn-taking and barge-in, judged by scripted callers who speak with a human's recorded voice.

    SimulatedCaller (AudioSocket, echo and noise of its room) --> `cordboard run` (its own process)

Two engines one after the other: callers take turns with an agent that asks a short question, and
callers speak, hum, cough or just listen while an agent says one long sentence. The corpus has two
halves: `--half tune` is for tuning, `--half held-out` gives the figures. Groups for
`--only`: turns, talk, or the beginning of a kind (`echo`, `backchannel`, `mid-phrase`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bench.engine_process import EngineProcess, demo_config, running_engine
from bench.options import Half, Options
from bench.report import Report
from bench.turns.cases import TALK, TURNS, Case, cases
from bench.turns.corpus import ANSWERS, GREETINGS
from bench.turns.judge import Verdict, judge_overlap, judge_turn, ledgers, overload, stages
from bench.turns.play import Played, play
from bench.turns.plots import draw
from bench.turns.table import report_on
from cordboard.errors import KitError
from cordboard_testkit.media_thread import MediaThread

CONTEXT = "turns"
QUESTION = "Hello. Shall I go on?"
TOGETHER = {TURNS: 3, TALK: 4, "listen": 6}
"""Simultaneous calls. Listeners need no recogniser, so more of them fit. An engine that degrades
under the load logs it, and the report repeats it."""
_EVERY = 25
Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options = Options()) -> Report:  # noqa: B008 - frozen
    """Raises `AsteriskMissing` (its prompts are the callers' voice), `KitError`."""
    chosen = [case for case in await cases(options.half) if _is_chosen(case, options)]
    if not chosen:
        raise KitError(f"no case of turns is called {' or '.join(options.only)}")
    verdict = Verdict()
    turns = [case for case in chosen if case.group == TURNS]
    talk = [case for case in chosen if case.group == TALK]
    if turns:
        await _take_turns(turns, options, verdict, progress)
    if talk:
        await _speak_over(talk, options, verdict, progress)
    if options.pictures is not None:
        draw(verdict, options.pictures)
    return report_on(verdict, options)


def _at_once(foreseen: int, options: Options) -> int:
    return min(foreseen, options.together or foreseen)


def _is_chosen(case: Case, options: Options) -> bool:
    wanted = options.only
    return not wanted or case.group in wanted or any(case.kind.startswith(w) for w in wanted)


async def _take_turns(
    chosen: Sequence[Case], options: Options, verdict: Verdict, progress: Progress
) -> None:
    async with running_engine(demo_config(), _changes(QUESTION, options.half)) as engine:
        played = await _play(engine, chosen, _at_once(TOGETHER[TURNS], options), progress)
        await engine.stop()  # every ledger is complete
        books = ledgers(engine.folder / "ledger")
        verdict.overload += overload(engine.log())
    for one in _whole(played, verdict):
        book = books.get(one.uuid, [])
        continuers = sum(line.get("kind") == "continuer" for line in book)
        verdict.turns.append(judge_turn(one, continuers))
        for stage, seconds in stages(book).items():
            verdict.stages.setdefault(stage, []).append(seconds)


async def _speak_over(
    chosen: Sequence[Case], options: Options, verdict: Verdict, progress: Progress
) -> None:
    listeners = [case for case in chosen if not len(case.sound) and not case.keys]
    speakers = [case for case in chosen if case not in listeners]
    async with running_engine(
        demo_config(), _changes(GREETINGS[options.half], options.half)
    ) as engine:
        alone = Case(TALK, "undisturbed", "undisturbed")
        (undisturbed,) = await _play(engine, [alone], 1, progress)
        played = await _play(engine, speakers, _at_once(TOGETHER[TALK], options), progress)
        played += await _play(engine, listeners, _at_once(TOGETHER["listen"], options), progress)
        await engine.stop()
        books = ledgers(engine.folder / "ledger")
        verdict.overload += overload(engine.log())
    for one in _whole(played, verdict):
        book = books.get(one.uuid, [])
        interruption = one.case.kind.startswith("interruption")
        verdict.overlaps.append(judge_overlap(one, undisturbed.heard, book, interruption))


def _changes(greeting: str, half: Half) -> dict[str, Any]:
    """A context with that greeting that answers everything with the half's long sentence."""
    answer = ANSWERS[half] + "."
    rules = {
        "lists": {"number": {"type": "number", "minimum": 0, "maximum": 99}},
        "intents": {
            "decision": {"sentences": ["(yes|no|okay) [please|thanks]"], "say": answer},
            "choice": {"sentences": ["[number] {number}"], "say": answer},
        },
        "fallback": {"reprompts": [answer] * 12},
    }
    context = {
        "prompt": "You answer the telephone.",
        "greeting": greeting if greeting.endswith("?") else f"{greeting}.",
        "provider": "local",
        "tools": ["hangup_call"],
        "rules": rules,
    }
    return {
        "default_context": CONTEXT,
        "audiosocket": {"context": CONTEXT, "calls_per_minute": 6_000},
        "contexts": {CONTEXT: context},
        "tools": {},
        "mcp": {"enabled": False},
    }


async def _play(
    engine: EngineProcess, chosen: Sequence[Case], together: int, progress: Progress
) -> list[Played]:
    """Play cases, `at_once` at a time; return them in order."""
    places = asyncio.Semaphore(together)
    done = 0

    async def one(case: Case, media: MediaThread) -> Played:
        nonlocal done
        async with places:
            played = await play(engine.audiosocket_port, case, media)
        done += 1
        if done % _EVERY == 0 or done == len(chosen):
            progress(f"{done} of {len(chosen)} calls; last: {case.kind}, {case.name}")
        return played

    async with MediaThread() as media:
        return list(await asyncio.gather(*(one(case, media) for case in chosen)))


def _whole(played: Sequence[Played], verdict: Verdict) -> list[Played]:
    """Return the calls that were played to their end, and name the others."""
    verdict.failures += [f"{p.case.kind}, {p.case.name}: {p.failed}" for p in played if p.failed]
    return [one for one in played if not one.failed]
