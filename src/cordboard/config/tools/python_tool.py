"""A tool of `kind: python`: a function of an installed module."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.patterns import ENTRY_POINT
from cordboard.config.sections.tool import ToolSection


class PythonTool(ToolSection):
    """A tool that is a Python function: its typed signature makes the schema of the arguments, its
    docstring the description."""

    kind: Literal["python"] = Field(description="The kind of tool.")
    function: str = Field(
        pattern=ENTRY_POINT,
        description="`module:function`, imported from the packages of the engine's Python.",
    )
