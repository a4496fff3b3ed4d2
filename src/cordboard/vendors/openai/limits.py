"""Tools at OpenAI: accepted schemas, and the size of results.

Realtime and Chat (not strict) take any JSON Schema whose root is a plain object; an array needs
`items`; 128 tools; descriptions of 1024 characters (the OpenAPI document and SDK types of openai).
"""

from __future__ import annotations

from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import JSON_SCHEMA, SchemaProfile

OPENAI_REALTIME = SchemaProfile("openai_realtime", JSON_SCHEMA, max_tools=128)
OPENAI_CHAT = SchemaProfile("openai_chat", JSON_SCHEMA, max_tools=128)
REALTIME_PAYLOAD = PayloadLimits(16_384, max_depth=8, max_items=60, max_text=6_000)
"""No limit is documented; all tokens count in a session with little room."""
CHAT_PAYLOAD = PayloadLimits(32_768, max_depth=12, max_items=200, max_text=16_000)
