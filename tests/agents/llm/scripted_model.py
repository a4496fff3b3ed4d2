"""A model that follows a script, and a call around a dialogue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from cordboard.agent_api.agent import Said, Usage
from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Finished,
    Message,
    ModelEvent,
    ModelRequest,
    TextPiece,
    ToolAnswered,
    ToolWish,
)
from cordboard.agents.llm.brain import LlmBrain, LlmDialogue
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject, Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard.vendors.openai.limits import OPENAI_CHAT

Step = ModelEvent | float | Exception | asyncio.Event
"""What is sent; seconds to wait; what is raised; what is waited for."""

WEATHER = ToolSpec(
    "get_weather",
    "mcp",
    "The weather at a place.",
    {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
)


class ScriptedModel:
    """Implements `LanguageModel`: one script for each request, the last one again and again."""

    provider = "openai_chat"
    model = "scripted"
    schemas: SchemaProfile = OPENAI_CHAT

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self._scripts = list(scripts)
        self.requests: list[ModelRequest] = []
        self.given_up = 0
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        whole = False
        try:
            for step in script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    yield step
            whole = True
        finally:
            self.given_up += not whole

    def load(self) -> None:
        pass

    def warm(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True


def words(text: str, reason: Any = "stop") -> list[Step]:
    """An answer, word by word."""
    pieces: list[Step] = [TextPiece(f"{word} ") for word in text.split()]
    return [*pieces, Finished(reason, {"output_text_tokens": float(len(pieces))})]


def wishes(*asked: tuple[str, str], text: str = "") -> list[Step]:
    """An answer that asks for tools: (place or raw arguments, id)."""
    pieces: list[Step] = [TextPiece(text)] if text else []
    pieces += [ToolWish(wish_id, "get_weather", arguments) for arguments, wish_id in asked]
    return [*pieces, Finished("tools")]


class Table:
    """A dialogue, and what came of it."""

    def __init__(
        self,
        model: ScriptedModel,
        *,
        greeting: str = "",
        said: tuple[Said, ...] = (),
        tool_seconds: float = 0.0,
        **settings: Any,
    ) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self.cancelled: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.used: list[Usage] = []
        self._seconds = tool_seconds
        brain = LlmBrain(model, OpenAIChatBrain(type="openai_chat", **settings))
        session = DialogueSession(
            "You are kind.", (WEATHER,), self.ask, {}, greeting, said, self.used.append
        )
        self.dialogue: LlmDialogue = brain.open(session)

    async def ask(self, name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        self.asked.append((name, arguments))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled.append(str(arguments.get("place")))
            raise
        finally:
            self.at_once -= 1
        if name != "get_weather":
            return ToolReply("1", name, Status.REFUSED, "There is no such tool.")
        return ToolReply("1", name, Status.OK, f"Sunny in {arguments['place']}.")

    async def say(self, text: str) -> list[str]:
        async with aclosing(self.dialogue.respond(text)) as sentences:
            return [sentence async for sentence in sentences]


def told(messages: Sequence[Message]) -> list[str]:
    """The conversation, in short."""
    lines = []
    for message in messages:
        match message:
            case CallerSaid(text):
                lines.append(f"caller: {text}")
            case AgentSaid(text, asks, _):
                lines.append(f"agent: {text}" + "".join(f" [{ask.wish_id}]" for ask in asks))
            case ToolAnswered(wish_id, _, payload, _):
                lines.append(f"tool {wish_id}: {payload['status']} {payload['message']}")
    return lines
