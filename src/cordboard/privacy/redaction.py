"""Removes numbers and addresses of people from texts before they are written anywhere.

A `Redactor` has the operator's rules (`privacy.redact`); it is pure, and its work grows with the
length of the text alone. Digits are found as they are written (`4111 1111 …`), with any separators
between them, and as they are spoken: "four one one one", "double five", "forty-one eleven", in
English, German, French and Spanish, and letters that are spelled. A number with check digits is
looked for within longer runs of digits, too, because callers go on with the expiry date.

A `CallRedaction` belongs to one call and remembers the numbers that it has removed, so that a part
of one, such as the words heard before an interruption, goes too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cordboard.privacy.check_digits import IBAN_LENGTHS, IDS, cards_in, is_card, is_iban

KINDS: Final = ("card", "iban", "email", "phone", "keys", *IDS)
"""The kinds of data that can be removed."""
MOST_DEPTH: Final = 32
MOST_SEARCHED: Final = 50_000
"""Characters of one event's data."""
LONGEST_SPOKEN: Final = 2_000
"""Characters of a text in which numbers in words are looked for; longer ones are no one's turn."""
LONGEST_PATTERN: Final = 64
_LONGEST_RUN: Final = 64
"""Digits in a row beyond which all are removed: nothing that people say is so long."""
_LEAST: Final = 6
"""Digits of a removed number that, alone, are recognised as the beginning of it."""
_PAUSE_TEXTS = 2
"""Texts without digits, such as "Yes?", between two parts of one number."""
_PAUSE_WORDS = 3
"""Words before the second part, such as "and then"."""
_DIGITS_OF_NUMBERS: Final = 19
"""Most digits of a number of JSON data that is looked at: a card has no more."""
_PHONE = range(7, 16)
"""Digits of a telephone number: local ones of seven, and at most 15 by E.164."""

_UNITS = (
    "zero null cero zéro oh o", "one eins ein uno un", "two zwei zwo dos deux",
    "three drei tres trois", "four vier cuatro quatre", "five fünf cinco cinq",
    "six sechs seis", "seven sieben siete sept", "eight acht ocho huit",
    "nine neun nueve neuf",
)  # fmt: skip
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS: Final[Mapping[str, str]] = {
    **{word: str(digit) for digit, words in enumerate(_UNITS) for word in words.split()},
    **{word: str(10 + number) for number, word in enumerate(_TEENS.split())},
    **{word: str(20 + 10 * number) for number, word in enumerate(_TENS.split())},
}
_TIMES: Final[Mapping[str, int]] = {"double": 2, "doppel": 2, "doble": 2, "triple": 3}
_TENS_WORDS: Final = frozenset(_TENS.split())

_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_SEPARATOR = re.compile(r"(?:\s|[-.,/()\u2010-\u2015\u2026]){0,4}")
_DIALLED = re.compile(r"[ \-()/\u00a0\u2010-\u2013]{0,3}")
"""Separators within a telephone number: a comma or a full stop separates other numbers."""
_SPOKEN = re.compile(r"[\s,.\-\u2026]{0,4}")
_DATE = re.compile(
    r"(?<!\d)(?:(?:19|20)\d\d[-/.]?(?:0[1-9]|1[0-2])[-/.]?(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])[-/.](?:0?[1-9]|[12]\d|3[01])[-/.](?:19|20)?\d\d)(?!\d)"
)
_IBAN_BEGIN = re.compile(r"(?<![^\W_])[A-Za-z]{2}[ \-]?\d[ \-]?\d")
_EMAIL = re.compile(
    r"(?<![^\s<>()\[\],;:\"'])[^\s@<>()\[\],;:\"']{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,8}"
)
_SAID_EMAIL = re.compile(
    r"(?<![\w])[\w+]{1,64}(?: (?:dot|punkt|point|punto|underscore|dash|hyphen|minus) [\w+]{1,64})"
    r"{0,6} (?:at|ät|arroba) [\w\-]{1,63}(?: (?:dash|hyphen|minus) [\w\-]{1,63}){0,2}"
    r"(?: (?:dot|punkt|point|punto) [\w\-]{1,63}){1,4}",
    re.IGNORECASE,
)  # fmt: skip
_PLACES: Final[Mapping[str, str]] = {"#": "[0-9]", "@": "[^\\W\\d_]", "*": "[^\\W_]"}

Span = tuple[int, int, str]
"""Begin and end in the text, and the kind of what stands there."""


@dataclass(slots=True)
class Run:
    """Digits and spelled letters of a text that follow each other; the lists are equally long."""

    signs: list[str] = field(default_factory=list)
    """Digits in ASCII, and capitals."""
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    spoken: list[bool] = field(default_factory=list)
    """True for a sign that is a word or a letter of the text."""

    def add(self, signs: str, begin: int, end: int) -> None:
        """Add the signs of one word."""
        self.signs += signs
        self.begins += [begin] * len(signs)
        self.ends += [end] * len(signs)
        self.spoken += [True] * len(signs)

    def add_written(self, digits: str, begin: int) -> None:
        end = begin + len(digits)
        self.signs += digits
        self.begins += range(begin, end)
        self.ends += range(begin + 1, end + 1)
        self.spoken += [False] * len(digits)


class Redactor:
    """The rules of one configuration."""

    def __init__(
        self, kinds: Collection[str] = (), patterns: Mapping[str, str] | None = None
    ) -> None:
        """`patterns` by name, each as `compile_pattern` takes it. Raises `ValueError`."""
        self._card, self._iban = "card" in kinds, "iban" in kinds
        self._email, self._phone = "email" in kinds, "phone" in kinds
        self.hides_keys = "keys" in kinds
        """True if keys that callers press are not recorded."""
        self._ids = {name: IDS[name] for name in IDS if name in kinds}
        self._patterns = {
            name: (compile_pattern(pattern), re.compile(_of_signs(pattern), re.IGNORECASE))
            for name, pattern in (patterns or {}).items()
        }
        self._numbers = self._card or self._iban or self._phone or bool(self._ids)

    def __bool__(self) -> bool:
        return self._numbers or self._email or self.hides_keys or bool(self._patterns)

    def text(self, text: str) -> str:
        """Return the text with `[card]`, `[phone]`, … in place of what was found."""
        return replaced(text, self.spans(text))

    def spans(self, text: str, runs: Sequence[Run] | None = None) -> list[Span]:
        """Return what must go, in order and without overlaps. `runs`: those of the text, if they
        are known."""
        found: list[Span] = []
        for name, (pattern, _) in self._patterns.items():
            found += ((each.start(), each.end(), name) for each in pattern.finditer(text))
        if self._email and ("@" in text or " dot " in text or " pu" in text or " po" in text):
            for each in (*_EMAIL.finditer(text), *_SAID_EMAIL.finditer(text)):
                found.append((each.start(), each.end(), "email"))
        if self._numbers or self._patterns:
            if self._iban:
                found += _ibans(text)
            found += self._in_runs(text, runs_of(text) if runs is None else runs)
        return _merged(found) if found else found

    def kind_of(self, digits: str) -> str:
        """Return the kind of a number of JSON data: the pattern that its digits fit, or what they
        prove; empty if it may stay. Nothing tells a telephone number from a time or an amount."""
        for name, (_, spelled) in self._patterns.items():
            if spelled.fullmatch(digits):
                return name
        return next(self._proven(digits), "")

    def _in_runs(self, text: str, runs: Iterable[Run]) -> Iterator[Span]:
        long = [run for run in runs if len(run.signs) >= _LEAST]
        dates = _DATE.finditer(text) if self._phone and long else ()
        dated = {at for each in dates for at in range(*each.span())}
        for run in long:
            begins, ends = run.begins, run.ends
            if len(begins) > _LONGEST_RUN:
                yield begins[0], ends[-1], "number"
                continue
            signs = "".join(run.signs)
            for name, (_, spelled) in self._patterns.items():
                for each in spelled.finditer(signs):
                    yield begins[each.start()], ends[each.end() - 1], name
            for kind, begin, end in self.proven(signs):
                yield begins[begin], ends[end - 1], kind
            if self._iban and True in run.spoken:
                for begin, end in _spelled_ibans(text, run, signs):
                    yield begins[begin], ends[end - 1], "iban"
            if self._phone:
                yield from _phones(text, run, dated)

    def proven(self, signs: str) -> Iterator[tuple[str, int, int]]:
        """Yield kind, begin and end of the proven numbers in a run, the longest first. Ids only if
        no digits stand beside them: short numbers within long ones would often pass by chance."""
        for digits in re.finditer(r"\d{9,}", signs):
            begin, end = digits.span()
            for kind in self._proven(digits[0]):
                yield kind, begin, end
            if self._card:
                for at, to in cards_in(digits[0]):
                    yield "card", begin + at, begin + to

    def _proven(self, digits: str) -> Iterator[str]:
        """Yield the kinds that the check digits prove."""
        if self._card and is_card(digits):
            yield "card"
        for name, (length, check) in self._ids.items():
            if len(digits) == length and check(digits):
                yield name


class CallRedaction:
    """The redaction of one call's record."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._removed: dict[str, set[str]] = {}
        """The digits of removed numbers, by their first `_LEAST`."""
        self._unfinished = ""
        """Digits with which a text has ended: the next one may go on."""
        self._texts_ago = 0
        self._left = MOST_SEARCHED
        """Characters of the present data that may still be searched."""

    @property
    def hides_keys(self) -> bool:
        return self._redactor.hides_keys

    def text(self, text: str) -> str:
        """Return a text of the call as it may be written."""
        if not self._redactor:
            return text
        runs = runs_of(text)
        spans = self._redactor.spans(text, runs)
        if spans:
            self._unfinished = ""
        elif (rest := self._rest(text, runs)) is not None:
            spans = [rest]
        parts = list(self._parts(runs, spans)) if self._removed else []
        for begin, end, _ in spans:
            digits = "".join(sign for run in runs_of(text[begin:end]) for sign in run.signs)
            if len(digits) >= _LEAST:
                self._remember(digits)
        return replaced(text, _merged([*spans, *parts]))

    def data(self, value: Any, depth: int = MOST_DEPTH) -> Any:
        """Return JSON data as it may be written, names included; the same object if nothing must
        go. What is nested deeper than `depth` goes, and what is beyond `MOST_SEARCHED`
        characters: only what was searched is written."""
        if depth == MOST_DEPTH:
            self._left = MOST_SEARCHED
        if isinstance(value, str):
            self._left -= len(value)
            if self._left >= 0:
                return self.text(value)
            return self.text(value[: max(0, self._left + len(value))]) + "[long]"
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._number(value)
        if not isinstance(value, (dict, list, tuple)):
            return value
        if depth == 0:
            return "[nested]"
        if isinstance(value, dict):
            made: Any = {self._name(k): self.data(v, depth - 1) for k, v in value.items()}
            return value if _same(made.items(), value.items()) else made
        items = [self.data(item, depth - 1) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items

    def _number(self, number: float) -> float | str:
        """Return a number of JSON data as it may be written; a whole one may be a card's, also as
        `4111111111111111.0`."""
        if not (0 <= number < 10**_DIGITS_OF_NUMBERS and number == int(number)):
            return number
        digits = str(int(number))
        if kind := self._redactor.kind_of(digits):
            if len(digits) >= _LEAST:
                self._remember(digits)
            return f"[{kind}]"
        removed = self._removed.get(digits[:_LEAST], ())
        return "[number]" if any(each.startswith(digits) for each in removed) else number

    def _remember(self, digits: str) -> None:
        self._removed.setdefault(digits[:_LEAST], set()).add(digits)

    def _name(self, name: Any) -> Any:
        """Return a name in JSON data as it may be written; each is searched."""
        if not isinstance(name, str):
            return name
        return self.text(name) if len(name) <= LONGEST_SPOKEN else "[long]"

    def _rest(self, text: str, all_runs: Sequence[Run]) -> Span | None:
        """Return the digits at the beginning of a text that complete a number whose beginning ended
        one of the texts just before: a caller pauses while reading a card."""
        runs = [run for run in all_runs if len(run.signs) > 1]
        before, self._texts_ago = self._unfinished, self._texts_ago + 1
        if not runs:
            self._unfinished = before if self._texts_ago <= _PAUSE_TEXTS else ""
            return None
        first, last = runs[0], runs[-1]
        begins = len(re.findall(r"\w+", text[: first.begins[0]])) <= _PAUSE_WORDS
        ends = not re.search(r"\w", text[last.ends[-1] :])
        digits = ["".join(run.signs) for run in (first, last)]
        joined = before + digits[0] if begins else ""
        self._unfinished, self._texts_ago = "", 0
        for kind, begin, end in self._redactor.proven(joined):
            if begin < len(before) < end:
                self._remember(joined[begin:end])
                return first.begins[0], first.ends[end - len(before) - 1], kind
        if ends:
            whole = joined if first is last and begins else digits[1]
            self._unfinished = whole[-_LONGEST_RUN:]
        return None

    def _parts(self, runs: Iterable[Run], spans: list[Span]) -> Iterator[Span]:
        """Yield the beginnings of removed numbers outside of `spans`."""
        for run in runs:
            last = bisect_left(spans, (run.ends[-1],)) - 1
            if last >= 0 and run.begins[0] < spans[last][1]:
                continue
            signs = "".join(run.signs)
            for at in range(len(signs) - _LEAST + 1):
                head = signs[at : at + _LEAST]
                if (
                    head in self._removed
                    and signs.find(head) == at
                    and any(
                        each.startswith(signs[at : at + len(each)]) for each in self._removed[head]
                    )
                ):
                    yield run.begins[at], run.ends[-1], "number"
                    break


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return what finds a configured pattern: `#` is a digit, `@` a letter, `*` either; a space,
    hyphen, dot or slash may be missing or be another one; all else stands for itself, in capitals
    or not. Raises `ValueError`.

    Not a regular expression, so that none can take long.
    """
    if not 3 <= len(pattern) <= LONGEST_PATTERN or not re.search(r"[#@*]", pattern):
        raise ValueError(
            f"expected 3 to {LONGEST_PATTERN} characters with # for a digit, @ for a letter or * "
            "for either, such as KD-######"
        )
    parts = [
        _PLACES.get(sign) or (r"[\s\-./]{0,2}" if sign in " -./" else re.escape(sign))
        for sign in re.sub(r"[ \-./]+", "-", pattern)
    ]
    return re.compile(rf"(?<![^\W_]){''.join(parts)}(?![^\W_])", re.IGNORECASE)


def _of_signs(pattern: str) -> str:
    """Return the regular expression of a pattern for spelled letters and digits."""
    signs = [_PLACES.get(sign) or re.escape(sign) for sign in re.sub(r"[ \-./]+", "", pattern)]
    return f"^{''.join(signs)}$"


def replaced(text: str, spans: Iterable[Span]) -> str:
    """Return the text with the kind, in brackets, in place of each span."""
    pieces, at = [], 0
    for begin, end, kind in spans:
        pieces += [text[at:begin], f"[{kind}]"]
        at = end
    return "".join((*pieces, text[at:])) if pieces else text


def _merged(spans: list[Span]) -> list[Span]:
    """Return the spans in order; of overlapping ones the first found names the whole."""
    merged: list[Span] = []
    rank = {id(span): number for number, span in enumerate(spans)}
    names: list[int] = []
    for span in sorted(spans, key=lambda each: (each[0], rank[id(each)])):
        if merged and span[0] < merged[-1][1]:
            begin, end, kind = merged[-1]
            if rank[id(span)] < names[-1]:
                kind, names[-1] = span[2], rank[id(span)]
            merged[-1] = (begin, max(end, span[1]), kind)
        else:
            merged.append(span)
            names.append(rank[id(span)])
    return merged


def runs_of(text: str) -> list[Run]:
    """Return the digits and spelled letters of a text that follow each other."""
    runs = [run := Run()]
    end, times, tens = 0, 1, False
    for found in (_TOKEN if len(text) <= LONGEST_SPOKEN else _DIGITS).finditer(text):
        word = found[0].lower()
        if len(word) > 1 and not word.isdecimal() and word not in _WORDS and word not in _TIMES:
            continue
        begin = found.start()
        if run.signs and (begin - end > 4 or not _SEPARATOR.fullmatch(text, end, begin)):
            runs.append(run := Run())
            times, tens = 1, False
        end = found.end()
        if word in _TIMES:
            times = _TIMES[word]
            continue
        if not word.isdigit():
            signs = _WORDS.get(word) or word.upper()
            if tens and word in _WORDS and len(signs) == 1 and signs != "0":
                run.signs[-1], run.ends[-1], run.spoken[-1] = signs, end, True  # forty-one
            else:
                run.add(signs * times, begin, end)
        else:
            signs = word if word.isascii() else "".join(map(_ascii, word))
            for _ in range(times - 1):  # double 5
                run.add_written(signs[0], begin)
            run.add_written(signs, begin)
        times, tens = 1, word in _TENS_WORDS
    return [run for run in runs if run.signs]


def _ascii(digit: str) -> str:
    """Return a digit of any script as ASCII."""
    try:
        return str(int(digit))
    except ValueError:  # a superscript
        return "0"


def _ibans(text: str) -> Iterator[Span]:
    """Yield the written IBANs: with spaces or hyphens, and letters within."""
    for found in _IBAN_BEGIN.finditer(text):
        length = IBAN_LENGTHS.get(text[found.start() : found.start() + 2].upper(), 0)
        signs: list[str] = []
        at = found.start()
        while len(signs) < length and at < len(text):
            if text[at].isascii() and text[at].isalnum():
                signs.append(text[at].upper())
            elif text[at] not in " -\u00a0":
                break
            at += 1
        if length and is_iban("".join(signs)):
            yield found.start(), at, "iban"


def _spelled_ibans(text: str, run: Run, signs: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the IBANs in a run. In the country an `o` is a letter, not a zero."""
    letters = [
        sign if sign.isalpha() else text[begin:end].upper()
        for sign, begin, end in zip(run.signs, run.begins, run.ends, strict=True)
    ]
    for begin in range(len(letters) - 14):
        country = letters[begin] + letters[begin + 1]
        end = begin + IBAN_LENGTHS.get(country, len(letters) + 1)
        if end <= len(letters) and is_iban(country + signs[begin + 2 : end]):
            yield begin, end


def _phones(text: str, run: Run, dated: Collection[int]) -> Iterator[Span]:
    """Yield the telephone numbers of a run: digits that only spaces and hyphens separate, or pauses
    where they are spoken. `dated`: where the dates of the text stand."""
    parts: list[list[int]] = [[]]
    for at, begin in enumerate(run.begins):
        if begin in dated or not run.signs[at].isdigit():
            parts.append([])
            continue
        if parts[-1] and begin > run.ends[at - 1]:
            gap = _SPOKEN if run.spoken[at] or run.spoken[at - 1] else _DIALLED
            if not gap.fullmatch(text, run.ends[at - 1], begin):
                parts.append([])
        parts[-1].append(at)
    for part in parts:
        if len(part) not in _PHONE:
            continue
        begin, end = run.begins[part[0]], run.ends[part[-1]]
        if text[begin - 1 : begin] == "(" and ")" in text[begin:end]:
            begin -= 1
        if re.search(r"[^\W\d_]", text[max(0, begin - 1) : begin] + text[end : end + 1]):
            continue  # a part of an id
        plus = text[max(0, begin - 2) : begin].rstrip().endswith("+")
        if plus or not _counts_thousands(text[begin:end]):
            yield (text.rindex("+", 0, begin) if plus else begin), end, "phone"


def _counts_thousands(figure: str) -> bool:
    """True for a figure such as `10 000 000`."""
    groups = re.split(r"\D+", figure)
    return len(groups) > 1 and len(groups[0]) <= 3 and all(each == "000" for each in groups[1:])


def _same(made: Iterable[tuple[Any, Any]], before: Iterable[tuple[Any, Any]]) -> bool:
    pairs = zip(made, before, strict=False)
    return all(a is c and b is d for (a, b), (c, d) in pairs)
