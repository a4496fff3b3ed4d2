"""Tools at Gemini: accepted schemas, and the size of results.

`parameters` are the OpenAPI subset: one type each and `nullable`, enums of non-empty strings, only
few formats, `anyOf` alone in its schema, an object of no properties left out ("should be non-empty
for OBJECT type"); 512 declarations (types of google-genai 3.4, and public reports).
"""

from __future__ import annotations

import re

from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import INCLUSIVE_BOUNDS, STRUCTURE, SchemaProfile

GEMINI = SchemaProfile(
    "gemini",
    frozenset(
        {
            *(*STRUCTURE, *INCLUSIVE_BOUNDS, "minProperties", "maxProperties"),
            *("anyOf", "nullable", "pattern", "format"),
        }
    ),
    one_type=True,
    null="flag",
    anyof_alone=True,
    string_enums=True,
    formats=frozenset({"date-time", "float", "double", "int32", "int64"}),
    plain_patterns=True,
    parameter_names=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z"),
    known_required=True,
    omit_empty=True,
    max_tools=512,
    max_bytes=64 * 1024,
)
LIVE_PAYLOAD = PayloadLimits(8_192, max_depth=5, max_items=40, max_text=4_000, data="wordless")
"""Large and deep results are among the reported causes of 1008 and 1011 of Gemini Live (adk-python
3918, python-genai 985, pipecat 5465), so a result that has words goes without its data."""
