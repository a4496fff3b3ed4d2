"""Present-weather groups in words: ``-SHRASN`` -> "light showers of rain and snow".

The codes are those of WMO-No. 306, code table 4678.
"""

from __future__ import annotations

from .phrases import listed

_FALLING = {
    "DZ": "drizzle",
    "RA": "rain",
    "SN": "snow",
    "SG": "snow grains",
    "IC": "ice crystals",
    "PL": "ice pellets",
    "GR": "hail",
    "GS": "small hail",
    "UP": "unidentified precipitation",
}
_OBSCURING = {
    "BR": "mist",
    "FG": "fog",
    "FU": "smoke",
    "VA": "volcanic ash",
    "DU": "widespread dust",
    "SA": "sand",
    "HZ": "haze",
    "PY": "spray",
}
_OTHER = {
    "PO": "dust whirls",
    "SQ": "squalls",
    "FC": "funnel cloud",
    "SS": "sandstorm",
    "DS": "dust storm",
    "NSW": "no significant weather",
}
_DESCRIBED = {
    "MI": "shallow",
    "PR": "partial",
    "BC": "patches of",
    "DR": "low drifting",
    "BL": "blowing",
    "FZ": "freezing",
}


def words(intensity: str, descriptors: str, falling: str, obscuring: str, other: str) -> str | None:
    """Return the group in words, or None if a code in it is unknown.

    Codes come concatenated, two letters each (``"RASN"``), except ``other`` (``"NSW"``).
    """
    strength = {"-": "light", "+": "heavy"}.get(intensity.replace("VC", ""), "")
    if intensity.replace("VC", "") == "+" and other == "FC":
        return "tornado or waterspout"
    matter = _matter(falling, obscuring, other)
    if matter is None:
        return None
    kinds = _pairs(descriptors)
    if any(kind not in _DESCRIBED and kind not in ("SH", "TS") for kind in kinds):
        return None
    described = " ".join(_DESCRIBED[kind] for kind in kinds if kind in _DESCRIBED)
    phrase = " ".join(part for part in (strength, described, matter) if part)
    if "SH" in kinds:
        phrase = f"{strength} showers of {matter}" if matter else f"{strength} showers"
    if "TS" in kinds:
        phrase = f"thunderstorm with {phrase}" if matter else f"{strength} thunderstorm"
    if not phrase:
        return None
    if "VC" in intensity:
        phrase = f"{phrase} in the vicinity"
    return phrase.strip()


def _matter(falling: str, obscuring: str, other: str) -> str | None:
    names = []
    for code in _pairs(falling):
        if code not in _FALLING:
            return None
        names.append(_FALLING[code])
    for code, table in ((obscuring, _OBSCURING), (other, _OTHER)):
        if code:
            if code not in table:
                return None
            names.append(table[code])
    return listed(names) if names else ""


def _pairs(codes: str) -> list[str]:
    return [codes[i : i + 2] for i in range(0, len(codes), 2)]
