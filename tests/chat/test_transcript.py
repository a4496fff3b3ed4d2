"""What `GET /chat/ID` tells is made of the ledger, whatever stands in it."""

from cordboard.calls import events
from cordboard.calls.history import LedgerLine
from cordboard.chat.sessions import transcript


def lines(*recorded: events.LedgerEvent) -> list[LedgerLine]:
    return [
        {"at_ms": place, "type": event.type} | event.fields()
        for place, event in enumerate(recorded)
    ]


def test_who_was_asked_for_a_yes_and_what_came_late_can_be_read() -> None:
    told = transcript(
        lines(
            events.ToolCalled(1, "1.1", "book", "python:tables:book", {"guests": 4}),
            events.ToolApproval("Shall I book it?", "yes", 900, "text"),
            events.ToolAnswered("1.1", "book", "timeout", "That takes too long.", 2_000),
            events.ToolLate("1.1", "book", "ok", "It is booked.", True, 3_000),
        )
    )

    (approval,) = told["approvals"]
    assert (approval["question"], approval["answer"]) == ("Shall I book it?", "yes")
    (tool,) = told["tools"]
    assert (tool["status"], tool["late"]["message"]) == ("timeout", "It is booked.")
    assert tool["late"]["told"]


def test_a_line_of_an_ask_that_is_not_known_is_passed_over() -> None:
    strange: LedgerLine = {"at_ms": 1, "type": "tool.of_another_version"}
    late = lines(events.ToolLate("7.7", "book", "ok", "It is booked.", False, 3_000))

    assert transcript([strange, *late])["tools"] == []
