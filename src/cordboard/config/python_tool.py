"""What a tool of `kind: python` may say: a function of an installed module."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.tool_rules import ToolRules

ENTRY_POINT = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


class PythonTool(ToolRules):
    """A tool that is a Python function."""

    kind: Literal["python"] = Field(description="The kind of tool.")
    function: str = Field(
        pattern=ENTRY_POINT,
        description="`module:function`; its typed signature makes the schema of the arguments.",
    )
