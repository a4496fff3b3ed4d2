"""Masks the secrets of the configuration in all tool results.

Each generation has one set. The desk passes every result through it before the result reaches the
caller, the model, the ledger, the cache or the next step of a workflow. A secret is found as it is,
without the scheme of its header (`Bearer`, `Basic`), percent-encoded, escaped as in JSON, and
inside base64, such as the user and password of a `Basic` header.

Most results contain no secret, so a result is searched first and rebuilt only if something must be
masked. The search joins texts to pieces of 64 kB and looks for each form with `in`. A result above
`INLINE_WEIGHT` is searched in a worker thread.
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, quote_plus

from cordboard.config.secrets import names_a_secret
from cordboard.tools.masking import MASK, masked_values
from cordboard.tools.schema.safety import weight_of
from cordboard.tools.speech.speakable import one_line
from cordboard.tools.speech.speech import FAILED
from cordboard.tools.tool import Status, ToolResult

MIN_SECRET: Final = 6
"""Characters. Shorter values are not masked: they would be found in harmless text."""
INLINE_WEIGHT: Final = 500
"""Maximum number of values, or of 64 characters of text, searched on the event loop."""
_MIN_ENCODED: Final = 7
"""Minimum characters of base64 that cannot be a coincidence."""
_PIECE: Final = 64 * 1024
_SCHEME = re.compile(r"(?i)(basic|bearer|token|apikey|digest) +(?P<rest>\S.*)")
MAX_NAME: Final = 64
_PARAMETER = re.compile(r"(?<![\w.\-])([\w.\-]+)=[^&\s\"'<>]+")
"""Matches only from the beginning of a word, so that its work is linear."""


class KnownSecrets:
    """The secrets of one generation."""

    def __init__(
        self, secrets: Iterable[str] = (), fetched: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """`fetched` returns the tokens in use now; they change as they expire."""
        self._forms = frozenset(form for secret in secrets for form in _forms(secret))
        self._fetched = fetched
        self._tokens: frozenset[str] = frozenset()
        self._search = _Search(self._forms)

    def text(self, text: str) -> str:
        """Return the text with every secret masked."""
        return str(self._now().masked(text))

    def data(self, data: Any) -> Any:
        """Return the data with secrets masked, names included; the same object if there are
        none."""
        return self._now().masked(data)

    async def masked(self, result: ToolResult) -> ToolResult:
        """Return the result with secrets masked. A long one is searched off the event loop.

        An error also loses secret parameters. If something was masked in an error's message, the
        message is replaced by a general one, because it is not fit to be spoken.
        """
        search = self._now()
        has_work = search or result.status is not Status.OK
        if has_work and _is_long((result.message, result.data)):
            return await asyncio.to_thread(_masked, result, search)
        return _masked(result, search)

    def _now(self) -> _Search:
        tokens = frozenset(self._fetched())
        if tokens != self._tokens:
            self._tokens = tokens
            of_tokens = (form for token in tokens for form in _forms(token))
            self._search = _Search(self._forms.union(of_tokens))
        return self._search


def without_parameters(text: str) -> str:
    """Mask the values of `name=value` in an error text if the name suggests a secret: services
    quote the requested address."""

    def masked(found: re.Match[str]) -> str:
        return f"{found[1]}={MASK}" if names_a_secret(found[1][-MAX_NAME:]) else found[0]

    return _PARAMETER.sub(masked, text)


def _masked(result: ToolResult, search: _Search) -> ToolResult:
    message, data = search.masked(result.message), search.masked(result.data)
    if result.status is not Status.OK:
        if without_parameters(message) != result.message:
            message = FAILED
        if isinstance(data, dict) and isinstance(data.get("error"), str):
            data = {**data, "error": without_parameters(data["error"])}
    return replace(result, message=message, data=data)


def _is_long(data: Any) -> bool:
    try:
        return weight_of(data, INLINE_WEIGHT) > INLINE_WEIGHT
    except TypeError:  # names that are not strings
        return True


class _Search:
    """A search for a fixed set of forms."""

    def __init__(self, forms: frozenset[str]) -> None:
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._in_numbers = any(form.isdigit() for form in forms)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def masked(self, data: Any) -> Any:
        """Return the data, copied only if something must be masked."""
        if not self._forms:
            return data
        pieces = [*self._pieces(data)]
        found = [form for form in self._forms if any(form in piece for piece in pieces)]
        if not found:
            return data
        pattern = re.compile("|".join(map(re.escape, found)))
        return masked_values(data, lambda text: pattern.sub(MASK, text))

    def _pieces(self, data: Any) -> Iterator[str]:
        """Yield all texts of the data, joined to pieces of about `_PIECE` characters."""
        piece: list[str] = []
        length = 0
        waiting: list[Any] = [data]
        seen: set[int] = set()
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                text = value
            elif isinstance(value, (dict, list, tuple)):
                if id(value) not in seen:  # the data of a Python function may contain itself
                    seen.add(id(value))
                    waiting.extend(value)
                    if isinstance(value, dict):
                        waiting.extend(value.values())
                continue
            else:
                text = self._as_text(value)
            piece.append(text)
            length += len(text) + 1
            if length >= _PIECE:
                yield "\n".join(piece)
                piece, length = [], 0
        yield "\n".join(piece)

    def _as_text(self, value: Any) -> str:
        """Return the text of a value that is neither a string nor a container."""
        if value is None or isinstance(value, (bool, float)):
            return ""
        if isinstance(value, int):
            return str(value) if self._in_numbers and value.bit_length() < 4_000 else ""
        return str(value)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which the secret may appear in a result."""
    for line in secret.splitlines():  # a PEM has several
        for core in _cores(line.strip()):
            if len(core) >= MIN_SECRET:
                spoken = one_line(core)  # an error's words
                in_form = quote_plus(core, errors="replace")
                yield from (core, quote(core, safe="", errors="replace"), in_form)
                yield from (spoken,) if len(spoken) >= MIN_SECRET else ()
                yield from (json.dumps(core)[1:-1], json.dumps(core, ensure_ascii=False)[1:-1])
                for written in {core, in_form}:  # OAuth encodes both parts of a pair first
                    yield from _in_base64(written.encode("utf-8", "replace"))


def _cores(secret: str) -> Iterator[str]:
    """Yield the secret and its parts: a header's value without the scheme, a password without the
    user."""
    yield secret
    header = _SCHEME.fullmatch(secret)
    if header is None:
        return
    yield header["rest"]
    if header[1].lower() == "basic":
        try:
            pair = b64decode(header["rest"], validate=True).decode()
        except ValueError:
            return
        yield pair
        yield pair.partition(":")[2]


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield the base64 characters that encode only the secret, for each alignment."""
    for before in range(3):
        encoded = b64encode(bytes(before) + secret).decode()
        core = encoded[(0, 2, 3)[before] : (before + len(secret)) * 8 // 6]
        if len(core) >= _MIN_ENCODED:
            yield core
            yield core.replace("+", "-").replace("/", "_")


NO_SECRETS: Final = KnownSecrets()
