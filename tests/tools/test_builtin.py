from __future__ import annotations

import pytest

from cordboard.config.schema import Config
from cordboard.config.tools.entry import BUILTIN_TOOLS
from cordboard.errors import LineError, LineGone, LineUnsupported, TransferFailed
from cordboard.tools.builtin import BUILTIN_NAMES, builtin_tools
from cordboard.tools.call_line import TransferResult
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Effects, Status

from .conftest import Line, ask, desk

CONFIG = Config.model_validate(
    {
        "contexts": {"demo": {}},
        "tools": {
            "transfer": {
                "destinations": {
                    "sales": {"target": "6001", "description": "orders and prices"},
                    "front-desk": {"target": "6002"},
                }
            },
            "take_message": {"message": {"deliver": [{"tool": "send_email"}]}},
            "request_callback": {"callback": {"zone": "Europe/Oslo"}},
            "send_email": {
                "email": {"server": "127.0.0.1", "sender": "a@b.example", "to": ["c@d.example"]}
            },
        },
    }
)


def desk_with(line: Line) -> Desk:
    return desk(*builtin_tools(CONFIG), line=line)


async def test_hangup_ends_the_call_after_speech() -> None:
    line = Line()
    reply = await desk_with(line).run(ask("hangup_call", reason="all done"))
    assert reply.ok
    assert line.ended == ["all done"]


async def test_hangup_needs_no_reason() -> None:
    line = Line()
    assert (await desk_with(line).run(ask("hangup_call"))).ok
    assert line.ended == ["agent said goodbye"]


async def test_transfer_goes_to_a_named_destination() -> None:
    line = Line()
    reply = await desk_with(line).run(ask("transfer", destination="front-desk"))
    assert (reply.ok, reply.message) == (True, "Transferring you to front desk.")
    assert line.transfers == ["front-desk"]


@pytest.mark.parametrize("destination", ["6001", "+4912345", "Sales", "", None, ["sales"]])
async def test_transfer_goes_nowhere_else(destination: object) -> None:
    line = Line()
    reply = await desk_with(line).run(ask("transfer", destination=destination))
    assert reply.status is Status.REFUSED
    assert line.transfers == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TransferFailed("busy"), "could not transfer you to sales"),
        (LineUnsupported("bare AudioSocket"), "cannot be transferred"),
        (LineGone("gone"), "could not transfer"),
        (LineError("?"), "could not transfer"),
    ],
)
async def test_a_failed_transfer_is_told_in_words(error: LineError, words: str) -> None:
    line = Line(transfer_error=error)
    reply = await desk_with(line).run(ask("transfer", destination="sales"))
    assert reply.status is Status.ERROR
    assert words in reply.message


ASKED = Config.model_validate(
    {
        "contexts": {"demo": {}},
        "tools": {
            "transfer": {
                "destinations": {
                    "sales": {"target": "6001", "mode": "attended", "endpoint": "PJSIP/6001"},
                    "help-desk": {"target": "help", "type": "queue", "returns": True},
                }
            }
        },
    }
)


@pytest.mark.parametrize(
    ("result", "status", "words"),
    [
        (TransferResult("accepted"), Status.OK, "Transferring you to sales."),
        (TransferResult("accepted", returned=True), Status.OK, "back with me after sales"),
        (TransferResult("busy", returned=True), Status.ERROR, "sales is busy"),
        (TransferResult("unavailable", returned=True, closed=True), Status.ERROR, "is closed"),
        (TransferResult("machine", returned=True), Status.ERROR, "nobody at sales"),
    ],
)
async def test_the_outcome_of_a_transfer_is_data_and_one_sentence(
    result: TransferResult, status: Status, words: str
) -> None:
    line = Line(transfer_result=result)
    at_desk = desk(*builtin_tools(ASKED), line=line)
    reply = await at_desk.run(ask("transfer", destination="sales", reason="a blue bicycle"))
    assert line.reasons == ["a blue bicycle"]
    assert (reply.status, reply.data["outcome"]) == (status, result.outcome)
    assert reply.data["caller_is_back"] is result.returned
    assert words in reply.message


async def test_a_concern_has_a_length_and_exists_only_where_a_human_is_asked() -> None:
    line = Line()
    at_desk = desk(*builtin_tools(ASKED), line=line)
    reply = await at_desk.run(ask("transfer", destination="sales", reason="x" * 301))
    assert reply.status is Status.REFUSED
    reply = await desk_with(line).run(ask("transfer", destination="sales", reason="a bicycle"))
    assert reply.status is Status.REFUSED
    assert line.transfers == []


def test_what_the_agent_is_told_of_transfer() -> None:
    (transfer,) = (tool.spec for tool in builtin_tools(CONFIG) if tool.spec.name == "transfer")
    assert transfer.effects is Effects.DESTRUCTIVE
    assert "sales (orders and prices)" in transfer.description
    assert "6001" not in str(transfer.parameters) + transfer.description


def test_without_destinations_there_is_no_transfer() -> None:
    names = [
        tool.spec.name for tool in builtin_tools(Config.model_validate({"contexts": {"demo": {}}}))
    ]
    assert "hangup_call" in names
    assert "transfer" not in names


def test_names_of_built_in_tools_are_known_to_the_configuration() -> None:
    names = {tool.spec.name for tool in builtin_tools(CONFIG)}
    assert names == set(BUILTIN_NAMES) == set(BUILTIN_TOOLS)
