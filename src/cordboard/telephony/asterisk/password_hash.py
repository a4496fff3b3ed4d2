"""SHA-512 hashes of passwords as crypt(3) makes them: `$6$rounds=1000$SALT$HASH`.

Asterisk checks them with the C library (`password_format=crypt`). Python's own module `crypt` is
gone since 3.13. Algorithm: Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", version 0.6.
"""

from __future__ import annotations

import secrets
from hashlib import sha512

ROUNDS = 1_000
"""The minimum of the algorithm. Asterisk computes the hash for every request, also on an open
websocket (0.45 ms; 2.3 ms with the usual 5,000 rounds): few rounds are safe for long random
passwords only."""
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SALT_LENGTH = 16


def hashed(password: str) -> str:
    """Return the hash of a long random password, with a new salt."""
    salt = "".join(secrets.choice(_ALPHABET) for _ in range(_SALT_LENGTH))
    return f"$6$rounds={ROUNDS}${salt}${sha512_crypt(password, salt, ROUNDS)}"


def sha512_crypt(password: str, salt: str, rounds: int) -> str:
    """Return the last part of the hash, 86 characters. `salt`: at most 16 characters."""
    key, pepper = password.encode(), salt.encode()
    inner = sha512(key + pepper + key).digest()
    outer = sha512(key + pepper + _repeated(inner, len(key)))
    bits = len(key)
    while bits:
        outer.update(inner if bits & 1 else key)
        bits >>= 1
    digest = outer.digest()
    key_bytes = _repeated(sha512(key * len(key)).digest(), len(key))
    salt_bytes = _repeated(sha512(pepper * (16 + digest[0])).digest(), len(pepper))
    for number in range(rounds):
        step = sha512(key_bytes if number & 1 else digest)
        if number % 3:
            step.update(salt_bytes)
        if number % 7:
            step.update(key_bytes)
        step.update(digest if number & 1 else key_bytes)
        digest = step.digest()
    return _encoded(digest)


def _repeated(digest: bytes, length: int) -> bytes:
    return (digest * (length // len(digest) + 1))[:length]


def _encoded(digest: bytes) -> str:
    """Return 64 bytes in the order and the alphabet of the algorithm."""
    text = ""
    first, second, third = 0, 21, 42
    for _ in range(21):
        text += _letters(digest[first] << 16 | digest[second] << 8 | digest[third], 4)
        first, second, third = second + 1, third + 1, first + 1
    return text + _letters(digest[63], 2)


def _letters(value: int, count: int) -> str:
    return "".join(_ALPHABET[value >> 6 * place & 63] for place in range(count))
