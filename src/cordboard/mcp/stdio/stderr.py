"""Handles a server's stderr: keeps the last lines for the operator and logs some of them.

The pipe is always drained, so that a chatty server never blocks. The last 200 lines, at most 64 kB,
are kept; at most 20 lines in 10 s are logged, the rest is counted. Values that the operator put
into the server's environment (tokens, passwords) are masked wherever they appear, and control
characters are shown as spaces. Of a flood only the end is processed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

import structlog

from cordboard.mcp.lines import Line, LineSplitter
from cordboard.mcp.message_log import Tail, tail_after
from cordboard.mcp.printable import printable
from cordboard.tools.known_secrets import MIN_SECRET

MAX_LINES = 200
MAX_BYTES = 64 * 1024
MAX_LINE = 4_096
LOGGED_LINES = 20
LOG_WINDOW_SECONDS = 10.0
MASK = "***"
MAX_PASSING = 8
"""Fetched tokens that are remembered for masking; older ones are dropped."""

log = structlog.get_logger()


class StderrTail:
    """The end of one server's stderr, across all its lives."""

    def __init__(
        self,
        server: str,
        secrets: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}  # of a PEM
        hidden = {line for line in lines if len(line) >= MIN_SECRET}
        self._secrets = sorted(hidden, key=len, reverse=True)
        self._passing: deque[str] = deque(maxlen=MAX_PASSING)
        self._clock = clock
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._bytes = 0
        self._count = 0
        self._splitter = LineSplitter(MAX_LINE)
        self._window_began = clock()
        self._logged = 0
        self._suppressed = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """The kept lines, oldest first."""
        return tuple(self._lines)

    def after(self, known: int) -> Tail[str]:
        """Return the lines after that number."""
        return tail_after(self.lines, self._count, known)

    @property
    def fetched(self) -> tuple[str, ...]:
        """The last few tokens passed to `hide`."""
        return tuple(self._passing)

    def mask(self, text: str) -> str:
        """Return the text with every secret of this server masked."""
        for secret in (*self._passing, *self._secrets):
            text = text.replace(secret, MASK)
        return text

    def shown(self, text: str, limit: int) -> str:
        """Return the beginning of the text, masked, without a part of a secret at its end."""
        if len(text) <= limit:
            return self.mask(text)
        longest = max(map(len, (*self._passing, *self._secrets)), default=1)
        masked = self.mask(text[: limit + longest])
        return masked[: min(limit, len(masked) - longest)]

    def hide(self, secret: str) -> None:
        """Also mask this secret from now on: a token that was fetched for the server."""
        if len(secret) >= MIN_SECRET:
            self._passing.append(secret)

    def feed(self, chunk: bytes) -> None:
        """Process a chunk read from the pipe."""
        _, *last = chunk.rsplit(b"\n", MAX_LINES + 1)
        if len(last) > MAX_LINES:
            self._suppressed += chunk.count(b"\n") - MAX_LINES
            self._count += chunk.count(b"\n") - MAX_LINES
            self._splitter = LineSplitter(MAX_LINE)
            chunk = b"\n".join(last)
        for event in self._splitter.feed(chunk):
            if isinstance(event, Line):
                line = self.mask(event.data.decode("utf-8", "replace"))
                self._add(printable(line, MAX_LINE))

    def _add(self, line: str) -> None:
        if len(self._lines) == MAX_LINES:
            self._bytes -= len(self._lines[0])
        self._lines.append(line)
        self._count += 1
        self._bytes += len(line)
        while self._bytes > MAX_BYTES:
            self._bytes -= len(self._lines.popleft())
        self._log(line)

    def _log(self, line: str) -> None:
        now = self._clock()
        if now - self._window_began >= LOG_WINDOW_SECONDS:
            if self._suppressed:
                log.info("mcp_stderr_suppressed", server=self._server, lines=self._suppressed)
            self._window_began, self._logged, self._suppressed = now, 0, 0
        if self._logged < LOGGED_LINES:
            self._logged += 1
            log.info("mcp_stderr", server=self._server, line=line[:500])
        else:
            self._suppressed += 1
