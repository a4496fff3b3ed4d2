"""The tools built into the engine: hang-up, transfer, keys, pausing the recording."""

from cordboard.tools.builtin.catalogue import BUILTIN_NAMES, builtin_tools

__all__ = ["BUILTIN_NAMES", "builtin_tools"]
