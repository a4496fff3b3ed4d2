"""METAR text -> ``ParsedReport``, by the ``metar`` library.

The library does the parsing. This module corrects its weaknesses, so that no value is invented
(each case measured with metar 2.0.2):

- ``////`` for visibility is parsed as 10 km, ``//`` as a weather group: such groups are removed
  first and listed in ``not_reported``;
- a bare number after the temperature is parsed as a pressure, a wind without unit as m/s, and of
  two pressure groups the last wins: those groups are removed as well;
- a visibility such as ``0800`` where a wind may stand is parsed as wind from 0 degrees with 800
  m/s: it is passed as ``0800NDV``, which can only be a visibility;
- runway state and colour groups are ignored silently: they are listed in ``not_spoken``;
- trends are kept as text only: each is parsed again as a small report of its own;
- groups that the library itself cannot read are listed in ``unparsed``.

Month and year, which a METAR lacks, are derived from a given moment and never from the clock.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal, cast

from metar import Metar
from metar.Datatypes import distance, speed

from . import weather_words
from .model import (
    Bound,
    CloudLayer,
    MalformedReportError,
    ParsedReport,
    RunwayVisualRange,
    Trend,
    Visibility,
    Weather,
    Wind,
)

_HEADER = re.compile(
    r"(?:(?P<type>METAR|SPECI)\s+)?(?:(?P<cor>COR)\s+)?(?P<station>[A-Z][A-Z0-9]{3})\s+"
    r"(?P<day>\d\d)(?P<hour>\d\d)(?P<minute>\d\d)Z(?=\s|$)"
)
_MISSING = re.compile(r"[QA]?/{2,}(?:KT|MPS|SM)?")
_NOT_SPOKEN = re.compile(
    r"R\d\d[LCR]*/(?:SNOCLO|CLRD(?:\d\d|//)|[\d/]{6}|/{4}\S*)|R/SNOCLO|\d\d[\d/]{6}|RVRNO"
    r"|(?:BLACK)?(?:BLU|WHT|GRN|YLO|AMB|RED)\+?"
)
_WIND = re.compile(r"(?:[\dO]{3}|VRB|///)P?\d{2,3}\S*(?:KTS?|MPS|KMH)$")
_MAX_KNOTS = 250
_WIND_WITHOUT_UNIT = re.compile(r"(?:\d{3}|VRB|///)P?\d{2,3}(?:G\d{2,3})?(?:K|T|LT)?")
_TEMPERATURE = re.compile(r"(?:M?\d\d|//|XX|MM)/(?:M?\d\d|//|XX|MM)?")
_TREND_WORDS = ("NOSIG", "TEMPO", "BECMG")
_TREND_TIME = re.compile(r"(?:FM|TL|AT)\d{4}")
_FUTURE_TOLERANCE = timedelta(minutes=15)
# Sea-level extremes on record are 870 and 1085 hPa; a value outside is a typing error.
_HPA_LIMITS = (850.0, 1100.0)


@dataclass
class _Sorted:
    """The groups of one section, sorted by how they are used."""

    kept: list[str] = field(default_factory=list)
    not_reported: list[str] = field(default_factory=list)
    not_spoken: list[str] = field(default_factory=list)
    unparsed: list[str] = field(default_factory=list)


def normalised(text: str) -> str:
    """Return one line, in upper case, without the closing ``=``."""
    return " ".join(text.upper().replace("=", " ").split())


def station_of(text: str) -> str | None:
    header = _HEADER.match(normalised(text))
    return header["station"] if header else None


def observation_time(text: str, now: datetime) -> datetime:
    """Return the observation time in UTC: the latest day before ``now`` that fits the day group.

    Raises ``MalformedReportError`` if there is no such group or its time does not exist.
    """
    header = _HEADER.match(normalised(text))
    if header is None:
        raise MalformedReportError("no station and observation time at the start")
    day, hour, minute = int(header["day"]), int(header["hour"]), int(header["minute"])
    if not 1 <= day <= 31 or hour > 23 or minute > 59:
        raise MalformedReportError(f"impossible observation time {header['day']}{hour}{minute}Z")
    moment = now.astimezone(UTC) + _FUTURE_TOLERANCE
    candidate = moment.replace(hour=hour, minute=minute, second=0, microsecond=0)
    while candidate.day != day or candidate > moment:
        candidate -= timedelta(days=1)
    return candidate


def parse(text: str, observed_at: datetime) -> ParsedReport:
    """Parse one METAR or SPECI.

    Raises ``MalformedReportError`` if it has no station and time or breaks the library.
    """
    line = normalised(text)
    header = _HEADER.match(line)
    if header is None:
        raise MalformedReportError("no station and observation time at the start")
    body, _, remarks = f"{line[header.end() :]} ".partition(" RMK ")
    groups = body.split()
    flags, groups = _flags(groups)
    trend_at = next((i for i, group in enumerate(groups) if group in _TREND_WORDS), len(groups))
    sections = _sorted_groups(groups[:trend_at])
    metar = _library(header["station"], sections, observed_at)
    trends, odd = _trends(groups[trend_at:], header["station"], observed_at)
    qnh, altimeter = _pressure(metar, sections)
    return ParsedReport(
        station=header["station"],
        special=header["type"] == "SPECI",
        automatic="AUTO" in flags,
        corrected=header["cor"] is not None or any(f.startswith("C") for f in flags),
        wind=_wind(metar, sections),
        visibility=_visibility(metar, sections),
        cavok="CAVOK" in sections.kept,
        runway_visual_range=_runway_visual_range(metar),
        weather=_weather(metar.weather, sections),
        clouds=_clouds(metar),
        temperature_c=None if metar.temp is None else round(metar.temp.value("C")),
        dew_point_c=None if metar.dewpt is None else round(metar.dewpt.value("C")),
        qnh_hpa=qnh,
        altimeter_inhg=altimeter,
        recent_weather=_weather(metar.recent, sections, prefix="RE"),
        wind_shear=list(metar.windshear),
        trends=trends,
        remarks=remarks.strip() or None,
        not_reported=sections.not_reported,
        not_spoken=sections.not_spoken,
        unparsed=sections.unparsed + odd,
    )


def is_nil(text: str) -> bool:
    """True if the station says that it has no report this time."""
    return "NIL" in normalised(text).split()[:4]


def _flags(groups: list[str]) -> tuple[list[str], list[str]]:
    count = 0
    while count < len(groups) and re.fullmatch(r"AUTO|COR|CC[A-Z]|NIL", groups[count]):
        count += 1
    return groups[:count], groups[count:]


def _sorted_groups(groups: list[str]) -> _Sorted:
    result = _Sorted()
    temperature_seen = False
    has_qnh = any(re.fullmatch(r"Q\d{4}", group) for group in groups)
    for group in groups:
        if _MISSING.fullmatch(group):
            result.not_reported.append(_missing_name(group))
        elif _NOT_SPOKEN.fullmatch(group) or (has_qnh and re.fullmatch(r"A\d{4}", group)):
            result.not_spoken.append(group)
        elif (
            _impossible_direction(group)
            or _WIND_WITHOUT_UNIT.fullmatch(group)
            or (re.fullmatch(r"[\dO]{3,4}" if temperature_seen else r"[\dO]{3}", group))
        ):
            result.unparsed.append(group)
        else:
            temperature_seen = temperature_seen or _TEMPERATURE.fullmatch(group) is not None
            ambiguous = re.fullmatch(r"0\d{3}", group)
            result.kept.append(f"{group}NDV" if ambiguous else group)
    return result


def _impossible_direction(group: str) -> bool:
    """True for a direction above 360 degrees: the library rejects the whole report for it."""
    directions = re.fullmatch(r"(\d{3})V(\d{3})", group) or re.match(r"(\d{3})\d{2}", group)
    if directions is None or not (_WIND.match(group) or "V" in group):
        return False
    return any(int(degrees) > 360 for degrees in directions.groups())


def _missing_name(group: str) -> str:
    if group.endswith(("KT", "MPS")):
        return "wind"
    if group[0] in "QA":
        return "pressure"
    slashes = group.count("/")
    return {2: "weather", 4: "visibility", 5: "temperature"}.get(slashes, "cloud")


def _library(station: str, sections: _Sorted, observed_at: datetime) -> Metar.Metar:
    """Run the library on the kept groups; groups it cannot read are added to ``unparsed``."""
    code = f"{station} {observed_at:%d%H%M}Z {' '.join(sections.kept)}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metar = Metar.Metar(code, observed_at.month, observed_at.year, strict=False)
    # In non-strict mode the library turns its own exceptions into warnings and drops the rest.
    if any("failed while processing" in str(warning.message) for warning in caught):
        raise MalformedReportError(f"unreadable group in {code!r}")
    sections.unparsed.extend(group.removesuffix("NDV") for group in metar._unparsed_groups)
    return metar


def _trends(
    groups: list[str], station: str, observed_at: datetime
) -> tuple[list[Trend], list[str]]:
    trends: list[Trend] = []
    odd: list[str] = []
    starts = [i for i, group in enumerate(groups) if group in _TREND_WORDS]
    for start, end in pairwise([*starts, len(groups)]):
        inner = groups[start + 1 : end]
        times = [group for group in inner if _TREND_TIME.fullmatch(group)]
        sections = _sorted_groups([group for group in inner if group not in times])
        metar = _library(station, sections, observed_at)
        trend = Trend(
            kind=cast(Literal["NOSIG", "TEMPO", "BECMG"], groups[start]),
            times=times,
            wind=_wind(metar, sections),
            visibility=_visibility(metar, sections),
            cavok="CAVOK" in sections.kept,
            weather=_weather(metar.weather, sections),
            clouds=_clouds(metar),
        )
        if sections.unparsed:  # half a forecast may mean the opposite of the whole
            odd.extend(groups[start:end])
        else:
            trends.append(trend)
    return trends, odd


def _wind(metar: Metar.Metar, sections: _Sorted) -> Wind | None:
    direction = None if metar.wind_dir is None else round(metar.wind_dir.value())
    knots = metar.wind_speed
    if knots is not None and knots.value("KT") > _MAX_KNOTS:
        sections.unparsed.extend(group for group in sections.kept if _WIND.match(group))
        return None
    if knots is None and direction is None:
        return None
    return Wind(
        direction_degrees=direction,
        variable=any(group.startswith("VRB") for group in sections.kept),
        speed=_whole(knots),
        speed_bound="more_than" if knots is not None and knots._gtlt == ">" else None,
        gust=_whole(metar.wind_gust),
        unit=cast(Literal["KT", "MPS", "KMH"], knots._units if knots is not None else "KT"),
        varying_from_degrees=_degrees(metar.wind_dir_from),
        varying_to_degrees=_degrees(metar.wind_dir_to),
    )


def _whole(value: speed | None) -> int | None:
    return None if value is None else round(value.value())


def _degrees(value: object) -> int | None:
    return None if value is None else round(cast("float", value.value()))  # type: ignore[attr-defined]


def _bound(value: distance) -> Bound | None:
    marks: dict[str | None, Bound] = {">": "more_than", "<": "less_than"}
    return marks.get(value._gtlt)


def _visibility(metar: Metar.Metar, sections: _Sorted) -> list[Visibility]:
    if "CAVOK" in sections.kept:
        return []
    found: list[Visibility] = []
    for value, direction in (
        (metar.vis, metar.vis_dir),
        (metar.max_vis, metar.max_vis_dir),
    ):
        if value is None:
            continue
        unit = "SM" if value._units in ("SM", "MI") else value._units
        bound = _bound(value)
        if unit == "M" and value.value("M") == 10000 and bound == "more_than":
            bound = "at_least"  # 9999 means 10 km or more
        found.append(
            Visibility(
                distance=value.value(),
                unit=cast(Literal["M", "KM", "SM"], unit),
                bound=bound,
                direction_degrees=_degrees(direction),
            )
        )
    return found


def _runway_visual_range(metar: Metar.Metar) -> list[RunwayVisualRange]:
    tendencies: dict[str | None, Literal["increasing", "decreasing", "no change"]] = {
        "U": "increasing",
        "D": "decreasing",
        "N": "no change",
    }
    ranges = []
    for (name, low, high, unit), tendency in zip(
        metar.runway, metar.runway_tendencies, strict=True
    ):
        varies = high is not low
        ranges.append(
            RunwayVisualRange(
                runway=name,
                low=round(low.value()),
                low_bound=_bound(low),
                high=round(high.value()) if varies else None,
                high_bound=_bound(high) if varies else None,
                unit=unit,
                tendency=tendencies.get(tendency),
            )
        )
    return ranges


def _weather(
    groups: list[tuple[str, str, str, str, str]], sections: _Sorted, prefix: str = ""
) -> list[Weather]:
    found = []
    for group in groups:
        intensity, *parts = (part or "" for part in group)
        code = f"{prefix}{intensity}{''.join(parts)}"
        phrase = weather_words.words(intensity, *parts)
        if phrase is None:
            sections.unparsed.append(code)
        else:
            found.append(Weather(code=code, words=phrase))
    return found


def _clouds(metar: Metar.Metar) -> list[CloudLayer]:
    return [
        CloudLayer(
            cover=cast(Literal["FEW"], cover),
            base_feet=None if base is None else round(base.value("FT")),
            kind=kind or None,
        )
        for cover, base, kind in metar.sky
    ]


def _pressure(metar: Metar.Metar, sections: _Sorted) -> tuple[int | None, float | None]:
    """Return QNH in hPa and altimeter setting in inches: only the reported one, no conversion."""
    if metar.press is None:
        return None, None
    if not _HPA_LIMITS[0] <= metar.press.value("HPA") <= _HPA_LIMITS[1]:
        sections.unparsed.extend(
            group for group in sections.kept if re.fullmatch(r"(?:Q|A|QNH)[\dO]{3,4}\S*", group)
        )
        return None, None
    if metar.press._units == "IN":
        return None, round(metar.press.value("IN"), 2)
    return round(metar.press.value("HPA")), None
