"""Explains a caller's waits by the record of one call (`call` of `GET /calls/{call_id}`). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

STAGES = {
    "endpoint": "to be sure that the caller had finished",
    "stt": "for the recognition of the words",
    "brain": "for the model's first sentence",
    "tts": "for the first sound of the voice",
    "wire": "on the way to the telephone system",
}
"""Stages that add up to a wait."""
MOST_TURNS = 5
LONG_MS = 1_000
"""A shorter wait is felt as an answer at once."""


class Wait(BaseModel):
    """One turn in which the caller waited."""

    turn: int
    waited_ms: int
    stages_ms: dict[str, int]
    tools: list[str]
    """With their durations."""
    said: str
    explanation: str


class Waits(BaseModel):
    call_id: str
    summary: str
    waits: list[Wait]
    """The longest first, at most five."""


def explain(call: Mapping[str, Any]) -> Waits:
    """Return the longest waits of a call, with their reasons."""
    tools = call.get("tools") or []
    found = [_wait(turn, tools) for turn in call.get("turns") or [] if _total(turn)]
    found.sort(key=lambda wait: wait.waited_ms, reverse=True)
    call_id = str(call.get("row", {}).get("id", ""))
    return Waits(call_id=call_id, summary=_summary(found), waits=found[:MOST_TURNS])


def _total(turn: Mapping[str, Any]) -> int:
    return int((turn.get("waited") or {}).get("total") or 0)


def _wait(turn: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> Wait:
    waited = {stage: int((turn.get("waited") or {}).get(stage) or 0) for stage in STAGES}
    total = _total(turn)
    number = int(turn.get("number") or 0)
    used = [tool for tool in tools if tool.get("turn") == number and _took(tool) is not None]
    used.sort(key=lambda tool: _took(tool) or 0, reverse=True)
    stage = max(waited, key=lambda name: waited[name])
    words = f"{total} ms, {waited[stage]} of them {STAGES[stage]}"
    if used:
        words += f"; the tool {used[0].get('name')} took {_took(used[0])} ms"
    answer = turn.get("answer_ms")
    if turn.get("filler_first") and answer:
        words += f"; that was the wait for a filler, the answer came after {answer} ms"
    return Wait(
        turn=number,
        waited_ms=total,
        stages_ms={name: ms for name, ms in waited.items() if ms},
        tools=[f"{tool.get('name')}: {_took(tool)} ms, {tool.get('status')}" for tool in used],
        said=str((turn.get("caller") or {}).get("text") or ""),
        explanation=words,
    )


def _took(tool: Mapping[str, Any]) -> int | None:
    begin, end = tool.get("begin_ms"), tool.get("end_ms")
    return None if begin is None or end is None else int(end) - int(begin)


def _summary(waits: Sequence[Wait]) -> str:
    """Return the answer in a sentence. `waits`: the longest first."""
    if not waits:
        return "The caller waited for no answer in this call."
    if waits[0].waited_ms < LONG_MS:
        return f"It was not slow: the longest of {len(waits)} waits took {waits[0].waited_ms} ms."
    spent = dict.fromkeys(STAGES, 0)
    for wait in waits:
        for stage, ms in wait.stages_ms.items():
            spent[stage] += ms
    stage = max(spent, key=lambda name: spent[name])
    slow = sum(wait.waited_ms >= LONG_MS for wait in waits)
    return (
        f"{slow} of {len(waits)} waits took a second or more, the longest {waits[0].waited_ms} ms "
        f"(turn {waits[0].turn}). Most of the time went {STAGES[stage]}."
    )
