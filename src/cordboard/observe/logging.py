"""Set-up of the log: structlog for the engine, with the log of libraries passed through it.

`configure` is called once by the command that runs the engine. Events have names and key-values
(call_id, context_name, provider_name, server, tool, ms); they go to standard error, as JSON lines
or, for people, as text. A registered secret is replaced wherever it turns up, also inside
exceptions.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import islice
from json import dumps
from typing import Any, TextIO

import structlog

from cordboard.config.secrets import SHORTEST_SECRET
from cordboard.observe.library_log import QUOTING_LIBRARIES, FloodGate, without_quotes

MASK = "***"
LEVELS = ("debug", "info", "warning", "error", "critical")
QUOTING = frozenset(
    "detail error exception heard message problem reason said sentence text words".split()
)
"""Fields of log lines that may quote callers, agents, tools and services."""
MOST_KEPT = 5_000
MOST_KEPT_BYTES = 8 * 1024 * 1024
"""The last lines that `KeptLog` has in memory: no more than either."""
_LEVELS_OF_LIBRARIES = {"websockets": "WARNING", "uvicorn": "WARNING"}
"""Libraries whose lower levels log each frame or request. `mcp`, `httpx2` and `websockets`, whose
lower levels quote outsiders, are also dropped at DEBUG: `library_log`."""


class SecretFilter:
    """A structlog processor that masks secret values in every event.

    It masks texts at any depth of an event, and keys. Register all secrets before they can be
    logged; a configuration reload registers the new ones.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self.redact: Callable[[str], str] = str
        """Removes personal data from fields that may quote people or services (`QUOTING`)."""
        self.register(secrets)

    def register(self, secrets: Iterable[str]) -> None:
        """Add values to mask; values of fewer than 4 characters are ignored."""
        known = {*self._secrets, *(s for s in secrets if len(s) >= SHORTEST_SECRET)}
        # The longest first, so that a secret that contains another is masked as a whole.
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def mask(self, text: str) -> str:
        """Return the text with every secret replaced."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def __call__(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if self.redact is not str:
            quoted = {key: event[key] for key in QUOTING & event.keys()}
            clean = {k: self.redact(v) for k, v in quoted.items() if isinstance(v, str)}
            event = {**event, **clean}
        if not self._secrets:
            return event
        return {self.mask(key): self._masked(value) for key, value in event.items()}

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self.mask(value)
            case None | bool() | int() | float():
                return value
            case Mapping():
                return {self._masked(key): self._masked(item) for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self._masked(item) for item in value]
            case bytes():
                return self.mask(repr(value))
        text = str(value)
        masked = self.mask(text)
        return value if masked == text else masked


@dataclass(frozen=True, slots=True)
class KeptLine:
    """One line of the log."""

    number: int
    """Counted since the log began."""
    level: str
    """One of `LEVELS`."""
    call_id: str
    """Empty for a line that is about no call."""
    content: bytes
    """The event as a JSON object, masked."""

    def is_about(self, call_id: str, level: str) -> bool:
        """Return True if it is about that call (empty: any), and has that level or a higher one."""
        return call_id in ("", self.call_id) and LEVELS.index(self.level) >= LEVELS.index(level)


@dataclass(frozen=True, slots=True)
class LogPart:
    """Lines of the log, the oldest first."""

    lines: list[KeptLine]
    last: int
    """Number of the last line that was looked at: go on after it."""
    lost: int
    """Lines after the known one that are not kept any more."""


class KeptLog:
    """The end of the log in memory: a structlog processor behind the one that masks.

    A line becomes text at once, so that it holds no objects, and so no call, alive.
    """

    def __init__(
        self, most: int = MOST_KEPT, most_bytes: int = MOST_KEPT_BYTES, *, begin: int = 0
    ) -> None:
        """Lines are counted from `begin` + 1. With the time in ms, the numbers of an engine that is
        started again are beyond those of the one before."""
        self._lines: deque[KeptLine] = deque()
        self._most, self._most_bytes = most, most_bytes
        self._bytes = 0
        self.begin = begin
        self.last = begin
        """Number of the last line; `begin` for none."""

    def __call__(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Keep the event. The handler's lock lets in one thread at a time."""
        content = _as_json(event).encode("utf-8", "replace")
        level, call_id = str(event.get("level")), str(event.get("call_id") or "")
        known = level if level in LEVELS else "info"  # a library may have levels of its own
        self._lines.append(KeptLine(self.last + 1, known, call_id, content))
        self.last += 1
        self._bytes += len(content)
        while len(self._lines) > self._most or self._bytes > self._most_bytes:
            self._bytes -= len(self._lines.popleft().content)
        return event

    def after(self, known: int, most: int, *, call_id: str = "", level: str = "debug") -> LogPart:
        """Return the first lines after number `known`, of one call or of all, from this level up.
        A number that is not of this log belongs to an earlier one: then the first that are kept."""
        if known == self.last:
            return LogPart([], known, 0)
        lines = [*self._lines]  # at once: other threads log meanwhile
        last = lines[-1].number if lines else self.last
        known = known if self.begin <= known <= last else self.begin
        fresh = lines[max(0, len(lines) - (last - known)) :]
        found = [*islice((each for each in fresh if each.is_about(call_id, level)), most)]
        seen = found[-1].number if len(found) == most else last
        return LogPart(found, seen, last - known - len(fresh))

    def end(self, most: int, *, call_id: str = "", level: str = "debug") -> LogPart:
        """Return the last lines, of one call or of all, from this level up."""
        lines = [*self._lines]
        found = (each for each in reversed(lines) if each.is_about(call_id, level))
        return LogPart([*islice(found, most)][::-1], lines[-1].number if lines else self.last, 0)


def _as_json(event: Mapping[str, Any]) -> str:
    """Return an event as the JSON log has it; a value that JSON cannot have becomes text."""
    try:
        return dumps(event, default=str, ensure_ascii=False, allow_nan=False, skipkeys=True)
    except ValueError:  # an infinite number, or a list within itself
        return dumps({str(key): str(value) for key, value in event.items()}, ensure_ascii=False)


def configure(
    *,
    json: bool,
    level: str = "INFO",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
    kept: KeptLog | None = None,
) -> SecretFilter:
    """Set up the log of this process and return the filter, to register further secrets with.

    `level` is a name of the standard library (`DEBUG`, `INFO`, ...). `stream` is standard error
    unless given. `kept` gets each written line, too. Calling it again replaces the earlier set-up.
    """
    output = stream or sys.stderr
    secret_filter = SecretFilter(secrets)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(), without_quotes],
            processors=_rendering(json, secret_filter, kept, colors=output.isatty()),
        )
    )
    handler.addFilter(FloodGate())
    root = logging.getLogger()
    for earlier in [*root.handlers]:
        if getattr(earlier, "_cordboard", False):
            root.removeHandler(earlier)
    handler._cordboard = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(level.upper())
    for library, library_level in _LEVELS_OF_LIBRARIES.items():
        if level.upper() != "DEBUG" or library in QUOTING_LIBRARIES:
            logging.getLogger(library).setLevel(library_level)
    return secret_filter


def _rendering(
    json: bool, secret_filter: SecretFilter, kept: KeptLog | None, *, colors: bool
) -> list[structlog.typing.Processor]:
    """Return the processors from event to line. Exceptions become text first, to be masked too."""
    rendering: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer(default=str)]
        if json
        else [_harmless, structlog.dev.ConsoleRenderer(colors=colors)]
    )
    return [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        secret_filter,
        *([kept] if kept is not None else []),
        *rendering,
    ]


_CONTROL = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in b"\t\n"
}


def _harmless(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Make control characters visible: text of callers and servers must not steer a terminal."""
    return {
        key: value.translate(_CONTROL) if isinstance(value, str) else value
        for key, value in event.items()
    }
