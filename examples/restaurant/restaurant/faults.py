"""Switches that make the system misbehave, for tests and demonstrations.

One `Faults` is shared by the backend and the issuer of a run. Tests set its fields; people use
`PUT /admin/faults` of the backend, which exists only when it was enabled and answers only to this
machine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


@dataclass(slots=True)
class Faults:
    """The current faults; by default none."""

    delay_ms: int = 0
    """Delay of the backend before it handles a request."""
    status: int = 0
    """The backend answers every request with this HTTP status, when not 0."""
    expired_tokens: bool = False
    """The issuer issues expired tokens and reports them as valid."""

    def change(self, asked: FaultsAsked) -> dict[str, int | bool]:
        """Apply the request; return all faults afterwards."""
        for name, value in asked.model_dump(exclude_none=True).items():
            setattr(self, name, value)
        return self.as_dict()

    def as_dict(self) -> dict[str, int | bool]:
        return asdict(self)


class FaultsAsked(BaseModel):
    """The body of `PUT /admin/faults`; missing fields stay unchanged."""

    model_config = ConfigDict(extra="forbid")

    delay_ms: int | None = Field(None, ge=0, le=60_000)
    status: Literal[0, 401, 403, 500, 503] | None = None
    expired_tokens: bool | None = None
