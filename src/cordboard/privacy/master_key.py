"""Keys of calls, each encrypted by the operator's master key, in a folder apart from the calls.

    privacy.encryption.keys_directory/
        3f/3f9c….key          one call: its key, encrypted (AES-256-GCM), and by which master key

A call is known by the id of its key, which its encrypted files name. Deleting the key makes all
copies of these files unreadable, in every backup. Everything that takes a file blocks.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.errors import KeyMissing, KeyUnusable

KEY_BYTES = 32
_NONCE = 12
_SUFFIX = ".key"
_ID = re.compile(r"[0-9a-f]{32}")
_LARGEST = 4_096


def decode_key(text: str) -> bytes:
    """Return a master key of base64 or hex. Raises `ValueError`, without the key."""
    plain = text.strip()
    try:
        key = bytes.fromhex(plain) if re.fullmatch(r"[0-9A-Fa-f]{64}", plain) else None
        key = key or base64.b64decode(plain, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(
            "expected 32 random bytes as base64 or hex, as of `openssl rand -base64 32`"
        )
    return key


def fingerprint(master: bytes) -> str:
    """Return the name of a master key, which does not reveal it."""
    return sha256(b"cordboard master key\0" + master).hexdigest()[:16]


def _erased(path: Path) -> bool:
    """Delete a file. False if there is none. Raises `OSError`."""
    try:
        # What is deleted may stay on the disk: the content goes first.
        with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:  # noqa: PTH123 - a descriptor
            file.write(b"\0" * os.fstat(file.fileno()).st_size)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    except FileNotFoundError:
        return False
    return True


class CallKeys:
    """The folder of keys. May be used by several threads and processes."""

    def __init__(self, folder: Path, master: bytes | None, old: tuple[bytes, ...] = ()) -> None:
        """`master` encrypts new keys; without one, keys can only be deleted."""
        self.folder = folder
        self._current = fingerprint(master) if master is not None else ""
        self._masters = {fingerprint(each): each for each in (*old, *([master] if master else []))}

    def add(self, key_id: str, key: bytes) -> None:
        """Store the key of a call, unless it is there; it is on the disk on return. Raises
        `OSError`."""
        path = self._path(key_id)
        private_files.make_folder(path.parent)
        with private_files.alone(path.parent):
            if not path.exists():
                private_files.replace(path, self._wrapped(key_id, key), sync=True)

    def get(self, key_id: str) -> bytes:
        """Return the key of a call. Raises `KeyMissing` if it was erased, `KeyUnusable` if no known
        master key encrypted it, and `OSError`."""
        try:
            return self._unwrapped(key_id, private_files.read(self._path(key_id), _LARGEST))
        except FileNotFoundError:
            raise KeyMissing(
                f"the key of this call is not in {self.folder}: it was erased, or the folder is "
                "not that of privacy.encryption.keys_directory"
            ) from None

    def erase(self, key_id: str) -> bool:
        """Delete the key of a call, and all that a killed `rewrap` has left of it: nothing can read
        the call's files any more. False if there is none. Raises `OSError`."""
        path = self._path(key_id)
        erased = False
        try:
            with private_files.alone(path.parent):
                for each in (*private_files.unfinished(path), path):
                    erased |= _erased(each)
        except FileNotFoundError:  # no folder
            return False
        return erased

    def rewrap(self) -> Iterator[tuple[str, str]]:
        """Encrypt all keys by the present master key; yield id and problem of each that an old one
        had encrypted, the problem empty if it is done. May be repeated. Raises `OSError`."""
        for path in sorted(self.folder.glob(f"??/*{_SUFFIX}")):
            try:
                if not self._rewrapped(path):
                    continue
            except FileNotFoundError:  # erased meanwhile
                continue
            except (ValueError, KeyUnusable) as error:
                yield path.stem, str(error)
            else:
                yield path.stem, ""

    def _rewrapped(self, path: Path) -> bool:
        """Return False for a key that needs nothing. Raises `ValueError`, `KeyUnusable`, and
        `OSError`."""
        with private_files.alone(path.parent):  # else a key that is erased now would come back
            content = private_files.read(path, _LARGEST)
            if orjson.loads(content).get("by") == self._current:
                return False
            key = self._unwrapped(path.stem, content)
            private_files.replace(path, self._wrapped(path.stem, key), sync=True)
            return True

    def _path(self, key_id: str) -> Path:
        if not _ID.fullmatch(key_id):
            raise KeyUnusable("the file names no key")
        return self.folder / key_id[:2] / f"{key_id}{_SUFFIX}"

    def _wrapped(self, key_id: str, key: bytes) -> bytes:
        master = self._masters.get(self._current)
        if master is None:
            raise KeyUnusable("privacy.encryption.master_key is not set")
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE)
        sealed = AESGCM(master).encrypt(nonce, key, key_id.encode())
        return orjson.dumps({"by": self._current, "nonce": nonce.hex(), "key": sealed.hex()})

    def _unwrapped(self, key_id: str, content: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            found: dict[str, Any] = orjson.loads(content)
            by = str(found["by"])
            nonce, sealed = bytes.fromhex(found["nonce"]), bytes.fromhex(found["key"])
        except (KeyError, TypeError, ValueError):
            raise KeyUnusable(f"the key {key_id} is damaged") from None
        if by not in self._masters:
            known = ", ".join(self._masters) or "none"
            raise KeyUnusable(
                f"the key of this call was encrypted by the master key {by}; known: {known} "
                "(privacy.encryption.master_key and old_master_keys)"
            )
        try:
            return AESGCM(self._masters[by]).decrypt(nonce, sealed, key_id.encode())
        except InvalidTag:
            raise KeyUnusable(f"the key {key_id} is damaged") from None
