"""Signing in to NATS with a `.creds` file: a JWT, and the seed of the key that signs the server's
nonce.

The file has both between lines of dashes (https://docs.nats.io/using-nats/developer/connecting/creds).
A seed is base32 of two bytes of prefix, 32 bytes of an Ed25519 key, and two bytes of CRC-16
(https://github.com/nats-io/nkeys).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cordboard import private_files
from cordboard.errors import ClusterError

_LARGEST = 65_536
_BLOCK = re.compile(r"-{3,}BEGIN ([A-Z ]+)-{3,}\s+(\S+)\s+-{3,}END \1-{3,}")
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class NatsCredentials:
    """The answers to the client when it connects."""

    jwt: Callable[[], bytes]
    sign: Callable[[str], bytes]
    """Return the signature of a nonce, as base64."""


def read_credentials(path: Path) -> NatsCredentials:
    """Read a `.creds` file. Blocks. Raises `ClusterError`, without a secret."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        text = private_files.read(path, _LARGEST).decode("ascii", "replace")
    except OSError as error:
        raise ClusterError(f"cluster.nats.credentials: {error}") from None
    blocks = dict(_BLOCK.findall(text))
    jwt, seed = blocks.get("NATS USER JWT"), blocks.get("USER NKEY SEED")
    if jwt is None or seed is None:
        raise ClusterError(
            f"cluster.nats.credentials: expected a NATS USER JWT and a USER NKEY SEED in {path}"
        )
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))[2:-2]
        key = Ed25519PrivateKey.from_private_bytes(raw[:_KEY_BYTES])
    except (ValueError, binascii.Error):
        raise ClusterError(f"cluster.nats.credentials: the seed in {path} is damaged") from None
    return NatsCredentials(
        lambda: jwt.encode(), lambda nonce: base64.b64encode(key.sign(nonce.encode()))
    )
