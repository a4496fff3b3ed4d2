"""The engine by itself, without a telephone."""

from __future__ import annotations

import gc
from pathlib import Path

from cordboard.config.schema import Config
from cordboard.engine import Engine


async def test_the_collector_is_spared_the_libraries_while_the_engine_runs(tmp_path: Path) -> None:
    """A full collection holds the event loop; afterwards, all is as it was before."""
    engine = Engine(
        Config.model_validate(
            {
                "contexts": {"demo": {}},
                "health": {"port": 0},
                "audiosocket": {"port": 0},
                "calls": {"directory": str(tmp_path)},
            }
        )
    )
    before = gc.get_freeze_count()
    await engine.start()
    try:
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        await engine.stop(grace=0)
    assert gc.get_freeze_count() <= before
