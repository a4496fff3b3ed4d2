"""The directory of calls (`calls.directory`), closed to other users of the machine.

The engine creates folders as 0700 and files as 0600 (`private_files`). Its own folders that an
earlier version made wider are narrowed. A directory that the operator has created keeps its mode,
because it may be intended; the engine warns if other users may enter it.
"""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from cordboard import private_files

log = structlog.get_logger()

_OWN = ("????-??-??", "certificates", "history", "open", "post_call", "usage")
"""The engine's folders in the directory."""


def shut(directory: Path) -> str:
    """Create the directory, or narrow the engine's folders in an existing one. Return a warning if
    other users may enter. Blocks. Raises `OSError` if it cannot be created or read."""
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
    """Narrow a folder, best effort: it may belong to another user."""
    try:
        if folder.is_dir():
            private_files.narrow(folder)
    except OSError as error:
        log.warning("folder_not_narrowed", path=str(folder), error=str(error))
