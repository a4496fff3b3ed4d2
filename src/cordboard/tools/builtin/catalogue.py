"""Which built-in tools a configuration brings."""

from __future__ import annotations

from cordboard.config.schema import Tools
from cordboard.tools.builtin.hangup import HangupCall
from cordboard.tools.builtin.transfer import Transfer
from cordboard.tools.tool import Tool

BUILTIN_NAMES = ("hangup_call", "transfer")
"""Exposed names that no other tool may take, whether or not the tool is configured."""


def builtin_tools(tools: Tools) -> tuple[Tool, ...]:
    """The built-in tools; `transfer` only exists where there is somewhere to go."""
    hangup = HangupCall()
    if not tools.transfer.destinations:
        return (hangup,)
    return (hangup, Transfer(tools.transfer.destinations))
