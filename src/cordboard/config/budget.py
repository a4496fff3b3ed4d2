"""`budget:` of a context: limits of one call's cost and duration."""

from __future__ import annotations

from pydantic import Field

from cordboard.config.section import Section


class Budget(Section):
    """Limits that end a call politely, with the reason `budget`."""

    max_cost_per_call: float | None = Field(
        None,
        gt=0,
        description="In the currency of `prices`; what has no price there is not counted. Left "
        "out: no limit.",
    )
    max_minutes: float | None = Field(
        None, gt=0, le=1_440, description="Minutes a call may take. Left out: no limit."
    )
    goodbye: str = Field(
        "I am sorry, I have to end our call here. Please call again. Goodbye.",
        min_length=1,
        description="Sentence spoken before the call is ended.",
    )

    @property
    def limits(self) -> bool:
        """True if the budget has a limit."""
        return self.max_cost_per_call is not None or self.max_minutes is not None
