"""One call as a ZIP file, to hand to another person: ledger, picture, configuration, sound.

The file is made piece by piece, so that an hour of sound is never in memory. Names in it are fixed:
none is the caller's. Blocks.
"""

from __future__ import annotations

import platform
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from difflib import unified_diff
from io import RawIOBase
from pathlib import Path

import orjson

from cordboard.config.edit.holes import hidden_texts
from cordboard.config.load import ConfigSource
from cordboard.config.versions import Versions
from cordboard.errors import ConfigError, NotThere, VersionsUnusable
from cordboard.history.call_files import read_ledger
from cordboard.history.call_record import CallOnDisk, CallRecord
from cordboard.privacy.sealed_file import Vault
from cordboard.version import __version__

_PIECE = 262_144
"""Bytes of sound at once."""
Part = tuple[str, Iterable[bytes]]


def bundle(
    directory: Path, call: CallOnDisk, configured: tuple[Versions, ConfigSource] | None, *,
    personal: bool, sound: bool,
) -> Iterator[bytes]:  # fmt: skip
    """Yield the pieces of the ZIP file. Without `personal`, the words are left out, and with them
    the ledger itself. Raises `HistoryError`, `OSError`."""
    record = call.record(personal=personal)
    parts: list[Part] = [
        ("call.json", [orjson.dumps(asdict(record), option=orjson.OPT_INDENT_2)]),
        ("engine.json", [_engine(record)]),
        ("picture.svg", [call.picture(personal=personal, sound=sound)]),
    ]
    if personal:
        parts.append(("ledger.jsonl", [read_ledger(directory / record.row.file, call.vault)]))
    if configured is not None and record.row.config:
        parts.append(_configuration(*configured, record.row.config))
    for number, earlier in enumerate(call.earlier_sounds if sound else (), 1):
        parts.append((f"recording-earlier-{number}.wav", _pieces(earlier, call.vault)))
    if sound and call.sound is not None:
        parts.append(("recording.wav", _pieces(call.sound, call.vault)))
    return zipped(parts)


def _engine(record: CallRecord) -> bytes:
    facts = {
        "cordboard": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "config": record.row.config,
    }
    return orjson.dumps(facts, option=orjson.OPT_INDENT_2)


def _configuration(versions: Versions, source: ConfigSource, digest: str) -> Part:
    """Return the differences from the version before, or the whole first version, with holes in
    place of secrets."""
    try:
        known = [version for version in versions.history() if version.digest == digest]
        parent = known[0].parent if known else ""
        contents = [versions.content(each) for each in (parent, digest) if each]
        texts = hidden_texts(contents, source.path, source.environ)
    except (ConfigError, NotThere, VersionsUnusable) as error:
        return "config.txt", [f"The configuration cannot be shown: {error}\n".encode()]
    if len(texts) == 1:
        return "config.yaml", [texts[0].encode()]
    before, after = (text.splitlines(keepends=True) for text in texts)
    lines = unified_diff(before, after, parent[:12], digest[:12])
    return "config.diff", [line.encode() for line in lines]


def _pieces(path: Path, vault: Vault) -> Iterator[bytes]:
    with vault.open(path) as file:
        while piece := file.read(_PIECE):
            yield piece


def zipped(parts: Iterable[Part]) -> Iterator[bytes]:
    """Yield a ZIP file of named contents, as it is made."""
    made = _Made()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, pieces in parts:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            with file.open(info, "w", force_zip64=True) as entry:
                for piece in pieces:
                    entry.write(piece)
                    yield made.take()
    yield made.take()


class _Made(RawIOBase):
    """Takes the bytes of a ZIP file; it cannot go back."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, content: object, /) -> int:
        piece = bytes(content)  # type: ignore[call-overload]
        self._bytes += piece
        return len(piece)

    def take(self) -> bytes:
        """Return what was written since the last time."""
        taken = bytes(self._bytes)
        self._bytes.clear()
        return taken
