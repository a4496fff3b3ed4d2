"""The second factor: time-based one-time codes (RFC 6238), and recovery codes. Pure.

The codes are those of every authenticator app: SHA-1, six digits, 30 s.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from urllib.parse import quote

STEP_SECONDS = 30
_DIGITS = 6
_DRIFT = 1
"""Steps that a phone's clock may be ahead or behind (RFC 6238, section 5.2)."""
RECOVERY_CODES = 10
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without characters that look like another."""


def new_secret() -> str:
    """Return a secret of 160 bits in base 32, as authenticator apps take it."""
    return base64.b32encode(secrets.token_bytes(20)).decode()


def code_at(secret: str, step: int) -> str:
    """Return the code of a step (Unix time / 30 s): RFC 4226, section 5.3."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", step), "sha1")
    offset = digest[-1] & 0xF
    number = struct.unpack_from(">I", digest, offset)[0] & 0x7FFFFFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def step_of(secret: str, code: str, now: float, used: int) -> int | None:
    """Return the step to which a code belongs; None if it is wrong, or not later than `used`.

    A step counts once: a code that was read over a shoulder is worth nothing afterwards.
    """
    present = int(now) // STEP_SECONDS
    for step in range(present - _DRIFT, present + _DRIFT + 1):
        right = hmac.compare_digest(code_at(secret, step).encode(), code.encode())
        if right and step > used:
            return step
    return None


def address(secret: str, user_name: str) -> str:
    """Return the `otpauth:` address of a secret, which apps read as a QR code."""
    label = quote(f"Cordboard:{user_name}")
    return f"otpauth://totp/{label}?secret={secret}&issuer=Cordboard"


def new_recovery_codes() -> list[str]:
    """Return codes of about 59 bits; each replaces the second factor once."""

    def part() -> str:
        return "".join(secrets.choice(_ALPHABET) for _ in range(6))

    return [f"{part()}-{part()}" for _ in range(RECOVERY_CODES)]
