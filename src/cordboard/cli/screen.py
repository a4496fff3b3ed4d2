"""Terminal output of the commands about MCP. Texts of servers come from outside: they must not
steer the terminal or be taken for markup.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cordboard.mcp.printable import printable

TROUBLE = {"failed", "restarting"}
STDERR_SHOWN = 5
STDERR_AFTER_TEST = 20
MOST_OF_DESCRIPTION = 100
_STATE_STYLES = {"ready": "green", "failed": "red", "restarting": "yellow", "starting": "yellow"}


def print_json(value: Any) -> None:
    """Indented JSON to standard output."""
    print(indented_json(value).decode())


def indented_json(value: Any) -> bytes:
    """Return indented JSON for people, also for values that JSON has and orjson has not (integers
    beyond 64 bits, half surrogates)."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:
        return json.dumps(value, indent=2).encode()


def terminal() -> Console:
    """Standard output, wide enough for a table also when it is a pipe."""
    console = Console(highlight=False, markup=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=160)
    return console


def status_table(servers: Iterable[Mapping[str, Any]], now: datetime.datetime) -> Table:
    """One line per server."""
    table = _table("server", "state", "for", "pid", "protocol", "tools", "restarts", "breaker")
    for server in servers:
        state = str(server["state"])
        quarantined = len(server["quarantined"])
        tools = f"{len(server['tools'])}" + (f" ({quarantined} quarantined)" if quarantined else "")
        table.add_row(
            Text(printable(server["server"])),
            Text(state, style=_STATE_STYLES.get(state, "")),
            Text(age(str(server["since"]), now)),
            Text(_place(server)),
            Text(printable(server["protocol"])),
            Text(tools),
            Text(str(server["restarts"])),
            Text(str(server["breaker"])),
        )
    return table


def _place(server: Mapping[str, Any]) -> str:
    """Return the process id, or the engine of the cluster that runs the server."""
    if server.get("runs_at"):
        return f"at {printable(server['runs_at'])}"
    return "" if server["pid"] is None else str(server["pid"])


def trouble_lines(servers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the errors, and the last stderr lines of servers that are down."""
    lines: list[str] = []
    for server in servers:
        name = printable(server["server"])
        if server["state"] in TROUBLE or (server["last_error"] and server["state"] != "ready"):
            lines.append(f"{name}: {printable(server['last_error'] or server['state'])}")
            lines += [f"{name} | {printable(line)}" for line in server["stderr"][-STDERR_SHOWN:]]
        if reporters := server.get("breaker_reported_by"):
            lines.append(f"{name}: gives no answers to {printable(', '.join(reporters))}")
        if server["quarantined"]:
            tools = ", ".join(printable(tool) for tool in server["quarantined"])
            lines.append(f"{name}: quarantined until `cordboard mcp accept`: {tools}")
    return lines


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of a server's test report."""
    name, took = printable(report["server"]), report["took_ms"]
    said = [f"{name} | {printable(line)}" for line in report.get("stderr", [])[-STDERR_AFTER_TEST:]]
    if not report["ok"]:
        return [f"{name}: FAILED after {took} ms: {printable(report['error'])}", *said]
    tools = [f"  {printable(tool)}" for tool in report["tools"]]
    head = f"{name}: in order. MCP {printable(report['protocol'])}, ready after {took} ms"
    return [f"{head}, {len(tools)} tool{'' if len(tools) == 1 else 's'}", *tools, *said]


def tools_table(tools: Iterable[Mapping[str, Any]]) -> Table:
    """One line per tool."""
    table = _table("exposed as", "server", "tool", "offered", "description")
    for tool in tools:
        if "tool" not in tool:
            table.add_row(
                "", "", "", Text("no", style="red"), Text(printable(str(tool.get("error"))))
            )
            continue
        offered = bool(tool["offered"])
        table.add_row(
            Text(printable(tool["exposed"])),
            Text(printable(tool["server"])),
            Text(printable(tool["tool"])),
            Text("yes" if offered else f"no: {printable(tool.get('why_not', ''))}"),
            Text(_first_words(tool["description"])),
        )
    return table


def _first_words(description: object) -> str:
    """Return as much of a description as fits into a table; a cut is visible."""
    words = printable(str(description).strip().partition("\n")[0])
    return words if len(words) <= MOST_OF_DESCRIPTION else f"{words[: MOST_OF_DESCRIPTION - 1]}…"


def all_tools_table(tools: Iterable[Mapping[str, Any]]) -> Table:
    """One line per tool of any kind."""
    table = _table("tool", "kind", "origin", "effects", "approval", "offered", "description")
    for tool in tools:
        if "name" not in tool:
            words = printable(str(tool.get("error")))
            table.add_row("", "", "", "", "", Text("no", style="red"), Text(words))
            continue
        table.add_row(
            *(
                Text(printable(str(tool[key])))
                for key in ("name", "kind", "origin", "effects", "approval")
            ),
            Text("yes") if tool["offered"] else Text(f"no: {printable(tool['why_not'])}"),
            Text(_first_words(tool["description"])),
        )
    return table


def calls_table(calls: Iterable[Mapping[str, Any]]) -> Table:
    """One line per call on record; times are those of this machine's zone. Calls of an index that
    the engines of a cluster share have their node."""
    rows = [*calls]
    node = ["node"] if any(call.get("node") for call in rows) else []
    table = _table(
        "begun", "call", *node, "from", "caller", "context", "provider", "lasted", "turns",
        "outcome",
    )  # fmt: skip
    for call in rows:
        begun = datetime.datetime.fromisoformat(call["started_at"]).astimezone()
        ms = call["duration_ms"]
        reason = f" ({call['reason']})" if call["reason"] else ""
        cells = [
            f"{begun:%Y-%m-%d %H:%M:%S}",
            call["call_id"],
            *(call[name] for name in node),
            call["source"],
            call["caller_number"],
            call["context"],
            call["provider"],
            "" if ms is None else f"{ms / 1000:.1f} s",
            call["turns"],
            call["outcome"] + reason,
        ]
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    return table


def engines_table(engines: Iterable[Mapping[str, Any]]) -> Table:
    """One line per engine of a cluster."""
    table = _table(
        "instance", "node", "labels", "region", "version", "calls", "free", "state", "since"
    )
    for engine in engines:
        cells = [
            engine["instance"],
            engine["node"],
            ", ".join(engine["labels"]),
            engine["region"],
            engine["version"],
            engine["live_calls"],
            engine["free_slots"],
            "draining" if engine["draining"] else "serving",
            engine["started_at"],
        ]
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    return table


def owned_calls_table(calls: Iterable[Mapping[str, Any]]) -> Table:
    """One line per live call of a cluster."""
    columns = ("call_id", "owner", "state", "caller_number", "called_number", "context", "asterisk")
    table = _table("call", "engine", "state", "caller", "called", "context", "Asterisk", "since")
    for call in calls:
        cells = [*(call[name] for name in columns), call["started_at"]]
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    return table


def cluster_versions_table(versions: Iterable[Mapping[str, Any]]) -> Table:
    """One line per version of a cluster's configuration; times are those of this machine's zone."""
    table = _table("version", "since", "who", "state", "text", "note")
    for version in versions:
        at = datetime.datetime.fromisoformat(version["at"]).astimezone()
        cells = [
            f"{version['number']}" + (" *" if version["in_force"] else ""),
            f"{at:%Y-%m-%d %H:%M:%S}",
            version["author"],
            version["state"],
            version["digest"][:12],
            "; ".join(filter(None, (version["note"], version["why"]))),
        ]
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    return table


def versions_table(versions: Iterable[Mapping[str, Any]]) -> Table:
    """One line per version of the configuration; times are those of this machine's zone."""
    table = _table("version", "since", "from", "who", "loaded", "why")
    for version in versions:
        at = datetime.datetime.fromisoformat(version["at"]).astimezone()
        loaded = f"{version['result']} as {version['generation']}" if version["result"] else ""
        cells = [
            version["version"][:12] + (" *" if version["in_file"] else ""),
            f"{at:%Y-%m-%d %H:%M:%S}",
            version["from"],
            version["who"],
            loaded,
            version["why"],
        ]
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    return table


def age(since: str, now: datetime.datetime) -> str:
    """Return the age of an ISO 8601 time: `12 s`, `5 min`, `3 h`, `4 days`."""
    seconds = max(0, int((now - datetime.datetime.fromisoformat(since)).total_seconds()))
    for limit, size, unit in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86_400} days"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
