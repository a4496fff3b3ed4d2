"""A model in a file: the thread around llama.cpp, with a stand-in for llama.cpp itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.agents.llm.scripted_model import WEATHER

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.making import model_brain
from cordboard.errors import BrainError
from cordboard.vendors.local.config import GgufBrain


def chunk(text: str | None = None, why: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": why}]}


PROGRESS = {**chunk(), "prompt_progress": {"total": 600, "cache": 0, "processed": 128}}


class Llama:
    """`xllamacpp`, as far as it is used: calls block, a true answer of the callback stops."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []
        """All requests."""
        self.asked: list[dict[str, Any]] = []
        self.read: list[dict[str, Any]] = []
        """Requests without an answer: beginnings that are read ahead."""
        self.reading: list[Any] = []
        self.threads: set[str] = set()
        self.loaded = 0
        self.stopped = threading.Event()
        self.answer: list[Any] = [chunk("Hello. "), chunk("Yes."), chunk(None, "stop")]
        self.fails = False

    def last_words(self) -> str:
        return str(self.turns[-1]["messages"][-1]["content"]) if self.turns else ""

    def __call__(self, params: Any) -> Llama:
        if self.fails:
            raise RuntimeError("Failed to init server")
        assert params.n_parallel == 1
        self.loaded += 1
        return self

    def handle_chat_completions(self, body: dict[str, Any], take: Callable[[Any], bool]) -> None:
        self.threads.add(threading.current_thread().name)
        self.turns.append(body)
        if body["max_tokens"] == 0:
            self.read.append(body)
        else:
            self.asked.append(body)
        for part in self.answer if body["max_tokens"] else self.reading:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, threading.Event):
                part.wait(5)
            elif "prompt_progress" in part and not body.get("return_progress"):
                continue
            elif take(part):
                self.stopped.set()
                return


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> Llama:
    made = Llama()
    module: Any = ModuleType("xllamacpp")
    module.__spec__ = ModuleSpec("xllamacpp", None)
    module.Server = made
    module.json_schema_to_grammar = lambda _: "%llguidance {}\n"
    module.CommonParams = lambda: SimpleNamespace(
        model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    )
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    return made


def brain_of(folder: Path, **settings: Any) -> LlmBrain:
    path = folder / "model.gguf"
    path.write_bytes(b"GGUF")
    return model_brain(GgufBrain(type="gguf", model=str(path), **settings), {})


def session(greeting: str = "") -> DialogueSession:
    async def nothing(*_: Any, **__: Any) -> Any:
        raise AssertionError

    return DialogueSession("Be kind.", (WEATHER,), nothing, greeting=greeting)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - the model's thread gives no event
            await asyncio.sleep(0.01)


async def test_it_answers_from_a_thread_of_its_own(llama: Llama, tmp_path: Path) -> None:
    brain = brain_of(tmp_path, max_tokens=50)
    await asyncio.to_thread(brain.warm, (WEATHER,))
    dialogue = brain.open(session())
    assert [sentence async for sentence in dialogue.respond("hi")] == ["Hello.", "Yes."]
    (body,) = llama.asked
    assert body["max_tokens"] == 50
    assert body["cache_prompt"] is True
    assert "tools" not in body
    assert "- get_weather(" in body["messages"][0]["content"]
    assert 'CALL get_weather "' in body["grammar"]
    assert all(name.startswith("gguf") for name in llama.threads)
    await brain.close()


async def test_the_prefix_and_each_answer_are_read_ahead(llama: Llama, tmp_path: Path) -> None:
    brain = brain_of(tmp_path)
    await asyncio.to_thread(brain.warm, (WEATHER,), "Be kind.")
    dialogue = brain.open(session())
    await until(lambda: len(llama.read) == 2)
    assert [sentence async for sentence in dialogue.respond("hi")] == ["Hello.", "Yes."]
    await brain.close()
    (asked,) = llama.asked
    prefix, opened, answered = (body["messages"] for body in llama.read)
    assert prefix == opened == asked["messages"][:-1]
    said = [(message["role"], message["content"]) for message in answered[len(prefix) :]]
    assert said == [("user", "hi"), ("assistant", "Hello. Yes.")]


async def test_the_beginning_of_a_call_that_has_ended_is_not_read(
    llama: Llama, tmp_path: Path
) -> None:
    wait = threading.Event()
    llama.answer = [chunk("One moment. "), chunk("I "), wait, chunk("am."), chunk(None, "stop")]
    brain = brain_of(tmp_path)
    await asyncio.to_thread(brain.warm, (WEATHER,))
    respond = brain.open(session()).respond("hi")
    assert await anext(respond) == "One moment."
    read = len(llama.read)
    over, _ = brain.open(session("One.")), brain.open(session("Two."))
    over.close()
    wait.set()
    assert [sentence async for sentence in respond] == ["I am."]
    await brain.close()
    last = [body["messages"][-1]["content"] for body in llama.read[read:]]
    assert last == ["Two.", "One moment. I am."]


async def test_a_reading_stops_when_its_call_ends(llama: Llama, tmp_path: Path) -> None:
    wait = threading.Event()
    brain = brain_of(tmp_path)
    await asyncio.to_thread(brain.warm, (WEATHER,))
    llama.reading = [PROGRESS, wait, *[PROGRESS] * 1_000]
    dialogue = brain.open(session("Good day."))
    await until(lambda: llama.last_words() == "Good day.")
    dialogue.close()
    wait.set()
    assert await asyncio.to_thread(llama.stopped.wait, 5)
    await brain.close()


async def test_an_answer_comes_before_the_readings(llama: Llama, tmp_path: Path) -> None:
    wait = threading.Event()
    brain = brain_of(tmp_path)
    await asyncio.to_thread(brain.warm, (WEATHER,))
    dialogue = brain.open(session())
    assert [sentence async for sentence in dialogue.respond("hi")] == ["Hello.", "Yes."]
    await until(lambda: llama.last_words() == "Hello. Yes.")
    llama.reading = [PROGRESS, wait, PROGRESS, wait, PROGRESS]
    brain.open(session("Good day."))
    await until(lambda: llama.last_words() == "Good day.")
    answer = dialogue.respond("hello")
    first = asyncio.ensure_future(anext(answer))
    model: Any = brain._model
    await until(lambda: bool(model._waiting))
    wait.set()
    assert await first == "Hello."
    assert [sentence async for sentence in answer] == ["Yes."]
    await brain.close()
    last = [body["messages"][-1]["content"] for body in llama.turns[-4:]]
    assert last == ["Good day.", "hello", "Good day.", "Hello. Yes."]
    assert llama.stopped.is_set()


async def test_an_answer_that_is_given_up_stops_while_the_prompt_is_read(
    llama: Llama, tmp_path: Path
) -> None:
    wait = threading.Event()
    llama.answer = [PROGRESS, wait, *[PROGRESS] * 1_000]
    brain = brain_of(tmp_path)
    answer = asyncio.ensure_future(anext(brain.open(session()).respond("hi")))
    await until(lambda: bool(llama.asked))
    answer.cancel()
    await asyncio.wait((answer,))
    wait.set()
    assert await asyncio.to_thread(llama.stopped.wait, 5)
    await brain.close()


async def test_a_closed_model_is_not_loaded_to_read_ahead(llama: Llama, tmp_path: Path) -> None:
    brain = brain_of(tmp_path)
    await asyncio.to_thread(brain.warm, (WEATHER,))
    await brain.close()
    brain.open(session())
    await brain.close()
    assert llama.loaded == 1


async def test_a_model_trained_for_tools_gets_them_by_its_template(
    llama: Llama, tmp_path: Path
) -> None:
    brain = brain_of(tmp_path, tool_calls="template")
    assert [s async for s in brain.open(session()).respond("hi")] == ["Hello.", "Yes."]
    (body,) = llama.asked
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
    assert "grammar" not in body
    await brain.close()


@pytest.mark.parametrize("place", ["?", "4711-99"])
async def test_the_caller_is_asked_for_an_argument_that_nobody_said(
    llama: Llama, tmp_path: Path, place: str
) -> None:
    """`session` fails if the tool is called."""
    llama.answer = [
        chunk("CALL get_"),
        chunk(f'weather {{"place": "{place}"}}'),
        chunk(None, "stop"),
    ]
    brain = brain_of(tmp_path)
    dialogue = brain.open(session())
    assert [s async for s in dialogue.respond("the weather")] == ["Please tell me the place."]
    await brain.close()


async def test_the_second_of_two_callers_waits_and_then_gives_up(
    llama: Llama, tmp_path: Path
) -> None:
    wait = threading.Event()
    llama.answer = [chunk("One moment. "), chunk("I "), wait, chunk("am."), chunk(None, "stop")]
    brain = brain_of(tmp_path, wait_ms=100)
    first = brain.open(session()).respond("hi")
    assert await anext(first) == "One moment."
    with capture_logs() as logged, pytest.raises(BrainError) as caught:
        await anext(brain.open(session()).respond("hello"))
    assert caught.value.kind == "quota"
    assert [entry["event"] for entry in logged] == ["gguf_busy"]
    wait.set()
    assert [sentence async for sentence in first] == ["I am."]
    assert len(llama.asked) == 1, "a request that was given up is not sent"
    await brain.close()


async def test_a_free_model_answers_a_caller_who_does_not_wait(
    llama: Llama, tmp_path: Path
) -> None:
    brain = brain_of(tmp_path, wait_ms=0)
    await asyncio.to_thread(brain.warm, (WEATHER,))
    dialogue = brain.open(session())
    await until(lambda: len(llama.read) == 2)
    assert [sentence async for sentence in dialogue.respond("hi")] == ["Hello.", "Yes."]
    await brain.close()


async def test_an_answer_that_is_given_up_stops_the_model(llama: Llama, tmp_path: Path) -> None:
    wait = threading.Event()
    llama.answer = [chunk("Once upon a time. "), chunk("There "), wait, *[chunk("was ")] * 1_000]
    brain = brain_of(tmp_path)
    respond = brain.open(session()).respond("a story")
    assert await anext(respond) == "Once upon a time."
    await respond.aclose()
    wait.set()
    assert await asyncio.to_thread(llama.stopped.wait, 5)
    await brain.close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([RuntimeError("out of memory")], "internal"),
        ([chunk("Hel")], "dropped"),
        ([{"error": {"code": 400, "message": "too long", "type": "invalid"}}], "refused"),
    ],
)
async def test_what_goes_wrong_is_told(
    llama: Llama, tmp_path: Path, answer: list[Any], kind: str
) -> None:
    llama.answer = answer
    brain = brain_of(tmp_path)
    with pytest.raises(BrainError) as caught:
        async for _ in brain.open(session()).respond("hi"):
            pass
    assert caught.value.kind == kind
    await brain.close()


async def test_a_silent_model_is_given_up(llama: Llama, tmp_path: Path) -> None:
    wait = threading.Event()
    llama.answer = [wait]
    brain = brain_of(tmp_path, first_token_ms=100)
    with pytest.raises(BrainError) as caught:
        await anext(brain.open(session()).respond("hi"))
    assert caught.value.kind == "stalled"
    wait.set()
    await brain.close()


def test_a_file_that_cannot_be_loaded_is_told_beforehand(llama: Llama, tmp_path: Path) -> None:
    llama.fails = True
    brain = brain_of(tmp_path)
    brain.warm((WEATHER,))
    assert brain.problem is not None
    assert "cannot be loaded" in str(brain.problem)
    with pytest.raises(BrainError):
        brain.open(session())


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "xllamacpp")
        without.setattr("importlib.util.find_spec", lambda _: None)
        assert "cordboard[local-llm]" in str(brain_of(tmp_path).problem)


def test_a_missing_file_is_told(llama: Llama) -> None:
    problem = model_brain(GgufBrain(type="gguf", model="no/such.gguf"), {}).problem
    assert "no/such.gguf" in str(problem)
