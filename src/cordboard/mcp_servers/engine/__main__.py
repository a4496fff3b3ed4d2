"""``python -m cordboard.mcp_servers.engine``: serve MCP on stdin and stdout, or by HTTP.

Started by ``cordboard mcp-server``. By stdio the key is in CORDBOARD_API_KEY; by HTTP each request
brings its own. Standard output belongs to MCP; messages go to standard error. Exit status: 0, or 2
for a command line that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

KEY = "CORDBOARD_API_KEY"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cordboard mcp-server", description="MCP server over a running engine."
    )
    parser.add_argument("--url", required=True, metavar="URL", help="of the admin port")
    parser.add_argument("--http", type=_place, metavar="HOST:PORT", help="HTTP instead of stdio")
    parser.add_argument("--name", action="append", default=[], help="name in the Host header")
    options = parser.parse_args(arguments)
    logging.basicConfig(level="WARNING", stream=sys.stderr)
    key = os.environ.pop(KEY, "")
    if options.http is None and not key:
        parser.error(f"set {KEY} to an API key of the admin port")
    if options.http is None:
        asyncio.run(_by_stdio(options.url, key))
    else:
        host, port = options.http
        asyncio.run(_by_http(options.url, host, port, options.name))
    return _leave()


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535 or not _is_loopback(host.strip("[]")):
        message = "expected a loopback address and a port, such as 127.0.0.1:15002"
        raise argparse.ArgumentTypeError(message)
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _leave() -> NoReturn:
    """End the process now: the SDK reads stdin in a thread that cannot be interrupted."""
    logging.shutdown()
    os._exit(0)


async def _by_stdio(url: str, key: str) -> None:
    from .server import build_server

    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, _leave)
    await build_server(url, lambda _: key).run_stdio_async()


async def _by_http(url: str, host: str, port: int, names: list[str]) -> None:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    from .server import build_server

    known = [*names, "localhost", "127.0.0.1", "[::1]"]
    security = TransportSecuritySettings(
        allowed_hosts=[each for name in known for each in (name, f"{name}:*")],
        allowed_origins=[f"https://{name}" for name in names],
    )
    app = build_server(url, _key_of).streamable_http_app(
        json_response=True, stateless_http=True, transport_security=security, host=host
    )
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False)
    await uvicorn.Server(config).serve()


def _key_of(context: Context) -> str:
    headers = context.headers or {}
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


if __name__ == "__main__":
    sys.exit(main())
