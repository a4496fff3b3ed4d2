"""Passwords: argon2id, and the rules of a new one.

Hashing takes 19 MiB and some 20 ms, and releases the interpreter meanwhile. Run it in a thread of
its own, one at a time: a flood of sign-ins must not take the processors from the calls.
"""

from __future__ import annotations

import os
import re

from cordboard.errors import AccountRefused

SHORTEST = 12
LONGEST = 200
"""Characters; argon2id would take any number, at the cost of the engine's processor."""
_MEMORY_KIB = 19_456
_ITERATIONS = 2
"""With one lane the first choice for argon2id of OWASP's Password Storage Cheat Sheet."""
_FEWEST_KINDS = 5
"""Different characters."""
_COMMON = re.compile(
    r"p[a@]ss?w[o0]rd|qwert|asdf|letmein|welcome|changeme|admin|secret|iloveyou|monkey|dragon"
    r"|football|baseball|superman|trustno|cordboard|asterisk|freepbx"
)
"""Words at the core of the usual passwords; little may be left of a password without them."""
_LEAST_REST = 8


def hashed(password: str) -> str:
    """Return the password's argon2id hash in PHC form, with a salt of its own. Blocks."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # 8 MB, for people alone

    function = Argon2id(
        salt=os.urandom(16),
        length=32,
        iterations=_ITERATIONS,
        lanes=1,
        memory_cost=_MEMORY_KIB,
    )
    return function.derive_phc_encoded(password.encode())


NOT_A_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1$Y29yZGJvYXJkLW5vYm9keQ$"
    "Y29yZGJvYXJkLW5vYm9keS1jYW4tc2lnbi1pbi13aXQ"
)
"""Stands for the hash of a name that does not exist: refusing it takes as long as a wrong
password, so that the time betrays no names."""


def is_right(password: str, stored: str) -> bool:
    """Return True if the hash is that of the password. Blocks."""
    from cryptography.exceptions import InvalidKey
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    try:
        Argon2id.verify_phc_encoded(password[: LONGEST + 1].encode(), stored)
    except InvalidKey:
        return False
    return True


def check_new(password: str, user_name: str) -> None:
    """Raise `AccountRefused` with the reason if the password is too weak to be set."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise AccountRefused(f"a password has {SHORTEST} to {LONGEST} characters")
    lower = password.lower()
    if len(set(lower)) < _FEWEST_KINDS:
        raise AccountRefused(f"a password has at least {_FEWEST_KINDS} different characters")
    if user_name.lower() in lower:
        raise AccountRefused("a password does not contain the name of its user")
    rest = re.sub(r"[\d\W_]+$|^[\d\W_]+", "", _COMMON.sub("", lower))
    if _COMMON.search(lower) and len(rest) < _LEAST_REST:
        raise AccountRefused("that is one of the usual passwords; several unrelated words are good")
    if any(lower in row for row in _rows()):
        raise AccountRefused("a row of neighbouring keys or characters is not a password")


def _rows() -> tuple[str, ...]:
    up = "0123456789" * 3, "abcdefghijklmnopqrstuvwxyz" * 2, "qwertyuiopasdfghjklzxcvbnm1234567890"
    return (*up, *(row[::-1] for row in up))
