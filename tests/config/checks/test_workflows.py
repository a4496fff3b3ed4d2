"""What is said of a workflow that does not fit together."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from cordboard.config.checks.workflows import order_of
from cordboard.config.load import LoadedConfig, read
from cordboard.config.tools.workflow_tool import WorkflowTool
from cordboard.errors import ConfigError

CONTEXT = "contexts: {demo: {tools: [book, convert], variables: [TIER]}}\n"
CONVERT = '  convert: {kind: python, function: "json:dumps"}\n'


def loaded(steps: str, more: str = "") -> LoadedConfig:
    text = (
        f"{CONTEXT}tools:\n{CONVERT}{more}  book:\n    kind: workflow\n    description: d\n"
        "    parameters: {day: {type: string}, seats: {type: integer, default: 2}}\n"
        f"{textwrap.indent(textwrap.dedent(steps), '    ')}"
    )
    return read(text, Path("a.yaml"), {})


def told(steps: str, more: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(steps, more)
    return [str(problem).removeprefix("a.yaml:") for problem in caught.value.problems]


GOOD = """\
    steps:
      - {id: free, tool: convert, arguments: {obj: ["{args.day}", "{call.TIER}"]}}
      - when: {any: [{path: args.seats, greater: 2}, {ok: free}]}
        parallel:
          - {id: a, tool: convert, arguments: {obj: "{steps.free.data.0}"}}
          - {id: b, tool: convert, when: {path: steps.free.message, in: [x, "{args.day}"]}}
      - {id: c, tool: convert, arguments: {obj: "{steps.a.data} {steps.b.ok}"}}
    result: {day: "{args.day}"}
    speech_template: "{result.day}: {steps.c.message|nothing} {call.caller_name}"
    """


def test_a_workflow_in_order_has_no_problem() -> None:
    assert loaded(GOOD).problems == ()


WRONG = [
    ("{id: a, tool: convrt}", "tool: nothing provides the tool convrt; did you mean convert?"),
    (
        "{id: a, tool: convert, arguments: {x: [1, '{args.dya}']}}",
        "arguments.x[1]: there is no parameter dya; did you mean day?",
    ),
    (
        "{id: a, tool: convert, arguments: {x: '{stesp.a.data}'}}",
        "arguments.x: there is no value stesp.a.data; expected one that begins with args., steps."
        " or call.",
    ),
    (
        "{id: a, tool: convert, arguments: {x: '{call.caller_nmae}'}}",
        "arguments.x: there is no call variable caller_nmae; did you mean caller_name?",
    ),
    (
        "{id: a, tool: convert, arguments: {x: '{steps.b.data}'}}",
        "arguments.x: there is no step b",
    ),
    (
        "{id: a, tool: convert, arguments: {x: '{steps.a.data}'}}",
        "arguments.x: the step a has no answer yet here; only steps before this one have",
    ),
    (
        "{id: a, tool: convert, when: {path: args.dya, exists: true}}",
        "when.path: there is no parameter dya; did you mean day?",
    ),
    (
        "{id: a, tool: convert, when: {all: [{ok: b}]}}",
        "when.all[0].ok: there is no step b",
    ),
    (
        "{id: a, tool: convert, when: {path: args.day, equals: '{args.dya}'}}",
        "when.equals: there is no parameter dya; did you mean day?",
    ),
    (
        "{id: a, tool: convert, when: {path: args.day}}",
        "when: `path` needs one of equals, not_equals, in, greater, less, exists",
    ),
    ("{id: a, tool: convert, when: {greater: 1}}", "when: `greater` needs a `path`: what it is"),
    ("{id: a, tool: convert, when: {equal: 1}}", "when.equal: unknown key; did you mean equals?"),
    ("{id: a, tool: convert, arguments: {x: '{args.day'}}", "arguments.x: at character 10: exp"),
    ("{tool: convert}", "a step needs `id` and `tool`, or `parallel` with such steps"),
    (
        "{id: a, parallel: [{id: b, tool: convert}]}",
        "`id` does not go with `parallel`; each step there has its own",
    ),
    (
        "{parallel: [{id: a, tool: convert}, {id: a, tool: convert}]}",
        "parallel[1].id: another step is called a already; each needs an id of its own",
    ),
    (
        "{parallel: [{id: a, tool: convert},"
        " {id: b, tool: convert, arguments: {x: '{steps.a.data}'}}]}",
        "parallel[1].arguments.x: the step a has no answer yet here;",
    ),
    (
        "{parallel: [{id: a, tool: convert, parallel: []}]}",
        "parallel[0].parallel: unknown key; known here: ",
    ),
]


@pytest.mark.parametrize(("step", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_step_that_does_not_fit(step: str, message: str) -> None:
    problem = told(f"steps:\n  - {step}\n")[0]
    key = "9: tools.book.steps[0]"
    begin = f"{key}: {message}" if message.startswith(("a step", "`id`")) else f"{key}.{message}"
    assert problem.startswith(begin)


def test_answers_name_only_what_is_there() -> None:
    steps = """\
        steps: [{id: a, tool: convert}]
        result: {x: ["{steps.a.dta}"]}
        speech_template: "{result.y} {result.x}"
        """
    assert told(steps) == [
        "9: tools.book.result.x[0]: expected one of data, message, status, ok after steps.a.",
        "10: tools.book.speech_template: there is no key in `result`: y; known here: x",
    ]


def test_parameters_are_schemas_and_a_description_is_needed() -> None:
    text = """\
        contexts: {demo: {}}
        tools:
          book:
            kind: workflow
            parameters: {day: {type: strng}}
            steps: [{id: a, tool: hangup_call}]
        """
    with pytest.raises(ConfigError) as caught:
        read(textwrap.dedent(text), Path("a.yaml"), {})
    first, second = map(str, caught.value.problems)
    assert first == (
        "a.yaml:3: tools.book.description: missing; expected a text (Description for the agent)"
    )
    assert second.startswith("a.yaml:5: tools.book.parameters.day.type: not a JSON Schema: ")


def test_workflows_never_run_themselves() -> None:
    other = "  other: {kind: workflow, description: d, steps: [{id: a, tool: TOOL}]}\n"
    steps = "steps: [{id: a, tool: convert}, {id: b, tool: other}]\n"
    assert told(steps, other.replace("TOOL", "book")) == [
        "1: contexts.demo.tools[0]: the workflow book uses other, which this context does not"
        " list; a workflow can run only what its context may use",
        "4: tools.other.steps[0].tool: the workflow would run itself: other → book → other",
    ]
    assert told("steps: [{id: a, tool: book}]\n")[-1] == (
        "8: tools.book.steps[0].tool: the workflow would run itself: book → book"
    )


def test_workflows_come_after_those_that_they_use() -> None:
    def workflow(*tools: str) -> WorkflowTool:
        steps = [{"id": f"s{number}", "tool": tool} for number, tool in enumerate(tools)]
        entry = {"kind": "workflow", "description": "d", "steps": steps}
        return WorkflowTool.model_validate(entry)

    workflows = {"a": workflow("b", "x"), "b": workflow("c"), "c": workflow("x")}
    assert list(order_of({**workflows, "d": workflow("a")})) == ["c", "b", "a", "d"]
    circle = {"a": workflow("b"), "b": workflow("a")}
    assert list(order_of(circle)) == ["a", "b"], "it is refused elsewhere, but must come to an end"
