"""Numbers that prove themselves by their check digits: cards, IBANs, and ids of several countries.

Each check takes digits (or letters and digits, for those that have both) without separators. The
rules are those of ISO/IEC 7812-1 (Luhn), ISO 13616 (IBAN) and ISO 7064, and of the authority that
issues the id. A number of the right length with the right check digits may still be an order
number: one of 10 random numbers passes Luhn, one of 97 passes mod 97.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

IBAN_LENGTHS: Mapping[str, int] = MappingProxyType(
    {
        code: int(length)
        for code, length in re.findall(
            r"([A-Z]{2})(\d{2})",
            "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28"
            "EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26"
            "IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28"
            "NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25"
            "SV28TL23TN24TR26UA29VA22VG24XK20YE30",
        )
    }
)
"""Characters of an IBAN by country (SWIFT's IBAN registry)."""
_CARD = range(13, 20)
_CARD_BEGINS = "23456"
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
"""Luhn's sum of the digits of each digit twice."""


def is_card(digits: str) -> bool:
    """True for the number of a payment card: 13 to 19 digits of a network's range, with Luhn."""
    return len(digits) in _CARD and digits[0] in _CARD_BEGINS and luhn(digits)


def cards_in(digits: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part of digits that is a card's number, the longest first."""
    begins = [at for at, digit in enumerate(digits[: 1 - _CARD[0]]) if digit in _CARD_BEGINS]
    if not begins:
        return
    plain, doubled = [0], [0]  # Luhn's sums of the first digits, by what the last of them counts
    for digit in map(int, digits):
        last = plain[-1]
        plain.append(doubled[-1] + digit)
        doubled.append(last + _DOUBLED[digit])
    for length in reversed(_CARD):
        before = doubled if length % 2 else plain
        for begin in begins:
            if begin + length > len(digits):
                break
            if (plain[begin + length] - before[begin]) % 10 == 0:
                yield begin, begin + length


def luhn(digits: str) -> bool:
    """True if the last digit is the check digit of ISO/IEC 7812-1."""
    total = sum(map(int, digits[-1::-2]))
    return (total + sum(_DOUBLED[int(each)] for each in digits[-2::-2])) % 10 == 0


def is_iban(text: str) -> bool:
    """True for an IBAN of a known country, in capitals and without spaces."""
    if len(text) != IBAN_LENGTHS.get(text[:2]) or not text.isascii() or not text[2:4].isdecimal():
        return False
    return int("".join(str(int(sign, 36)) for sign in text[4:] + text[:4])) % 97 == 1


def _weighted(digits: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _de_tax_id(digits: str) -> bool:
    """Steueridentifikationsnummer: ISO 7064 mod 11,10; one of the first ten digits is repeated."""
    if digits[0] == "0" or not 8 <= len(set(digits[:10])) <= 9:
        return False
    product = 10
    for digit in digits[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def _uk_nhs(digits: str) -> bool:
    check = 11 - _weighted(digits[:9], range(10, 1, -1)) % 11
    return check != 10 and check % 11 == int(digits[9])


def _nl_bsn(digits: str) -> bool:
    total = _weighted(digits[:8], range(9, 1, -1)) - int(digits[8])
    return any(map(int, digits)) and total % 11 == 0


def _br_cpf(digits: str) -> bool:
    first = _weighted(digits[:9], range(10, 1, -1)) * 10 % 11 % 10
    second = _weighted(digits[:10], range(11, 1, -1)) * 10 % 11 % 10
    return len(set(digits)) > 1 and digits[9:] == f"{first}{second}"


def _pl_pesel(digits: str) -> bool:
    month = int(digits[2:4]) % 20
    total = _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1))
    return 1 <= month <= 12 and total % 10 == 0


def _fr_nir(digits: str) -> bool:
    return digits[0] in "12" and 97 - int(digits[:13]) % 97 == int(digits[13:])


_D5 = tuple(
    tuple((a + b) % 5 if a < 5 else 5 + (a - b) % 5 for b in range(5))
    + tuple(5 + (a + b) % 5 if a < 5 else (a - b) % 5 for b in range(5))
    for a in range(10)
)
"""Multiplication of the dihedral group of the pentagon."""
_SHIFTS = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def verhoeff(digits: str) -> bool:
    """True if the last digit is the check digit of Verhoeff's scheme."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        moved = int(digit)
        for _ in range(place % 8):
            moved = _SHIFTS[moved]
        check = _D5[check][moved]
    return check == 0


def _in_aadhaar(digits: str) -> bool:
    return digits[0] not in "01" and verhoeff(digits)


def _ca_sin(digits: str) -> bool:
    return digits[0] != "0" and luhn(digits)


IDS: Mapping[str, tuple[int, Callable[[str], bool]]] = MappingProxyType(
    {
        "br_cpf": (11, _br_cpf),
        "ca_sin": (9, _ca_sin),
        "de_tax_id": (11, _de_tax_id),
        "fr_nir": (15, _fr_nir),
        "in_aadhaar": (12, _in_aadhaar),
        "nl_bsn": (9, _nl_bsn),
        "pl_pesel": (11, _pl_pesel),
        "uk_nhs": (10, _uk_nhs),
    }
)
"""Ids of people that are digits only: their length, and their check."""
