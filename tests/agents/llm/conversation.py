"""A conversation in which everything occurs that can."""

from __future__ import annotations

from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    ModelRequest,
    ToolAnswered,
    ToolWish,
)
from cordboard.agents.llm.messages import GIVEN_UP
from cordboard.tools.provider_schema import for_provider_list
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject, ToolSpec

TOOLS = (
    ToolSpec(
        "book_table",
        "http",
        "Books a table.",
        {
            "type": "object",
            "properties": {
                "people": {"type": "integer", "minimum": 1},
                "when": {"type": "string", "format": "date-time"},
                "area": {"type": ["string", "null"], "enum": ["in", "out", None]},
                "names": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["people", "when"],
            "additionalProperties": False,
        },
    ),
    ToolSpec("hangup_call", "builtin", "Ends the call.", {"type": "object", "properties": {}}),
)


def conversation(
    profile: SchemaProfile, *, may_ask: bool = True, kept: tuple[JsonObject, ...] = ()
) -> ModelRequest:
    """Greeting, tools side by side, an interruption, a failure; the last turn is being answered."""
    tools, problems = for_provider_list(TOOLS, profile)
    assert not problems
    booked = ToolWish("call_1", "book_table", '{"people":2,"when":"2026-11-21T19:00:00Z"}', "c2Vh")
    again = ToolWish("call_2", "book_table", "{}")
    return ModelRequest(
        "Be kind.",
        (
            AgentSaid("Welcome."),
            CallerSaid("A table for two."),
            AgentSaid("One moment.", (booked, again)),
            ToolAnswered("call_1", "book_table", {"status": "ok", "message": "Done.", "data": {}}),
            ToolAnswered("call_2", "book_table", dict(GIVEN_UP), failed=True),
            CallerSaid("Wait."),
            CallerSaid("For three."),
            AgentSaid("", (ToolWish("own_3", "hangup_call", "{}", "c2Vh"),), kept),
            ToolAnswered("own_3", "hangup_call", {"status": "ok", "message": ""}),
        ),
        tools,
        may_ask,
    )
