"""The errors of the backend, each with its HTTP status, a code for programs and a sentence.

The sentences of 404, 409 and 422 are fit to be read to a guest; the MCP server passes them on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a request."""

    field: str
    problem: str


class ApiError(Exception):
    """Base of errors that are returned to the client."""

    status = 400
    code = "bad_request"

    def __init__(
        self,
        message: str,
        problems: Sequence[Problem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        self.headers = dict(headers or {})


class BadRequest(ApiError):
    """No JSON, or not an object."""


class TooLarge(ApiError):
    status, code = 413, "too_large"


class Unauthorized(ApiError):
    """No token, or an invalid one."""

    status, code = 401, "invalid_token"

    def __init__(self, message: str) -> None:
        challenge = f'Bearer error="invalid_token", error_description="{message}"'
        super().__init__(message, headers={"WWW-Authenticate": challenge})


class Forbidden(ApiError):
    """The token lacks the scope."""

    status, code = 403, "insufficient_scope"

    def __init__(self, scope: str) -> None:
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        super().__init__(
            f"the token lacks the scope {scope}", headers={"WWW-Authenticate": challenge}
        )


class NotFound(ApiError):
    status, code = 404, "not_found"


class NoTableFree(ApiError):
    status, code = 409, "no_table_free"


class Closed(ApiError):
    status, code = 409, "closed"


class Invalid(ApiError):
    """An invalid value."""

    status, code = 422, "invalid"


class IssuerUnavailable(ApiError):
    """The issuer's keys cannot be fetched, so no token can be checked."""

    status, code = 503, "issuer_unavailable"
