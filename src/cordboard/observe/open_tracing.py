"""Which tracing an engine has: that of the OpenTelemetry SDK, or none.

The SDK comes with an extra and is loaded only where `tracing:` asks for it, so this alone imports
`cordboard.observe.spans` and `cordboard.observe.span_sender`, and only then.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from cordboard.errors import ConfigError, ConfigProblem
from cordboard.observe.tracing import NO_TRACING, Tracing

EXTRA = "tracing"
"""The extra of Cordboard's that brings the OpenTelemetry SDK."""


def open_tracing(
    otlp_endpoint: str | None,
    service_name: str,
    version: str,
    on_dropped: Callable[[int], None] = lambda _: None,
) -> Tracing:
    """Tracing to that collector, or none. Raises `ConfigError` when the extra is not installed.

    `on_dropped(count)` is told of spans that could not be sent, from any thread.
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
    """Whether the extra is there."""
    try:
        return all(
            importlib.util.find_spec(name) is not None
            for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.common", "httpx2")
        )
    except ModuleNotFoundError:  # a parent package is missing
        return False


def missing_extra() -> str:
    """What is said when it is not."""
    return (
        f"tracing needs the extra `{EXTRA}`, which is not installed: "
        f"pip install 'cordboard[{EXTRA}]', or leave tracing.otlp_endpoint out"
    )
