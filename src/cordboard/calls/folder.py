"""The directory of calls (`calls.directory`), shut to other users of the machine.

What the engine makes is 0700 and 0600 (`private_files`). Folders of its own that an earlier version
has made wider are narrowed. A directory that somebody else has made keeps its mode, for they may
have a reason; the engine warns when other users may enter it.
"""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from cordboard import private_files

log = structlog.get_logger()

_OWN = ("????-??-??", "open", "post_call", "usage")
"""The engine's folders in it."""


def shut(directory: Path) -> str:
    """Make the directory if it is not there, else narrow what is in it; a warning when other users
    may enter. Blocks. Raises `OSError` when it cannot be made or looked at."""
    private_files.make_folder(directory)
    for pattern in _OWN:
        for folder in directory.glob(pattern):
            _narrow(folder)
    if not private_files.open_to_others(directory):
        return ""
    mode = f"{stat.S_IMODE(directory.stat().st_mode):o}"
    log.warning("calls_directory_open", path=str(directory), mode=mode)
    return f"calls.directory is open to other users (mode {mode}): chmod 700 {directory}"


def _narrow(folder: Path) -> None:
    """Best effort: the folder may be another user's."""
    try:
        if folder.is_dir():
            private_files.narrow(folder)
    except OSError as error:
        log.warning("folder_not_narrowed", path=str(folder), error=str(error))
