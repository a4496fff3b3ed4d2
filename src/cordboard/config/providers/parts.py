"""How a part of a pipeline is named: by its type alone, or by a section with its settings.

stt: whisper
brain: {type: openai_chat, model: gpt-5.2-mini}
"""

from __future__ import annotations


def as_section(value: object) -> object:
    """A bare name as the section that it stands for."""
    return {"type": value} if isinstance(value, str) else value


def part_type(value: object) -> str | None:
    """The type of a part or provider, read or still to be read: a union's discriminator."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None
