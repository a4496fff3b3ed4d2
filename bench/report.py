"""The report of a benchmark and its output: tables, targets met or not, figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Summary:
    """The usual figures of a sample. A percentile is interpolated between the nearest values."""

    count: int
    median: float
    p95: float
    p99: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Raises `ValueError` for an empty sample."""
        if not values:
            raise ValueError("nothing was measured")
        cuts = (
            statistics.quantiles(values, n=100, method="inclusive")
            if len(values) > 1
            else [values[0]] * 99
        )
        return cls(
            len(values), statistics.median(values), cuts[94], cuts[98], min(values), max(values)
        )


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and its target."""

    name: str
    value: float
    limit: float
    unit: str
    at_least: bool = False
    """True if the limit is a minimum, else a maximum."""

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{self.name}: {self.value:.3g} {self.unit} (target {sign} {self.limit:g})"


@dataclass(slots=True)
class Report:
    """One benchmark's outcome."""

    name: str
    targets: list[Target] = field(default_factory=list)
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)
    """Title, column heads, rows."""
    notes: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    """Everything measured, for the JSON file."""

    def table(self, title: str, heads: list[str], rows: list[list[str]]) -> None:
        self.tables.append((title, heads, rows))

    def show(self, console: Console) -> None:
        """Print tables, notes, then each target with its verdict."""
        for title, heads, rows in self.tables:
            table = Table(title=title, title_justify="left")
            for number, head in enumerate(heads):
                table.add_column(head, justify="right" if number else "left")
            for row in rows:
                table.add_row(*row)
            console.print(table)
        for note in self.notes:
            console.print(f"  {note}", markup=False)
        for target in self.targets:
            verdict = "[green]met[/]" if target.met else "[red]NOT met[/]"
            console.print(f"  {target}: {verdict}")

    def as_json(self) -> dict[str, object]:
        return {
            "targets": [
                {
                    "name": target.name,
                    "value": target.value,
                    "limit": target.limit,
                    "at_least": target.at_least,
                    "unit": target.unit,
                    "met": target.met,
                }
                for target in self.targets
            ],
            "tables": [
                {"title": title, "columns": heads, "rows": rows}
                for title, heads, rows in self.tables
            ],
            "notes": self.notes,
            "figures": self.figures,
        }


def milliseconds(seconds: float) -> str:
    """For a table cell."""
    return f"{seconds * 1000:.0f}"
