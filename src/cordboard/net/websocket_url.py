"""The address of a websocket at a service whose base address is configured as HTTP. Pure."""

from __future__ import annotations


def websocket_url(base_url: str, path: str) -> str:
    """`https://host` and `/v1/listen` become `wss://host/v1/listen`."""
    scheme, _, rest = base_url.rstrip("/").partition("://")
    secure = scheme in ("https", "wss")
    return f"{'wss' if secure else 'ws'}://{rest}{path}"
