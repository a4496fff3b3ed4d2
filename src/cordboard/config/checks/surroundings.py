"""Warnings about the machine: ports that other machines can reach, folders that cannot be written,
files that every user can read, secrets of providers that stand in the configuration itself.

Only `cordboard check` runs them: a deliberately open port needs no warning at every start, and the
engine itself reports an unwritable folder on `/ready`.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from cordboard.config.remote_url import is_loopback
from cordboard.config.schema import Config
from cordboard.config.secrets import names_a_secret
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]

_PROBE = bytes(4_096)
"""Written to a probe file and discarded: a full disk refuses it."""


def check_surroundings(
    config: Config, document: Document, secret_files: Mapping[Path, KeyPath]
) -> Problems:
    """Yield all warnings. `secret_files`: files of `${file:...}` → the place that names them."""
    yield from _health(config, document)
    yield from _audiosocket(config, document)
    yield from _rtp(config, document)
    yield from _secrets(secret_files, document)
    yield from _written_secrets(config, document)
    yield from _records(config, document)


# --- ports ---------------------------------------------------------------------------------


def _health(config: Config, document: Document) -> Problems:
    if is_loopback(config.health.host):
        return
    rest = "everything else answers requests with `admin.token`"
    if config.admin.token is None:
        rest = "everything else is refused, as there is no `admin.token`"
    yield _open_port(document, "health", config.health.host, f"/live answers anybody, {rest}")


def _audiosocket(config: Config, document: Document) -> Problems:
    if is_loopback(config.audiosocket.host):
        return
    by_ari = config.asterisk is not None and config.asterisk.media == "audiosocket"
    bare = document.get(("audiosocket", "context"))
    if not (by_ari or bare):
        return  # no port is open
    who = "`audiosocket.allow_from` (default: the address of `asterisk.url`) says which may connect"
    if bare:
        who += (
            "; a call of their own, without ARI, gets the agent of `audiosocket.context`: leave"
            " that out where no dialplan calls AudioSocket() itself"
        )
    yield _open_port(document, "audiosocket", config.audiosocket.host, who)


def _rtp(config: Config, document: Document) -> Problems:
    if config.asterisk is None or config.asterisk.media != "rtp" or is_loopback(config.rtp.host):
        return
    what = (
        "a call takes packets from the address that Asterisk named for it only, but nothing is"
        " encrypted; keep `rtp.first_port` to `rtp.last_port` within a network you trust"
    )
    yield _open_port(document, "rtp", config.rtp.host, what)


def _open_port(document: Document, section: str, host: str, what: str) -> ConfigProblem:
    message = f"other machines can reach {host or 'every address'}: {what}"
    return document.problem((section, "host"), message, fatal=False)


# --- files and folders ---------------------------------------------------------------------


def _secrets(secret_files: Mapping[Path, KeyPath], document: Document) -> Problems:
    for path, place in secret_files.items():
        if _mode_of(path) & stat.S_IROTH:
            message = f"everybody on this machine can read the secret in {path}; chmod o= {path}"
            yield document.problem(place, message, fatal=False)


def _written_secrets(config: Config, document: Document) -> Problems:
    """The file may be in a repository: the secrets of providers should stand elsewhere."""
    for name, provider in config.providers.items():
        for place in _secret_places(provider, ("providers", name)):
            if document.has(place) and place not in document.from_outside:
                message = "the secret stands in this file; put it into the environment: ${NAME}"
                yield document.problem(place, message, fatal=False)


def _secret_places(value: Any, place: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, SecretStr):
        if "headers" not in place or names_a_secret(str(place[-1])):
            yield place
    elif isinstance(value, BaseModel):
        for key, item in value:
            yield from _secret_places(item, (*place, key))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_places(item, (*place, key))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _secret_places(item, (*place, index))


def _records(config: Config, document: Document) -> Problems:
    """Check the folder of the records and its writable subfolders."""
    folder, place = config.calls.directory, ("calls", "directory")
    for inner in (folder, folder / "post_call", folder / "usage"):
        reason = why_not_writable(inner)
        if reason is not None:
            message = f"{inner} cannot be written here: {reason}; calls would leave no record"
            yield document.problem(place, message, fatal=False)
            return
    if _mode_of(folder) & (stat.S_IROTH | stat.S_IXOTH):
        message = f"everybody on this machine can look into {folder}; chmod o= {folder}"
        yield document.problem(place, message, fatal=False)


def why_not_writable(folder: Path) -> str | None:
    """Return why no file could be made in a folder, or in a missing one once it is made; else None.

    The probe leaves nothing behind: it has no name, and no folder is made.
    """
    try:
        folder = nearest(folder)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(_PROBE)
    except (OSError, ValueError) as error:
        return f"{folder}: {getattr(error, 'strerror', None) or error}"
    return None


def nearest(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent. Raises `OSError` or `ValueError`."""
    try:
        folder.stat()
    except FileNotFoundError:
        return folder if folder == folder.parent else nearest(folder.parent)
    return folder


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0
