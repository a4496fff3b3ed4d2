"""The tools that are part of the engine: hanging up, passing on, keys, pausing the recording."""

from cordboard.tools.builtin.catalogue import BUILTIN_NAMES, builtin_tools

__all__ = ["BUILTIN_NAMES", "builtin_tools"]
