"""``python -m cordboard.mcp_servers.aviation_atis --config FILE``: serve MCP on stdin and stdout.

Standard output belongs to MCP; the log goes to standard error. Ends at once on end of input and
on SIGTERM or SIGINT. Exit status: 0 after that, 2 if the settings cannot be used or a package is
missing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from .config import SettingsFile
from .model import SettingsError

logger = logging.getLogger("cordboard.mcp_servers.aviation_atis")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m cordboard.mcp_servers.aviation_atis",
        description="MCP server (stdio) that speaks aerodrome weather as ATIS does.",
    )
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="settings, YAML")
    parser.add_argument(
        "--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="stderr"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("httpx2", "httpcore2", "mcp"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.root.level))
    try:
        settings = SettingsFile(options.config, os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the operator's answer, not a log line
        return 2
    try:
        asyncio.run(_serve(settings))
    except ModuleNotFoundError as error:
        install = "pip install 'cordboard[atis]'"
        print(f"the package {error.name} is missing; {install}", file=sys.stderr)  # noqa: T201
        return 2
    return _leave()


def _leave() -> NoReturn:
    """End the process now.

    An orderly shutdown has no benefit here (no files, no children), and it would wait: the SDK
    reads stdin in a thread that cannot be interrupted.
    """
    logging.shutdown()
    os._exit(0)


async def _serve(settings: SettingsFile) -> None:
    # The SDK takes most of a second to import: import it only after the settings are valid, and
    # without the garbage collector repeatedly traversing its many models (measured: a tenth less).
    gc.disable()
    from .server import build_server
    from .service import AtisService

    gc.enable()
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, _leave)
    service = AtisService(settings)
    logger.info("ready, source=%s", settings.current().source)
    await build_server(service).run_stdio_async()


if __name__ == "__main__":
    sys.exit(main())
