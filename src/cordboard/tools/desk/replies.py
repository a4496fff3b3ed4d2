"""From what a tool, or the desk itself, has answered to what the agent that asked is given.

Pure: secret keys are masked, data becomes a sentence that can be spoken, what is too much for the
agent is cut, and flags tell it what it must know besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cordboard.tools.desk.running import Asked, Source
from cordboard.tools.masking import Hidden
from cordboard.tools.payload import PayloadLimits, as_object, bytes_before_data, cap
from cordboard.tools.speech import speech
from cordboard.tools.speech.speakable import plain
from cordboard.tools.tool import RefusalReason, Status, ToolReply, ToolResult, ToolSpec

MAX_REFUSAL = 400
"""Characters of a refusal for wrong arguments."""
MAX_NAMES = 50
"""Tools that are named to an agent that asked for none of them."""
CANCELLED = ToolResult(Status.CANCELLED, "The request was cancelled.")


def make_reply(
    asked: Asked, result: ToolResult, source: Source, took_ms: int, limits: PayloadLimits
) -> ToolReply:
    """The reply in the shape that the agent may see; `result` has no secret keys in it."""
    message = _message(result, asked.spec)
    control = dict(result.control)
    data, cut = cap(result.data, limits, bytes_before_data(message, control))
    if cut:
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


def without_keys(result: ToolResult, keys: Sequence[str]) -> ToolResult:
    """The result, wherever these stand in it masked."""
    if not keys:
        return result
    hidden = Hidden(keys)
    return replace(result, message=hidden.text(result.message), data=hidden.data(result.data))


def recorded_reply(asked: Asked, reply: ToolReply) -> ToolReply:
    """The reply as it may be recorded: without what was secret in the arguments."""
    name = asked.recorded.name
    if not asked.given.secrets:
        return reply if name == reply.name else replace(reply, name=name)
    hidden = Hidden(asked.given.secrets)
    data = hidden.data(reply.data)
    return replace(reply, name=name, message=hidden.text(reply.message), data=data)


def not_in_toolbox(name: str, specs: Sequence[ToolSpec]) -> ToolResult:
    """The refusal for a tool that is not this call's, or none at all."""
    names = ", ".join(spec.name for spec in specs[:MAX_NAMES]) or "none"
    more = f" and {len(specs) - MAX_NAMES} more" if len(specs) > MAX_NAMES else ""
    return refused(
        f"There is no tool named {name!r} in this conversation. Available: {names}{more}."
    )


def wrong_arguments(name: str, problems: list[str]) -> ToolResult:
    """What a model needs to mend its arguments: as many problems as have room, the first always."""
    before, after = f"The arguments of {name} are not valid: ", ". Correct them and ask again."
    room = MAX_REFUSAL - len(before) - len(after)
    text = problems[0][:room]
    for problem in problems[1:]:
        if len(text) + len(problem) + 2 <= room:
            text = f"{text}; {problem}"
    message = f"{before}{text}{after}"
    return ToolResult(Status.REFUSED, message, {"problems": problems}, {"retryable": True})


def refused(message: str) -> ToolResult:
    """A refusal that the agent cannot mend."""
    return ToolResult(Status.REFUSED, message, control={"retryable": False})


def _reason(asked: Asked) -> RefusalReason:
    return asked.run.refused if asked.run is not None else asked.refused


def _message(result: ToolResult, spec: ToolSpec | None) -> str:
    if result.status is Status.OK and spec is not None:
        return speech.sentence(as_object(result.data), spec.speech, result.message)
    if result.status is Status.REFUSED:
        return result.message
    return plain(result.message) or speech.FAILED
