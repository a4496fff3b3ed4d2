"""`python -m restaurant [--engine]`: the whole example until Ctrl-C.

Exit status: 0 after Ctrl-C or SIGTERM, 2 when it cannot start, else the engine's own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from .database import DatabaseError
from .serving import PortTaken
from .settings import VAR, SettingsError, from_environment
from .stack import Restaurant, running

CONFIG = Path(__file__).resolve().parents[1] / "ai-agent.yaml"
_PROGRAM = Path(sys.executable).with_name("cordboard")
ENGINE_PORT = 15000
"""`health.port` of the configuration that comes with the example."""
ENGINE_SECONDS = 20.0
"""Timeout for the engine's end before it is killed."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m restaurant",
        description="A restaurant's booking system: issuer, backend and MCP server.",
        epilog="Settings are environment variables; see docs/restaurant.md.",
    )
    parser.add_argument("--engine", action="store_true", help="run Cordboard's engine as well")
    parser.add_argument(
        "--config", type=Path, default=CONFIG, metavar="FILE", help="the engine's configuration"
    )
    parser.add_argument(
        "--env-file",
        type=Path,
        default=VAR / "engine.env",
        help="where to write what the engine needs to know (default: var/engine.env)",
    )
    parser.add_argument("--log-level", default="WARNING", choices=["DEBUG", "INFO", "WARNING"])
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("httpx2", "httpcore2", "mcp", "uvicorn"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.root.level))
    try:
        return asyncio.run(_run(options.config, options.env_file, engine=options.engine))
    except (SettingsError, PortTaken, DatabaseError) as error:
        print(f"restaurant: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return 2


async def _run(config: Path, env_file: Path, *, engine: bool) -> int:
    settings = from_environment(os.environ)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(settings) as restaurant:
        environment = restaurant.engine_environment()
        try:
            _write_secretly(env_file, environment)
            _tell(restaurant, config, env_file, engine=engine)
            if engine:
                return await _with_engine(config, environment, stop)
            await stop.wait()
        finally:
            _remove(env_file)
    return 0


async def _with_engine(config: Path, environment: Mapping[str, str], stop: asyncio.Event) -> int:
    """Run the engine until it ends or a stop is requested; return its exit status."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cordboard", "run", "--config", str(config)),
        env={**os.environ, **environment},
        start_new_session=True,  # Ctrl-C reaches it through this process, once
    )
    ended = asyncio.create_task(process.wait())
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result()
        process.terminate()
        await asyncio.wait({ended}, timeout=ENGINE_SECONDS)
        return 0
    finally:
        stopped.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()


def _write_secretly(path: Path, environment: Mapping[str, str]) -> None:
    """A file of shell assignments that only its owner can read."""
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in environment.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(lines)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _tell(restaurant: Restaurant, config: Path, env_file: Path, *, engine: bool) -> None:
    lines = [
        f"issuer    {restaurant.issuer_url}",
        f"backend   {restaurant.backend_url}",
        f"MCP       {restaurant.mcp_url}",
        f"database  {restaurant.database.url}",
    ]
    program, file = shlex.quote(_short(_PROGRAM)), shlex.quote(_short(config))
    if engine:
        lines += ["", "To talk with it in writing, in another terminal:"]
    else:
        lines += ["", "Ready. To take calls, in another terminal:"]
    lines.append(f"  set -a; . {shlex.quote(_short(env_file))}; set +a")
    if engine:
        lines.append(f"  {program} chat --config {file} --url http://127.0.0.1:{ENGINE_PORT}")
    else:
        lines.append(f"  {program} run --config {file}")
    print("\n".join(lines), flush=True)  # noqa: T201 - for the person who started it


def _short(path: Path) -> str:
    """Return it relative to the working folder, if it is below."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


if __name__ == "__main__":
    sys.exit(main())
