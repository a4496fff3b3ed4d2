"""Label values with a limit on their number, so that the number of series is bounded."""

from __future__ import annotations

MAX_LABEL = 128
OTHER = "other"
"""Stands for all further values."""


class BoundedLabels:
    """The values of one label that have series of their own: the first ones used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, value: str) -> str:
        """Return the value, fit for the text format; `OTHER` when there are too many."""
        label = value[:MAX_LABEL].encode("utf-8", "replace").decode()
        if label not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(label)
        return label
