"""`keys:` of a context: telephone keys that the engine offers beside speech.

keys:
  prompt: Press 1 for sales, 2 for our opening hours, or 9 to end the call.
  options:
    "1": {transfer: sales}
    "2": {say: We are open from nine to five.}
    "9": {hang_up: Goodbye.}
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cordboard.config.patterns import Name
from cordboard.config.section import Section

MenuKey = Annotated[str, Field(pattern=r"^[0-9*#]$")]


class KeyOption(Section):
    """The act of one key: a transfer, a sentence, or the end of the call."""

    transfer: Name | None = Field(
        None,
        json_schema_extra={"reference": "destinations"},
        description="Destination of `tools.transfer` to which the caller is transferred; the "
        "context needs no tool for that.",
    )
    say: str = Field("", max_length=1_000, description="Spoken; before the transfer, if any.")
    hang_up: str = Field("", max_length=300, description="Spoken, then the call ends.")

    @property
    def act(self) -> Literal["transfer", "say", "hang_up"]:
        """The kind of act."""
        if self.transfer is not None:
            return "transfer"
        return "hang_up" if self.hang_up else "say"

    @model_validator(mode="after")
    def _acts(self) -> KeyOption:
        if bool(self.hang_up) == bool(self.transfer or self.say):
            raise ValueError("expected `transfer` (perhaps with `say`), `say`, or `hang_up`")
        return self


class KeyMenu(Section):
    """Keys that callers may press at any time, unless a tool or a question waits for keys."""

    prompt: str = Field(
        min_length=1, max_length=1_000, description="Sentence that tells the keys and their acts."
    )
    options: dict[MenuKey, KeyOption] = Field(
        min_length=1, description="Act by key (`0` to `9`, `*`, `#`)."
    )
    announce: bool = Field(False, description="Whether the prompt follows the greeting.")
    offer_after: int = Field(
        2,
        ge=0,
        le=10,
        description="The prompt is spoken after so many turns in a row of which no word was "
        "understood; a re-prompt to a silent caller counts as one. 0 = never.",
    )
