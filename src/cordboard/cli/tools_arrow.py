"""The tools as an Arrow table, for whoever analyses them: pandas, Polars, DuckDB, KNIME.

One record batch in the Arrow IPC stream format. `parameters` is JSON Schema as a text; `kind`,
`effects` and `approval` are dictionary-encoded. Needs the extra `arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cordboard.errors import ExtraMissing

_TEXTS = ("name", "kind", "origin", "server", "effects", "approval", "description")
_CHOICES = frozenset({"kind", "effects", "approval"})


def needs_pyarrow() -> None:
    """Raises `ExtraMissing`."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ExtraMissing(
            "--format arrow needs the extra `arrow`, which is not installed;"
            " pip install 'cordboard[arrow]', or take --format json"
        ) from None


def as_arrow(tools: Iterable[Mapping[str, Any]]) -> bytes:
    """The stream. Raises `ExtraMissing`."""
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
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _text(value: Any) -> str:
    """As UTF-8 can have it: servers write what they want."""
    return str(value).encode("utf-8", "replace").decode()
