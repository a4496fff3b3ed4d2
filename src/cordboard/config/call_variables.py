"""The variables that every call has: their names, and their values for one call.

Prompts and greetings refer to them as `{caller_name}` (`cordboard.config.templates`), data for
tools as `{call.caller_name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

CALL_VARIABLES: Mapping[str, str] = {
    "caller_number": 'The caller\'s number; "unknown" if withheld.',
    "caller_name": 'The caller\'s name from the line; "there" if the line has none.',
    "called_number": 'The dialled number; "unknown" if the line does not give it.',
    "call_id": "The id of the call, as in the ledger and the logs.",
    "context_name": "The name of the context.",
    "provider_name": "The name of the provider that speaks.",
    "current_date": "Today's date, such as 21 November 2026.",
    "current_weekday": "Today's weekday, such as Saturday.",
    "current_time": "The time at which the call began, such as 14:05.",
    "current_datetime_iso": "Date and time in ISO 8601, with the offset from UTC.",
}
"""Variables of every call, with descriptions for the documentation. Contexts may declare more."""

_WHEN_UNKNOWN = {"caller_number": "unknown", "caller_name": "there", "called_number": "unknown"}
_LONGEST_VALUE = 200
"""Longer values from the line are cut: they are not ours and become part of the prompt."""

_NOT_PRINTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def call_variables(
    *,
    call_id: str,
    context_name: str,
    provider_name: str,
    caller_number: str,
    caller_name: str,
    called_number: str,
    now: datetime,
    declared: Iterable[str] = (),
    channel: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the values of one call.

    `declared` are the channel variables of the context, `channel` those of the line; one that the
    line does not have is empty. `now` is the local time at the start of the call. Values from the
    line are cleaned: control characters and line breaks become spaces, at most 200 characters.
    """
    channel = channel or {}
    line_values = {
        "caller_number": caller_number,
        "caller_name": caller_name,
        "called_number": called_number,
        **{name: channel.get(name, "") for name in declared if name not in CALL_VARIABLES},
    }
    values = {name: clean(value) for name, value in line_values.items()}
    values.update({name: text for name, text in _WHEN_UNKNOWN.items() if not values[name]})
    values.update(
        call_id=call_id,
        context_name=context_name,
        provider_name=provider_name,
        current_date=f"{now.day} {now:%B %Y}",
        current_weekday=f"{now:%A}",
        current_time=f"{now:%H:%M}",
        current_datetime_iso=now.isoformat(timespec="seconds"),
    )
    return values


def clean(value: str, most: int = _LONGEST_VALUE) -> str:
    """Return outside text fit for a prompt: one line, no control characters, cut."""
    return _NOT_PRINTED.sub(" ", value).strip()[:most]
