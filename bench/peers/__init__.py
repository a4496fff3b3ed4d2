"""The cost of a 20 ms frame in Cordboard and in comparable frameworks, in the same run.

Each engine runs in a process of its own with the same harness (`harness`): callers' frames are
handed to its transport's door, paced; nothing is sent over a network. Pipecat and LiveKit Agents
live in an environment of their own (`install`), so this package imports nothing at its top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.options import Options
    from bench.report import Report


async def measure(progress: Callable[[str], None], options: Options) -> Report:
    """Raises `OSError` when the peers cannot be installed."""
    from bench.peers.comparison import compare

    return await compare(progress, options)
