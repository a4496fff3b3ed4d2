"""The tracing of an engine: that of the OpenTelemetry SDK, or none.

The SDK comes with an extra and is loaded only when `tracing:` requires it, so only this module
imports `cordboard.observe.spans` and `cordboard.observe.span_sender`, and only then.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from cordboard.errors import ConfigError, ConfigProblem
from cordboard.observe.tracing import NO_TRACING, Tracing

EXTRA = "tracing"
"""Cordboard's extra that installs the OpenTelemetry SDK."""


def open_tracing(
    otlp_endpoint: str | None,
    service_name: str,
    version: str,
    on_dropped: Callable[[int], None] = lambda _: None,
) -> Tracing:
    """Return tracing to that collector, or none. Raises `ConfigError` without the extra.

    `on_dropped(count)` is called for spans that could not be sent, from any thread.
    """
    if otlp_endpoint is None:
        return NO_TRACING
    if not is_installed():
        raise ConfigError([ConfigProblem(missing_extra(), key="tracing.otlp_endpoint")])
    from cordboard.observe.span_sender import SpanSender
    from cordboard.observe.spans import SpanTracing

    sender = SpanSender(otlp_endpoint, on_dropped)
    return SpanTracing(sender, service_name, version)


def is_installed() -> bool:
    """Return True if the extra is installed."""
    try:
        return all(
            importlib.util.find_spec(name) is not None
            for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.common", "httpx2")
        )
    except ModuleNotFoundError:  # a parent package is missing
        return False


def missing_extra() -> str:
    """Return the error message for a missing extra."""
    return (
        f"tracing needs the extra `{EXTRA}`, which is not installed: "
        f"pip install 'cordboard[{EXTRA}]', or leave tracing.otlp_endpoint out"
    )
