"""The built-in tools for keys and for the recording, as an agent meets them at the desk."""

from __future__ import annotations

import pytest

from cordboard.config.schema import Config
from cordboard.errors import LineError, LineGone, LineUnsupported
from cordboard.tools.builtin import builtin_tools
from cordboard.tools.call_line import KeysCollected
from cordboard.tools.tool import Status, ToolReply

from .conftest import Line, ask, desk


async def run(line: Line, name: str, **arguments: object) -> ToolReply:
    return await desk(
        *builtin_tools(Config.model_validate({"contexts": {"demo": {}}})), line=line
    ).run(ask(name, **arguments))


async def test_digits_are_given_to_the_agent() -> None:
    line = Line(collected=KeysCollected("4711", "terminator"))
    reply = await run(line, "collect_digits", prompt="Your order number, please.", count=6)
    assert line.said == ["Your order number, please."]
    (wanted,) = line.wanted
    assert (wanted.count, wanted.terminator, wanted.secret) == (6, "#", False)
    assert reply.ok
    assert reply.message == "I got only 4 of 6 digits."
    assert reply.data["digits"] == "4711"


async def test_of_secret_digits_an_agent_learns_how_many_and_where_they_are() -> None:
    line = Line(collected=KeysCollected("4711", "count", "keys-1"))
    reply = await run(line, "collect_digits", count=4, secret=True, purpose="PIN")
    assert line.wanted[0].secret
    assert reply.message == "Thank you."
    assert reply.data == {
        "collected": True,
        "complete": True,
        "length": 4,
        "ended_by": "count",
        "reference": "keys-1",
    }
    assert "4711" not in repr(reply)


async def test_collected_keys_do_not_show_when_they_are_printed() -> None:
    assert "4711" not in repr(KeysCollected("4711", "count", "keys-1"))


async def test_no_digits_are_no_success() -> None:
    reply = await run(Line(collected=KeysCollected("", "timeout")), "collect_digits")
    assert (reply.status, reply.message) == (Status.ERROR, "I did not get any digits.")
    assert reply.data["collected"] is False


@pytest.mark.parametrize(
    "arguments",
    [{"count": -1}, {"count": 61}, {"terminator": "5"}, {"timeout_seconds": 0}, {"digits": "1"}],
)
async def test_what_cannot_be_collected(arguments: dict[str, object]) -> None:
    line = Line()
    assert (await run(line, "collect_digits", **arguments)).status is Status.REFUSED
    assert not line.wanted


async def test_digits_are_sent() -> None:
    line = Line()
    assert (await run(line, "send_digits", digits="1w23#A")).ok
    assert line.sent_keys == "1w23#A"


@pytest.mark.parametrize("digits", ["", "12E", "1 2", "+47", "1,2", "9" * 65, None])
async def test_only_keys_are_sent(digits: object) -> None:
    line = Line()
    assert (await run(line, "send_digits", digits=digits)).status is Status.REFUSED
    assert line.sent_keys == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LineUnsupported("needs ARI"), "Sorry, keys cannot be sent on this line."),
        (LineError("500"), "Sorry, I could not send the keys."),
        (LineGone("gone"), "Sorry, I could not send the keys."),
    ],
)
async def test_digits_that_cannot_be_sent(error: Exception, words: str) -> None:
    reply = await run(Line(keys_error=error), "send_digits", digits="1")
    assert (reply.status, reply.message) == (Status.ERROR, words)


async def test_a_recording_is_paused_and_goes_on() -> None:
    line = Line(recorded=True)
    assert (await run(line, "pause_recording")).message == "The recording is paused."
    assert (await run(line, "resume_recording")).ok
    assert line.recording == ["pause", "resume"]


@pytest.mark.parametrize("tool", ["pause_recording", "resume_recording"])
async def test_what_is_not_recorded_cannot_be_paused(tool: str) -> None:
    reply = await run(Line(), tool)
    assert (reply.status, reply.message) == (Status.ERROR, "This call is not being recorded.")
