"""Numbers that every voice says right: 1,990 and not a year, "minus 5", "5 euros and 20 cents",
and words where no voice has any ("about 1.2 quadrillion").

Digits stay digits: every voice reads 2500 in its own way. Functions return None for unsuitable
values, and never raise, whatever the size: an integer of a million digits is never turned to text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

GREATEST_IN_DIGITS = 10**15
"""Numbers from here on are rounded and spoken in words."""
_GREATEST = 10**36
_SCALES = (
    (33, "decillion"),
    (30, "nonillion"),
    (27, "octillion"),
    (24, "septillion"),
    (21, "sextillion"),
    (18, "quintillion"),
    (15, "quadrillion"),
)
TOO_LARGE = "a number too large to say"
_NUMERAL = re.compile(r"\s*[-+\u2212]?(?:\d{1,40}|\d{1,3}(?:,\d{3}){1,12})(?:\.\d{1,40})?\s*")

CURRENCIES: Mapping[str, tuple[str, str, str, str]] = MappingProxyType(
    {
        "AUD": ("Australian dollar", "Australian dollars", "cent", "cents"),
        "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
        "CHF": ("franc", "francs", "centime", "centimes"),
        "EUR": ("euro", "euros", "cent", "cents"),
        "GBP": ("pound", "pounds", "penny", "pence"),
        "INR": ("rupee", "rupees", "paisa", "paise"),
        "JPY": ("yen", "yen", "", ""),
        "USD": ("dollar", "dollars", "cent", "cents"),
    }
)
"""ISO 4217 code → one, many, one hundredth, many hundredths."""
SYMBOLS: Mapping[str, str] = MappingProxyType({"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"})

Number = int | float


def as_number(value: object) -> Number | None:
    """Return a number, or the number in a text; None for all else, and for infinity and NaN."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str) and _NUMERAL.fullmatch(value):
        digits = value.strip().replace(",", "").replace("\u2212", "-")
        return float(digits) if "." in digits else int(digits)
    return None


def number(value: object, grouped: bool = True) -> str | None:
    """Return a quantity: `1,234,567`, `minus 5`, `21.5`, `about 1.2 quadrillion`."""
    found = as_number(value)
    if found is None:
        return None
    size = abs(found)
    if size >= GREATEST_IN_DIGITS:
        return _huge(found)
    if isinstance(size, int) or size == int(size):
        return _minus(found) + (f"{int(size):,}" if grouped else str(int(size)))
    return _minus(found) + _decimals(size, grouped)


def fixed(value: object, decimals: int) -> str | None:
    """Return a number with this many decimals: `1,234.50`."""
    found = as_number(value)
    if found is None:
        return None
    size = abs(found)
    if size >= GREATEST_IN_DIGITS:
        return _huge(found)
    text = f"{size:,.{decimals}f}"
    return (_minus(found) if text.strip("0.,") else "") + text


def ordinal(value: object) -> str | None:
    """Return `1st`, `22nd`, `103rd` for a whole number that is not negative."""
    found = as_number(value)
    if found is None or not 0 <= found < GREATEST_IN_DIGITS or found != int(found):
        return None
    whole = int(found)
    teen = 10 <= whole % 100 <= 20
    return f"{whole:,}" + ("th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th"))


def year(value: object) -> str | None:
    """Return a year of four digits, which voices read as one."""
    found = as_number(value)
    if found is None or not 1000 <= found <= 9999 or found != int(found):
        return None
    return str(int(found))


def money(value: object, currency: str) -> str | None:
    """Return `5 euros and 20 cents`; a currency outside `CURRENCIES` is spelled."""
    found = as_number(value)
    if found is None:
        return None
    one, many, hundredth, hundredths = CURRENCIES.get(
        currency, (" ".join(currency), " ".join(currency), "", "")
    )
    size = abs(found)
    if size >= GREATEST_IN_DIGITS:
        return f"{_huge(found)} {many}"
    if not hundredth:
        words = number(size) or ""
        return f"{_minus(found)}{words} {one if size == 1 else many}"
    whole, part = divmod(round(size * 100), 100)
    pieces = [f"{whole:,} {one if whole == 1 else many}"] if whole or not part else []
    pieces += [f"{part} {hundredth if part == 1 else hundredths}"] if part else []
    return (_minus(found) if whole or part else "") + " and ".join(pieces)


def _minus(value: Number) -> str:
    return "minus " if value < 0 else ""


def _decimals(size: float, grouped: bool) -> str:
    """Return at most the digits that a listener can take in: three decimals, or three digits."""
    places = 3 if size >= 1 else min(9, 2 - math.floor(math.log10(size)))
    text = f"{size:,.{places}f}" if grouped else f"{size:.{places}f}"
    text = text.rstrip("0").rstrip(".")
    return text if text.strip("0.") else "almost 0"


def _huge(value: Number) -> str:
    size = abs(value)
    if size >= _GREATEST:
        return TOO_LARGE
    for power, name in _SCALES:
        if size >= 10**power:
            rounded = round(float(size) / 10**power, 1)
            return f"about {_minus(value)}{rounded:g} {name}" if rounded < 1000 else TOO_LARGE
    return f"about {_minus(value)}1 {_SCALES[-1][1]}"
