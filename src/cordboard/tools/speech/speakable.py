"""Conversion of any text to one for a voice: written forms become spoken words.

Times of the 24-hour clock, dates, money, units, codes, telephone numbers, e-mail addresses, links
and signs become words; lists and tables become sentences; markup, pictographs, control,
bidirectional and invisible characters are removed. docs/tool-speech.md has the full table. Text
that voices read well stays: short numbers, capitals that are words, times that already have AM or
PM.

A pure function of linear time that never raises. It is idempotent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType

from cordboard.tools.speech import codes, numbers, times

MAX_SPOKEN = 1_500
"""Characters; about 100 s of speech."""

_MARKUP = re.compile(r"[<\[*`~_#>+•\n-]")
"""Characters without which none of the five patterns below matches."""
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)\s\[]*\)")  # no part of it may run past the next "["
_EMPHASIS = re.compile(r"\*{1,3}|`{1,3}|~~|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_LINE_HEAD = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|[-*+•][ \t]+|>[ \t]?)", re.MULTILINE)
_LINE_END = re.compile(r"(?<=[^\s.!?,;:])[ \t]*\n\s*\n")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)")
_BEFORE_MARK = re.compile(r" ([.,;:!?])")
_BEFORE_LAST_MARK = re.compile(r" ([.,;:!?])(?!\w)")
_LEFT_MARKS = re.compile(r"[*_`#<>|~\[\]]+")
"""Leftover marks of incomplete markup."""
AND_MORE = "And more."
"""Ends a text that was too long to be spoken completely."""
A_NUMBER = "a very long number"

UNITS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "°C": ("degree Celsius", "degrees Celsius"),
        "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
        "°": ("degree", "degrees"),
        "%": ("percent", "percent"),
        "km/h": ("kilometre per hour", "kilometres per hour"),
        "mph": ("mile per hour", "miles per hour"),
        "m/s": ("metre per second", "metres per second"),
        "kt": ("knot", "knots"),
        "kts": ("knot", "knots"),
        "kn": ("knot", "knots"),
        "hPa": ("hectopascal", "hectopascals"),
        "kPa": ("kilopascal", "kilopascals"),
        "mbar": ("millibar", "millibars"),
        "inHg": ("inch of mercury", "inches of mercury"),
        "km²": ("square kilometre", "square kilometres"),
        "m²": ("square metre", "square metres"),
        "m³": ("cubic metre", "cubic metres"),
        "km": ("kilometre", "kilometres"),
        "m": ("metre", "metres"),
        "cm": ("centimetre", "centimetres"),
        "mm": ("millimetre", "millimetres"),
        "ft": ("foot", "feet"),
        "mi": ("mile", "miles"),
        "NM": ("nautical mile", "nautical miles"),
        "kg": ("kilogram", "kilograms"),
        "g": ("gram", "grams"),
        "mg": ("milligram", "milligrams"),
        "lb": ("pound", "pounds"),
        "lbs": ("pound", "pounds"),
        "l": ("litre", "litres"),
        "ml": ("millilitre", "millilitres"),
        "h": ("hour", "hours"),
        "hrs": ("hour", "hours"),
        "min": ("minute", "minutes"),
        "s": ("second", "seconds"),
        "sec": ("second", "seconds"),
        "ms": ("millisecond", "milliseconds"),
        "kWh": ("kilowatt hour", "kilowatt hours"),
        "kW": ("kilowatt", "kilowatts"),
        "Hz": ("hertz", "hertz"),
        "kHz": ("kilohertz", "kilohertz"),
        "MHz": ("megahertz", "megahertz"),
        "GHz": ("gigahertz", "gigahertz"),
        "kB": ("kilobyte", "kilobytes"),
        "MB": ("megabyte", "megabytes"),
        "GB": ("gigabyte", "gigabytes"),
        "TB": ("terabyte", "terabytes"),
    }
)
"""Unit → one, many. Only units with one meaning: "in" and "A" are words."""

_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,6})?"
_UNITS = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_SCALE = r"(?:\ (?:million|billion|trillion))?"

_ADDRESS = re.compile(
    r"""
    (?P<link>\b(?:https?|ftps?|wss?|file)://[^\s<>"']{1,4000}|\bwww\.[^\s<>"']{1,4000})
  | (?P<email>(?<![\w.+%-])(?:mailto:)?[A-Za-z0-9][\w.+%-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}
        [A-Za-z]{2,24}(?![\w@-]))
  | (?P<long_code>(?<![A-Za-z0-9+/=_-])(?:[A-Za-z0-9+/=_-]{41,}
        |[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![A-Za-z0-9])))
    """,
    re.VERBOSE | re.ASCII,
)
_HAS_ADDRESS = re.compile(r"[@/]|www\.|[A-Za-z0-9+/=_-]{36}")
_FIGURES = re.compile(
    rf"""
    (?=[\dA-Z€$£¥+(<>=≤≥≈±\u00d7÷→&~\u2212-])(?:
    (?P<moment>(?<![\w.-])\d{{4}}-\d\d-\d\d
        (?:[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?:Z|[+-]\d\d:?\d\d)?)?(?![\w:-]))
  | (?P<day>(?<![\w.])(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>\d{{4}})(?!\w|\.\d))
  | (?P<clock>(?<![\w:.,])\d{{1,2}}:\d\d(?::\d\d)?(?![\w:])(?!\s?[AaPp]\.?[Mm]\b))
  | (?P<phone>(?<![\w+])\+\d(?:[\ ()/.-]{{0,2}}\d){{6,14}}(?!\w)
        |(?<![\w.-])(?:\(\d{{3}}\)\ ?|\d{{3}}[-.\ ])\d{{3}}[-.\ ]\d{{4}}(?![\w-]|\.\d))
  | (?P<money>(?<![\w.,])(?P<sign>[-\u2212]?)(?:(?P<before>[€$£¥])\ ?(?P<sum>{_NUMBER})
        |(?P<amount>\d{{1,12}},\d\d(?!\d)|{_NUMBER})\ ?(?P<after>[€£]|(?:EUR|USD|GBP|CHF)\b))
        (?P<scale>{_SCALE})(?![\w%]|[.,]\d))
  | (?P<measure>(?<![\w.,])(?P<minus>[-\u2212]?)(?P<count>{_NUMBER})\ ?(?P<unit>{_UNITS})
        (?![\w/²³°%]))
  | (?P<dotted>(?<![\w.-])\d{{1,5}}(?:\.\d{{1,5}}){{2,7}}(?!\w|\.\d))
  | (?P<figure>(?<![\w.,])[-\u2212]?\d{{1,40}}(?:\.\d{{1,40}})?[eE][-+]?\d{{1,3}}(?![\w.])
        |(?<![\w.,])[-\u2212]?\d{{1,15}}\.\d{{7,40}}(?![\w.]))
  | (?P<digits>(?<![\w.,])\d{{13,}}(?![\w]|[.,]\d))
  | (?P<code>(?<![\w-])(?=[A-Z-]{{0,4}}\d)[A-Z0-9]{{1,20}}(?:-[A-Z0-9]{{1,20}}){{0,5}}(?![\w-])
        |(?<![\w-])[A-Z]{{1,3}}(?:-?\d{{1,9}}){{1,3}}[A-Z]{{1,3}}\d{{0,9}}(?![\w-]))
  | (?P<negative>(?<![\w.,)])[-\u2212](?=\d))
  | (?P<symbol>(?<=[\w\ ])(?:<=|>=|[<>=≤≥≈±\u00d7÷→&~])\ ?(?=[\d\w])|(?<!\w)[≈±~](?=\d))
    )
    """,
    re.VERBOSE | re.ASCII,
)
_OF_12_HOURS = re.compile(r"\d\s?[AaPp]\.?[Mm]\b")
_OF_24_HOURS = re.compile(
    r"(?<![\w:.,])(?:0\d|1[3-9]|2[0-3]):[0-5]\d(?::\d\d)?(?![\w:])(?!\s?[AaPp]\.?[Mm]\b)", re.ASCII
)
"""A time that cannot be mistaken for one of a 12-hour clock, such as 15:20 and 08:05. If a text has
one, and none with AM or PM, all of its times are of the 24-hour clock: 9:00 is 9 AM."""
_HAS_FIGURE = re.compile(r"[\d<>=≤≥≈±\u00d7÷→&~]", re.ASCII)
_SYMBOLS = {
    "<=": "at most",
    ">=": "at least",
    "<": "less than",
    ">": "more than",
    "=": "equals",
    "≤": "at most",
    "≥": "at least",
    "≈": "about",
    "~": "about",
    "±": "plus or minus",
    "\u00d7": "times",
    "÷": "divided by",
    "→": "to",
    "&": "and",
}
_WIDE = re.compile(r"[\uff01-\uff5e\u2103\u2109\U0001d400-\U0001d7ff]+")
_ODD_SPACES = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2044": "/", "\u2010": "-", "\u2011": "-"}
)
_MARKS = re.compile(r"([\u0300-\u036f\u20d0-\u20ff])[\u0300-\u036f\u20d0-\u20ff]+")
_ITEM = re.compile(r"^[ \t]*(?:[-*+•\u2013]|\d{1,3}[.)])[ \t]+(?=\S)")
_RULE = re.compile(r"[ \t|:=_*~-]*")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)\w*[ \t]*")
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z']{1,20}[,.!?;]? )*[A-Za-z']{1,20}[.!?]?")
"""Only words and single marks: spoken unchanged."""
_REPEATED = re.compile(r"([!?.,;:])(?:\s?[!?.,;:])+")
_LINES_OF = re.compile(r"[-=_~#*|\\]{3,}")


def speakable(text: str, most: int = MAX_SPOKEN) -> str:
    """Return one line of at most `most` characters; empty if there is nothing to say."""
    is_plain = len(text) <= most and _PLAIN_WORDS.fullmatch(text) and "about about" not in text
    return text if is_plain else _made_speakable(text, most)


def _made_speakable(text: str, most: int) -> str:
    shown = text[: 20 * most]
    if not shown.isascii():
        shown = _WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), shown)
        shown = unicodedata.normalize("NFC", shown.translate(_ODD_SPACES))
        shown = _MARKS.sub(r"\1", shown)
    shown = _LINES_OF.sub(" ", one_line(_as_sentences(shown).replace("…", ". ")))
    said = _ADDRESS.sub(_said, shown) if _HAS_ADDRESS.search(shown) else shown
    if _HAS_FIGURE.search(said):
        of_24_hours = _OF_24_HOURS.search(said) and not _OF_12_HOURS.search(said)
        said = _FIGURES.sub(_said_with_times if of_24_hours else _said, said)
    said = _REPEATED.sub(_one_mark, " ".join(said.split())).replace("about about ", "about ")
    said = _BEFORE_LAST_MARK.sub(r"\1", said).strip()
    if said.endswith(" A,") or said == "A,":
        said = said[:-1] + "."
    return said if len(said) <= most else _shortened(said, most)


def _shortened(said: str, most: int) -> str:
    room = most - len(AND_MORE) - 1
    if room < 1:
        return cut_at_sentence(said, most)
    return f"{cut_at_sentence(said, room)} {AND_MORE}"


def _as_sentences(text: str) -> str:
    """End entries of lists, headings and rows of tables like sentences."""
    lines: list[str] = []
    for line in text.splitlines():
        if _FENCE.fullmatch(line) or (line.strip() and _RULE.fullmatch(line)):
            continue
        shown = line.strip()
        ends = bool(_ITEM.match(line)) or shown.startswith("#")
        if shown.startswith("|") and shown.endswith("|") and len(shown) > 1:
            shown = ", ".join(cell.strip() for cell in shown.strip("|").split("|") if cell.strip())
            ends = True
        if _ITEM.match(line):
            shown = _ITEM.sub("", line).strip()
        if ends and lines and lines[-1] and lines[-1][-1].isalnum():
            lines[-1] += ":" if _ITEM.match(line) else "."
        if ends and shown and shown[-1] not in ".!?,;:":
            shown += "."
        lines.append(shown)
    return "\n".join(lines)


def _one_mark(match: re.Match[str]) -> str:
    for mark in "?!.":
        if mark in match[0]:
            return mark
    return match[1]


def _said(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    words = _KINDS[kind](match) if kind in _KINDS else None
    return match[0] if words is None else words


def _said_with_times(match: re.Match[str]) -> str:
    """Like `_said`, where all times are of the 24-hour clock."""
    if match.lastgroup != "clock":
        return _said(match)
    hour, minute = match[0].split(":")[:2]
    return times.clock(int(hour), int(minute)) or match[0]


def _clock(match: re.Match[str]) -> str | None:
    """Convert only times that cannot be mistaken for a 12-hour clock: 15:20 and 08:05."""
    return _said_with_times(match) if _OF_24_HOURS.fullmatch(match[0]) else None


def _link(match: re.Match[str]) -> str:
    url = match[0].rstrip(".,;:!?)]}")
    return codes.link(url) + match[0][len(url) :]


def _money(match: re.Match[str]) -> str | None:
    currency = match["before"] or match["after"]
    currency = numbers.SYMBOLS.get(currency, currency)
    amount = match["sum"] or match["amount"]
    if re.fullmatch(r"\d+,\d\d", amount):
        amount = amount.replace(",", ".")
    minus = "minus " if match["sign"] else ""
    if match["scale"]:
        return f"{minus}{amount}{match['scale']} {numbers.CURRENCIES[currency][1]}"
    words = numbers.money(amount, currency)
    return None if words is None else minus + words


def _measure(match: re.Match[str]) -> str:
    one, many = UNITS[match["unit"]]
    minus = "minus " if match["minus"] else ""
    return f"{minus}{match['count']} {one if match['count'] == '1' else many}"


def _figure(match: re.Match[str]) -> str:
    figure = float(match[0].replace("\u2212", "-"))
    return numbers.number(figure) or numbers.TOO_LARGE


def _code(match: re.Match[str]) -> str | None:
    """Spell codes of five characters or more that are not just a number or a word: `AB12C`,
    `QX-2026-91`."""
    code = match[0]
    has_both = any(map(str.isdigit, code)) and any(map(str.isalpha, code))
    is_word = re.match(r"[A-Z]{4}", code) is not None
    return codes.spelled(code) if has_both and len(code) >= 5 and not is_word else None


_KINDS: Mapping[str, Callable[[re.Match[str]], str | None]] = MappingProxyType(
    {
        "link": _link,
        "email": lambda match: codes.email_address(match[0].removeprefix("mailto:")),
        "long_code": lambda match: codes.A_CODE,
        "moment": lambda match: times.date_time_words(match[0]),
        "day": lambda match: times.calendar_day(int(match["y"]), int(match["m"]), int(match["d"])),
        "clock": _clock,
        "phone": lambda match: codes.phone_number(match[0]),
        "money": _money,
        "measure": _measure,
        "dotted": lambda match: match[0].replace(".", " dot "),
        "figure": _figure,
        "digits": lambda match: codes.digits(match[0]) if len(match[0]) <= 30 else A_NUMBER,
        "code": _code,
        "negative": lambda match: "minus ",
        "symbol": lambda match: f" {_SYMBOLS[match[0].strip()]} ",
    }
)


# --- markup and characters ------------------------------------------------------------------


def plain(text: str, most: int = MAX_SPOKEN) -> str:
    """Return one capped line fit for speech: no markup, control or invisible characters."""
    return cut_at_sentence(one_line(text[: 20 * most]), most)


def one_line(text: str) -> str:
    """Like `plain`, without the cap."""
    if _MARKUP.search(text):
        text = _LINK.sub(r"\1", _TAG.sub(" ", text))
        text = _EMPHASIS.sub("", _LINE_HEAD.sub("", text))
        text = _LINE_END.sub(". ", text.strip())
    if not (text.isascii() and text.isprintable()):
        text = "".join(_spoken_character(character) for character in text)
    return _BEFORE_MARK.sub(r"\1", " ".join(text.split()))


def cut_at_sentence(text: str, most: int) -> str:
    """Cut to at most `most` characters, after a whole sentence if possible, else after a word."""
    if len(text) <= most:
        return text
    head = text[:most]
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] > most // 4:
        return head[: ends[-1]]
    words = head[: most - 1].rpartition(" ")[0] or head[: most - 1]
    return words.rstrip(" ,;:-") + "."


def _spoken_character(character: str) -> str:
    if character in "\n\t\r":
        return " "
    category = unicodedata.category(character)
    if category in {"Cc", "Cf", "Cs", "Co", "Cn"}:
        return " " if category == "Cc" else ""
    if category == "So" and character != "°":
        return " "
    if category in {"Mn", "Me"} and "\ufe00" <= character <= "\ufe0f":
        return ""
    return character


def without_marks(text: str) -> str:
    """Return text without any mark of markup, complete or not: the last step before a voice. Line
    breaks stay: voices pause at them."""
    lines = (_LEFT_MARKS.sub(" ", one_line(line)) for line in text.splitlines())
    return "\n".join(" ".join(line.split()) for line in lines if has_words(line))


def has_words(text: str) -> bool:
    """Return True if a voice finds something to say: a letter, a digit or a currency sign."""
    return any(c.isalnum() or unicodedata.category(c) == "Sc" for c in text)
