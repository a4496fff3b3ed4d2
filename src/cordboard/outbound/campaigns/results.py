"""The results of a campaign as a table, for `cordboard.history.export.written`. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

COLUMNS = (
    "number",
    "state",
    "outcome",
    "answer",
    "reason",
    "attempts",
    "last_call",
    "began",
    "duration_ms",
)


def result_row(person: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a person, as `CampaignStore.results` gives them."""
    return {
        **{name: person[name] for name in COLUMNS[:6]},
        "last_call": person["call_id"],
        "began": iso_time(person["began"]),
        "duration_ms": person["duration_ms"] or "",
    }


def iso_time(moment: float | None) -> str:
    """Return a Unix time in ISO 8601, in UTC; empty for None."""
    if moment is None:
        return ""
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(timespec="seconds")
