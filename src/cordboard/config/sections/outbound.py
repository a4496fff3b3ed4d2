"""Section `outbound`: calls that the engine places. Off unless switched on."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from cordboard.config.patterns import (
    CALLER_ID,
    CALLER_NAME,
    DIAL_ENDPOINT,
    checked_path,
)
from cordboard.config.section import Section
from cordboard.config.trunks import trunk_of_endpoint


class Outbound(Section):
    """Calls that the engine places: by `POST /calls`, `cordboard dial` and campaigns."""

    enabled: bool = Field(False, description="Whether the engine may place calls.")
    endpoint: str = Field(
        "PJSIP/{number}@trunk",
        pattern=DIAL_ENDPOINT,
        description="Asterisk's endpoint for a call. `{number}` is the number in E.164 with its "
        "plus sign, `{digits}` the same without it.",
    )
    caller_id: str = Field(
        "",
        pattern=CALLER_ID,
        description="The number that is shown to the called person. Left out: Asterisk decides.",
    )
    caller_name: str = Field(
        "", max_length=60, pattern=CALLER_NAME, description="The name beside it."
    )
    ring_ms: int = Field(
        30_000, ge=5_000, le=120_000, description="Time for which the other side may ring."
    )
    max_calls: int = Field(
        5,
        ge=1,
        le=1_000,
        description="Outbound calls at the same time, within `calls.max_calls`; further ones are "
        "refused.",
    )
    introduction: str = Field(
        "Hello, this is {context_name}.",
        min_length=1,
        max_length=500,
        description="What is said to a call-screening service: who calls. The `purpose` of the "
        "call, or of its context, follows. Both may use the call's variables.",
    )
    campaigns: Path = Field(
        Path("var/campaigns.db"), description="File of the campaigns' queue (SQLite)."
    )
    keep_days: int = Field(
        0,
        ge=0,
        description="Days until the people of a campaign are deleted, with numbers, variables and "
        "results, after its last call; 0: never. People who wait in a running campaign are kept. "
        "Of promised call-backs those who were called are deleted.",
    )

    @field_validator("endpoint")
    @classmethod
    def _has_a_number(cls, endpoint: str) -> str:
        names = endpoint.replace("{number}", "").replace("{digits}", "")
        if names == endpoint or "{" in names or "}" in names:
            raise ValueError("expected {number} or {digits} in it, and no other braces")
        return endpoint

    @field_validator("campaigns")
    @classmethod
    def _a_path(cls, campaigns: Path) -> Path:
        return checked_path(campaigns)

    @property
    def trunk(self) -> str:
        """Name of the trunk by which calls leave. Where the number itself is the endpoint
        (`PJSIP/{number}`), it is the technology alone: no number becomes the name of a trunk."""
        trunk = trunk_of_endpoint(self.endpoint)
        return trunk.partition("/")[0] if "{" in trunk else trunk

    def endpoint_of(self, number: str) -> str:
        """Return Asterisk's endpoint for a number in E.164."""
        return self.endpoint.replace("{number}", number).replace(
            "{digits}", number.removeprefix("+")
        )
