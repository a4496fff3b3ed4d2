"""Brains against emulated services: whole conversations, and everything that can go wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.agents.llm.scripted_model import WEATHER

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.llm.brain import LlmBrain, LlmDialogue
from cordboard.agents.making import model_brain
from cordboard.config.sections.language_model import ModelBrain
from cordboard.errors import BrainError
from cordboard.tools.tool import JsonObject, Status, ToolReply
from cordboard.vendors.anthropic.config import AnthropicBrain
from cordboard.vendors.gemini.config import GeminiBrain
from cordboard.vendors.openai.config import OpenAIChatBrain, OpenAIResponsesBrain
from cordboard_testkit.emulators.anthropic.text import AnthropicEmulator
from cordboard_testkit.emulators.gemini.text import GeminiTextEmulator
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use
from cordboard_testkit.emulators.text_service import TextEmulator
from cordboard_testkit.http_proxy import HttpProxy

SETTINGS: dict[str, tuple[type[TextEmulator], Callable[..., ModelBrain]]] = {
    "openai_chat": (OpenAITextEmulator, OpenAIChatBrain),
    "openai_responses": (OpenAITextEmulator, OpenAIResponsesBrain),
    "anthropic": (AnthropicEmulator, AnthropicBrain),
    "gemini": (GeminiTextEmulator, GeminiBrain),
}


class Call:
    """One conversation with a service."""

    def __init__(self, brain: LlmBrain, emulator: TextEmulator, greeting: str = "Welcome.") -> None:
        self.brain = brain
        self.emulator = emulator
        self.asked: list[JsonObject] = []
        self.tool_seconds = 0.0
        self.used: list[Usage] = []
        session = DialogueSession(
            "Be kind.", (WEATHER,), self.ask, {}, greeting, (), self.used.append
        )
        self.dialogue: LlmDialogue = brain.open(session)

    async def ask(self, name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        self.asked.append(arguments)
        await asyncio.sleep(self.tool_seconds)
        return ToolReply("1", name, Status.OK, f"Sunny in {arguments['place']}.")

    async def say(self, text: str) -> str:
        async with aclosing(self.dialogue.respond(text)) as sentences:
            return " ".join([sentence async for sentence in sentences])


Dial = Callable[..., AbstractAsyncContextManager[Call]]


@pytest.fixture(params=SETTINGS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dial(kind: str) -> Dial:
    @asynccontextmanager
    async def dialled(
        *answers: Answer, faults: tuple[Fault, ...] = (), key: str = "test-key", **settings: Any
    ) -> AsyncIterator[Call]:
        make, section = SETTINGS[kind]
        script = Script(answers, faults=faults, thinking_ms=1)
        async with make(script, retry_after=settings.pop("retry_after", 0.05)) as emulator:  # type: ignore[call-arg]
            told = section(type=kind, base_url=emulator.url, api_key=key, **settings)
            brain = model_brain(told, {})
            try:
                yield Call(brain, emulator)
            finally:
                await brain.close()
            tasks = [task for task in asyncio.all_tasks() if "warm" in repr(task.get_coro())]
            assert not tasks

    return dialled


WEATHER_TWICE = Answer(
    "One moment.",
    asks=(Use("get_weather", {"place": "Oslo"}), Use("get_weather", {"place": "Rome"})),
    then="I have it: {results}",
)


async def test_a_conversation_with_tools(dial: Dial) -> None:
    async with dial(Answer("Hello. How are you?"), WEATHER_TWICE, Answer("Bye now.")) as call:
        assert await call.say("hi") == "Hello. How are you?"
        said = await call.say("weather please")
        assert said == "One moment. I have it: Sunny in Oslo. Sunny in Rome."
        call.dialogue.interrupted("One moment. I have it: Sunny in")
        assert await call.say("thanks") == "Bye now."
        assert call.asked == [{"place": "Oslo"}, {"place": "Rome"}]
        assert call.emulator.violations == []
        assert call.emulator.connections == 4
        assert all(usage.amounts["output_text_tokens"] > 0 for usage in call.used)
        assert len(call.used) == 4


@pytest.mark.parametrize("kind", ["openai_chat", "gemini"])
async def test_a_server_that_cannot_stream_is_understood(dial: Dial) -> None:
    async with dial(WEATHER_TWICE, Answer("Bye now.")) as call:
        call.emulator.streams = False
        assert await call.say("hi") == "One moment. I have it: Sunny in Oslo. Sunny in Rome."
        assert await call.say("thanks") == "Bye now."
        assert call.asked == [{"place": "Oslo"}, {"place": "Rome"}]
        assert all(usage.amounts["output_text_tokens"] > 0 for usage in call.used)


async def test_a_model_that_writes_its_calls_as_text(dial: Dial) -> None:
    written = '<tool_call>\n{"name": "get_weather", "arguments": {"place": "Oslo"}}\n</tool_call>'
    answer = Answer(f"<think>They ask for Oslo.</think>One moment.\n{written}", then="{results}")
    async with dial(answer, Answer("Bye now.")) as call:
        assert await call.say("weather please") == "One moment. Sunny in Oslo."
        assert await call.say("thanks") == "Bye now."
        assert call.asked == [{"place": "Oslo"}]
        assert call.emulator.violations == []


async def test_a_conversation_through_a_proxy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, section = SETTINGS[kind]
    script = Script((Answer("Hello. How are you?"), Answer("Bye.")), thinking_ms=1)
    async with make(script) as emulator:
        url = urlsplit(emulator.url)
        async with HttpProxy(url.port or 0, user="me", password="secret") as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.delenv("NO_PROXY", raising=False)
            elsewhere = url._replace(netloc="service.test").geturl()
            brain = model_brain(section(type=kind, base_url=elsewhere, api_key="test-key"), {})
            try:
                call = Call(brain, emulator)
                assert await call.say("hi") == "Hello. How are you?"
                proxy.refuse_with = 407
                with pytest.raises(BrainError) as failure:
                    await call.say("and now?")
            finally:
                await brain.close()
        assert proxy.requests[0].startswith("http://service.test/")
    assert emulator.violations == []
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize("thinks", [{}, {"thinking": {"type": "adaptive"}}])
async def test_a_service_that_pauses_gets_its_message_back_and_goes_on(thinks: Any) -> None:
    script = Script((Answer("Open from nine."), Answer("Bye.")), thinking_ms=1)
    async with AnthropicEmulator(script, pauses=True) as emulator:
        told = AnthropicBrain(
            type="anthropic", base_url=emulator.url, api_key="test-key", max_retries=0, **thinks
        )
        brain = model_brain(told, {})
        try:
            call = Call(brain, emulator)
            assert await call.say("when do you open") == "Let me look. Open from nine."
            assert await call.say("bye") == "Let me look. Bye."
        finally:
            await brain.close()
        assert emulator.violations == []
        kinds = [block["type"] for block in emulator.asked[1]["messages"][-1]["content"]]
        assert kinds[-2:] == ["text", "server_tool_use"]
        assert "server_tool_use" not in str(emulator.asked[2]), "it is needed only to go on"


@pytest.mark.parametrize("kind", ["openai_responses"])
async def test_the_phase_of_a_message_goes_back_with_it(dial: Dial) -> None:
    async with dial(WEATHER_TWICE, Answer("Bye.")) as call:
        await call.say("weather")
        await call.say("bye")
        said = [
            (item["content"], item.get("phase"))
            for item in call.emulator.asked[-1]["input"]
            if item.get("role") == "assistant"
        ]
        assert said == [
            ("Welcome.", None),
            ("One moment.", "commentary"),
            ("I have it: Sunny in Oslo. Sunny in Rome.", "final_answer"),
        ]


THINKS: dict[str, Any] = {
    "openai_chat": {"reasoning_effort": "low", "parallel_tool_calls": True},
    "openai_responses": {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}},
    "anthropic": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    "gemini": {"thinking_config": {"thinking_level": "low"}, "temperature": 0.5},
}


async def test_a_model_that_thinks(dial: Dial, kind: str) -> None:
    async with dial(WEATHER_TWICE, Answer("Bye."), **THINKS[kind]) as call:
        assert "Rome" in await call.say("weather")
        assert await call.say("bye") == "Bye."
        assert call.emulator.violations == []


@pytest.mark.parametrize("heard", ["", "One", "One moment."])
async def test_an_interruption_while_tools_run(dial: Dial, kind: str, heard: str) -> None:
    async with dial(WEATHER_TWICE, WEATHER_TWICE, Answer("Bye."), **THINKS[kind]) as call:
        call.tool_seconds = 60.0
        respond = call.dialogue.respond("weather")
        assert await anext(respond) == "One moment."
        while not call.asked:  # noqa: ASYNC110 - two turns of the loop
            await asyncio.sleep(0)
        call.dialogue.interrupted(heard)
        await respond.aclose()
        call.tool_seconds = 0.0
        assert "Rome" in await call.say("weather, I said")
        assert await call.say("bye") == "Bye."
        assert call.emulator.violations == []


async def test_the_last_round_may_not_ask(dial: Dial) -> None:
    async with dial(WEATHER_TWICE, Answer("ok"), max_rounds=1) as call:
        assert "Rome" in await call.say("weather")
        assert await call.say("bye") == "ok"
        assert call.emulator.violations == []


async def test_further_headers_are_sent(dial: Dial) -> None:
    async with dial(Answer("Yes."), headers={"X-Team": "blue"}) as call:
        assert await call.say("Hello?") == "Yes."
        assert {asked.headers["x-team"] for asked in call.emulator.received} == {"blue"}


async def test_connections_are_kept(dial: Dial) -> None:
    async with dial(Answer("A."), Answer("B."), Answer("C.")) as call:
        for _ in range(3):
            await call.say("hi")
        served = call.emulator._service._server
        assert served is not None
        assert len(served.server_state.connections) <= 2  # one of them warmed


async def test_who_interrupts_cancels_the_request(dial: Dial) -> None:
    long = Answer(" ".join(f"Sentence number {number}." for number in range(400)))
    async with dial(long, Answer("Yes?")) as call:
        respond = call.dialogue.respond("talk")
        first = await anext(respond)
        await respond.aclose()
        call.dialogue.interrupted(first)
        assert await call.say("stop") == "Yes?"
        async with asyncio.timeout(60):
            while not call.emulator.gave_up:  # noqa: ASYNC110 - the service's side gives no event
                await asyncio.sleep(0.01)
        assert call.emulator.violations == []


@pytest.mark.parametrize("status", [429, 503])
async def test_a_service_in_trouble_is_asked_again(dial: Dial, status: int) -> None:
    faults = (Fault("answer", "refuse", status), Fault("answer", "refuse", status))
    async with dial(Answer("Hello."), faults=faults) as call:
        assert await call.say("hi") == "Hello."
        assert call.emulator.connections == 3


@pytest.mark.parametrize(
    ("fault", "kind_of_failure"),
    [
        (Fault("answer", "refuse", 429), "quota"),
        (Fault("answer", "refuse", 500), "connect"),
        (Fault("answer", "refuse", 400), "refused"),
        (Fault("answer", "drop"), "dropped"),
        (Fault("answer", "garbage"), "garbage"),
        (Fault("sound", "drop", after=2), "dropped"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.when}-{value.do}-{value.code}",
)
async def test_each_failure_has_its_kind(dial: Dial, fault: Fault, kind_of_failure: str) -> None:
    async with dial(
        Answer("One two three four."),
        faults=(fault,),
        max_retries=0,
    ) as call:
        with pytest.raises(BrainError) as caught:
            await call.say("hi")
        assert caught.value.kind == kind_of_failure
        assert await call.say("hi again") != ""


@pytest.mark.parametrize(
    ("fault", "patience"),
    [
        (Fault("answer", "stall"), {"first_token_ms": 1_000}),
        (Fault("sound", "stall", after=2), {"stall_ms": 200}),
    ],
    ids=["at once", "later"],
)
async def test_a_silent_service_is_given_up(
    dial: Dial, fault: Fault, patience: dict[str, int]
) -> None:
    async with dial(Answer("One two three four."), faults=(fault,), **patience) as call:
        with pytest.raises(BrainError) as caught:
            await call.say("hi")
        assert caught.value.kind == "stalled"
        assert call.emulator.connections == 1


async def test_after_the_first_word_nothing_is_tried_again(dial: Dial) -> None:
    async with dial(Answer("One two three."), faults=(Fault("sound", "drop"),)) as call:
        with pytest.raises(BrainError):
            await call.say("hi")
        assert call.emulator.connections == 1


async def test_an_error_in_the_middle_of_an_answer(dial: Dial) -> None:
    async with dial(Answer("One two three."), faults=(Fault("sound", "error"),)) as call:
        with pytest.raises(BrainError, match="emulated fault"):
            await call.say("hi")


async def test_nonsense_within_an_answer_is_passed_over(dial: Dial) -> None:
    async with dial(Answer("One two three."), faults=(Fault("sound", "garbage"),)) as call:
        assert await call.say("hi") == "One two three."


async def test_a_wrong_key_is_said_without_the_key(dial: Dial) -> None:
    async with dial(key="sk-wrong-secret") as call:
        with pytest.raises(BrainError) as caught:
            await call.say("hi")
        assert caught.value.kind == "auth"
        assert "does not accept the key (HTTP 40" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert call.emulator.connections == 1


async def test_who_wants_to_wait_long_is_not_waited_for(dial: Dial) -> None:
    faults = (Fault("answer", "refuse", 429),)
    async with dial(Answer("Hello."), faults=faults, retry_after=60) as call:
        began = time.monotonic()
        with pytest.raises(BrainError) as caught:
            await call.say("hi")
        assert caught.value.kind == "quota"
        assert time.monotonic() - began < 30, "it wants 60 s"


async def test_extra_settings_are_sent_and_wrong_ones_refused(dial: Dial) -> None:
    async with dial(extra={"no_such_setting": 1}) as call:
        with pytest.raises(BrainError, match="no_such_setting") as caught:
            await call.say("hi")
        assert caught.value.kind == "refused"


def test_a_missing_key_is_told_when_it_is_wanted(kind: str) -> None:
    section = SETTINGS[kind][1]
    brain = model_brain(section(type=kind), {})
    assert brain.problem is not None
    assert brain.problem.kind == "auth"
    variable = section(type=kind).key_variables[0]
    assert variable in str(brain.problem)
    assert model_brain(section(type=kind), {variable: "k"}).problem is None


def test_a_service_of_ones_own_needs_no_key() -> None:
    settings = OpenAIChatBrain(type="openai_chat", base_url="http://127.0.0.1:11434/v1")
    assert model_brain(settings, {}).problem is None
