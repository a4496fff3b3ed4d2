"""Tools as Arrow tables: for pandas, Polars, DuckDB, KNIME. Needs the extra `arrow`.

Two forms. `as_columns` has one column for each fact of a tool. `as_structs` has one column `tool`,
a struct with the nine fields `0` to `8` of a tool value that mixes kinds:

    0  int8    kind (`ToolType`)         5  text    output ports, JSON; null
    1  text    name                      6  int32   port of the message; -1: there are no ports
    2  text    description               7  binary  the workflow; null: it stays in the engine
    3  text    parameters, JSON Schema   8  text    internal id of an MCP tool, mcp:server:tool
    4  text    input ports, JSON; null

`read_tools` reads both. They take what the list of tools (`ToolListing.as_json`) has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from cordboard.config.naming import tool_of_origin
from cordboard.errors import ExtraMissing, NotThere

_TEXTS = ("name", "kind", "origin", "server", "effects", "approval", "description")
_CHOICES = frozenset({"kind", "effects", "approval"})
COLUMN = "tool"


class ToolType(IntEnum):
    """Kind of tool in field `0` of a struct."""

    WORKFLOW = 0
    MCP = 1
    BUILTIN = 2
    HTTP = 3
    PYTHON = 4
    """Also the tools of plug-ins."""


def needs_pyarrow() -> None:
    """Raise `ExtraMissing` without pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ExtraMissing(
            "Arrow files need the extra `arrow`, which is not installed;"
            " pip install 'cordboard[arrow]', or take --format json"
        ) from None


def as_columns(tools: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the tools as one record batch in the Arrow IPC stream format. Raises `ExtraMissing`.

    `parameters` is JSON Schema as a text; `kind`, `effects` and `approval` are dictionary-encoded.
    """
    needs_pyarrow()
    import pyarrow as pa

    rows = [tool for tool in tools if "name" in tool]
    choice = pa.dictionary(pa.int8(), pa.string())
    columns: dict[str, Any] = {
        name: pa.array(
            [_text(row[name]) for row in rows], choice if name in _CHOICES else pa.string()
        )
        for name in _TEXTS
    }
    parameters = [json.dumps(row["parameters"]) for row in rows]
    columns["parameters"] = pa.array(parameters, pa.string())
    columns["offered"] = pa.array([bool(row["offered"]) for row in rows], pa.bool_())
    columns["why_not"] = pa.array([_text(row["why_not"]) for row in rows], pa.string())
    return _stream(pa.table(columns))


def as_structs(tools: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the offered tools as one struct column, in the Arrow IPC stream format. Raises
    `ExtraMissing`."""
    needs_pyarrow()
    import pyarrow as pa

    types = (
        *(pa.int8(), pa.string(), pa.string(), pa.string(), pa.string(), pa.string()),
        *(pa.int32(), pa.binary(), pa.string()),
    )
    struct = pa.struct([(str(number), kind) for number, kind in enumerate(types)])
    values = [_struct(tool) for tool in tools if tool.get("offered")]
    return _stream(pa.table({COLUMN: pa.array(values, struct)}))


def read_tools(content: bytes) -> list[dict[str, Any]]:
    """Return the tools in an Arrow stream of either form, as rows of the list of tools; a struct
    has no effects, approval and reasons. Raises `ExtraMissing`; `NotThere` for other files."""
    needs_pyarrow()
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(content).read_all()
        rows = table.to_pylist()
        if table.schema.names == [COLUMN]:
            return [_row(row[COLUMN]) for row in rows if row[COLUMN] is not None]
        columns = (*_TEXTS, "offered", "why_not")
        return [
            {name: row[name] for name in columns} | {"parameters": json.loads(row["parameters"])}
            for row in rows
        ]
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise NotThere(f"this is not a table of tools: {error!r}") from None


def _struct(tool: Mapping[str, Any]) -> dict[str, Any]:
    kind = ToolType.__members__.get(str(tool["kind"]).upper(), ToolType.PYTHON)
    return {
        "0": int(kind),
        "1": _text(tool["name"]),
        "2": _text(tool["description"]),
        "3": json.dumps(tool["parameters"]),
        "4": None,
        "5": None,
        "6": -1,
        "7": None,
        "8": _text(tool["origin"]) if kind is ToolType.MCP else None,
    }


def _row(value: Mapping[str, Any]) -> dict[str, Any]:
    kind, name, origin = ToolType(value["0"]).name.lower(), str(value["1"]), value["8"]
    row = dict.fromkeys((*_TEXTS, "why_not"), "")
    row |= {"name": name, "kind": kind, "description": value["2"] or ""}
    row["origin"] = origin or f"{kind}:{name}"
    row["server"] = (tool_of_origin(row["origin"]) or ("",))[0]
    return {**row, "parameters": json.loads(value["3"] or "{}"), "offered": True}


def _stream(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _text(value: Any) -> str:
    """Return a text fit for UTF-8: servers write what they want."""
    return str(value).encode("utf-8", "replace").decode()
