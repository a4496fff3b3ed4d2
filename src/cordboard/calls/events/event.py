"""The base of the events of a ledger, and the version of their schema."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

SCHEMA = 1
"""Version of the ledger's schema, in its first line."""


class LedgerEvent:
    """The base of all events."""

    type: ClassVar[str]

    def fields(self) -> dict[str, Any]:
        """Return the event's own fields as JSON values (a shallow copy)."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
