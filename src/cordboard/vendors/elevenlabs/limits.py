"""Tools at ElevenLabs Agents: accepted schemas, and the size of results.

An object language of its own: one type each, no alternatives, each value described (types of the
elevenlabs SDK).
"""

from __future__ import annotations

from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import STRUCTURE, SchemaProfile

ELEVENLABS = SchemaProfile(
    "elevenlabs",
    frozenset(STRUCTURE),
    one_type=True,
    null="none",
    string_enums=True,
    formats=frozenset(),
    known_required=True,
    describe_all=True,
)
PAYLOAD = PayloadLimits(8_192, max_depth=6, max_items=40, max_text=4_000)
"""Forwarded to the model behind it; no limit is documented, so little is sent."""
