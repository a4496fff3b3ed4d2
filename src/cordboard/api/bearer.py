"""Whether a request carries the operator's token (`admin.token`). Pure: headers in, refusal out.

The answers are those of RFC 6750: 401 with a challenge for a missing or wrong token. Without a
configured token nobody can have it, so the answer is 403 and says what to set.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

CHALLENGE = 'Bearer realm="cordboard"'
NONE_CONFIGURED = (
    "this needs the admin token, and none is configured; set `admin.token` in the configuration, "
    'for example to "${CORDBOARD_TOKEN}"'
)
MISSING = "this needs the admin token: send the header Authorization: Bearer TOKEN"
WRONG = "this is not the admin token"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served."""

    status: int
    error: str
    headers: Mapping[str, str] = field(default_factory=dict)


class BearerGate:
    """Compares what requests bring with the one token there is."""

    def __init__(self, token: Callable[[], SecretStr | None]) -> None:
        """`token` gives the one in force, asked at each request: a reload may change it. An empty
        token counts as none: it must not open anything."""
        self._token = token

    def refusal(self, authorization: Sequence[str]) -> Refusal | None:
        """None when the request may pass; `authorization`: the values of all such headers, in
        latin-1 as HTTP servers decode them."""
        secret = self._token()
        token = secret.get_secret_value().encode() if secret is not None else b""
        if not token:
            return Refusal(403, NONE_CONFIGURED)
        if not authorization:
            return Refusal(401, MISSING, {"WWW-Authenticate": CHALLENGE})
        scheme, _, given = authorization[0].partition(" ")
        right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token)
        if len(authorization) == 1 and scheme.lower() == "bearer" and right:
            return None
        return Refusal(401, WRONG, {"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'})
