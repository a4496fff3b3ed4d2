"""Write a benchmark's figures into docs/benchmarks.md: `python -m bench.page results.json`.

It replaces the text between these marks, for the benchmarks in the file:

    <!-- figures of NAME -->
    ...
    <!-- end of figures -->

The text around the marks is written by hand. Those in `OWN_PAGES` have a page of their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.engine_process import ROOT

PAGE = ROOT / "docs/benchmarks.md"
OWN_PAGES = {"growth": ROOT / "docs/growth.md"}
END = "<!-- end of figures -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.page")
    parser.add_argument("results", type=Path, help="what `python -m bench ... --json` wrote")
    document = orjson.loads(parser.parse_args().results.read_bytes())
    for name, result in document["results"].items():
        path = OWN_PAGES.get(name, PAGE)
        page = path.read_text()
        begin = f"<!-- figures of {name} -->"
        if result is None or begin not in page:
            continue
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(END)
        page = f"{before}{begin}\n\n{figures(result, document)}\n\n{END}{after}"
        path.write_text(page)
    return 0


def figures(result: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Targets and tables as Markdown."""
    when = document["began"].replace("T", " ")[:16]
    parts = [
        f"Measured on {when} UTC, {document['cores']} cores, Python {document['python']}, "
        f"load before {result['load_before']:.1f}."
    ]
    if result["targets"]:
        parts.append(_table(["target", "figure", "limit", ""], map(_target, result["targets"])))
    for table in result["tables"]:
        parts.append(f"*{table['title']}*")
        parts.append(_table(table["columns"], table["rows"]))
    parts += result["notes"]
    return "\n\n".join(parts)


def _target(target: Mapping[str, Any]) -> list[str]:
    sign = "≥" if target["at_least"] else "≤"
    figure = f"{target['value']:.3g} {target['unit']}"
    verdict = "met" if target["met"] else "NOT met"
    return [target["name"], figure, f"{sign} {target['limit']:g}", verdict]


def _table(heads: list[str], rows: Any) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    raise SystemExit(main())
