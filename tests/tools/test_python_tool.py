"""Python functions as tools, through the desk as a call has them."""

from __future__ import annotations

import asyncio
import enum
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_validator
from structlog.testing import capture_logs
from typing_extensions import TypedDict

from cordboard.config.tools.entry import ToolEntry as Entry
from cordboard.errors import SchemaRefused, ToolError, ToolTimeout
from cordboard.tools.python import load_functions, python_tools
from cordboard.tools.python import threads as threads_module
from cordboard.tools.python.signature import description_of, read_signature
from cordboard.tools.tool import Status, Tool, ToolReply, ToolResult, ToolRun

from .conftest import Line, ask, desk

Entries = dict[str, Entry]


class Unit(enum.Enum):
    KILOMETRES = "km"
    MILES = "mi"


@dataclass
class Place:
    name: str
    latitude: Annotated[float, Field(ge=-90, le=90)] = 0.0


class Stay(TypedDict):
    nights: int


class Guest(BaseModel):
    name: str = Field(description="As in the passport.")

    @field_validator("name")
    @classmethod
    def _two_names(cls, name: str) -> str:
        if " " not in name:
            raise ValueError("first and last name, please")
        return name


def distance(
    start: Place,
    goal: Annotated[str, Field(description="Where to.", min_length=2)],
    unit: Unit = Unit.KILOMETRES,
    mode: Literal["car", "foot"] = "car",
    stay: Stay | None = None,
) -> str:
    """Tell how far it is.

    Straight
    through the air.

    Args:
        start: nobody's business
    """
    return f"{start.name} {start.latitude} {goal} {unit.value} {mode} {stay}"


def entries(**functions: str) -> Entries:
    return TypeAdapter(Entries).validate_python(
        {
            name: {"kind": "python", "function": f"operators_tools:{function}"}
            for name, function in functions.items()
        }
    )


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """A module of the operator's."""
    module = types.ModuleType("operators_tools")
    sys.modules["operators_tools"] = module
    yield module
    del sys.modules["operators_tools"]


Give = Callable[..., Tool]


@pytest.fixture
def give(module: types.ModuleType) -> Give:
    """Makes a tool `probe` of a function."""

    def made(function: Callable[..., Any], **rules: Any) -> Tool:
        module.probe = function  # type: ignore[attr-defined]
        tools = TypeAdapter(Entries).validate_python(
            {"probe": {"kind": "python", "function": "operators_tools:probe", **rules}}
        )
        (tool,), problems = python_tools(tools, load_functions(tools))
        assert problems == ()
        return tool

    return made


async def reply(tool: Tool, **arguments: Any) -> ToolReply:
    return await desk(tool).run(ask(**arguments))


# --- the signature ------------------------------------------------------------------------


def test_a_signature_is_a_schema() -> None:
    signature = read_signature(distance)
    schema = signature.parameters
    assert schema["required"] == ["start", "goal"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert list(properties) == ["start", "goal", "unit", "mode", "stay"]
    assert properties["goal"] == {"type": "string", "description": "Where to.", "minLength": 2}
    assert properties["mode"] == {"type": "string", "enum": ["car", "foot"], "default": "car"}
    assert properties["unit"]["default"] == "km"
    assert schema["$defs"]["Unit"]["enum"] == ["km", "mi"]
    assert schema["$defs"]["Place"]["properties"]["latitude"]["maximum"] == 90
    assert "title" not in schema
    assert description_of(distance) == "Tell how far it is.\n\nStraight through the air."


def test_names_that_pydantic_keeps_for_itself_are_names_like_others() -> None:
    def odd(schema: int, copy: str = "x", _hidden: bool = False, model_config: int = 3) -> None: ...

    signature = read_signature(odd)
    assert list(signature.parameters["properties"]) == ["schema", "copy", "_hidden", "model_config"]
    assert signature.read({"schema": 5, "_hidden": True}) == {
        "schema": 5,
        "copy": "x",
        "_hidden": True,
        "model_config": 3,
    }


def untyped(a) -> None: ...  # type: ignore[no-untyped-def]
def several(*a: int) -> None: ...
def keywords(**a: int) -> None: ...
def by_place(a: int, /) -> None: ...
def no_schema(a: Callable[[], int]) -> None: ...
def no_type(a: threading.Lock) -> None: ...  # type: ignore[valid-type]
def nowhere(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def field_default(a: int = Field(ge=1)) -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (untyped, "its parameter a has no type"),
        (several, "it takes any number of arguments (*a: 'int'); name each one"),
        (keywords, "it takes any number of arguments (**a: 'int'); name each one"),
        (by_place, "its parameter a cannot be passed by name"),
        (no_schema, "its parameters have no JSON Schema: Cannot generate"),
        (no_type, "its parameters have no JSON Schema: Unable to generate"),
        (nowhere, "its signature cannot be read: name 'Missing' is not defined"),
        (field_default, "its parameter a has a Field as default; write Annotated"),
    ],
)
def test_what_cannot_be_a_tool_says_why(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(SchemaRefused) as caught:
        read_signature(function)
    assert str(caught.value).startswith(reason)


def test_a_default_that_is_no_json_is_not_in_the_schema() -> None:
    def odd(a: object = threading) -> None: ...

    assert "default" not in read_signature(odd).parameters["properties"]["a"]


# --- what is given and what comes back ----------------------------------------------------


async def test_arguments_arrive_as_the_types_that_are_written(give: Give) -> None:
    tool = give(distance)
    answer = await reply(tool, start={"name": "Oslo", "latitude": 59}, goal="Rome", unit="mi")
    assert (answer.status, answer.message) == (Status.OK, "Oslo 59.0 Rome mi car None")
    answer = await reply(tool, start={"name": "Oslo", "latitude": 99}, goal="Rome")
    assert answer.status is Status.REFUSED
    assert "start.latitude: 99" in answer.message


async def test_what_no_schema_can_say_is_refused_with_words_for_the_model(give: Give) -> None:
    def greet(guest: Guest) -> str:
        return f"Hello {guest.name}."

    tool = give(greet)
    answer = await reply(tool, guest={"name": "Ann"})
    assert answer.status is Status.REFUSED
    assert answer.message == (
        "The arguments of probe are not valid: guest.name: Value error, first and last name,"
        " please. Correct them and ask again."
    )
    assert answer.control == {"retryable": True}, "as for what the schema refuses"
    assert (await reply(tool, guest={"name": "Ann Lee"})).message == "Hello Ann Lee."


@pytest.mark.parametrize(
    ("value", "message", "data"),
    [
        ("Done.", "Done.", {}),
        ({"seats": Decimal(4)}, "I have the result.", {"seats": "4"}),
        (Place("Oslo"), "I have the result.", {"name": "Oslo", "latitude": 0.0}),
        (Guest(name="A B"), "I have the result.", {"name": "A B"}),
        ([1, 2], "I found 2 entries.", {"result": [1, 2]}),
        (True, "The result is yes.", {"result": True}),
        (None, "I have the result.", {}),
        (ToolResult(Status.ERROR, "No table is free."), "No table is free.", {}),
    ],
    ids=str,
)
async def test_what_a_function_returns(
    give: Give, value: Any, message: str, data: dict[str, Any]
) -> None:
    def plain() -> Any:
        return value

    async def waiting() -> Any:
        return value

    for function in (plain, waiting):
        answer = await reply(give(function))
        assert (answer.message, answer.data) == (message, data)


async def test_speech_and_rules_hold_for_functions(give: Give) -> None:
    def seats() -> dict[str, int]:
        """Seats."""
        return {"seats": 4}

    rules = {"speech_template": "{seats} seats.", "effects": "read_only", "description": "Free."}
    tool = give(seats, **rules)
    assert (tool.spec.description, tool.spec.effects) == ("Free.", "read_only")
    assert tool.spec.origin == "python:operators_tools:probe"
    assert (await reply(tool)).message == "4 seats."
    assert give(seats).spec.description == "Seats."
    assert give(seats).spec.effects == "destructive", "nobody has said that it is harmless"
    assert give(seats).spec.approval == "none"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ToolError("The kitchen is closed."), Status.ERROR, "The kitchen is closed."),
        (ToolTimeout("The kitchen is slow."), Status.TIMEOUT, "The kitchen is slow."),
        (KeyError("x"), Status.ERROR, "Sorry, that did not work."),
        (StopIteration(), Status.ERROR, "Sorry, that did not work."),
        (SystemExit(3), Status.ERROR, "Sorry, that did not work."),
    ],
    ids=repr,
)
async def test_what_a_function_raises(
    give: Give, error: BaseException, status: Status, message: str
) -> None:
    def plain() -> None:
        raise error

    async def waiting() -> None:
        raise error

    for function in (plain, waiting):
        with capture_logs() as logs:
            answer = await reply(give(function))
        assert (answer.status, answer.message) == (status, message)
        crashed = any(line["event"] == "tool_crashed" for line in logs)
        assert crashed is not isinstance(error, ToolError)


async def test_a_result_that_is_no_json_is_a_crash(give: Give) -> None:
    answer = await reply(give(lambda: object()))
    assert (answer.status, answer.message) == (Status.ERROR, "Sorry, that did not work.")


async def test_a_function_may_have_the_run(give: Give) -> None:
    async def who(greeting: str, run: ToolRun) -> str:
        run.line.say("hm")
        return f"{greeting} {run.line.call_id} {run.idempotency_key}"

    tool = give(who)
    assert list(tool.spec.parameters["properties"]) == ["greeting"]
    line = Line()
    answer = await desk(tool, line=line).run(ask(greeting="Hi"))
    assert answer.message == "Hi call-1 call-1:ask-1"
    assert line.said == ["hm"]


# --- threads --------------------------------------------------------------------------------


async def test_a_function_that_blocks_holds_up_nobody(give: Give) -> None:
    go = threading.Event()

    def block() -> str:
        go.wait(60)
        own = threading.current_thread() is not threading.main_thread()
        return "ran in a thread of its own" if own else "ran on the loop"

    running = asyncio.create_task(reply(give(block)))
    assert (await reply(give(lambda: "meanwhile"))).message == "meanwhile"
    assert not running.done()
    go.set()
    assert (await running).message == "ran in a thread of its own"


async def test_hanging_runs_are_counted_and_then_it_is_not_called_any_more(give: Give) -> None:
    go = threading.Event()
    begun: list[int] = []

    def hang() -> str:
        begun.append(1)
        go.wait(60)
        return "there"

    words = {"unavailable": "The till is broken."}
    tool = give(hang, timeout_ms=50, effects="read_only", error_messages=words)
    box = desk(tool)
    for number in range(threads_module.MOST_STUCK):
        answer = await box.run(ask(number=number, turn=number))
        assert answer.status is Status.TIMEOUT
    with capture_logs() as logs:
        answer = await box.run(ask(number=5, turn=5))
    assert (answer.status, answer.message) == (Status.ERROR, "The till is broken.")
    stuck = [line["threads"] for line in logs if line["event"] == "python_tool_stuck"]
    assert stuck == [threads_module.MOST_STUCK]
    assert len(begun) == threads_module.MOST_STUCK
    other = give(lambda: "fine")
    assert (await reply(other)).message == "fine"
    go.set()
    deadline = time.monotonic() + 60
    while (answer := await box.run(ask(number=6, turn=6))).status is not Status.OK:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert answer.message == "there", "the threads have come back"


async def test_no_more_threads_than_turns(give: Give) -> None:
    at_work, most = 0, 0
    lock = threading.Lock()

    def work(item: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.005)
        with lock:
            at_work -= 1
        return item

    tool = give(work)
    answers = await asyncio.gather(*(reply(tool, item=item) for item in range(30)))
    assert [answer.data["result"] for answer in answers] == list(range(30))
    assert 1 < most <= threads_module.MOST_AT_ONCE


# --- finding them ---------------------------------------------------------------------------


def told(tools: Entries) -> list[str]:
    made, problems = python_tools(tools, load_functions(tools))
    assert made == ()
    assert not any(problem.fatal for problem in problems)
    return [str(problem) for problem in problems]


def test_what_cannot_be_found_is_a_problem_and_no_more(module: types.ModuleType) -> None:
    def with_run(run: ToolRun) -> None: ...

    module.number, module.with_run, module.untyped = 5, with_run, untyped  # type: ignore[attr-defined]
    begin = "tools.a.function: the tool a is not offered:"
    assert told(entries(a="convert")) == [
        f"{begin} the module operators_tools has no function convert"
    ]
    assert told(entries(a="number")) == [
        f"{begin} number in the module operators_tools is not a function"
    ]
    assert told(entries(a="untyped")) == [f"{begin} its parameter a has no type"]
    assert told(entries(a="with_run")) == [
        f"{begin} its parameter run is a ToolRun, which only an `async def` function can use:"
        " it runs only in the engine's own thread"
    ]


def test_a_module_may_do_what_it_wants_when_it_is_imported(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "operators_bad.py").write_text("import no_such_thing")
    (tmp_path / "operators_exit.py").write_text("raise SystemExit(3)")
    tools = TypeAdapter(Entries).validate_python(
        {
            name: {"kind": "python", "function": f"{name}:f"}
            for name in ("operators_bad", "operators_exit", "operators_none")
        }
    )
    with capture_logs() as logs:
        problems = told(tools)
    assert [problem.partition("not offered: ")[2] for problem in problems] == [
        "its module cannot be imported: ModuleNotFoundError: No module named 'no_such_thing'",
        "its module cannot be imported: SystemExit: 3",
        "there is no module operators_none where the engine runs",
    ]
    assert [line["event"] for line in logs] == ["python_tool_import_failed"] * 2


def test_what_was_found_stays_as_it_is(module: types.ModuleType) -> None:
    module.f = distance  # type: ignore[attr-defined]
    first = load_functions(entries(a="f", b="g"))
    module.f = module.g = untyped  # type: ignore[attr-defined]
    second = load_functions(entries(a="f", b="g"), first)
    assert second["operators_tools:f"] is first["operators_tools:f"]
    assert "has no type" in str(second["operators_tools:g"]), "what was not there is looked for"
