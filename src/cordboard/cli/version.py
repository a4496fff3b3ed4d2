"""`cordboard version`"""

from __future__ import annotations

import platform

from cordboard.version import __version__


def command() -> None:
    """Print the versions of Cordboard and Python."""
    print(f"cordboard {__version__} (Python {platform.python_version()}, {platform.system()})")
