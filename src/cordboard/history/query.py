"""Queries of the call history, and the rows that answer them. Pure.

A query is a set of filters; a call that matches has passed all of them. Rows come newest first, in
pages: a cursor names the last row of a page, so that new calls and deletions never shift a page. It
is signed, so that it cannot be used with other filters, or made up.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

import orjson

from cordboard.errors import HistoryError

COLUMNS = (
    "context", "provider", "source", "direction", "outcome", "reason", "interrupted", "recorded",
    "review", "config", "node",
)  # fmt: skip
"""Filters with one value for each call. `interrupted` and `recorded` are `yes` or `no`."""
MARKS = ("tool", "tool_failed", "trouble", "tag")
"""Filters with any number of values for each call."""
MOST_ROWS = 200
"""Maximum rows of a page."""
_WORD = re.compile(r"[^\W_]+")
_TERM = re.compile(r'"([^"]*)"|(\S+)')

Speaker = Literal["", "caller", "agent"]
Facets = Mapping[str, Mapping[str, int]]
"""Number of calls by filter and value. Each filter is counted as if it were not set itself."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call, or one offer that was refused, in a list."""

    id: str
    """Name of its ledger without the suffix; usually the call's id."""
    file: str
    """Ledger, relative to `calls.directory`; of a refused offer, that day's file of them."""
    started_at: str
    """ISO 8601 with zone."""
    started_ms: int
    """The same moment, ms since 1970."""
    source: str = ""
    direction: str = ""
    """`in`, or `out` for a call that the engine placed: the caller is then the called one. Empty
    for a refused offer."""
    caller_number: str = ""
    caller_name: str = ""
    called_number: str = ""
    context: str = ""
    provider: str = ""
    outcome: str = ""
    """`refused` for an offer that was refused; `not ended` while the call runs."""
    reason: str = ""
    duration_ms: int | None = None
    turns: int = 0
    """Turns in which the caller spoke."""
    interruptions: int = 0
    waited_ms: int | None = None
    """The longest of the caller's waits."""
    cost: float | None = None
    currency: str = ""
    recorded: bool = False
    review: str = ""
    """`good`, `bad`, or empty."""
    config: str = ""
    """Version of the configuration that it ran on: SHA-256 of the file; empty if unknown."""
    tools: tuple[str, ...] = ()
    tools_failed: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    """Parts of the call that failed, once each."""
    tags: tuple[str, ...] = ()
    node: str = ""
    """Engine of a cluster that has its files, in an index that all share; else empty."""

    def marks(self) -> list[tuple[str, str]]:
        """Return the values of `MARKS` as (filter, value)."""
        by_kind = zip(MARKS, (self.tools, self.tools_failed, self.troubles, self.tags), strict=True)
        return [(kind, value) for kind, values in by_kind for value in dict.fromkeys(values)]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of rows, the newest first."""

    rows: tuple[CallRow, ...]
    next: str
    """Cursor of the next page; empty on the last one."""
    searched_to_ms: int | None = None
    """Start of the last encrypted call that was opened to find these rows, ms since 1970, if older
    ones are left for the next page; None if there are none."""


@dataclass(frozen=True, slots=True)
class Term:
    """One word or phrase to search for."""

    words: tuple[str, ...]
    """As `words_of` returns them."""
    begins: bool = False
    """True if the last word may go on (`refund*`)."""


@dataclass(frozen=True, slots=True)
class CallQuery:
    """Filters. Those of one kind are alternatives; different ones all have to match."""

    text: str = ""
    """Words that were said: all must occur; `"two words"` is a phrase, `refund*` a beginning."""
    who: Speaker = ""
    """The side that said them; empty: either."""
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Allowed values by name of `COLUMNS`."""
    marks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Allowed values by name of `MARKS`; one of them is enough."""
    id: str = ""
    """One call, by the id of its row."""
    number: str = ""
    """The caller's number, exactly; the way it is written does not matter (`normal_number`)."""
    number_prefix: str = ""
    number_last4: str = ""
    called: str = ""
    """The dialled number, as `number`."""
    since_ms: int | None = None
    """First moment, ms since 1970."""
    until_ms: int | None = None
    """The moment after the last one."""
    waited_over_ms: int | None = None
    longer_ms: int | None = None
    """Least duration."""
    shorter_ms: int | None = None
    """Greatest duration."""
    cost_over: float | None = None
    moved: bool = False
    """Also what is left, in an index that several engines share, of calls that went on in another
    engine. Otherwise such a call is there once: where it went on."""
    within: frozenset[str] | None = None
    """The only contexts that exist for the person who asks; None: all, and refused offers."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """The words and phrases of `text`. Raises `HistoryError` if it has no word at all."""
        found = []
        for phrase, word in _TERM.findall(self.text):
            words = words_of(phrase or word)
            if words:
                found.append(Term(words, begins=not phrase and word.endswith("*")))
        if self.text.strip() and not found:
            raise HistoryError(f"text: expected words to search for, found {self.text!r}")
        return tuple(found)

    def digest(self) -> str:
        """Return a hash that is the same for equal queries."""
        values = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _plain(value: object) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text as they are compared: without accents, case and punctuation."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(each for each in parts if not unicodedata.combining(each))
    return tuple(_WORD.findall(text.casefold()))


def normal_number(number: str) -> str:
    """Return a number as it is compared: without the spaces, hyphens, dots, slashes and brackets
    that people write. Names, as of SIP users, stay as they are."""
    bare = number.translate(_SEPARATORS)
    return bare if _DIGITS.fullmatch(bare) else number


def last_digits(number: str) -> str:
    """Return the last four digits of a number; fewer if it has no more."""
    return "".join(each for each in number if each.isdecimal())[-4:]


_SEPARATORS = str.maketrans("", "", " -./()")
_DIGITS = re.compile(r"\+?[0-9]+")
_WHOLE = ("since_ms", "until_ms", "waited_over_ms", "longer_ms", "shorter_ms")
_TEXTS = ("text", "id", "number", "number_prefix", "number_last4", "called")


def parse_query(given: Mapping[str, Sequence[str]]) -> CallQuery:
    """Return the query of filters in text form, as in a URL or on the command line.

    Names are those of `CallQuery`, `COLUMNS` and `MARKS`, and `since` and `until` as ISO 8601.
    Raises `HistoryError` with the name and the expected value.
    """
    chosen: dict[str, Any] = {"columns": {}, "marks": {}}
    for name, values in given.items():
        _check_text(name, values)
        if name in COLUMNS:
            chosen["columns"][name] = frozenset(values)
        elif name in MARKS:
            chosen["marks"][name] = frozenset(values)
        elif len(values) != 1:
            raise HistoryError(f"{name}: expected one value, found {len(values)}")
        elif name in _TEXTS:
            chosen[name] = values[0]
        elif name == "who":
            if values[0] not in ("", "caller", "agent"):
                raise HistoryError(f"who: expected caller or agent, found {values[0]!r}")
            chosen[name] = values[0]
        elif name in ("since", "until"):
            chosen[f"{name}_ms"] = moment(name, values[0])
        elif name in _WHOLE:
            chosen[name] = _number(name, values[0], whole=True)
        elif name == "cost_over":
            chosen[name] = _number(name, values[0])
        else:
            known = ", ".join(
                [*_TEXTS, "who", *COLUMNS, *MARKS, "since", "until", *_WHOLE, "cost_over"]
            )
            raise HistoryError(f"there is no filter {name!r}; expected one of {known}")
    return CallQuery(**chosen)


def _check_text(name: str, values: Sequence[str]) -> None:
    try:
        content = "".join(values).encode()
    except UnicodeEncodeError:  # a terminal's bytes that are not UTF-8
        content = b"\0"
    if b"\0" in content:  # PostgreSQL has no text with it
        raise HistoryError(
            f"{name}: expected text in UTF-8 without NUL, found {values!r}"
        ) from None


def _number(name: str, text: str, *, whole: bool = False) -> float:
    pattern = r"\d{1,15}" if whole else r"\d{1,12}(\.\d{1,6})?"
    if not re.fullmatch(pattern, text, re.ASCII):
        raise HistoryError(f"{name}: expected a number, found {text!r}")
    return int(text) if whole else float(text)


def moment(name: str, text: str) -> int:
    """Return the time that a filter names, as ms since 1970. Raises `HistoryError`."""
    try:
        return milliseconds(text)
    except ValueError:
        raise HistoryError(
            f"{name}: expected a time such as 2026-11-22T14:00:00+01:00 or a day, found {text!r}"
        ) from None


def milliseconds(moment: str) -> int:
    """Return an ISO 8601 time as ms since 1970; without a zone it is of this machine's zone. Raises
    `ValueError`."""
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000)
    except OverflowError:
        raise ValueError(f"not a time: {moment!r}") from None


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place after a row: rows that come later in the order are on the next page."""

    started_ms: int
    id: str

    def sign(self, query: CallQuery, key: bytes) -> str:
        """Return it as text for the client."""
        content = orjson.dumps(asdict(self))
        return base64.urlsafe_b64encode(_signature(content, query, key) + content).decode()

    @classmethod
    def check(cls, text: str, query: CallQuery, key: bytes) -> Cursor:
        """Return the place of a signed text. Raises `HistoryError` for any other text, and for one
        of another query or another index."""
        try:
            signed = base64.b64decode(text, altchars=b"-_", validate=True)
        except ValueError:
            signed = b""
        signature, content = signed[:_SIGNATURE], signed[_SIGNATURE:]
        if not hmac.compare_digest(signature, _signature(content, query, key)):
            raise HistoryError(
                "cursor: it belongs to other filters, or the index was rebuilt; ask for the first "
                "page again"
            )
        return cls(**orjson.loads(content))


_SIGNATURE = 16
"""Bytes."""


def _signature(content: bytes, query: CallQuery, key: bytes) -> bytes:
    signed = query.digest().encode() + content
    return hmac.new(key, signed, hashlib.sha256).digest()[:_SIGNATURE]
