"""`budget:` of a context: how much one of its calls may cost, and how long it may be."""

from __future__ import annotations

from pydantic import Field

from cordboard.config.section import Section


class Budget(Section):
    """What ends a call politely, with the reason `budget`."""

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
        description="What is said then, before hanging up.",
    )

    @property
    def limits(self) -> bool:
        """Whether it ever ends a call."""
        return self.max_cost_per_call is not None or self.max_minutes is not None
