"""The required state of an agent at ElevenLabs, and the changes from its present state. Pure.

Tools live in a workspace and are attached to agents by id. Ours are identified by a mark among a
tool's dynamic variables, where no model sees it: the agent that they were made for. A tool without
the mark belongs to others and stays as it is, even when it conflicts with ours. Fields are those of
the SDK's types (`ToolRequestModel`, `ConversationalConfig`), version 2.78.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cordboard.tools.provider_schema import ProviderTool, for_provider_list
from cordboard.tools.tool import JsonObject, ToolSpec
from cordboard.vendors.elevenlabs.agent.messages import WANTED_FORMAT
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.elevenlabs.limits import ELEVENLABS

MARK = "cordboard_agent"
NEEDED_EVENTS = (
    *("conversation_initiation_metadata", "ping", "audio", "interruption", "user_transcript"),
    *("tentative_user_transcript", "agent_response", "agent_response_correction"),
    *("agent_response_complete", "client_tool_call", "agent_tool_response", "client_error"),
)
"""Events that the agent must send us."""
MARGIN_SECONDS = 5
"""Seconds for the round trip, on top of the desk's timeout of a tool."""
APPROVAL_SECONDS = 60
"""More seconds for a tool that the caller must approve."""
MAX_SECONDS = 120
_PERMITS = ("platform_settings", "overrides", "conversation_config_override")
_TEXT_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool to be changed."""

    tool_id: str
    config: JsonObject
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting of the agent to be changed."""

    path: tuple[str, ...]
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes to be made; `nothing` when there are none."""

    agent_id: str
    agent_name: str
    create: tuple[JsonObject, ...]
    update: tuple[ToolChange, ...]
    attach: tuple[tuple[str, str], ...]
    """Ids and names of our tools that exist but are not attached."""
    remove: tuple[tuple[str, str], ...]
    """Ids and names of our tools that are no longer needed."""
    unchanged: tuple[str, ...]
    in_the_way: tuple[str, ...]
    """Names of tools that the agent has, and that are not ours."""
    attached: tuple[str, ...]
    """All current tool ids of the agent."""
    settings: tuple[SettingChange, ...]
    notes: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        """True if no change is needed."""
        changes = (self.create, self.update, self.attach, self.remove, self.settings)
        return not any(changes)

    def patch(self, created: Sequence[str]) -> JsonObject:
        """Return the patch for the agent, given the ids of new tools; empty: no change."""
        changes = list(self.settings)
        gone = {tool_id for tool_id, _ in self.remove}
        kept = [tool_id for tool_id in self.attached if tool_id not in gone]
        added = [*(tool_id for tool_id, _ in self.attach), *created]
        if gone & set(self.attached) or added:
            path = ("conversation_config", "agent", "prompt", "tool_ids")
            changes.append(SettingChange(path, None, [*kept, *added]))
        whole: JsonObject = {}
        for change in changes:
            level = whole
            for name in change.path[:-1]:
                level = level.setdefault(name, {})
            level[change.path[-1]] = change.after
        return whole

    def lines(self) -> tuple[str, ...]:
        """Return the plan as text: `+` is added, `~` changes, `-` is removed, `!` is a conflict."""
        told = [f"agent {self.agent_name} ({self.agent_id})"]
        told += [f"  + tool {config['name']}" for config in self.create]
        told += [f"  + tool {name}: attached again" for _, name in self.attach]
        told += [f"  ~ tool {one.config['name']}: {', '.join(one.fields)}" for one in self.update]
        told += [f"  - tool {name}" for _, name in self.remove]
        told += [
            f"  ! tool {name}: the agent has one of this name that is not ours; it stays as it is "
            "(--adopt takes it over)"
            for name in self.in_the_way
        ]
        told += [
            f"  ~ {'.'.join(one.path)}: {_shown(one.before)} -> {_shown(one.after)}"
            for one in self.settings
        ]
        told += [f"  note: {note}" for note in self.notes]
        if self.unchanged:
            told.append(f"  = {len(self.unchanged)} tools are as they should be")
        return tuple(told)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requirements of a configuration for an agent."""

    specs: tuple[ToolSpec, ...]
    settings: ElevenLabsAgentProvider
    prompt: str | None = None
    """Prompt to write into the agent; None: its own stays."""
    first_message: str | None = None
    engine_greets: bool = False
    """True if some of its contexts have a greeting."""
    removes: bool = True
    """True to remove our tools that are not among `specs`."""
    adopts: bool = False
    """True to take over tools with our names but without our mark."""


def plan_for(agent: JsonObject, tools: Iterable[JsonObject], wanted: Wanted) -> Plan:
    """Return the changes from the present state to the required one. `tools`: all client tools of
    the workspace, as the service returns them."""
    agent_id = wanted.settings.agent_id
    given, problems = for_provider_list(wanted.specs, ELEVENLABS)
    specs = {spec.name: spec for spec in wanted.specs}
    configs = {tool.name: tool_config(specs[tool.name], tool, wanted.settings) for tool in given}
    ids = _at(agent, ("conversation_config", "agent", "prompt", "tool_ids"))
    attached = tuple(tool_id for tool_id in ids or () if isinstance(tool_id, str))
    ours: dict[str, JsonObject] = {}
    remove: list[tuple[str, str]] = []
    in_the_way: list[str] = []
    for tool in tools:
        tool_id, config = tool.get("id"), tool.get("tool_config")
        if not isinstance(tool_id, str) or not isinstance(config, dict):
            continue
        name = str(config.get("name"))
        if config.get("type") != "client":
            continue
        if _mark(config) == agent_id or (wanted.adopts and tool_id in attached and name in configs):
            if name in configs and name not in ours:
                ours[name] = tool
            elif name in configs or wanted.removes:
                remove.append((tool_id, name))
        elif tool_id in attached and name in configs:
            in_the_way.append(name)
    changed = [
        ToolChange(str(tool["id"]), configs[name], fields)
        for name, tool in ours.items()
        if (fields := different(configs[name], tool["tool_config"]))
    ]
    taken = {*ours, *in_the_way}
    touched = {change.config["name"] for change in changed}
    return Plan(
        agent_id=agent_id,
        agent_name=str(agent.get("name", "")),
        create=tuple(config for name, config in configs.items() if name not in taken),
        update=tuple(changed),
        attach=tuple(
            (str(tool["id"]), name) for name, tool in ours.items() if tool["id"] not in attached
        ),
        remove=tuple(remove),
        unchanged=tuple(name for name in ours if name not in touched),
        in_the_way=tuple(in_the_way),
        attached=attached,
        settings=tuple(_settings(agent, wanted)),
        notes=(*(problem.message for problem in problems), *_greeting_note(agent, wanted)),
    )


def _greeting_note(agent: JsonObject, wanted: Wanted) -> Iterable[str]:
    """Yield a note if both would greet: the engine, because the greeting is not sent, and the
    agent."""
    own = _at(agent, ("conversation_config", "agent", "first_message"))
    own = own if wanted.first_message is None else wanted.first_message
    if own and wanted.engine_greets and "first_message" not in wanted.settings.overrides:
        yield (
            "the agent greets by itself, and the engine too: empty its first message, or let calls "
            "send theirs (`overrides: [first_message]`)"
        )


def tool_config(
    spec: ToolSpec, tool: ProviderTool, settings: ElevenLabsAgentProvider
) -> JsonObject:
    """Return a tool in its written form. The agent waits for its answer, sees its errors, and
    speaks before it only where the provider must say the fillers."""
    parameters = tool.parameters
    has_any = parameters is not None and parameters.get("properties")
    return {
        "type": "client",
        "name": tool.name,
        "description": tool.description or tool.name.replace("_", " "),
        "parameters": parameters if has_any else None,
        "expects_response": True,
        "response_timeout_secs": seconds_for(spec),
        "execution_mode": "immediate",
        "pre_tool_speech": "auto" if settings.slow_response == "provider" else "off",
        "tool_error_handling_mode": "passthrough",
        "dynamic_variables": {"dynamic_variable_placeholders": {MARK: settings.agent_id}},
    }


def seconds_for(spec: ToolSpec) -> int:
    """Return the service's timeout: longer than the desk's, so that the desk decides."""
    runs = spec.limits.timeout_ms / 1000 * (1 + spec.limits.retries)
    asked = APPROVAL_SECONDS if spec.approval == "caller" else 0
    return min(MAX_SECONDS, math.ceil(runs) + asked + MARGIN_SECONDS)


def different(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the required fields with other values; additional fields do not count."""
    return tuple(name for name, value in wanted.items() if not _same(value, there.get(name)))


def _same(wanted: Any, there: Any) -> bool:
    if wanted is None and isinstance(there, dict):
        return not there.get("properties")  # no parameters
    if isinstance(wanted, dict) and isinstance(there, dict):
        properties, others = wanted.get("properties"), there.get("properties")
        if isinstance(properties, dict) and set(properties) != set(others or ()):
            return False
        if wanted.get("type") == "object" and not wanted.get("required") and there.get("required"):
            return False
        return all(_same(value, there.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list):
        return len(wanted) == len(there) and all(map(_same, wanted, there))
    return bool(wanted == there)


def _settings(agent: JsonObject, wanted: Wanted) -> Iterable[SettingChange]:
    config = "conversation_config"
    values: dict[tuple[str, ...], Any] = {
        (config, "asr", "user_input_audio_format"): WANTED_FORMAT,
        (config, "tts", "agent_output_audio_format"): WANTED_FORMAT,
    }
    told = (config, "conversation", "client_events")
    events = _at(agent, told)
    events = events if isinstance(events, list) else []
    values[told] = [*events, *(event for event in NEEDED_EVENTS if event not in events)]
    if wanted.prompt is not None:
        values[(config, "agent", "prompt", "prompt")] = wanted.prompt
    if wanted.first_message is not None:
        values[(config, "agent", "first_message")] = wanted.first_message
    for place in permitted_places(wanted.settings):
        values[(*_PERMITS, *place)] = True
    for path, value in values.items():
        before = _at(agent, path)
        if before != value:
            yield SettingChange(path, before, value)


def unfit(settings: ElevenLabsAgentProvider, agent: Any) -> str:
    """Return the reasons why an agent, as the service describes it, cannot serve calls well; empty:
    none."""
    if not isinstance(agent, dict):
        return ""
    wrong = [
        f"{'.'.join(change.path[-2:])} is {_shown(change.before)}"
        for change in _settings(agent, Wanted((), settings))
        if change.before is not None
    ]
    if wrong:
        return f"it needs `cordboard elevenlabs sync`: {', '.join(wrong)}"
    config = agent.get("conversation_config")
    model = config.get("realtime_model") if isinstance(config, dict) else None
    if model and settings.llm is not None:  # the service says nothing about it
        return f"it is in realtime mode ({str(model)[:60]}), which ignores `llm`"
    return ""


def permitted_places(settings: ElevenLabsAgentProvider) -> tuple[tuple[str, ...], ...]:
    """Return the places that calls override, and that the agent must permit."""
    places: list[tuple[str, ...]] = []
    if "prompt" in settings.overrides:
        places.append(("agent", "prompt", "prompt"))
    if "first_message" in settings.overrides:
        places.append(("agent", "first_message"))
    if settings.llm is not None:
        places.append(("agent", "prompt", "llm"))
    if settings.language is not None:
        places.append(("agent", "language"))
    places += [("tts", name) for name in settings.tts.model_dump(exclude_none=True)]
    return tuple(places)


def side_effects(before: JsonObject, after: JsonObject, patch: JsonObject) -> tuple[str, ...]:
    """Return changed places of the agent that were not in the patch."""
    found: list[str] = []
    for section in ("conversation_config", "platform_settings"):
        then, now = before.get(section), after.get(section)
        found += _changed(then, now, patch.get(section) or {}, section)
    return tuple(found)


def _changed(before: Any, after: Any, patch: Any, where: str) -> list[str]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [where] if before != after else []
    found: list[str] = []
    for name in before:
        inner = patch.get(name) if isinstance(patch, dict) else None
        if inner is not None and not isinstance(inner, dict):
            continue
        # `tools` repeats `tool_ids`.
        if name != "tools":
            found += _changed(before[name], after.get(name), inner or {}, f"{where}.{name}")
    return found


def _mark(config: Mapping[str, Any]) -> Any:
    return _at(config, ("dynamic_variables", "dynamic_variable_placeholders", MARK))


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} of them"
    text = "nothing" if value is None or value == "" else " ".join(str(value).split())
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"
