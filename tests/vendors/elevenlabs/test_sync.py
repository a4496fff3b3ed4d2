"""What `cordboard elevenlabs sync` writes, and what it leaves alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.errors import AgentError
from cordboard.tools.tool import Limits, ToolSpec
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.elevenlabs.rest import ElevenLabsRest
from cordboard.vendors.elevenlabs.sync import Sync
from cordboard.vendors.elevenlabs.sync_plan import (
    MARK,
    NEEDED_EVENTS,
    Plan,
    Wanted,
    plan_for,
    seconds_for,
    side_effects,
    unfit,
)
from cordboard_testkit.emulators.elevenlabs.agent import KEY, ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.workspace import (
    PERMITS_NOTHING,
    Workspace,
    checked_tool,
    new_agent,
)

AGENT = "agent_1"


def provider(**more: Any) -> ElevenLabsAgentProvider:
    return ElevenLabsAgentProvider.model_validate(
        {"type": "elevenlabs_agent", "agent_id": AGENT} | more
    )


def spec(name: str, description: str = "Does it.", **properties: Any) -> ToolSpec:
    required = [name for name, schema in properties.items() if "default" not in schema]
    parameters = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(name, "http", description, parameters)


ATIS = spec("get_atis", icao={"type": "string", "description": "The airport."})
BOOK = spec(
    "book",
    people={"type": ["integer", "null"], "minimum": 1},
    notes={"type": "array", "items": {"type": "string"}, "default": []},
    when={"oneOf": [{"type": "string"}, {"type": "number"}]},
    who={"type": "object", "properties": {"name": {"type": "string"}}},
)
PLAIN = spec("hangup_call")


def fresh() -> dict[str, Any]:
    return new_agent(AGENT, sound="pcm_16000", permits=PERMITS_NOTHING, events=("audio",))


async def synced(service: ElevenLabsEmulator, wanted: Wanted) -> tuple[Plan, tuple[str, ...]]:
    async with ElevenLabsRest(service.url, KEY, 5) as rest:
        sync = Sync(rest, wanted)
        plan = await sync.plan()
        return plan, await sync.apply(plan)


async def test_a_fresh_agent_is_brought_up_to_date_once() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        wanted = Wanted((ATIS, BOOK, PLAIN), provider(tts={"voice_id": "v"}, language="de"))
        plan, problems = await synced(service, wanted)
        assert problems == ()
        lines = "\n".join(plan.lines())
        assert "+ tool get_atis" in lines
        assert "asr.user_input_audio_format: pcm_16000 -> ulaw_8000" in lines
        tools = service.workspace.client_tools(AGENT)
        assert list(tools) == ["get_atis", "book", "hangup_call"]
        assert tools["get_atis"]["expects_response"] is True
        assert tools["get_atis"]["response_timeout_secs"] == 15
        assert tools["get_atis"]["tool_error_handling_mode"] == "passthrough"
        assert tools["get_atis"]["parameters"]["properties"]["icao"]["description"]
        assert tools["hangup_call"]["parameters"] is None
        config = service.workspace.agents[AGENT]["conversation_config"]
        assert config["tts"]["agent_output_audio_format"] == "ulaw_8000"
        assert set(NEEDED_EVENTS) <= set(config["conversation"]["client_events"])
        allowed = service.workspace.agents[AGENT]["platform_settings"]["overrides"]
        permits = allowed["conversation_config_override"]
        assert permits["agent"] == {
            "first_message": True,
            "language": True,
            "prompt": {"prompt": True, "llm": False},
        }
        assert permits["tts"]["voice_id"] is True
        assert permits["tts"]["speed"] is False

        before = len(service.book.received)
        again, _ = await synced(service, wanted)
        assert again.nothing
        assert {asked.method for asked in service.book.received[before:]} == {"GET"}
    assert service.violations == []


async def test_changes_go_out_and_what_is_wanted_no_more_goes_away() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        await synced(service, Wanted((ATIS, BOOK), provider()))
        newer = spec("get_atis", "Reads it out.", icao={"type": "string", "description": "Four."})
        plan, _ = await synced(service, Wanted((newer, PLAIN), provider(slow_response="provider")))
        assert plan.update[0].fields == ("description", "parameters", "pre_tool_speech")
        assert [name for _, name in plan.remove] == ["book"]
        tools = service.workspace.client_tools(AGENT)
        assert list(tools) == ["get_atis", "hangup_call"]
        assert tools["get_atis"]["description"] == "Reads it out."
        assert len(service.workspace.tools) == 2
    assert service.violations == []


async def test_without_the_others_nothing_is_taken_away() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        await synced(service, Wanted((ATIS, BOOK), provider()))
        plan, _ = await synced(service, Wanted((PLAIN,), provider(), removes=False))
        assert plan.remove == ()
        assert len(service.workspace.client_tools(AGENT)) == 3


def foreign(name: str) -> dict[str, Any]:
    config = {"type": "client", "name": name, "description": "Made by hand."}
    return {"tool_config": config}


async def test_what_is_not_ours_stays_as_it_is() -> None:
    agent = fresh()
    async with ElevenLabsEmulator(agent=agent) as service:
        by_hand = service.workspace.create_tool(foreign("get_atis"))
        other = service.workspace.create_tool(foreign("show_map"))
        elsewhere = service.workspace.create_tool(foreign("book"))
        prompt = agent["conversation_config"]["agent"]["prompt"]
        prompt["tool_ids"] = [by_hand["id"], other["id"]]
        before = deepcopy(service.workspace.tools)
        plan, _ = await synced(service, Wanted((ATIS, BOOK), provider()))
        assert plan.in_the_way == ("get_atis",)
        assert "! tool get_atis" in "\n".join(plan.lines())
        assert [config["name"] for config in plan.create] == ["book"]
        assert prompt["tool_ids"][:2] == [by_hand["id"], other["id"]]
        assert len(prompt["tool_ids"]) == 3
        assert elsewhere["id"] not in prompt["tool_ids"]
        for tool_id, tool in before.items():
            assert service.workspace.tools[tool_id] == tool

        plan, _ = await synced(service, Wanted((ATIS, BOOK), provider(), adopts=True))
        assert [change.config["name"] for change in plan.update] == ["get_atis"]
        assert service.workspace.tools[by_hand["id"]]["tool_config"]["parameters"]
        plan, _ = await synced(service, Wanted((), provider()))
        assert prompt["tool_ids"] == [other["id"]]
        assert set(service.workspace.tools) == {other["id"], elsewhere["id"]}
    assert service.violations == []


async def test_tools_of_another_agent_of_ours_are_not_touched() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        service.workspace.agents["agent_2"] = new_agent("agent_2")
        await synced(service, Wanted((ATIS,), provider()))
        await synced(service, Wanted((ATIS, BOOK), provider(agent_id="agent_2")))
        await synced(service, Wanted((), provider()))
        assert list(service.workspace.client_tools("agent_2")) == ["get_atis", "book"]
        assert service.workspace.client_tools(AGENT) == {}


async def test_a_run_that_broke_off_is_finished_by_the_next() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        first, _ = await synced(service, Wanted((ATIS,), provider()))
        service.workspace.create_tool({"tool_config": first.create[0]})  # twice
        prompt = service.workspace.agents[AGENT]["conversation_config"]["agent"]["prompt"]
        prompt["tool_ids"] = []  # and never attached
        plan, _ = await synced(service, Wanted((ATIS,), provider()))
        assert len(plan.attach) == 1
        assert len(plan.remove) == 1
        assert list(service.workspace.client_tools(AGENT)) == ["get_atis"]
        assert len(service.workspace.tools) == 1


async def test_texts_are_written_when_they_are_given() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        wanted = Wanted((), provider(overrides=[]), prompt="Be kind.", first_message="Hello.")
        await synced(service, wanted)
        agent = service.workspace.agents[AGENT]
        assert agent["conversation_config"]["agent"]["first_message"] == "Hello."
        assert agent["conversation_config"]["agent"]["prompt"]["prompt"] == "Be kind."
        assert agent["conversation_config"]["agent"]["prompt"]["llm"] == "gemini-2.5-flash"
        permits = agent["platform_settings"]["overrides"]["conversation_config_override"]
        assert permits == PERMITS_NOTHING


async def test_many_tools_are_all_looked_at() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        for number in range(250):
            service.workspace.create_tool(foreign(f"other_{number}"))
        await synced(service, Wanted((ATIS,), provider()))
        plan, _ = await synced(service, Wanted((ATIS,), provider()))
        assert plan.nothing
        assert len(service.workspace.tools) == 251


@pytest.mark.parametrize(
    ("key", "agent_id", "kind", "told"),
    [("xi-wrong", AGENT, "auth", "key"), (KEY, "agent_x", "refused", "agent_x")],
)
async def test_what_goes_wrong_is_said(key: str, agent_id: str, kind: str, told: str) -> None:
    async with (
        ElevenLabsEmulator(agent=fresh()) as service,
        ElevenLabsRest(service.url, key, 5) as rest,
    ):
        with pytest.raises(AgentError, match=told) as caught:
            await Sync(rest, Wanted((), provider(agent_id=agent_id))).plan()
        assert caught.value.kind == kind
        assert "xi-wrong" not in str(caught.value)


async def test_a_service_that_keeps_nothing_is_found_out() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        service.workspace.patch_agent = lambda *_: {}  # type: ignore[method-assign]
        with pytest.raises(AgentError, match="did not keep"):
            await synced(service, Wanted((ATIS,), provider()))


async def test_a_service_that_changes_more_is_told_of() -> None:
    async with ElevenLabsEmulator(agent=fresh()) as service:
        patch = service.workspace.patch_agent

        def careless(agent_id: str, body: Any) -> Any:
            agent = patch(agent_id, body)
            agent["conversation_config"]["tts"]["voice_id"] = ""
            return agent

        service.workspace.patch_agent = careless  # type: ignore[method-assign]
        _, problems = await synced(service, Wanted((ATIS,), provider()))
        assert problems == ("conversation_config.tts.voice_id: changed too",)


def test_the_service_waits_longer_than_the_desk() -> None:
    quick = ToolSpec("a", "http", "", {}, limits=Limits(timeout_ms=10_000, retries=1))
    asked = ToolSpec("b", "http", "", {}, approval="caller")
    slow = ToolSpec("c", "http", "", {}, limits=Limits(timeout_ms=600_000))
    assert [seconds_for(one) for one in (quick, asked, slow)] == [25, 75, 120]


def test_side_effects_are_found_beside_what_was_meant() -> None:
    before = fresh()
    after = deepcopy(before)
    after["conversation_config"]["tts"]["speed"] = 1.1
    after["conversation_config"]["asr"]["keywords"] = ["x"]
    patch = {"conversation_config": {"tts": {"speed": 1.1}}}
    assert side_effects(before, after, patch) == ("conversation_config.asr.keywords",)


def test_what_is_unfit_for_calls_is_seen_at_once() -> None:
    told = unfit(provider(), fresh())
    assert "cordboard elevenlabs sync" in told
    assert "asr.user_input_audio_format is pcm_16000" in told
    assert "prompt.prompt is False" in told
    fit = new_agent(AGENT, events=NEEDED_EVENTS)
    assert unfit(provider(), fit) == ""
    assert unfit(provider(), {}) == unfit(provider(), []) == ""
    fit["conversation_config"]["realtime_model"] = "eleven_realtime_v1_mini"
    assert unfit(provider(), fit) == ""
    assert "ignores `llm`" in unfit(provider(llm="gpt-5.2"), fit)


NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string", "enum": ["a", "b"]},
            {"type": "integer", "minimum": 3},
            {"type": ["number", "null"]},
            {"const": 4},
            {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
            {},
            {"type": "string", "pattern": "^x$", "description": "Any."},
        ]
    ),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(
            lambda properties: {"type": "object", "properties": properties},
            st.dictionaries(NAMES, inner, max_size=3),
        )
    ),
    max_leaves=5,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, st.dictionaries(NAMES, SCHEMAS, max_size=4), max_size=4))
def test_any_tools_are_taken_and_then_there_is_nothing_to_do(
    tools: dict[str, dict[str, Any]],
) -> None:
    wanted = Wanted(tuple(spec(name, **given) for name, given in tools.items()), provider())
    workspace = Workspace()
    workspace.agents[AGENT] = fresh()
    plan = plan_for(workspace.agents[AGENT], [], wanted)
    assert len(plan.create) == len(tools)
    for config in plan.create:
        checked_tool({"tool_config": config})
        assert config["dynamic_variables"]["dynamic_variable_placeholders"] == {MARK: AGENT}
    made = [workspace.create_tool({"tool_config": config})["id"] for config in plan.create]
    workspace.patch_agent(AGENT, plan.patch(made))
    again = plan_for(workspace.agents[AGENT], list(workspace.tools.values()), wanted)
    assert again.nothing
