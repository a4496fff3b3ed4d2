"""Telephone numbers, read strictly: what a number is, or that it cannot be read.

Texts from outside become numbers only if they consist of ASCII digits, an optional `+` in front and
the separators that people write. Letters, digits of other scripts, pauses, `&`, `,`, `*` and all
other characters that a dialplan or a telephone could interpret make a text unreadable.

Classes come from the metadata of libphonenumber (`phonenumberslite`). The package is imported with
the first number (about 50 ms, `warm` does it ahead); 4,096 readings are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from cordboard.config.sections.firewall import NumberClass

Kind: TypeAlias = NumberClass | Literal["extension"]

LONGEST = 32
"""Characters of the longest text that is read; E.164 allows 15 digits."""
SHORT = 6
"""Digits of the longest short code or extension."""
SATELLITE = (870, 881, 882, 883)
"""Country codes of satellite and other global networks (ITU-T E.164, list of assigned codes)."""
EVERYWHERE_EMERGENCY = frozenset({"112", "911"})
"""Emergency numbers of mobile networks in all countries (3GPP TS 22.101)."""

_WRITTEN = re.compile(r"\+?\(?[0-9](?:[0-9 ().-]*[0-9])?", re.ASCII)
_SEPARATORS = str.maketrans("", "", " ().-")


@dataclass(frozen=True, slots=True)
class Number:
    """A number that was read."""

    text: str
    """`+` and digits for a number of a numbering plan; digits alone for a short one."""
    kind: Kind
    country: str = ""
    """ISO 3166 code of its country; empty for short numbers, extensions and global networks."""

    @property
    def is_full(self) -> bool:
        """True for a number of the international numbering plan."""
        return self.text.startswith("+")


def read_number(text: object, home: str | None) -> Number | None:
    """Return the number in a text from outside; None if the text is not a number.

    `home` is the ISO code of the country of numbers without a country code.
    """
    if not isinstance(text, str) or len(text) > LONGEST or _WRITTEN.fullmatch(text) is None:
        return None
    return _read(text.translate(_SEPARATORS), home)


def caller_of(text: str, home: str | None) -> str:
    """Return a caller's number as `Number.text`; empty if it cannot be read."""
    number = read_number(text, home)
    return number.text if number is not None else ""


def written_forms(number: str, home: str | None) -> tuple[str, ...]:
    """Return the other forms in which a telephone line may give a number: in E.164, without the
    plus sign, with `00`, and as it is dialled within `home`. Empty if it cannot be read."""
    import phonenumbers

    read = read_number(number, home) or read_number(f"+{number}", home)
    if read is None or not read.is_full:
        return ()
    digits = read.text.removeprefix("+")
    forms = [read.text, digits, f"00{digits}"]
    parsed = phonenumbers.parse(read.text)
    if home is not None and parsed.country_code == phonenumbers.country_code_for_region(home):
        style = phonenumbers.PhoneNumberFormat.NATIONAL
        dialled = phonenumbers.format_number(parsed, style).translate(_SEPARATORS)
        forms += [dialled, phonenumbers.national_significant_number(parsed)]
    return tuple(dict.fromkeys(each for each in forms if each != number.translate(_SEPARATORS)))


def read_target(text: str, home: str | None) -> Number:
    """Return the number in the target of a configured destination. A target that is not a number of
    a numbering plan, such as `6001` or `sales-queue`, is an extension of the telephone system."""
    number = read_number(text, home)
    if number is None or number.kind in ("short_code", "unknown"):
        return Number(text, "extension")
    return number


def read_endpoint(endpoint: str, home: str | None) -> Number:
    """Return the number that a channel such as `PJSIP/+4722123456@trunk`, `DAHDI/g1/22123456` or
    `PJSIP/trunk/sip:+4722123456@host` dials; an extension if it dials none."""
    dialled = endpoint.rpartition("/")[2].partition("@")[0]
    return read_target(dialled.removeprefix("sip:").removeprefix("sips:"), home)


def warm(home: str | None) -> None:
    """Import the metadata, so that the first call does not wait for it. Blocks."""
    _read("+12025550123" if home is None else "22123456", home)


@lru_cache(maxsize=4_096)
def _read(digits: str, home: str | None) -> Number | None:
    if _is_emergency(digits, home):
        return Number(digits, "emergency", home or "")
    if not digits.startswith("+"):
        if len(digits) <= SHORT:
            return Number(digits, "short_code", home or "")
        if home is None and digits.startswith("00"):
            digits = f"+{digits[2:]}"
    return _full(digits, home)


def _is_emergency(digits: str, home: str | None) -> bool:
    if digits in EVERYWHERE_EMERGENCY:
        return True
    if home is None or len(digits) > SHORT:
        return False
    from phonenumbers import shortnumberinfo  # imported with the first number

    return shortnumberinfo.is_emergency_number(digits, home)


def _full(digits: str, home: str | None) -> Number | None:
    import phonenumbers

    try:
        parsed = phonenumbers.parse(digits, home)
    except phonenumbers.NumberParseException:
        return Number(digits, "unknown") if not digits.startswith("+") else None
    text = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
    if len(text) > 16:
        return None
    region = phonenumbers.region_code_for_number(parsed)
    country = region if region is not None and region != "001" else ""
    if parsed.country_code in SATELLITE:
        return Number(text, "satellite")
    # The type of a number that its country does not have is unknown: no other check is needed.
    return Number(text, _CLASSES.get(phonenumbers.number_type(parsed), "unknown"), country)


_CLASSES: dict[int, NumberClass] = {
    0: "fixed",
    1: "mobile",
    2: "fixed",  # fixed or mobile: one plan, as in the United States
    3: "toll_free",
    4: "premium",
    5: "shared_cost",
    6: "voip",
    7: "personal",
    8: "pager",
    9: "company",
    10: "voicemail",
}
"""`PhoneNumberType` of libphonenumber → class."""


def matches(number: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a pattern is the number, or a beginning of it followed by `*`."""
    for pattern in patterns:
        if pattern.endswith("*"):
            if number.startswith(pattern[:-1]):
                return True
        elif number == pattern:
            return True
    return False
