"""Lines of the log without words of calls, for people who may not see those.

The log repeats sentences of agents and callers, and errors quote outsiders. Events, numbers, names
of parts, and places in the code stay.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from pydantic_core import from_json

_HIDDEN = "..."
_NAME = r"(?!.*\d{5})[A-Za-z][\w.:/*-]{0,99}"
_CODE = r"[a-z][a-z0-9_.]{0,59}"
_KEPT = {
    **dict.fromkeys(("timestamp", "call_id"), re.compile(r"[\w.:+@-]{1,128}", re.ASCII)),
    **dict.fromkeys(
        "logger library component provider provider_name context context_name server tool "
        "exposed_name model alarm version task".split(),
        re.compile(_NAME, re.ASCII),
    ),
    **dict.fromkeys(
        ("event", "level", "outcome", "reason", "code", "kind", "state", "status", "mode"),
        re.compile(_CODE),
    ),
    "error": re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Closed)", re.ASCII),
}
"""Texts of log lines that stay, by key. Any other one may repeat a caller, an agent or a tool."""
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r' +File "(?:[\w./+-]+\.py|<frozen [\w.]+>)", line \d+, in [\w.<>]+', re.ASCII)
_CLASS = re.compile(r"(?:\w+\.)*[A-Z]\w*(?=:|$)", re.ASCII)
_BRANCH = re.compile(r"\s*[|+] ")
"""Before each line of an exception group."""


def without_words(line: bytes) -> bytes:
    """Return a kept line of the log (`KeptLine.content`) without its texts."""
    event = {key: _without_text(key, value) for key, value in from_json(line).items()}
    return orjson.dumps(event)


def _without_text(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        return _HIDDEN
    if key == "exception":
        return _places(value)
    known = _KEPT.get(key)
    return value if known is not None and known.fullmatch(value) else _HIDDEN


def _places(exception: str) -> str:
    """Return the frames and the classes of an exception, without messages and lines of code."""
    kept, within = [], False
    for row in exception.splitlines():
        line = _BRANCH.sub("", row, count=1)
        if line.endswith(_TRACEBACK):
            kept.append(_TRACEBACK)
            within = True
        elif not within:
            continue
        elif line.startswith(" "):
            kept += [line] if _FRAME.fullmatch(line) else []
        else:
            # All until the next traceback is the message.
            within = False
            kept += [found[0]] if (found := _CLASS.match(line)) else []
    return "\n".join(kept) or _HIDDEN
