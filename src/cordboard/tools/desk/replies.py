"""From the answer of a tool, or of the desk itself, to the reply that the agent receives.

Pure: secret keys are masked, data becomes a sentence that can be spoken, data over the agent's
limit is cut, and flags add facts that the agent must know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cordboard.tools.desk.running import Asked, Source
from cordboard.tools.masking import Hidden
from cordboard.tools.payload import PayloadLimits, as_object, bytes_before_data, cap
from cordboard.tools.speech import speech
from cordboard.tools.speech.speakable import plain
from cordboard.tools.tool import (
    JsonObject,
    RefusalReason,
    Status,
    ToolReply,
    ToolResult,
    ToolSpec,
)

MAX_NAMES = 50
"""Available tools named to an agent that requested an unknown tool."""
LEFT_OUT = "all: this agent gets the message alone"
"""The cut of data that an agent is not given beside a message with words of its own."""
CANCELLED = ToolResult(Status.CANCELLED, "The request was cancelled.")


def make_reply(
    asked: Asked, result: ToolResult, source: Source, took_ms: int, limits: PayloadLimits
) -> ToolReply:
    """Return the reply as the agent may see it; `result` contains no secret keys."""
    message = _message(result, asked.spec)
    control = dict(result.control)
    data, cut = data_for(limits, result.data, message, control)
    if cut and data:
        control["truncated"] = True
    if source == "late":
        control["late"] = True
    run = asked.run if source != "cache" else None
    return ToolReply(
        ask_id=asked.ask.ask_id,
        name=asked.ask.name,
        status=result.status,
        message=message,
        data=data,
        took_ms=took_ms,
        control=control,
        cut=cut,
        source=source,
        refused=_reason(asked) if result.status is Status.REFUSED else "",
        tries=run.tries if run is not None else 0,
    )


def data_for(
    limits: PayloadLimits, data: Any, message: str, control: Mapping[str, bool]
) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the data that an agent with these limits is given beside the message, and a list of
    the cuts."""
    whole = as_object(data)
    if limits.data == "wordless" and message not in (speech.FAILED, speech.summary(whole)):
        return {}, (LEFT_OUT,) if whole else ()
    return cap(data, limits, bytes_before_data(message, control))


def without_keys(result: ToolResult, keys: Sequence[str]) -> ToolResult:
    """Return the result with every occurrence of these keys masked."""
    if not keys:
        return result
    hidden = Hidden(keys)
    return replace(result, message=hidden.text(result.message), data=hidden.data(result.data))


def recorded_reply(asked: Asked, reply: ToolReply) -> ToolReply:
    """Return the reply as it may be recorded: without secrets from the arguments."""
    name = asked.recorded.name
    if not asked.given.secrets:
        return reply if name == reply.name else replace(reply, name=name)
    hidden = Hidden(asked.given.secrets)
    data = hidden.data(reply.data)
    return replace(reply, name=name, message=hidden.text(reply.message), data=data)


def not_in_toolbox(name: str, specs: Sequence[ToolSpec]) -> ToolResult:
    """Return the refusal for a tool outside this call's toolbox, or an unknown tool."""
    names = ", ".join(spec.name for spec in specs[:MAX_NAMES]) or "none"
    more = f" and {len(specs) - MAX_NAMES} more" if len(specs) > MAX_NAMES else ""
    return refused(
        f"There is no tool named {name!r} in this conversation. Available: {names}{more}."
    )


def refused(message: str) -> ToolResult:
    """Return a refusal that the agent cannot mend."""
    return ToolResult(Status.REFUSED, message, control={"retryable": False})


def _reason(asked: Asked) -> RefusalReason:
    return asked.run.refused if asked.run is not None else asked.refused


def _message(result: ToolResult, spec: ToolSpec | None) -> str:
    if result.status is Status.OK and spec is not None:
        return speech.sentence(as_object(result.data), spec.speech, result.message)
    if result.status is Status.REFUSED:
        return result.message
    return plain(result.message) or speech.FAILED
