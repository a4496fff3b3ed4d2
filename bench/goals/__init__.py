"""Measures a language model on this machine: callers' requests for tools that no prompt names.

Each JSON file of this folder has tools and requests for them (`Goals`); `--only` picks some, by
their names without `.json`. `requests.json` was written and committed before any prompt was tuned.
Each request is a written conversation of its own, with the context's greeting before it: the real
brain, the real desk, a real MCP server with fixed answers. A request is right when exactly the
expected call was made and worked; without an expected call, when no tool was called.

*Machine words* are signs and names that only machines use. *Invented* are figures and days in the
answer to a call that worked, which neither the tool's answer nor the caller contains.

*First words* are measured from the message, which stands for a caller's turn that is certain, until
the first sentence of the answer; fillers do not count. *Warm*: prompt and tools were read before,
and the caller has listened to the greeting for `LISTENS` seconds, in which the model reads. *Cold*:
the prompt, which begins with the call's id, and the tools were never read before, and nobody
listens.

The model is the file named by `CORDBOARD_LANGUAGE_MODEL` (`scripts/install-language-model`).
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.options import Options
from bench.report import Report, Summary, Target, milliseconds
from cordboard.chat.sessions import ChatSessions
from cordboard.cli.chat_here import chat_here
from cordboard.config.load import load
from cordboard.errors import KitError

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.json"))
VARIABLE = "CORDBOARD_LANGUAGE_MODEL"
RIGHT = 0.85
FIRST_WORDS = 0.6
"""The targets: share of the requests, and seconds to the first words of a warm answer without a
tool."""
LISTENS = 3.0
"""Seconds for which a caller hears a greeting."""
COLD = 3
"""Cold conversations of each file."""
_DAYS = "monday tuesday wednesday thursday friday saturday sunday today tomorrow tonight"
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty hundred thousand half quarter"
)
_FACTS = frozenset(f"{_DAYS} {_NUMBERS}".split())
_MACHINE = re.compile(r"[{}\[\]<>|_\\`*#=]|://|\b(?:CALL|RESULT|JSON|null|arguments?)\b")
_BUSY = 1.5
"""Load average."""
Progress = Callable[[str], None]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GoalTool(_Part):
    """A tool of the MCP server, as the model sees it, and its fixed answer."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema."""
    answer: dict[str, Any]
    """Each call's result (`structuredContent`)."""
    speech: str
    """Template of the sentence that is spoken: `speech_template` of the configuration."""


class Request(_Part):
    """The words of a caller."""

    says: str
    tool: str = ""
    """The tool that must be called; empty: none may be."""
    arguments: dict[str, Any] = {}


class Goals(_Part):
    """One file of requests."""

    prompt: str
    greeting: str
    tools: tuple[GoalTool, ...] = Field(min_length=1)
    requests: tuple[Request, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _tools_exist(self) -> Self:
        names = [tool.name for tool in self.tools]
        for request in self.requests:
            if request.tool and request.tool not in names:
                raise ValueError(
                    f"{request.says!r} wants the tool {request.tool!r}, not one of "
                    f"{', '.join(names)}"
                )
        return self

    @property
    def needed(self) -> int:
        """Number of requests that must be right."""
        return math.ceil(RIGHT * len(self.requests))


def read_goals(path: Path) -> Goals:
    """Raises `KitError` for a file that cannot be used."""
    try:
        return Goals.model_validate_json(path.read_bytes())
    except OSError as error:
        raise KitError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise KitError(f"{path}: {place}: {first['msg']}") from None


@dataclass(slots=True)
class Outcome:
    """One request and its answer."""

    request: Request
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    worked: int = 0
    spoken: str = ""
    first_words: float = 0.0
    """Seconds from the request to the first words of the answer."""
    failure: str = ""

    @property
    def right(self) -> bool:
        if self.failure or not self.spoken:
            return False
        if not self.request.tool:
            return not self.calls
        expected = (self.request.tool, _folded(self.request.arguments))
        return self.worked == 1 and [(n, _folded(a)) for n, a in self.calls] == [expected]

    @property
    def asked(self) -> str:
        """The calls, for people."""
        return "; ".join(f"{n} {orjson.dumps(dict(a)).decode()}" for n, a in self.calls) or "-"

    def __str__(self) -> str:
        verdict = "right" if self.right else "WRONG"
        answer = self.failure or self.spoken
        return f"{verdict}, {self.first_words:.2f} s: {self.request.says} | {self.asked} | {answer}"

    def machine_words(self, goals: Goals) -> list[str]:
        names = [tool.name for tool in goals.tools if "_" not in tool.name]
        return [*_MACHINE.findall(self.spoken), *(name for name in names if name in self.spoken)]

    def invented(self, goals: Goals) -> set[str]:
        """Return the facts in the answer to a call that came from nowhere."""
        answers = {tool.name: tool.answer for tool in goals.tools}
        known = [self.request.says, *(f"{answers.get(n)} {given}" for n, given in self.calls)]
        return _facts(self.spoken) - _facts(" ".join(known)) if self.worked else set()


def _folded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.strip().casefold() if isinstance(v, str) else v for k, v in arguments.items()}


def _facts(text: str) -> set[str]:
    return {w for w in re.findall(r"[a-z]+|\d+", text.lower()) if w in _FACTS or w.isdigit()}


def model_file() -> str:
    """Return the path of the model. Raises `KitError`."""
    path = os.environ.get(VARIABLE, "")
    if not path:
        raise KitError(f"set {VARIABLE} to a GGUF file: scripts/install-language-model --print")
    return path


def configuration(path: Path, goals: Goals, brain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with a context for the requests."""
    tools = [
        {"name": tool.name, "expose_as": tool.name, "speech_template": tool.speech}
        for tool in goals.tools
    ]
    server = {"command": [sys.executable, str(FOLDER / "server.py"), str(path)], "tools": tools}
    context = {"prompt": goals.prompt, "greeting": goals.greeting, "provider": "model"}
    return {
        "reload": {"watch": False},
        "providers": {"model": {"type": "pipeline", "brain": dict(brain)}},
        "contexts": {"goals": {**context, "tools": [tool.name for tool in goals.tools]}},
        "mcp": {"servers": {"goals": server}},
    }


def patient_brain() -> dict[str, Any]:
    """Return the settings of the model: the defaults, with timeouts for a busy machine, and there
    with one thread: two wait for each other. Raises `KitError`."""
    patience = dict.fromkeys(("wait_ms", "first_token_ms", "stall_ms"), 120_000)
    threads = 2 if os.getloadavg()[0] < _BUSY else 1
    return {"type": "gguf", "model": model_file(), "n_threads": threads, **patience}


async def ask_all(
    path: Path, brain: Mapping[str, Any], progress: Progress, *, listens: float = 0.0
) -> list[Outcome]:
    """Ask every request of a file, each in a conversation of its own; the caller listens for so
    many seconds first. Raises `KitError`."""
    goals = read_goals(path)
    tree = configuration(path, goals, brain)
    return await _converse(tree, goals.requests, progress, listens)


async def ask_cold(path: Path, brain: Mapping[str, Any], progress: Progress) -> list[Outcome]:
    """Ask some of the requests that need no tool, of a model that has read nothing of them."""
    goals = read_goals(path)
    unread = goals.model_copy(update={"prompt": f"Call {{call_id}}. {goals.prompt}"})
    chosen = [request for request in goals.requests if not request.tool][:COLD]
    return await _converse(configuration(path, unread, brain), chosen, progress, 0.0)


async def _converse(
    tree: dict[str, Any], requests: Sequence[Request], progress: Progress, listens: float
) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ai-agent.yaml"
        path.write_bytes(orjson.dumps({**tree, "calls": {"directory": str(folder / "calls")}}))
        config = load(path, os.environ).config
        async with chat_here(config, folder, "goals") as sessions:
            if listens:  # an idle engine has read prompt and tools before a caller comes
                await _ask(sessions, Outcome(Request(says="Hello?")), 0.0)
            outcomes = []
            for number, request in enumerate(requests, 1):
                outcome = await _ask(sessions, Outcome(request), listens)
                progress(f"{number} of {len(requests)}: {outcome}")
                outcomes.append(outcome)
            return outcomes


async def _ask(sessions: ChatSessions, outcome: Outcome, listens: float) -> Outcome:
    session, greeting = sessions.begin("goals", None)
    async for _ in greeting:
        pass
    await asyncio.sleep(listens)
    began = time.monotonic()
    async for event in session.take(outcome.request.says):
        match event.name:
            case "tool_call":
                outcome.calls.append((event.data["name"], event.data["arguments"]))
            case "tool_result":
                outcome.worked += event.data["status"] == "ok"
            case "token":
                outcome.first_words = outcome.first_words or time.monotonic() - began
                outcome.spoken += event.data["text"]
            case "error":
                outcome.failure = event.data["message"]
    await session.end("completed", "caller_hangup")
    return outcome


async def measure(progress: Progress, options: Options) -> Report:
    report = Report("goals")
    warm: list[Outcome] = []
    cold: list[Outcome] = []
    for path in FILES:
        if not options.chosen(path.stem):
            continue
        progress(f"{path.name}, warm")
        outcomes = await ask_all(path, patient_brain(), progress, listens=LISTENS)
        _judge(report, path, outcomes)
        warm += outcomes
        progress(f"{path.name}, cold")
        cold += await ask_cold(path, patient_brain(), progress)
    _time(report, warm, cold)
    return report


def _judge(report: Report, path: Path, outcomes: Sequence[Outcome]) -> None:
    goals, name = read_goals(path), path.stem
    rows = [
        [one.request.says, "right" if one.right else "wrong", one.asked, one.failure or one.spoken]
        for one in outcomes
    ]
    report.table(name, ["request", "", "calls", "spoken"], rows)
    right, count = sum(one.right for one in outcomes), len(outcomes)
    invented = sum(len(one.invented(goals)) for one in outcomes)
    machine = sum(len(one.machine_words(goals)) for one in outcomes)
    report.targets += [
        Target(f"{name}: right", right, goals.needed, f"of {count}", at_least=True),
        Target(f"{name}: invented facts", invented, 0, "words"),
        Target(f"{name}: machine words spoken", machine, 0, "words"),
    ]


def _time(report: Report, warm: Sequence[Outcome], cold: Sequence[Outcome]) -> None:
    """Add the times of the answers that came."""
    talk = [one.first_words for one in warm if one.spoken and not one.calls]
    acts = [one.first_words for one in warm if one.spoken and one.calls]
    first = [one.first_words for one in cold if one.spoken]
    kinds = {"warm, without a tool": talk, "warm, with a tool": acts, "cold, without a tool": first}
    rows = [
        [name, str(s.count), *map(milliseconds, (s.median, s.p95, s.most))]
        for name, s in ((name, Summary.of(values)) for name, values in kinds.items() if values)
    ]
    report.table("First words of the answer, in ms", ["", "n", "median", "p95", "most"], rows)
    report.figures["first_words_s"] = kinds
    if talk:
        median = Summary.of(talk).median
        report.targets.append(
            Target("first words, warm, without a tool, median", median, FIRST_WORDS, "s")
        )
