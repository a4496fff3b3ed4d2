"""Tools at Deepgram Voice Agent: accepted schemas, and the size of results.

An object in OpenAI's style, which Deepgram passes on to whichever model thinks (deepgram-sdk).
"""

from __future__ import annotations

from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import INCLUSIVE_BOUNDS, STRUCTURE, SchemaProfile

DEEPGRAM = SchemaProfile(
    "deepgram",
    frozenset({*STRUCTURE, *INCLUSIVE_BOUNDS, "anyOf", "pattern", "format"}),
    one_type=True,
    plain_patterns=True,
    known_required=True,
    max_tools=128,
    max_bytes=128 * 1024,
)
PAYLOAD = PayloadLimits(8_192, max_depth=6, max_items=40, max_text=4_000)
"""Forwarded to the model behind it; no limit is documented, so little is sent."""
