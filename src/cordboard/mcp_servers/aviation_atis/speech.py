"""``ParsedReport`` and an aerodrome's settings -> the text to be spoken.

Short sentences in the order of ICAO Annex 11, 4.3.7: aerodrome, time, runway, wind, visibility,
runway visual range, weather, cloud, temperature, dew point, pressure, trend, then the operator's
additions. The text has only letters, spaces, commas, full stops and apostrophes: no digits, no
symbols. Values missing in the report are announced as not available, unreadable parts as
unreadable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from .model import (
    CloudLayer,
    Conditions,
    Information,
    ParsedReport,
    RunwayVisualRange,
    Trend,
    Visibility,
    Wind,
)
from .phrases import (
    ALPHABET,
    compass,
    digits,
    frequency,
    listed,
    rounded,
    runway,
    signed,
    speakable,
    spelled,
)

SAMPLE_NOTICE = "Sample data, not for flight."

_SPEED_UNITS = {"KT": "knots", "MPS": "metres per second", "KMH": "kilometres per hour"}
_COVERS = {"FEW": "few", "SCT": "scattered", "BKN": "broken", "OVC": "overcast"}
_CLEAR = {
    "NSC": "No significant cloud",
    "NCD": "No cloud detected",
    "CLR": "Sky clear",
    "SKC": "Sky clear",
}
_WITHOUT_AMOUNT = (*_CLEAR, "VV")
_KINDS = {"CB": "cumulonimbus", "TCU": "towering cumulus"}
_FRACTIONS = {2: ("half", "halves"), 4: ("quarter", "quarters"), 8: ("eighth", "eighths")}
_TREND_WORDS = {"TEMPO": "Temporarily", "BECMG": "Becoming"}
_TIME_WORDS = {"FM": "from", "TL": "until", "AT": "at"}


def aerodrome_name(name: str | None, icao: str) -> str:
    """Return the configured name in speakable form; without one the spelled ICAO code."""
    return speakable(name or "") or spelled(icao)


def atis_text(
    report: ParsedReport,
    observed_at: datetime,
    *,
    name: str | None,
    runways: Sequence[str] = (),
    frequency_mhz: str | None = None,
    advisories: Sequence[str] = (),
    information: Information | None = None,
    explicit_not_available: bool = False,
    sample_data: bool = False,
) -> str:
    """Return the whole announcement, sentences separated by one space."""
    sentences = [SAMPLE_NOTICE] if sample_data else []
    sentences += _opening(report, observed_at, name, information)
    if runways:
        sentences.append(f"Runway in use {listed([runway(one) for one in runways])}.")
    elif explicit_not_available:
        sentences.append("Runway in use not available.")
    sentences += _observation(report)
    sentences += _trends(report)
    if frequency_mhz:
        sentences.append(f"Frequency {frequency(frequency_mhz)}.")
    elif explicit_not_available:
        sentences.append("Frequency not available.")
    spoken_advisories = [words for words in map(speakable, advisories) if words]
    sentences += [f"{words[0].upper()}{words[1:]}." for words in spoken_advisories]
    if explicit_not_available and not spoken_advisories:
        sentences.append("Advisories not available.")
    if report.unparsed:
        sentences.append("Part of the report could not be read.")
    return " ".join(sentences)


def _opening(
    report: ParsedReport, observed_at: datetime, name: str | None, information: Information | None
) -> list[str]:
    spoken_name = aerodrome_name(name, report.station)
    if information is None:
        sentences = [f"{spoken_name}."]
    else:
        sentences = [f"{spoken_name} information {ALPHABET[information.letter]}."]
        if information.origin == "derived_from_observation_time":
            sentences.append("Information letter derived from the observation time.")
    sentences.append(f"Time {digits(f'{observed_at:%H%M}')} zulu.")
    for flag, sentence in (
        (report.special, "Special report."),
        (report.corrected, "Corrected report."),
        (report.automatic, "Automatic report."),
    ):
        if flag:
            sentences.append(sentence)
    return sentences


def _observation(report: ParsedReport) -> list[str]:
    sentences = [f"{_wind(report.wind)}." if report.wind else "Wind not available."]
    if report.cavok:
        sentences.append("Cav oh kay.")
    elif report.visibility:
        sentences.append(f"Visibility {_all_visibility(report.visibility)}.")
    else:
        sentences.append("Visibility not available.")
    sentences += [_runway_visual_range(one) for one in report.runway_visual_range]
    if report.weather:
        sentences.append(f"Weather, {', '.join(one.words for one in report.weather)}.")
    elif "weather" in report.not_reported:
        sentences.append("Weather not available.")
    sentences += _clouds(report.clouds)
    if not report.clouds and "cloud" in report.not_reported:
        sentences.append("Cloud not available.")
    sentences += _temperature_and_pressure(report)
    if report.recent_weather:
        recent = ", ".join(one.words for one in report.recent_weather)
        sentences.append(f"Recent weather, {recent}.")
    for name in report.wind_shear:
        where = "all runways" if name == "ALL" else f"runway {runway(name)}"
        sentences.append(f"Wind shear, {where}.")
    return sentences


def _temperature_and_pressure(report: ParsedReport) -> list[str]:
    sentences = [
        _or_not_available("Temperature", report.temperature_c),
        _or_not_available("Dew point", report.dew_point_c),
    ]
    if report.qnh_hpa is not None:
        sentences.append(f"Q N H {digits(f'{report.qnh_hpa:04d}')}.")
    elif report.altimeter_inhg is not None:
        sentences.append(f"Altimeter {digits(f'{report.altimeter_inhg:.2f}')}.")
    else:
        sentences.append("Pressure not available.")
    return sentences


def _or_not_available(what: str, celsius: int | None) -> str:
    return f"{what} not available." if celsius is None else f"{what} {signed(celsius)}."


def _wind(wind: Wind) -> str:
    if wind.calm:
        return "Wind calm"
    if wind.variable:
        parts = ["Wind variable"]
    elif wind.direction_degrees is None:
        parts = ["Wind direction not available"]
    else:
        parts = [f"Wind {digits(f'{wind.direction_degrees:03d}')} degrees"]
    unit = _SPEED_UNITS[wind.unit]
    if wind.speed is None:
        parts.append("speed not available")
    else:
        more = "more than " if wind.speed_bound == "more_than" else ""
        parts.append(f"{more}{digits(wind.speed)} {_singular(unit, wind.speed)}")
    if wind.gust is not None:
        parts.append(f"gusting {digits(wind.gust)} {_singular(unit, wind.gust)}")
    if wind.varying_from_degrees is not None and wind.varying_to_degrees is not None:
        low, high = (f"{one:03d}" for one in (wind.varying_from_degrees, wind.varying_to_degrees))
        parts.append(f"varying between {digits(low)} and {digits(high)} degrees")
    return ", ".join(parts)


def _singular(unit: str, number: float) -> str:
    first, *rest = unit.split(" ")
    return " ".join([first.removesuffix("s"), *rest]) if number == 1 else unit


def _all_visibility(values: Sequence[Visibility]) -> str:
    return ", ".join(_visibility(value) for value in values)


def _visibility(value: Visibility) -> str:
    if value.unit == "SM":
        text = _miles(value.distance)
    else:
        metres = round(value.distance * (1000 if value.unit == "KM" else 1))
        # ICAO Annex 3, appendix 3: reported in metres below five kilometres, in kilometres above.
        if metres >= 5000 and metres % 1000 == 0:
            text = f"{digits(metres // 1000)} kilometres"
        else:
            text = f"{rounded(metres)} metres"
    if value.bound == "at_least":
        text = f"{text} or more"
    elif value.bound is not None:
        text = f"{'more' if value.bound == 'more_than' else 'less'} than {text}"
    if value.direction_degrees is not None:
        text = f"{text} to the {compass(value.direction_degrees)}"
    return text


def _miles(distance: float) -> str:
    whole, part = divmod(Fraction(distance).limit_denominator(16), 1)
    if not part:
        return f"{digits(whole)} {_singular('miles', whole)}"
    one, many = _FRACTIONS.get(part.denominator, ("sixteenth", "sixteenths"))
    fraction = f"{digits(part.numerator)} {one if part.numerator == 1 else many}"
    return f"{digits(whole)} and {fraction} miles" if whole else f"{fraction} mile"


def _runway_visual_range(value: RunwayVisualRange) -> str:
    unit = "feet" if value.unit == "FT" else "metres"
    limits = {"more_than": "more than ", "less_than": "less than "}
    low = f"{limits.get(value.low_bound or '', '')}{rounded(value.low)}"
    if value.high is None:
        text = f"{low} {unit}"
    else:
        high = f"{limits.get(value.high_bound or '', '')}{rounded(value.high)}"
        text = f"varying between {low} and {high} {unit}"
    tendency = f", {value.tendency}" if value.tendency else ""
    return f"Runway visual range, runway {runway(value.runway)}, {text}{tendency}."


def _clouds(layers: Sequence[CloudLayer]) -> list[str]:
    """Return clear-sky and vertical-visibility groups as single sentences, layers as one."""
    sentences = [f"{_cloud(layer)}." for layer in layers if layer.cover in _WITHOUT_AMOUNT]
    counted = [_cloud(layer) for layer in layers if layer.cover not in _WITHOUT_AMOUNT]
    return [*sentences, f"Cloud {', '.join(counted)}."] if counted else sentences


def _cloud(layer: CloudLayer) -> str:
    if layer.cover in _CLEAR:
        return _CLEAR[layer.cover]
    if layer.cover == "VV":
        if layer.base_feet is None:
            return "Sky obscured"
        return f"Vertical visibility {rounded(layer.base_feet)} feet"
    kind = _KINDS.get(layer.kind, f"type {spelled(layer.kind)}") if layer.kind else ""
    cover = _COVERS.get(layer.cover, "" if kind else "amount not available")
    what = " ".join(part for part in (cover, kind) if part)
    if layer.base_feet is None:
        return f"{what}, base not available"
    return f"{what} {rounded(layer.base_feet)} feet"


def _trends(report: ParsedReport) -> list[str]:
    sentences = []
    for trend in report.trends:
        if trend.kind == "NOSIG":
            sentences.append("No significant change.")
            continue
        opening = ", ".join([_TREND_WORDS[trend.kind], *_trend_times(trend)])
        changes = _changes(trend)
        if changes:
            sentences.append(f"{opening}, {', '.join(changes)}.")
    return sentences


def _trend_times(trend: Trend) -> list[str]:
    return [f"{_TIME_WORDS[time[:2]]} {digits(time[2:])}" for time in trend.times]


def _changes(conditions: Conditions) -> list[str]:
    changes = []
    if conditions.wind is not None:
        changes.append(_wind(conditions.wind).lower())
    if conditions.cavok:
        changes.append("cav oh kay")
    if conditions.visibility:
        changes.append(f"visibility {_all_visibility(conditions.visibility)}")
    changes += [one.words for one in conditions.weather]
    changes += [one[0].lower() + one[1:-1] for one in _clouds(conditions.clouds)]
    return changes
