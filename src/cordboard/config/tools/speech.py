"""The keys that say what of a tool's answer is spoken; for tools of every kind."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from cordboard.config.section import Section

_MARKUP = re.compile(r"[{}<>\[\]|\\=_\x00-\x1f]")


def _is_plain(text: str) -> str:
    match = _MARKUP.search(text)
    if match is not None or "://" in text:
        found = match[0] if match is not None else "://"
        raise ValueError(f"expected plain words that can be spoken, found {found!r}")
    return text


ErrorSentence = Annotated[str, Field(max_length=200), AfterValidator(_is_plain)]
"""Words without markup, as short as an apology should be."""


class ErrorMessages(Section):
    """What the caller is told when a tool fails."""

    timeout: ErrorSentence = Field("", description="It took too long. Empty: an apology.")
    error: ErrorSentence = Field(
        "",
        description="It failed, or its answer is unusable. Empty: the tool's own words if they "
        "can be spoken, else an apology.",
    )
    unavailable: ErrorSentence = Field(
        "", description="Its server is not there, or no longer offers it. Empty: an apology."
    )

    def over(self, other: ErrorMessages) -> ErrorMessages:
        """These; where they say nothing, the others."""
        return ErrorMessages(
            timeout=self.timeout or other.timeout,
            error=self.error or other.error,
            unavailable=self.unavailable or other.unavailable,
        )
