"""Schemas in less memory: words that stand in every schema are one object for all of them.

A parsed schema of 1 kB takes 3.7 kB, a sixth of that for "string", "object" and their like, which a
parser makes anew each time (CPython 3.11, measured).
"""

from __future__ import annotations

import sys
from typing import Any

from cordboard.tools.tool import JsonObject

MAX_WORD = 16
"""Longer texts are hardly ever repeated."""


def share_words(schema: JsonObject) -> None:
    """Replace short texts by equal ones that others use too; nothing else changes."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        places = node.items() if isinstance(node, dict) else enumerate(node)
        for place, value in places:
            if type(value) is str and len(value) <= MAX_WORD:
                node[place] = sys.intern(value)
            elif isinstance(value, (dict, list)):
                waiting.append(value)
