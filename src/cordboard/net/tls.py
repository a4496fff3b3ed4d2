"""The certificate authorities that every connection to a service trusts: those of this machine."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl


def trusted() -> ssl.SSLContext:
    """Context for clients; made once, then shared by all connections.

    The first call reads the system's certificate authorities, or those of `SSL_CERT_FILE` or
    `SSL_CERT_DIR`, which blocks for some 20 ms. Raises `OSError` when they cannot be read.
    """
    return _made(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


async def load_trusted() -> ssl.SSLContext:
    """Return `trusted()` without blocking the event loop. Raises `OSError`."""
    return await asyncio.to_thread(trusted)


@functools.lru_cache(maxsize=4)
def _made(_file: str, _directory: str) -> ssl.SSLContext:
    import httpcore2  # here, because it is heavy and the configuration's check does not need it

    context = httpcore2.default_ssl_context()
    # The HTTP library sets the same value at each connection; this sets it for websockets too.
    context.set_alpn_protocols(["http/1.1"])
    return context
