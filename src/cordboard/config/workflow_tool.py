"""What a tool of `kind: workflow` may say: steps that are other tools of the toolbox."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.tool_rules import ToolRules


class WorkflowTool(ToolRules):
    """A tool that is made of others."""

    kind: Literal["workflow"] = Field(description="The kind of tool.")
