"""Checks of the steps before and after calls: tools and names must exist.

Called by `cordboard.config.checks.semantics`, for each context.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cordboard.config.call_phases import (
    POST_CALL_VARIABLES,
    RESULTS,
    PostCallStep,
    PreCallStep,
    saved_names,
)
from cordboard.config.call_variables import CALL_VARIABLES
from cordboard.config.checks.http_tools import unknown_variable
from cordboard.config.checks.tools import ToolNames, may_use, provided
from cordboard.config.explain import suggestion
from cordboard.config.schema import Context
from cordboard.config.templates import Path, placeholders_in, read_json_template
from cordboard.config.tools.entry import NEED_A_CALLER
from cordboard.config.tools.http_tool import CALL
from cordboard.config.tools.workflow_tool import WorkflowTool
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]


def check_phases(names: ToolNames, context: Context, path: KeyPath, document: Document) -> Problems:
    """Yield all problems in `pre_call` and `post_call` of a context."""
    variables = (*CALL_VARIABLES, *context.variables)
    saved = saved_names(context.pre_call)
    for index, step in enumerate(context.pre_call):
        place: KeyPath = (*path, "pre_call", index)
        if step.save_as in variables or step.save_as in saved_names(context.pre_call[:index]):
            words = f"{step.save_as} is the name of something else already; expected another one"
            yield document.problem((*place, "save_as"), words)
        yield from _tool(names, context, step, place, document)
        yield from _arguments(step, place, variables, (), document)
    later = tuple(dict.fromkeys((*variables, *POST_CALL_VARIABLES, *saved)))
    for index, after in enumerate(context.post_call):
        place = (*path, "post_call", index)
        yield from _tool(names, context, after, place, document)
        yield from _arguments(after, place, later, saved, document)


def _tool(
    names: ToolNames,
    context: Context,
    step: PreCallStep | PostCallStep,
    place: KeyPath,
    document: Document,
) -> Problems:
    """The tool must exist and need no caller; a workflow may only run tools of its context."""
    here = (*place, "tool")
    if step.tool in NEED_A_CALLER:
        words = f"{step.tool} needs a caller on the line; expected another kind of tool"
        yield document.problem(here, words)
        return
    yield from provided(names, step.tool, here, document)
    workflow = names.config.tools.get(step.tool)
    if not isinstance(workflow, WorkflowTool):
        return
    named = {other.tool for other in context.pre_call} | {other.tool for other in context.post_call}
    needed = dict.fromkeys(inner.tool for _, inner in workflow.tool_steps())
    missing = [name for name in needed if name not in named and not may_use(names, context, name)]
    if missing:
        words = f"the workflow {step.tool} uses {', '.join(missing)}, which this context does not"
        yield document.problem(here, f"{words} list; a workflow can run only what its context may")


def _arguments(
    step: PreCallStep | PostCallStep,
    place: KeyPath,
    variables: Collection[str],
    results: Collection[str],
    document: Document,
) -> Problems:
    for inner, placeholder in placeholders_in(read_json_template(step.arguments)):
        problem = _problem(placeholder.path, variables, results)
        if problem:
            yield document.problem((*place, "arguments", *inner), problem)


def _problem(path: Path, variables: Collection[str], results: Collection[str]) -> str | None:
    head, *rest = path
    if head == CALL:
        # The call's facts have fields of their own: {call.summary.caller_turns}.
        name = rest[0] if rest and rest[0] in POST_CALL_VARIABLES else ".".join(rest)
        return unknown_variable(name, variables)
    if head == RESULTS:
        if rest and rest[0] in results:
            return None
        name = rest[0] if rest else ""
        hint = suggestion(name, results) or "; no step of `pre_call` saves one"
        return f"there is no result {{{RESULTS}.{name}}}{hint}"
    known = f"{{{CALL}.…}}" + (f" and {{{RESULTS}.…}}" if results else "")
    return f"there is no value {{{head}}}; expected {known}, and a literal brace written twice"
