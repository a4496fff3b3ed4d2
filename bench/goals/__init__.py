"""Measures a language model on this machine: twenty callers' requests for five tools.

`requests.json` was written and committed before any prompt was tuned, and the prompts name none of
its tools. Each request is a written conversation of its own, with the context's greeting before it:
the real brain, the real desk, a real MCP server with fixed answers. A request is right when exactly
the expected call was made and worked; for six of the twenty, when no tool was called.

*Machine words* are signs and names that only machines use. *Invented* are figures and days in the
answer to a call that worked, which neither the tool's answer nor the caller contains.

The model is the file named by `CORDBOARD_LANGUAGE_MODEL` (`scripts/install-language-model`).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.report import Report, Summary, Target, milliseconds
from cordboard.chat.sessions import ChatSessions
from cordboard.cli.chat_here import chat_here
from cordboard.config.load import load
from cordboard.errors import KitError

FOLDER = Path(__file__).parent
DATA: dict[str, Any] = orjson.loads((FOLDER / "requests.json").read_bytes())
VARIABLE = "CORDBOARD_LANGUAGE_MODEL"
RIGHT = 17
FIRST_WORDS = 0.6
"""The targets: requests, and seconds to the first words of an answer without a tool."""
_DAYS = "monday tuesday wednesday thursday friday saturday sunday today tomorrow tonight"
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty hundred thousand half quarter"
)
_FACTS = frozenset(f"{_DAYS} {_NUMBERS}".split())
_MACHINE = re.compile(
    r"[{}\[\]<>|_\\`*#=]|://|\bCALL\b|\bRESULT\b|\bJSON\b|\bnull\b|\bargument", re.IGNORECASE
)
_BUSY = 1.5
"""Load average."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """One request and its answer."""

    says: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
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
        if not self.tool:
            return not self.calls
        expected = (self.tool, _folded(self.arguments))
        return self.worked == 1 and [(n, _folded(a)) for n, a in self.calls] == [expected]

    @property
    def machine_words(self) -> list[str]:
        names = [tool["name"] for tool in DATA["tools"] if "_" not in tool["name"]]
        return [*_MACHINE.findall(self.spoken), *(name for name in names if name in self.spoken)]

    @property
    def invented(self) -> set[str]:
        """Return the facts in the answer to a call that came from nowhere."""
        answers = {tool["name"]: tool["answer"] for tool in DATA["tools"]}
        known = [self.says, *(f"{answers.get(name)} {given}" for name, given in self.calls)]
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


def configuration(brain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with a context for the requests."""
    tools = [
        {"name": tool["name"], "expose_as": tool["name"], "speech_template": tool["speech"]}
        for tool in DATA["tools"]
    ]
    server = {"command": [sys.executable, str(FOLDER / "server.py")], "tools": tools}
    context = {"prompt": DATA["prompt"], "greeting": DATA["greeting"], "provider": "model"}
    return {
        "reload": {"watch": False},
        "providers": {"model": {"type": "pipeline", "brain": dict(brain)}},
        "contexts": {"goals": {**context, "tools": [tool["name"] for tool in tools]}},
        "mcp": {"servers": {"goals": server}},
    }


def patient_brain() -> dict[str, Any]:
    """Return the settings of the model: the defaults, with timeouts for a busy machine, and there
    with one thread: two wait for each other. Raises `KitError`."""
    patience = dict.fromkeys(("wait_ms", "first_token_ms", "stall_ms"), 120_000)
    threads = 2 if os.getloadavg()[0] < _BUSY else 1
    return {"type": "gguf", "model": model_file(), "n_threads": threads, **patience}


async def ask_all(brain: Mapping[str, Any], progress: Progress) -> list[Outcome]:
    """Ask every request, each in a conversation of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ai-agent.yaml"
        tree = {**configuration(brain), "calls": {"directory": str(folder / "calls")}}
        path.write_bytes(orjson.dumps(tree))
        config = load(path, os.environ).config
        async with chat_here(config, folder, "goals") as sessions:
            outcomes = []
            for request in DATA["requests"]:
                outcome = await _ask(sessions, Outcome(**request))
                progress(f"{'right' if outcome.right else 'WRONG'}: {outcome}")
                outcomes.append(outcome)
            return outcomes


async def _ask(sessions: ChatSessions, outcome: Outcome) -> Outcome:
    session, greeting = sessions.begin("goals", None)
    async for _ in greeting:
        pass
    began = time.monotonic()
    async for event in session.take(outcome.says):
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


async def measure(progress: Progress) -> Report:
    return _report(await ask_all(patient_brain(), progress))


def _report(outcomes: Sequence[Outcome]) -> Report:
    report = Report("goals")
    rows = [
        [
            outcome.says,
            "right" if outcome.right else "wrong",
            "; ".join(f"{n} {orjson.dumps(dict(a)).decode()}" for n, a in outcome.calls) or "-",
            outcome.failure or outcome.spoken,
        ]
        for outcome in outcomes
    ]
    report.table("Twenty requests", ["request", "", "calls", "spoken"], rows)
    talk = Summary.of([outcome.first_words for outcome in outcomes if not outcome.calls])
    acts = Summary.of([outcome.first_words for outcome in outcomes if outcome.calls] or [0.0])
    report.table(
        "First words of the answer, in ms",
        ["", "n", "median", "most"],
        [
            [name, str(s.count), milliseconds(s.median), milliseconds(s.most)]
            for name, s in (("without a tool", talk), ("with a tool", acts))
        ],
    )
    report.targets = [
        Target("right", sum(o.right for o in outcomes), RIGHT, "of 20", at_least=True),
        Target("invented facts", sum(len(o.invented) for o in outcomes), 0, "words"),
        Target("machine words spoken", sum(len(o.machine_words) for o in outcomes), 0, "words"),
        Target("first words without a tool, median", talk.median, FIRST_WORDS, "s"),
    ]
    return report
