"""Tools at Anthropic: accepted schemas, and the size of results.

JSON Schema 2020-12 with a plain object as root; names of its properties `[a-zA-Z0-9_.-]{1,64}`
("Property keys should match pattern").
"""

from __future__ import annotations

import re

from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import JSON_SCHEMA, SchemaProfile

ANTHROPIC = SchemaProfile(
    "anthropic",
    JSON_SCHEMA,
    parameter_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z"),
    names_below_root=False,
)
PAYLOAD = PayloadLimits(32_768, max_depth=12, max_items=200, max_text=16_000)
