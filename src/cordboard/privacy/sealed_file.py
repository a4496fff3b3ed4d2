"""Encrypted files that grow: a log of writes, each encrypted and authenticated on its own.

    {"sealed": 1, "kind": "ledger", "key": "3f9c…", "salt": "…", "about": {…}}      one line of JSON
    offset (8 bytes), length (4), nonce (12), AES-256-GCM of what was written (length), …

A record says at which offset of the plain file it was written, so that a file grows as a plain one
does: a killed program leaves all that it wrote, without a half-written record at the end. A record
at the offset of an earlier one, and as long, replaces it: the header of a recording. The key is
derived from the call's (HKDF-SHA-256), with the salt of the file; the authenticated data are the
kind and the offset, so that no record passes for another. `about` is not encrypted.

Everything that takes a path or a descriptor blocks.
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from cordboard import private_files
from cordboard.errors import KeyUnusable
from cordboard.privacy.master_key import KEY_BYTES, CallKeys

MAGIC = b'{"sealed":1,'
LONGEST_HEAD = 8_192
_RECORD = struct.Struct("<QI12s")
_TAG = 16
_MOST_RECORD = 64 * 1024 * 1024
_OFFSET = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class SealedHead:
    """The first line of an encrypted file."""

    kind: str
    """`ledger`, `recording`, `peaks`, `notes` or `job`."""
    key: str
    """Id of the call's key."""
    salt: str
    about: Mapping[str, Any] = field(default_factory=dict)
    """Facts that are not encrypted: those by which old files are deleted without their keys."""

    def encode(self) -> bytes:
        line = {"sealed": 1, "kind": self.kind, "key": self.key, "salt": self.salt}
        return orjson.dumps({**line, "about": dict(self.about)}) + b"\n"


def head_of(start: bytes) -> tuple[SealedHead, int] | None:
    """Return the head in the first bytes of a file, and its length; None for a plain file. Raises
    `KeyUnusable` for a damaged head."""
    if not start.startswith(MAGIC):
        return None
    line, newline, _ = start.partition(b"\n")
    try:
        found = orjson.loads(line)
        head = SealedHead(
            str(found["kind"]), str(found["key"]), str(found["salt"]), dict(found["about"])
        )
        bytes.fromhex(head.salt)
    except (KeyError, TypeError, ValueError):
        newline = b""
    if not newline:
        raise KeyUnusable("the beginning of an encrypted file is damaged")
    return head, len(line) + 1


class Seal:
    """Encrypts and decrypts the records of one file."""

    def __init__(self, head: SealedHead, key: bytes) -> None:
        # Imported here: an engine that encrypts nothing starts without it.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = f"cordboard {head.kind}".encode()
        derived = HKDF(SHA256(), KEY_BYTES, bytes.fromhex(head.salt), info).derive(key)
        self._cipher = AESGCM(derived)
        self._kind = head.kind.encode()
        self._damaged = InvalidTag

    def record(self, offset: int, content: bytes) -> bytes:
        """Return what is appended to the file for a write of `content` at `offset`."""
        nonce = os.urandom(12)
        sealed = self._cipher.encrypt(nonce, content, self._kind + _OFFSET.pack(offset))
        return _RECORD.pack(offset, len(sealed), nonce) + sealed

    def open(self, offset: int, nonce: bytes, sealed: bytes) -> bytes:
        """Return the content of a record. Raises `KeyUnusable` if it is not as it was written."""
        try:
            return self._cipher.decrypt(nonce, sealed, self._kind + _OFFSET.pack(offset))
        except self._damaged:
            raise KeyUnusable("an encrypted file is damaged, or its key is another one") from None


@dataclass(frozen=True, slots=True)
class CallSeal:
    """The key of one call, which its files share."""

    key_id: str
    key: bytes = field(repr=False)

    def begin(self, kind: str, about: Mapping[str, Any] | None = None) -> tuple[bytes, Seal]:
        """Return the beginning of a new file, and the seal of its records."""
        head = SealedHead(kind, self.key_id, os.urandom(16).hex(), about or {})
        return head.encode(), Seal(head, self.key)

    def whole(self, kind: str, content: bytes) -> bytes:
        """Return a file that is written at once."""
        head, seal = self.begin(kind)
        return head + seal.record(0, content)


@dataclass(frozen=True, slots=True)
class Resumed:
    """An encrypted file as its writer left it."""

    plain: bytes
    size: int
    """Bytes of the file without a half-written record at its end."""
    seal: Seal


class Vault:
    """Reads the files of calls, plain or encrypted, and makes the keys of new calls."""

    def __init__(self, keys: CallKeys | None = None, *, seals: bool = False) -> None:
        """`keys` are needed for encrypted files; with `seals`, new calls are encrypted."""
        self._keys = keys
        self.seals = seals and keys is not None

    def new_call(self) -> CallSeal | None:
        """Return a new key, which `keep` must store before a file has what it encrypted; None if
        calls are not encrypted."""
        return self.new_key() if self.seals else None

    def new_key(self) -> CallSeal:
        """Return a new key, as of a call, whether or not new calls are encrypted."""
        return CallSeal(os.urandom(16).hex(), os.urandom(KEY_BYTES))

    def keep(self, seal: CallSeal) -> None:
        """Store the key of a call; it is on the disk on return. Raises `OSError`."""
        self._need().add(seal.key_id, seal.key)

    def seal_of(self, path: Path) -> CallSeal | None:
        """Return the seal of the call that a file belongs to; None for a plain file. Raises
        `OSError`."""
        found = head_in(path)
        return None if found is None else self.seal_by(found.key)

    def seal_by(self, key_id: str) -> CallSeal:
        """Return the seal of a call by the id of its key. Raises `OSError`."""
        return CallSeal(key_id, self._need().get(key_id))

    def erase(self, key_id: str) -> bool:
        """Delete the key of a call. False if there is none. Raises `OSError`."""
        return self._need().erase(key_id)

    def rewrap(self) -> Iterator[tuple[str, str]]:
        """As `CallKeys.rewrap`. Raises `OSError`."""
        return self._need().rewrap()

    def open(self, path: Path) -> BinaryIO:
        """Open a file of a call to read its plain content at any place. Raises `OSError`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = head_of(os.pread(descriptor, LONGEST_HEAD, 0))
            if found is None:
                return open(descriptor, "rb")  # noqa: PTH123 - the caller closes it
            head, begin = found
            seal = Seal(head, self._need().get(head.key))
            return _Sealed(descriptor, seal, begin)  # type: ignore[return-value]
        except BaseException:
            os.close(descriptor)
            raise

    def read(self, path: Path, most: int) -> bytes:
        """Return the plain content of an ordinary file. Raises `OSError`, also for more than `most`
        bytes, a link or a pipe."""
        return self.plain(private_files.read(path, most))

    def plain(self, content: bytes) -> bytes:
        """Return the plain content of a file's content. Raises `OSError`."""
        found = self.resume(content)
        return content if found is None else found.plain

    def resume(self, content: bytes) -> Resumed | None:
        """Return an encrypted file whose writer was killed, so that it can be continued; None for a
        plain one. Raises `OSError`."""
        found = head_of(content)
        if found is None:
            return None
        head, at = found
        seal = Seal(head, self._need().get(head.key))
        written, end = bytearray(), 0
        for offset, nonce, begin, end in _records(
            len(content) - at, lambda begin, count: content[at + begin : at + begin + count]
        ):
            piece = seal.open(offset, nonce, content[at + begin : at + end])
            written += bytes(max(0, offset - len(written)))
            written[offset : offset + len(piece)] = piece
        return Resumed(bytes(written), at + end, seal)

    def _need(self) -> CallKeys:
        if self._keys is None:
            raise KeyUnusable("the call is encrypted: privacy.encryption is not configured")
        return self._keys


PLAIN = Vault()
"""Reads plain files only."""


def head_in(path: Path) -> SealedHead | None:
    """Return the head of an encrypted file; None for a plain one. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = head_of(os.read(descriptor, LONGEST_HEAD))
    finally:
        os.close(descriptor)
    return found[0] if found is not None else None


def _records(size: int, read: Callable[[int, int], bytes]) -> list[tuple[int, bytes, int, int]]:
    """Return offset, nonce, begin and end of the whole records in `size` bytes; a half-written one
    at the end is left out."""
    found = []
    at = 0
    while at + _RECORD.size <= size:
        offset, length, nonce = _RECORD.unpack(read(at, _RECORD.size))
        begin, end = at + _RECORD.size, at + _RECORD.size + length
        if not _TAG <= length <= _MOST_RECORD or end > size:
            break
        found.append((offset, nonce, begin, end))
        at = end
    return found


class _Sealed(RawIOBase):
    """The plain content of an encrypted file, decrypted where it is read."""

    def __init__(self, descriptor: int, seal: Seal, begin: int) -> None:
        self._descriptor = descriptor
        self._seal = seal
        size = os.fstat(descriptor).st_size - begin
        read = lambda at, count: os.pread(descriptor, count, begin + at)  # noqa: E731
        newest = {
            offset: (nonce, begin + first, begin + last)
            for offset, nonce, first, last in _records(size, read)
        }
        self._offsets = sorted(newest)
        self._places = [newest[offset] for offset in self._offsets]
        self._size = 0
        if self._offsets:
            _, first, last = self._places[-1]
            self._size = self._offsets[-1] + last - first - _TAG
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, fewer only at the end."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        pieces = []
        number = max(0, bisect.bisect_right(self._offsets, self._at) - 1)
        while self._at < end:
            offset = self._offsets[number]
            if offset > self._at:
                raise KeyUnusable("an encrypted file is damaged")
            nonce, first, last = self._places[number]
            piece = self._seal.open(offset, nonce, os.pread(self._descriptor, last - first, first))[
                self._at - offset : end - offset
            ]
            if not piece:
                raise KeyUnusable("an encrypted file is damaged")
            pieces.append(piece)
            self._at += len(piece)
            number += 1
        return b"".join(pieces)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
