"""What a tool of `kind: http` may say: one request to a web service, and what counts of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.tool_rules import ToolRules


class HttpTool(ToolRules):
    """A tool that makes one HTTP request."""

    kind: Literal["http"] = Field(description="The kind of tool.")
    url: str = Field(min_length=1, description="Where to.")
