"""Signatures of requests, which prove to a receiver their origin, integrity and age.

    X-Cordboard-Timestamp: 1795284000
    X-Cordboard-Signature: v1=<hex>

The hex digits are HMAC-SHA256 with the shared secret as key over the timestamp, a dot, and the body
as it was sent. A receiver computes the same, compares in constant time, and refuses a timestamp
more than some minutes old. Pure. Users find it in docs/tools/http.md.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

TIMESTAMP = "X-Cordboard-Timestamp"
SIGNATURE = "X-Cordboard-Signature"


def signature_headers(secret: str, now: float, body: bytes) -> Mapping[str, str]:
    """Return the two headers. `now` is seconds since 1970."""
    timestamp = str(int(now))
    return {TIMESTAMP: timestamp, SIGNATURE: f"v1={_digest(secret, timestamp, body)}"}


def is_signed(
    secret: str, timestamp: str, signature: str, body: bytes, now: float, tolerance: float = 300
) -> bool:
    """Return True for a valid signature that is at most `tolerance` seconds old."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        return False
    if abs(now - int(timestamp)) > tolerance:
        return False
    expected = f"v1={_digest(secret, timestamp, body)}"
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def _digest(secret: str, timestamp: str, body: bytes) -> str:
    signed = timestamp.encode() + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
