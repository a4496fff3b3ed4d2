"""The bus with encrypted contents, where `privacy.encryption` is on: NATS stores no word of a call.

    {"sealed":1,"key":"<name of the master key>","salt":"..."}\\n  nonce (12 bytes), AES-256-GCM

The key is derived from the master key (HKDF-SHA-256) with a salt that each start of an engine
draws, so that the nonces of one key are few. The authenticated data are the kind and the name, so
that no message passes for another call's. All engines of a cluster need the same master key. What
cannot be decrypted counts as a message that cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

import orjson
import structlog

from cordboard.cluster.bus import Bucket, BucketListener, Entry, Journal, Message
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.privacy.master_key import KEY_BYTES, decode_key, fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

log = structlog.get_logger()

_MAGIC = b'{"sealed":1,'
_NONCE = 12
_SALT = 16
_MOST_KEYS = 1_000
"""Derived keys that are remembered: one for each start of an engine whose messages were read."""
_UNREADABLE = b""


class BusSeal:
    """Encrypts and decrypts messages of one cluster."""

    def __init__(self, master: bytes, old: tuple[bytes, ...] = ()) -> None:
        """`master` encrypts; `old` ones can be decrypted, too."""
        self._masters = {fingerprint(each): each for each in (*old, master)}
        self._ciphers: dict[tuple[str, str], AESGCM] = {}
        name, salt = fingerprint(master), os.urandom(_SALT).hex()
        self._head = orjson.dumps({"sealed": 1, "key": name, "salt": salt}) + b"\n"
        self._cipher = self._derived(name, salt)

    def seal(self, about: str, content: bytes) -> bytes:
        """Return the encrypted message."""
        nonce = os.urandom(_NONCE)
        return self._head + nonce + self._cipher.encrypt(nonce, content, about.encode())

    def open_sealed(self, about: str, message: bytes) -> bytes:
        """Return the content as `open` does, but nothing for a plain message either."""
        return self.open(about, message) if message.startswith(_MAGIC) else _UNREADABLE

    def open(self, about: str, message: bytes) -> bytes:
        """Return the content of a message, plain ones as they are, and nothing for one that cannot
        be decrypted."""
        from cryptography.exceptions import InvalidTag

        if not message.startswith(_MAGIC):
            return message
        line, _, sealed = message.partition(b"\n")
        try:
            head = orjson.loads(line)
            cipher = self._derived(str(head["key"]), str(head["salt"]))
            return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], about.encode())
        except (InvalidTag, ValueError, KeyError, TypeError) as error:
            log.warning("bus_message_not_decrypted", about=about, error=type(error).__name__)
            return _UNREADABLE

    def _derived(self, name: str, salt: str) -> AESGCM:
        """Return the cipher of a key. Raises `KeyError` for an unknown master key."""
        # Imported here: an engine that encrypts nothing starts without it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        found = self._ciphers.get((name, salt))
        if found is None:
            derive = HKDF(SHA256(), KEY_BYTES, bytes.fromhex(salt), b"cordboard bus")
            if len(self._ciphers) >= _MOST_KEYS:
                self._ciphers.clear()
            found = self._ciphers[name, salt] = AESGCM(derive.derive(self._masters[name]))
        return found


def seal_of(encryption: Encryption) -> BusSeal | None:
    """Return the seal of a configuration; None if its calls are not encrypted."""
    if not encryption.enabled or encryption.master_key is None:
        return None
    old = tuple(decode_key(key.get_secret_value()) for key in encryption.old_master_keys)
    return BusSeal(decode_key(encryption.master_key.get_secret_value()), old)


def admin_seal_of(settings: Cluster, encryption: Encryption) -> BusSeal | None:
    """Return the seal of what the administrations of two engines say to each other: by the master
    key, or by `cluster.secret`; None without either."""
    if (seal := seal_of(encryption)) is not None:
        return seal
    if settings.secret is None:
        return None
    secret = settings.secret.get_secret_value().encode()
    return BusSeal(sha256(b"cordboard cluster secret\0" + secret).digest())


class SealedBucket:
    """A bucket whose values are encrypted. A `cordboard.cluster.bus.Bucket`."""

    def __init__(self, bucket: Bucket, seal: BusSeal) -> None:
        self._bucket = bucket
        self._seal = seal

    async def get(self, key: str) -> Entry | None:
        entry = await self._bucket.get(key)
        return None if entry is None else self._opened(entry)

    async def put(self, key: str, value: bytes, *, last: int, ttl: int | None = None) -> int:
        sealed = self._seal.seal(_about(key), value)
        return await self._bucket.put(key, sealed, last=last, ttl=ttl)

    async def remove(self, key: str, *, last: int) -> None:
        await self._bucket.remove(key, last=last)

    async def watch(self, listener: BucketListener) -> NoReturn:
        await self._bucket.watch(_OpeningListener(listener, self))

    def opened(self, entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
        return {key: self._opened(entry) for key, entry in entries.items()}

    def _opened(self, entry: Entry) -> Entry:
        if entry.value is None:
            return entry
        return replace(entry, value=self._seal.open(_about(entry.key), entry.value))


def _about(key: str) -> str:
    """Return the authenticated name of an entry: the same wherever the key is seen from."""
    return f"entry {key.rpartition('.')[2]}"


class _OpeningListener:
    """Passes entries on, decrypted."""

    def __init__(self, listener: BucketListener, bucket: SealedBucket) -> None:
        self._listener = listener
        self._bucket = bucket

    def listed(self, entries: Mapping[str, Entry]) -> None:
        self._listener.listed(self._bucket.opened(entries))

    def changed(self, entry: Entry) -> None:
        self._listener.changed(self._bucket.opened({entry.key: entry})[entry.key])


class SealedJournal:
    """A journal whose messages are encrypted. A `cordboard.cluster.bus.Journal`."""

    def __init__(self, journal: Journal, seal: BusSeal) -> None:
        self._journal = journal
        self._seal = seal

    async def append(self, name: str, data: bytes, *, last: int) -> int:
        return await self._journal.append(name, self._seal.seal(f"events {name}", data), last=last)

    async def last(self, name: str) -> Message | None:
        message = await self._journal.last(name)
        return None if message is None else self._opened(name, message)

    async def read(self, name: str) -> list[Message]:
        return [self._opened(name, message) for message in await self._journal.read(name)]

    def _opened(self, name: str, message: Message) -> Message:
        return replace(message, data=self._seal.open(f"events {name}", message.data))
