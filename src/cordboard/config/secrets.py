"""Selection of a configuration's secret values. Pure.

The log masks every secret field and all that `env` takes from the environment
(`LoadedConfig.secrets`). Answers of tools go to callers and models, who would miss an ordinary
word, so the rule for results is narrower (`Config.secrets`):

- every secret field (`token`, `password`, `api_key`, ...), and the key in an MCP server's address;
- every value that comes from a file (`${file:PATH}`), or from an environment variable whose name
  marks it as secret, such as `SHOP_KEY`;
- every value under such a name in `env`, `headers`, `header_templates`, `query`, `form` or a `url`;
- all other values that `env` and `headers` take from the environment, unless they consist of words
  or of figures: `application/json`, `Zurich`, `2026-01-31`.

A header written in the file under another name is not masked: `X-Store: store-17` is an
identifier, and results may be full of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, SecretStr

SHORTEST_SECRET: Final = 4
"""Characters of a value that is masked in logs and messages; masking shorter ones would hide
ordinary words."""
_SECRET = re.compile("(?i)pass(word|phrase|code)|secret|token|credential|api_?key|(^|_)pin($|_)")
_SECRET_ELSEWHERE = re.compile("(?i)(^|_)(key|pass|pw|pwd|pat|auth|authorization|cookie)$")
_ORDINARY = re.compile(r"[A-Za-z]+([ ,._/+-]+[A-Za-z]+)*|[\d ,.:/+-]*")
"""Words, or figures: a language, a media type, a city; a date, a version, a port."""
_NAMED_TEXTS: Final = frozenset({"env", "header_templates", "query", "form"})
"""Keys whose entries are texts under names that others have chosen."""


@lru_cache(maxsize=4_096)
def looks_secret(name: str) -> bool:
    """Return True if a field of that name holds a secret, whatever its schema."""
    return _SECRET.search(name) is not None


def names_a_secret(name: str) -> bool:
    """Return True if an environment variable, header or query parameter of that name is secret."""
    plain = name.replace("-", "_")
    return looks_secret(plain) or _SECRET_ELSEWHERE.search(plain) is not None


def is_ordinary(value: str) -> bool:
    """Return True if a value consists of words or figures, so that masking would spoil results."""
    return _ORDINARY.fullmatch(value) is not None


def secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Yield the secrets in a section whose key is `name`, as far as they are known without the
    values from the environment."""
    if value is None or isinstance(value, (int, float)):
        return
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for field, item in value:
            yield from secrets_in(item, field)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(name, str(key), item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from secrets_in(item)
    elif name == "url" and isinstance(value, str):
        for parameter in value.partition("?")[2].split("&"):
            yield from _text(*parameter.partition("=")[::2])


def _entry(name: str, key: str, item: Any) -> Iterator[str]:
    if name == "headers" and isinstance(item, SecretStr):
        if names_a_secret(key):
            yield item.get_secret_value()
    elif name in _NAMED_TEXTS and isinstance(item, str):
        yield from _text(key, item)
    else:
        yield from secrets_in(item)


def _text(name: str, text: str) -> Iterator[str]:
    """Yield the secrets in a text whose name others have chosen: `sort_key: departure` is not
    secret, and a {placeholder} stands for an argument."""
    by_name = looks_secret(name.replace("-", "_"))
    if "{" not in text and (by_name or (names_a_secret(name) and not is_ordinary(text))):
        yield text
