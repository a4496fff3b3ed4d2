"""The built-in tools of a configuration."""

from __future__ import annotations

from cordboard.config.schema import Config
from cordboard.tools.builtin.collect_digits import CollectDigits
from cordboard.tools.builtin.hangup import HangupCall
from cordboard.tools.builtin.recording import PauseRecording, ResumeRecording
from cordboard.tools.builtin.send_digits import SendDigits
from cordboard.tools.builtin.transfer import Transfer
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.plugin import RuledTool
from cordboard.tools.tool import Tool

BUILTIN_NAMES = (
    "hangup_call",
    "transfer",
    "collect_digits",
    "send_digits",
    "pause_recording",
    "resume_recording",
)
"""Exposed names that no other tool may take, whether or not the tool is configured."""


def builtin_tools(config: Config) -> tuple[Tool, ...]:
    """Return the built-in tools, with the operator's rules from `tools:`; `transfer` exists only if
    destinations are configured.

    As with every tool, a context has only those that it lists.
    """
    tools: tuple[Tool, ...] = (
        HangupCall(),
        CollectDigits(),
        SendDigits(),
        PauseRecording(),
        ResumeRecording(),
    )
    if config.destinations:
        tools = (*tools, Transfer(config.destinations))
    return tuple(
        RuledTool(tool, apply_rules(tool.spec, rules))
        if (rules := config.tools.get(tool.spec.name)) is not None
        else tool
        for tool in tools
    )
