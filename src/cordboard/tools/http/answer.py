"""From the answer of a web service to the result of a tool. Pure.

JSON becomes data, from which `result` may pick parts; other text becomes `{"text": …}`.
An unusable answer raises `HttpError`, whose words follow "it ...".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cordboard.config.templates import Path, read_path
from cordboard.errors import HttpError, HttpUnavailable
from cordboard.tools.large_json import parse_large
from cordboard.tools.templates import MISSING, look_up

MAX_MESSAGE = 500
MAX_MEMBERS = 100
"""Members of a gzip file; each may be compressed alone."""
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which another try may succeed."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A received answer, its body decompressed."""

    status: int
    kind: str = ""
    """Media type in lower case, without parameters."""
    charset: str = "utf-8"
    body: bytes = b""


def media_type(content_type: str) -> tuple[str, str]:
    """Return the media type and the charset of a Content-Type header."""
    kind, *parameters = content_type.split(";")
    charset = "utf-8"
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'")[:40] or charset
    return kind.strip().lower()[:100], charset


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Return the decompressed body. Raises `HttpError`: too long, broken, unknown."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpError("its answer is packed in a way that was not asked for")
    pieces: list[bytes] = []
    left = most
    for _ in range(MAX_MEMBERS):
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip and zlib
        try:
            piece = unpacker.decompress(body, left + 1)
        except zlib.error:
            raise HttpError("its packed answer is broken") from None
        left -= len(piece)
        if left < 0:
            raise too_long(most)
        if not unpacker.eof:
            raise HttpError("its packed answer breaks off")
        pieces.append(piece)
        body = unpacker.unused_data
        if not body:
            return b"".join(pieces)
    raise HttpError("its packed answer is broken")


def too_long(most: int) -> HttpError:
    """Return the error for an answer over the limit."""
    return HttpError(f"its answer is longer than {most} bytes")


class AnswerReader:
    """Reads a tool's answers: success, data, error message."""

    def __init__(self, success: Iterable[int], result: Mapping[str, str], error_field: str | None):
        self._success = frozenset(success)
        self._result: dict[str, Path] = {name: read_path(path) for name, path in result.items()}
        self._error_field = read_path(error_field) if error_field else None

    def is_success(self, status: int) -> bool:
        return status in self._success if self._success else 200 <= status < 300

    def data(self, answer: HttpAnswer) -> Any:
        """Return the data of a success. Raises `HttpError` for a body unlike its media type."""
        whole = content(answer)
        if not self._result:
            return whole
        found = ((name, look_up(whole, path)) for name, path in self._result.items())
        return {name: value for name, value in found if value is not MISSING}

    def message(self, answer: HttpAnswer) -> str:
        """Return the `error_field` of a refusal; empty if it has none."""
        if self._error_field is None:
            return ""
        try:
            said = look_up(content(answer), self._error_field)
        except HttpError:
            return ""
        return _shortened(said.strip()) if isinstance(said, str) else ""


def _shortened(text: str) -> str:
    """Return at most `MAX_MESSAGE` characters of whole words: half a secret would not be masked."""
    if len(text) <= MAX_MESSAGE:
        return text
    return f"{text[:MAX_MESSAGE].rpartition(' ')[0]} …"


def content(answer: HttpAnswer) -> Any:
    """Return the data in a body. Raises `HttpError` for invalid JSON."""
    if not answer.body.strip():
        return {}
    kind = answer.kind
    is_json = kind == "application/json" or kind.endswith("+json") or kind == "text/json"
    if is_json or not kind:
        try:
            return parse_large(answer.body)
        except (ValueError, RecursionError):
            if is_json:
                raise HttpError("its answer says that it is JSON, and is not") from None
    if kind.startswith(("image/", "audio/", "video/", "font/")) or kind in (
        "application/octet-stream",
        "application/pdf",
        "application/zip",
    ):
        raise HttpError(f"it answered with {kind}, which cannot be spoken")
    try:
        text = answer.body.decode(answer.charset, "replace")
    except (LookupError, ValueError):  # also codecs that decode no text, such as idna
        text = answer.body.decode("utf-8", "replace")
    return {"text": text}


def status_error(status: int) -> HttpError:
    """Return the error for a status that is not a success."""
    if status in TRANSIENT or status >= 500:
        return HttpUnavailable(f"it is not available (HTTP {status})")
    if status in (401, 403, 407):
        return HttpUnavailable(f"it does not let us in (HTTP {status})")
    return HttpError(f"it answered with HTTP {status}")
