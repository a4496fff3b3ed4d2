"""Workflows without their running: conditions, arguments, answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.tools.workflow_tool import Condition, WorkflowTool
from cordboard.tools.tool import Status, ToolResult
from cordboard.tools.workflow.plan import Answers, holds, read_plan

SCOPE = {
    "args": {"seats": 4, "day": "2026-12-01", "note": None, "vip": True, "same": 4.0},
    "call": {"caller_number": "+47123"},
    "steps": {
        "free": {"status": "ok", "ok": True, "message": "Two.", "data": {"tables": [{"id": 7}]}},
        "paid": {"status": "error", "ok": False, "message": "No."},
    },
}

HOLD: list[tuple[dict[str, Any], bool]] = [
    ({"path": "args.seats", "equals": 4}, True),
    ({"path": "args.seats", "equals": 4.0}, True),
    ({"path": "args.seats", "equals": "4"}, False),
    ({"path": "args.seats", "equals": "{args.same}"}, True),
    ({"path": "args.vip", "equals": True}, True),
    ({"path": "args.vip", "equals": 1}, False),
    ({"path": "args.note", "equals": None}, True),
    ({"path": "args.nothing", "equals": None}, False),
    ({"path": "args.seats", "not_equals": 5}, True),
    ({"path": "args.nothing", "not_equals": 5}, False),
    ({"path": "args.seats", "in": [1, "{args.same}"]}, True),
    ({"path": "args.seats", "in": []}, False),
    ({"path": "args.seats", "greater": 3}, True),
    ({"path": "args.seats", "greater": 3, "less": 4}, False),
    ({"path": "args.seats", "greater": "3"}, False),
    ({"path": "args.vip", "greater": 0}, False),
    ({"path": "args.day", "less": "2026-12-02"}, True),
    ({"path": "args.seats", "less": "{args.nothing}"}, False),
    ({"path": "steps.free.data.tables.0.id", "exists": True}, True),
    ({"path": "steps.free.data.tables.1", "exists": False}, True),
    ({"path": "args.note", "exists": True}, False),
    ({"path": "steps.paid.data", "exists": True}, False),
    ({"ok": "free"}, True),
    ({"ok": "paid"}, False),
    ({"ok": "free", "path": "args.seats", "equals": 5}, False),
    ({"all": [{"ok": "free"}, {"path": "args.seats", "equals": 4}]}, True),
    ({"all": [{"ok": "free"}, {"ok": "paid"}]}, False),
    ({"any": [{"ok": "free"}, {"ok": "paid"}]}, True),
    ({"any": [{"ok": "paid"}], "none": []}, False),
    ({"none": [{"ok": "paid"}]}, True),
    ({"none": [{"ok": "paid"}, {"any": [{"ok": "free"}]}]}, False),
]


@pytest.mark.parametrize(("condition", "so"), HOLD, ids=[str(item) for item, _ in HOLD])
def test_conditions(condition: dict[str, Any], so: bool) -> None:
    assert holds(Condition.model_validate(condition), SCOPE) is so


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(JSON, JSON, st.sampled_from(["equals", "not_equals", "greater", "less"]))
def test_no_data_is_too_odd_for_a_condition(value: Any, wanted: Any, key: str) -> None:
    condition = Condition.model_validate({"path": "args.x", key: "{args.y}"})
    assert holds(condition, {"args": {"x": value, "y": wanted}, "steps": {}}) in (True, False)


def answers(steps: list[dict[str, Any]], **more: Any) -> Answers:
    config = {
        "kind": "workflow",
        "description": "d",
        "parameters": {
            "day": {"type": "string"},
            "seats": {"type": "integer", "default": 2},
            "note": {"type": "string", "required": False},
        },
        "steps": steps,
        **more,
    }
    plan = read_plan(WorkflowTool.model_validate(config))
    return Answers.begin(plan, {"day": "Monday ${HOME} {args.seats}"}, {"caller_name": "Ann"})


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tool": f"tool_{name}", **more}


def run(answers: Answers, **results: ToolResult) -> list[tuple[str, Any]]:
    """Go through all blocks; what was run, with its arguments."""
    ran: list[tuple[str, Any]] = []
    for block in answers.plan.blocks:
        for planned, arguments in answers.due(block):
            ran.append((planned.id, arguments))
            answers.take(planned, results.get(planned.id, ToolResult(message=f"{planned.id}!")))
        if answers.failed:
            break
    return ran


def test_arguments_keep_their_types_and_data_stay_data() -> None:
    arguments = {
        "seats": "{args.seats}",
        "text": "{args.seats} on {args.day} for {call.caller_name}",
        "note": "{args.note}",
        "list": [{"tables": "{steps.a.data}"}, "{steps.a.message}", 5, None],
    }
    now = answers([step("a"), step("b", arguments=arguments)])
    data = {"ids": [1, {"x": "{args.day}"}]}
    ran = run(now, a=ToolResult(message="Two.", data=data))
    assert ran[1] == (
        "b",
        {
            "seats": 2,
            "text": "2 on Monday ${HOME} {args.seats} for Ann",
            "list": [{"tables": data}, "Two.", 5, None],
        },
    )


def test_what_is_skipped_has_no_answer() -> None:
    now = answers(
        [
            step("a", when={"path": "args.seats", "greater": 2}),
            step("b", when={"ok": "a"}),
            step("c", arguments={"status": "{steps.a.status}", "data": "{steps.a.data}"}),
            {"parallel": [step("d"), step("e", when={"ok": "c"})], "when": {"ok": "b"}},
        ]
    )
    assert run(now) == [("c", {"status": "skipped"})]
    assert now.result().message == "c!"


def test_the_answer_is_that_of_the_last_step_unless_it_is_composed() -> None:
    steps = [step("a"), step("b")]
    b = ToolResult(message="Booked.", data={"table": 7}, control={"call_ends": True})
    now = answers(steps)
    run(now, b=b)
    assert now.result() == ToolResult(Status.OK, "Booked.", {"table": 7}, {"call_ends": True})
    now = answers([{"parallel": steps}])
    run(now, b=b)
    assert (now.result().message, now.result().data) == ("a! Booked.", {"a": None, "b": b.data})
    now = answers([{"parallel": steps}])
    run(now, a=b, b=b)
    assert now.result().message == "Booked.", "nobody is told the same twice"
    result = {"number": "{steps.b.data.table}", "missing": "{steps.b.data.x}", "fixed": [1]}
    now = answers(steps, result=result, speech_template="{result.number} {steps.a.message}")
    run(now, b=b)
    assert (now.result().message, now.result().data) == ("7 a!", {"number": 7, "fixed": [1]})
    now = answers(steps, result=result, speech_template="{result.missing}", speech_field="number")
    run(now, b=b)
    assert now.result().message == "7", "half a sentence is never said"


def test_nothing_was_run() -> None:
    now = answers([step("a", when={"path": "args.seats", "equals": 0})])
    assert run(now) == []
    assert now.result() == ToolResult(data={})


@pytest.mark.parametrize(
    ("result", "status", "message"),
    [
        (ToolResult(Status.ERROR, "Closed."), Status.ERROR, "Closed."),
        (ToolResult(Status.TIMEOUT, "Slow."), Status.TIMEOUT, "Slow."),
        (ToolResult(Status.CANCELLED, "Off."), Status.ERROR, "Off."),
        (
            ToolResult(Status.REFUSED, "There is no tool named 'x' in this conversation."),
            Status.REFUSED,
            "The step a was refused. There is no tool named 'x' in this conversation.",
        ),
    ],
)
def test_a_step_that_fails_ends_it(result: ToolResult, status: Status, message: str) -> None:
    now = answers([step("a"), step("b")])
    assert [name for name, _ in run(now, a=result)] == ["a"]
    answer = now.result()
    assert (answer.status, answer.message) == (status, message)
    assert answer.data == {"failed_step": "a", "steps": {"a": str(result.status)}}


def test_the_operators_words_for_failures() -> None:
    words = {"error": "Booking is down.", "timeout": "Booking is slow."}
    for result, message in (
        (ToolResult(Status.ERROR, "Closed."), "Booking is down."),
        (ToolResult(Status.TIMEOUT, "Slow."), "Booking is slow."),
    ):
        now = answers([step("a")], error_messages=words)
        run(now, a=result)
        assert now.result().message == message


def test_a_step_may_fail_if_it_says_so() -> None:
    now = answers([step("a", on_error="continue"), step("b", when={"none": [{"ok": "a"}]})])
    ran = run(now, a=ToolResult(Status.ERROR, "Closed."))
    assert [name for name, _ in ran] == ["a", "b"]
    assert now.result() == ToolResult(message="b!")
    now = answers([step("a"), step("b", on_error="continue")])
    run(now, b=ToolResult(Status.ERROR, "Closed."))
    assert now.result() == ToolResult(message="a!"), "a failure is nobody's answer"
