"""The subject of `cluster --only upgrade`: `python -m bench.cluster_upgrade_engine FILE`.

The engine of `bench.load.server` with its agent `turns`: conversations with a ledger, without a
model. SIGTERM stops it in order, as `cordboard run` does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from bench.load.server import LoadEngine
from cordboard.cli.options import run_async
from cordboard.config.load import load
from cordboard.observe.logging import configure


async def serve(file: Path) -> None:
    """Run until SIGTERM, and until the engine has stopped in order."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine = LoadEngine(load(file, os.environ), "turns")
    await engine.start()
    await stop.wait()
    await engine.stop()


if __name__ == "__main__":
    configure(json=False, level="WARNING", secrets=())
    run_async(serve(Path(sys.argv[1])))
