"""Times of day as callers say them. English. Pure.

`half past five`, `half five`, `quarter to eight`, `5 pm`, `seven thirty in the evening`, `17:30`,
`7.30 p.m.`, `nineteen hundred hours`, `noon`. Values are ISO (`17:30`); the spoken forms are for
sentences.

Callers seldom say which half of the day they mean. Where the bounds of a value are known, `seven`
is the one of 07:00 and 19:00 that lies within them; otherwise the earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time

from cordboard.agents.rules.numbers import NUMBER_WORDS, in_words, read_number

LONGEST_TIME = 8
"""Most words of a time."""
_MIDNIGHT, _LAST_MINUTE = time(0), time(23, 59)
_HALVES = {
    "in the morning": "am", "this morning": "am", "in the afternoon": "pm", "p m": "pm",
    "this afternoon": "pm", "in the evening": "pm", "this evening": "pm", "at night": "pm",
    "tonight": "pm", "a m": "am", "pm": "pm", "am": "am",
}  # fmt: skip
_PAST = re.compile(r"([\w ]+?)(?: minutes)? (past|to|after|before) ([\w ]+)")
_FIGURES = re.compile(r"(\d{1,2})[:.](\d{2})|(\d{1,2})(\d{2})")
"""17:30, 7.30; 1730 and 730, as recognisers write `seven thirty`."""
TIME_WORDS = NUMBER_WORDS | frozenset(
    "half quarter a past to after before minutes in the this morning afternoon evening at night"
    " tonight am pm p m oclock hours noon midday midnight".split()
)
_MINUTES = {"half": 30, "a half": 30, "quarter": 15, "a quarter": 15}


@dataclass(frozen=True, slots=True)
class _Clock:
    """The hands of a clock; `certain`: True if the half of the day is clear."""

    hour: int
    minute: int
    certain: bool = False


def read_time(
    words: Sequence[str], earliest: time = _MIDNIGHT, latest: time = _LAST_MINUTE
) -> time | None:
    """Return the time of day that these words name, all of them; None when they name none.

    It need not lie between `earliest` and `latest`: they only choose the half of the day where it
    is not spoken. Without them a bare `five` is 05:00.
    """
    text = " ".join(word for word in words if word != "at")
    half = ""
    for ending, meaning in _HALVES.items():
        if text.endswith(f" {ending}"):
            text, half = text.removesuffix(f" {ending}"), meaning
            break
    if text in ("noon", "midday", "midnight"):
        return time(0 if text == "midnight" else 12)
    clock = _clock(text)
    if clock is None or clock.hour > 23 or clock.minute > 59:
        return None
    return _in_half(clock, half, earliest, latest)


def is_within(moment: time, earliest: time, latest: time) -> bool:
    """True if a time lies between two others, which may span midnight."""
    if earliest <= latest:
        return earliest <= moment <= latest
    return moment >= earliest or moment <= latest


def say_time(moment: time) -> str:
    """`five thirty in the afternoon`, `noon`."""
    if moment.minute == 0 and moment.hour in (0, 12):
        return "noon" if moment.hour else "midnight"
    part = "morning" if moment.hour < 12 else "afternoon" if moment.hour < 18 else "evening"
    hour = in_words((moment.hour - 1) % 12 + 1)
    minute = in_words(moment.minute) if moment.minute else ""
    if 0 < moment.minute < 10:
        minute = f"oh {minute}"
    return f"{hour} {minute or 'o clock'} in the {part}"


def _in_half(clock: _Clock, half: str, earliest: time, latest: time) -> time:
    hour, other = clock.hour, (clock.hour + 12) % 24
    if half == "pm" and hour < 12:
        hour = other
    elif half == "am" and hour == 12:
        hour = 0
    moment = time(hour, clock.minute)
    if half or clock.certain or hour > 12 or is_within(moment, earliest, latest):
        return moment
    rather = time(other, clock.minute)
    return rather if is_within(rather, earliest, latest) else moment


def _clock(text: str) -> _Clock | None:
    text = text.removesuffix(" hours").removesuffix(" oclock")
    if match := _FIGURES.fullmatch(text):
        hour, minute = match[1] or match[3], match[2] or match[4]
        return _Clock(int(hour), int(minute), certain=hour.startswith("0"))
    if text.endswith(" hundred"):
        hundreds = _hour(text.removesuffix(" hundred"))
        return None if hundreds is None else _Clock(hundreds, 0, certain=True)
    if match := _PAST.fullmatch(text):
        return _past(match[1], match[2], match[3])
    if text.startswith("half "):
        return _past("half", "past", text.removeprefix("half "))
    return _hour_and_minute(text.split())


def _past(said: str, direction: str, hour_said: str) -> _Clock | None:
    """`quarter past five`, `ten to eight`."""
    minutes = _MINUTES.get(said, read_number(said.split()))
    hour = _hour(hour_said)
    if minutes is None or hour is None or not 0 < minutes < 60:
        return None
    if direction in ("past", "after"):
        return _Clock(hour, minutes)
    return _Clock((hour - 1) % 24, 60 - minutes)


def _hour_and_minute(words: Sequence[str]) -> _Clock | None:
    """`seven`, `seven thirty`, `seven oh five`, `oh seven thirty`."""
    certain = bool(words) and words[0] in ("oh", "zero")
    if certain and len(words) > 1:
        words = words[1:]
    if len(words) > 1 and read_number(words) is not None:
        words = [" ".join(words)]  # `twenty five` is not `twenty oh five`
    for cut in range(len(words), 0, -1):
        hour = _hour(" ".join(words[:cut]))
        minute = read_number([w for w in words[cut:] if w != "oh"]) if words[cut:] else 0
        if hour is not None and minute is not None and minute < 60:
            return _Clock(hour, minute, certain)
    return None


def _hour(said: str) -> int | None:
    words = said.split()
    if len(words) > 1 and words[0] in ("oh", "zero"):
        words = words[1:]
    hour = read_number(words)
    return hour if hour is not None and hour < 24 else None
