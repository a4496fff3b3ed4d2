"""The descriptors of the plug-in. Heavy code is imported inside `make`, when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard import Parts, Provider, ToolType, Transport
from cordboard_parrot.config import CountTool, ParrotAgentSection, ParrotVoiceSection

if TYPE_CHECKING:
    from cordboard import Agent, Asterisk, MediaPath, Pacer, Tool, Voice


def _agent(section: ParrotAgentSection, parts: Parts) -> Agent:
    from cordboard_parrot.agent import ParrotAgent

    return ParrotAgent(section)


def _voice(section: ParrotVoiceSection, parts: Parts) -> Voice:
    from cordboard_parrot.voice import ParrotVoice

    return ParrotVoice(section.pitch)


def _tool(name: str, section: CountTool) -> Tool:
    from cordboard_parrot.tool import Counter

    return Counter(name, section)


def _transport(asterisk: Asterisk, pacer: Pacer) -> MediaPath:
    from cordboard_parrot.transport import ParrotPath

    return ParrotPath()


PROVIDERS = (
    Provider("parrot", "agent", ParrotAgentSection, _agent),
    Provider("parrot_voice", "tts", ParrotVoiceSection, _voice),
)
TOOLS = (ToolType("parrot_count", CountTool, _tool),)
TRANSPORTS = (Transport("parrot", _transport),)
