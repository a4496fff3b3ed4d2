"""Rows of encrypted calls: what is personal in them is encrypted with the key of the call.

Times, counts, contexts, outcomes and names of tools are in clear. Numbers, names and tags can be
read with the call's key alone, and go with it. To find a call by exactly its number or tag, the
index has keyed hashes of them (HMAC-SHA-256); their key belongs to one index, is kept among the
keys of the calls, and is replaced when the index is made anew. Words are not in the index at all:
a search for them opens the ledgers (`search`).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from cordboard.history.query import CallRow, last_digits, normal_number
from cordboard.privacy.sealed_file import CallSeal, Vault

KIND = "row"
"""Kind of an encrypted row."""
_HASHED = "\x01"
"""Beginning of a hash in the place of a value, which no value has that people type."""
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Hashes:
    """Keyed hashes of what is personal."""

    key: bytes

    def of(self, kind: str, value: str) -> str:
        """Return the hash of a value; empty for no value. Equal values of two kinds differ."""
        if not value:
            return ""
        content = f"{kind}\0{value}".encode()
        return _HASHED + hmac.digest(self.key, content, "sha256").hex()[:_DIGITS]


def is_hash(value: str) -> bool:
    """True for a value of `Hashes.of`."""
    return value.startswith(_HASHED)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as the index has it."""

    row: CallRow
    """Of an encrypted call without what is personal; its tags are hashes."""
    keys: Mapping[str, str]
    """The columns by which numbers are found: `caller_key`, `called_key` and `last4`."""
    body: bytes = b""
    """The personal part, encrypted; empty for a plain call."""


def stored(row: CallRow, seal: CallSeal | None, hashes: Hashes | None) -> StoredRow:
    """Return a row as the index has it; an encrypted call has a `seal` and needs `hashes`."""
    keys = {
        "caller_key": normal_number(row.caller_number),
        "called_key": normal_number(row.called_number),
        "last4": last_digits(row.caller_number),
    }
    if seal is None or hashes is None:
        return StoredRow(row, keys)
    personal = [row.caller_number, row.caller_name, row.called_number, list(row.tags)]
    hidden = replace(
        row,
        caller_number="",
        caller_name="",
        called_number="",
        tags=tuple(hashes.of("tag", tag) for tag in row.tags),
    )
    hashed = {
        "caller_key": hashes.of("number", keys["caller_key"]),
        "called_key": hashes.of("number", keys["called_key"]),
        "last4": hashes.of("last4", keys["last4"]),
    }
    return StoredRow(hidden, hashed, seal.whole(KIND, orjson.dumps(personal)))


def opened(row: CallRow, body: bytes, vault: Vault) -> CallRow:
    """Return the row of an encrypted call with what is personal. Raises `OSError` if its key cannot
    be used, as when the call was erased meanwhile."""
    number, name, called, tags = _decoded(body, vault)
    return replace(
        row, caller_number=number, caller_name=name, called_number=called, tags=tuple(tags)
    )


def tags_in(body: bytes, vault: Vault) -> list[str]:
    """Return the tags of an encrypted call. Raises `OSError`."""
    tags: list[str] = _decoded(body, vault)[3]
    return tags


def _decoded(body: bytes, vault: Vault) -> Any:
    return orjson.loads(vault.plain(body))
