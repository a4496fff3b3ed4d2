"""The shipped configuration's dialogues, with tools that are recorded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import RulesBrain
from cordboard.agents.rules.dialogue import RulesDialogue
from cordboard.config.rules import Rules
from cordboard.config.schema import Config
from cordboard.tools.builtin import HangupCall, Transfer
from cordboard.tools.tool import JsonObject, Status, ToolReply, ToolSpec

TODAY = date(2026, 11, 21)
"""A Saturday."""
CONFIG = Path(__file__).parents[3] / "config" / "ai-agent.yaml"


class Talk:
    """One call's dialogue as a test sees it: say something, get what the agent answers."""

    def __init__(
        self,
        rules: Rules | RulesBrain | None,
        toolbox: tuple[ToolSpec, ...],
        greeting: str = "",
        variables: dict[str, str] | None = None,
    ) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self.confirmed: list[bool] = []
        """Of each ask: whether the caller's yes was had for it."""
        self.replies: dict[str, tuple[Status, str, JsonObject]] = {}
        self.reply: Callable[[str, JsonObject], ToolReply] | None = None
        brain = rules if isinstance(rules, RulesBrain) else brain_of(rules)
        session = DialogueSession("", toolbox, self._run, variables or {}, greeting)
        self.dialogue: RulesDialogue = brain.open(session)

    async def _run(self, name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        self.asked.append((name, arguments))
        self.confirmed.append(confirmed)
        if self.reply is not None:
            return self.reply(name, arguments)
        status, message, data = self.replies.get(name, (Status.OK, f"Reply of {name}.", {}))
        return ToolReply("1", name, status, message, data)

    async def say(self, text: str) -> str:
        return " ".join([sentence async for sentence in self.dialogue.respond(text)])


def brain_of(rules: Rules | None) -> RulesBrain:
    return RulesBrain(rules, today=lambda: TODAY)


MakeTalk = Callable[..., Talk]


@pytest.fixture(scope="session")
def config() -> Config:
    return Config.model_validate(YAML(typ="safe").load(CONFIG))


@pytest.fixture(scope="session")
def toolbox(config: Config) -> tuple[ToolSpec, ...]:
    return (HangupCall().spec, Transfer(config.destinations).spec)


@pytest.fixture(scope="session")
def brains(config: Config) -> dict[str, RulesBrain]:
    """As in the engine, one brain serves all calls of a context: its tables are built once."""
    return {name: brain_of(context.rules) for name, context in config.contexts.items()}


@pytest.fixture
def demo(config: Config, brains: dict[str, RulesBrain], toolbox: tuple[ToolSpec, ...]) -> Talk:
    return Talk(brains["demo"], toolbox, config.contexts["demo"].greeting)


@pytest.fixture
def reception(config: Config, brains: dict[str, RulesBrain], toolbox: tuple[ToolSpec, ...]) -> Talk:
    return Talk(brains["reception"], toolbox, config.contexts["reception"].greeting)
