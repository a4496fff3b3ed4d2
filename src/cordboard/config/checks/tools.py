"""Checks of the tools: their names, their sources, and the contexts that may use them.

A part of `config.checks.semantics`, with the same kind of problems.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator, Mapping

from cordboard.config.call_phases import PostCallStep
from cordboard.config.call_variables import CALL_VARIABLES
from cordboard.config.checks.workflows import check_workflows
from cordboard.config.explain import suggestion
from cordboard.config.mcp import McpServer
from cordboard.config.naming import exposed_name, exposed_prefix, tool_of_origin
from cordboard.config.schema import Config, Context
from cordboard.config.templates import placeholders_in, read_json_template
from cordboard.config.tools.entry import (
    BUILTIN_TOOLS,
    NEED_A_CALLER,
    BuiltinTool,
    McpToolEntry,
    PythonTool,
    group_server,
)
from cordboard.config.tools.http_tool import CALL
from cordboard.config.tools.messages import CALLBACK, CALLBACK_FACTS, MESSAGE, MESSAGE_FACTS
from cordboard.config.tools.workflow_tool import WorkflowTool
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]


def running_servers(config: Config) -> dict[str, McpServer]:
    """Return the servers that are switched on."""
    if not config.mcp.enabled:
        return {}
    return {name: server for name, server in config.mcp.servers.items() if server.enabled}


class ToolNames:
    """Tool names of a configuration, looked up once for all checks."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.running = running_servers(config)
        entries: dict[str, set[str]] = {server: set() for server in config.mcp.servers}
        self.renamed: dict[str, str] = {}
        """Default name of a server's tool → the name that `tools` gives it."""
        for name, entry in config.tools.items():
            if isinstance(entry, McpToolEntry):
                self.renamed[exposed_name(entry.server, entry.tool)] = name
                entries.setdefault(entry.server, set()).add(name)
        self.of_server = {
            name: frozenset(entries[name] | _listed_names(name, server).keys())
            for name, server in config.mcp.servers.items()
        }
        """Exposed names of each server's tools, as far as the file lists them."""
        own = {name for name, entry in config.tools.items() if not isinstance(entry, McpToolEntry)}
        self.known = own.union(BUILTIN_TOOLS, *(self.of_server[name] for name in self.running))


def exposed_by_origin(config: Config) -> dict[tuple[str, str], str]:
    """Return (server, tool) → the exposed name that the file gives it."""
    names = {
        (server, tool.name): tool.expose_as
        for server, section in config.mcp.servers.items()
        for tool in section.tools
        if tool.expose_as is not None
    }
    entries = config.tools.items()
    return names | {(e.server, e.tool): name for name, e in entries if isinstance(e, McpToolEntry)}


def exposed_reference(name: str, names: Mapping[tuple[str, str], str]) -> str:
    """Return the exposed name for `mcp:server:tool` in a context's list; any other name as it
    is."""
    origin = tool_of_origin(name)
    return name if origin is None else names.get(origin) or exposed_name(*origin)


def may_use(names: ToolNames, context: Context, tool: str) -> bool:
    """Return True if the context lists the tool, or a server that may offer it."""
    servers = names.config.mcp.servers
    return tool in context.tools or any(
        tool in names.of_server[server] or _may_have(servers[server], server, tool)
        for name in context.tools
        if (server := group_server(name)) is not None and server in servers
    )


def check_tools(names: ToolNames, document: Document) -> Problems:
    """Yield all problems except those of the contexts' lists."""
    config = names.config
    yield from _shared_names(config, document)
    workflows: dict[str, WorkflowTool] = {}
    for name, entry in config.tools.items():
        place: KeyPath = ("tools", name)
        if isinstance(entry, BuiltinTool):
            yield from _builtin(names, name, entry, place, document)
        elif isinstance(entry, McpToolEntry) and entry.server not in config.mcp.servers:
            words = f"there is no MCP server {entry.server}"
            words += suggestion(entry.server, config.mcp.servers)
            yield document.problem((*place, "server"), words)
        elif isinstance(entry, PythonTool):
            yield from _function(entry, place, document)
        elif isinstance(entry, WorkflowTool):
            workflows[name] = entry
            for path, step in entry.tool_steps():
                yield from provided(names, step.tool, (*place, *path, "tool"), document)
    declared = (name for context in config.contexts.values() for name in context.variables)
    yield from check_workflows(workflows, {*CALL_VARIABLES, *declared}, document)


def check_list(names: ToolNames, context: Context, path: KeyPath, document: Document) -> Problems:
    """Each tool that a context lists must have a source, as far as the file shows."""
    seen: set[str] = set()
    for index, tool in enumerate(context.tools):
        place = (*path, "tools", index)
        server = group_server(tool)
        if tool in seen:
            yield document.problem(place, f"{tool} is listed twice", fatal=False)
        elif server is not None:
            yield from _group(names, server, place, document)
        elif tool == "transfer" and not names.config.destinations:
            message = "there is nowhere to transfer to; name tools.transfer.destinations"
            yield document.problem(place, message, fatal=False)
        elif tool == "take_message" and names.config.message is None:
            message = "nobody gets the messages; name tools.take_message.message.deliver"
            yield document.problem(place, message, fatal=False)
        elif tool == "send_email" and names.config.email is None:
            message = "there is no server; name tools.send_email.email"
            yield document.problem(place, message, fatal=False)
        elif tool == "request_callback" and names.config.callback is None:
            message = "it is not configured; name tools.request_callback.callback"
            yield document.problem(place, message, fatal=False)
        else:
            yield from provided(names, tool, place, document)
            yield from _steps(names, context, tool, place, document)
        seen.add(tool)


def _builtin(
    names: ToolNames, name: str, entry: BuiltinTool, place: KeyPath, document: Document
) -> Problems:
    if name not in BUILTIN_TOOLS:
        words = f"there is no built-in tool {name}{suggestion(name, BUILTIN_TOOLS)}"
        yield document.problem(place, words)
    elif entry.destinations and name != "transfer":
        words = f"only the tool transfer has destinations; {name} knows none"
        yield document.problem((*place, "destinations"), words)
    elif entry.message is not None and name != "take_message":
        words = f"only the tool take_message takes messages; {name} does not"
        yield document.problem((*place, "message"), words)
    elif entry.callback is not None and name != "request_callback":
        words = f"only the tool request_callback notes call-backs; {name} does not"
        yield document.problem((*place, "callback"), words)
    elif entry.email is not None and name != "send_email":
        words = f"only the tool send_email sends e-mail; {name} does not"
        yield document.problem((*place, "email"), words)
    else:
        yield from _left_by_callers(names, entry, place, document)


def _left_by_callers(
    names: ToolNames, entry: BuiltinTool, place: KeyPath, document: Document
) -> Problems:
    """Messages and call-backs need a tool that gets them, or an engine that calls."""
    callback, config = entry.callback, names.config
    if callback is not None and not (callback.deliver or config.outbound.enabled):
        words = "the engine does not call (outbound.enabled is false); expected a tool"
        yield document.problem((*place, "callback", "deliver"), words)
    if callback is not None and callback.context not in (None, *config.contexts):
        words = f"there is no context {callback.context}"
        words += suggestion(str(callback.context), config.contexts)
        yield document.problem((*place, "callback", "context"), words)
    for section, root, facts in (
        (entry.message, MESSAGE, MESSAGE_FACTS),
        (callback, CALLBACK, CALLBACK_FACTS),
    ):
        for index, step in enumerate(section.deliver if section is not None else ()):
            here = (*place, root, "deliver", index)
            known = {root: facts, CALL: CALL_VARIABLES}
            yield from check_step(names, step, known, here, document)


def check_step(
    names: ToolNames,
    step: PostCallStep,
    values: Mapping[str, Collection[str]],
    place: KeyPath,
    document: Document,
) -> Problems:
    """A step without a caller: its tool must exist, and its arguments may have `values`, such as
    {alarm.name}."""
    if step.tool in NEED_A_CALLER:
        words = f"{step.tool} needs a caller on the line; expected another kind of tool"
        yield document.problem((*place, "tool"), words)
    else:
        yield from provided(names, step.tool, (*place, "tool"), document)
    for inner, placeholder in placeholders_in(read_json_template(step.arguments)):
        head, *rest = placeholder.path
        if not rest or rest[0] not in values.get(head, ()):
            known = ", ".join(f"{{{root}.{fact}}}" for root in values for fact in values[root])
            words = f"there is no value {{{'.'.join(placeholder.path)}}}; expected one of {known}"
            yield document.problem((*place, "arguments", *inner), words)


def _function(entry: PythonTool, place: KeyPath, document: Document) -> Problems:
    """The package must be installed; the function itself is checked when it is imported."""
    package = entry.function.partition(":")[0].partition(".")[0]
    try:
        found = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        words = f"there is no module {package} where the engine runs; the tool is not offered"
        yield document.problem((*place, "function"), words, fatal=False)


def _group(names: ToolNames, server: str, place: KeyPath, document: Document) -> Problems:
    config = names.config
    if server not in config.mcp.servers:
        words = f"there is no MCP server {server}{suggestion(server, config.mcp.servers)}"
        yield document.problem(place, words)
    elif server not in names.running:
        words = f"no tool of {server} is offered, since {_switch(config, server)} is false"
        yield document.problem(place, words, fatal=False)


def _steps(
    names: ToolNames, context: Context, tool: str, place: KeyPath, document: Document
) -> Problems:
    """A workflow may run only tools of its context."""
    workflow = names.config.tools.get(tool)
    if not isinstance(workflow, WorkflowTool):
        return
    needed = dict.fromkeys(step.tool for _, step in workflow.tool_steps())
    missing = [
        name
        for name in needed
        # A tool without a source is reported at the step itself.
        if not may_use(names, context, name) and not any(provided(names, name, (), document))
    ]
    if missing:
        words = f"the workflow {tool} uses {', '.join(missing)}, which this context does not list"
        yield document.problem(place, f"{words}; a workflow can run only what its context may use")


# --- who provides what -----------------------------------------------------------------------


def _listed_names(name: str, server: McpServer) -> dict[str, KeyPath]:
    """Return exposed names of a server's listed tools, with places; the last of equals wins."""
    return {
        tool.expose_as or exposed_name(name, tool.name): ("mcp", "servers", name, "tools", index)
        for index, tool in enumerate(server.tools)
    }


def _may_have(server: McpServer, name: str, tool: str) -> bool:
    """Return True if a server without a list, which offers all its tools, may have this one."""
    return not server.tools and tool.startswith(exposed_prefix(name))


def provided(names: ToolNames, tool: str, place: KeyPath, document: Document) -> Problems:
    """The tool must have a source."""
    config, known, running = names.config, names.known, names.running
    if tool in names.renamed and tool not in known:
        name = names.renamed[tool]
        words = f"nothing provides the tool {tool}: tools.{name} gives it the name {name}"
        yield document.problem(place, words)
        return
    if tool in known or any(_may_have(server, name, tool) for name, server in running.items()):
        return
    for name in config.mcp.servers:
        if name not in running and (
            tool in names.of_server[name] or tool.startswith(exposed_prefix(name))
        ):
            words = f"the tool {tool} is not offered, since {_switch(config, name)} is false"
            yield document.problem(place, words, fatal=False)
            return
    entry = config.tools.get(tool)
    if isinstance(entry, McpToolEntry) and entry.server not in config.mcp.servers:
        return  # reported at its own place
    yield document.problem(place, f"nothing provides the tool {tool}{suggestion(tool, known)}")


def _switch(config: Config, server: str) -> str:
    return "mcp.enabled" if not config.mcp.enabled else f"mcp.servers.{server}.enabled"


def _shared_names(config: Config, document: Document) -> Problems:
    """Exposed names must be unique, and a tool of a server may have only one."""
    owners = {name: f"the built-in tool {name}" for name in BUILTIN_TOOLS}
    named: dict[tuple[str, str], str] = {}
    for name, entry in config.tools.items():
        if isinstance(entry, BuiltinTool):
            continue
        if name in BUILTIN_TOOLS:
            words = f"{name} is the name of a built-in tool; give this one of `kind: {entry.kind}`"
            yield document.problem(("tools", name), f"{words} another name")
            continue
        owners[name] = f"tools.{name}"
        if isinstance(entry, McpToolEntry):
            key = (entry.server, entry.tool)
            if key in named:
                yield _named_twice(document, ("tools", name, "tool"), key, named[key])
            named.setdefault(key, f"tools.{name}")
    for server_name, server in running_servers(config).items():
        yield from _names_of_server(server_name, server, owners, named, document)


def _names_of_server(
    server_name: str,
    server: McpServer,
    owners: dict[str, str],
    named: Mapping[tuple[str, str], str],
    document: Document,
) -> Problems:
    listed: set[str] = set()
    for index, tool in enumerate(server.tools):
        place: KeyPath = ("mcp", "servers", server_name, "tools", index)
        if tool.name in listed:
            message = f"the tool {tool.name} of this server is named twice; name it once"
            yield document.problem((*place, "name"), message)
            continue
        listed.add(tool.name)
        key = (server_name, tool.name)
        if key in named:
            yield _named_twice(document, (*place, "name"), key, named[key])
            continue
        name = tool.expose_as or exposed_name(server_name, tool.name)
        owner = f"{tool.name} of the MCP server {server_name}"
        if name in owners:
            message = (
                f"two tools have the exposed name {name}: {owners[name]}, and {owner};"
                " give one of them another name with `expose_as: ...`"
            )
            yield document.problem(place, message)
        owners.setdefault(name, owner)


def _named_twice(
    document: Document, place: KeyPath, key: tuple[str, str], other: str
) -> ConfigProblem:
    server, tool = key
    message = f"the tool {tool} of the MCP server {server} is named in {other} too; name it once"
    return document.problem(place, message)
