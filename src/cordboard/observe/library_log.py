"""Filter for the log lines of libraries: few lines, and no text from outsiders.

The MCP SDK logs messages of servers, completely at DEBUG and, behind each warning, a traceback
whose error quotes unreadable input; the HTTP client logs addresses and headers; the websocket
library logs headers, such as `Authorization: Basic` with the password of ARI in a form that no mask
knows, and each message, such as a pressed key. So lines of these libraries below WARNING are
dropped, their tracebacks become the name of the error, their text is cut, and lines beyond a rate
are counted instead of written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

QUOTING_LIBRARIES = ("mcp", "httpx2", "httpcore2", "websockets")
"""Libraries that quote text from outsiders."""
MAX_WORDS = 200
MAX_LINES = 20
WINDOW_SECONDS = 10.0

log = structlog.get_logger()


def quoting_library(record: logging.LogRecord) -> str:
    """Return the library of a record that may quote outsiders; empty for all others."""
    library = record.name.partition(".")[0]
    if library == "client" and "/mcp/client/" in record.pathname:
        return "mcp"  # the SDK's session logs under this name (mcp 2.3.0, client/session.py)
    return library if library in QUOTING_LIBRARIES else ""


def without_quotes(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Process records of libraries (for structlog), before their errors become text."""
    record = event.get("_record")
    if not isinstance(record, logging.LogRecord) or not quoting_library(record):
        return event
    event["library"] = record.name
    words = str(event["event"]).partition("\n")[0]
    # Cut between words: half a secret would not be recognised, and so not masked, later.
    event["event"] = words if len(words) <= MAX_WORDS else words[:MAX_WORDS].rpartition(" ")[0]
    event.pop("message", None)  # the full text again, if another handler has formatted it
    error = event.pop("exc_info", None)
    if isinstance(error, tuple) and error[0] is not None:
        event["error"] = error[0].__name__
    return event


class FloodGate(logging.Filter):
    """Limits the rate of a library's lines, and counts the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._windows: dict[str, tuple[float, int]] = {}
        """By library: the window's start, and the lines since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        library = quoting_library(record)
        if not library:
            return True
        if record.levelno < logging.WARNING:
            return False
        now = self._clock()
        began, lines = self._windows.get(library, (now, 0))
        if now - began >= WINDOW_SECONDS:
            if lines > MAX_LINES:
                log.warning("library_log_suppressed", library=library, lines=lines - MAX_LINES)
            began, lines = now, 0
        self._windows[library] = began, lines + 1
        return lines < MAX_LINES
