"""METARs as the world writes them: what must be read, and what must never be invented."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.mcp_servers.aviation_atis import report
from cordboard.mcp_servers.aviation_atis.model import MalformedReportError, ParsedReport

NOW = datetime(2026, 11, 15, 14, 5, tzinfo=UTC)
TRICKY = Path(__file__).with_name("tricky_metars.txt").read_text().splitlines()


def parsed(text: str) -> ParsedReport:
    return report.parse(text, report.observation_time(text, NOW))


def body(groups: str) -> ParsedReport:
    return parsed(f"ENGM 151350Z {groups}")


@pytest.mark.parametrize("text", TRICKY)
def test_every_group_of_a_metar_is_read_or_named(text: str) -> None:
    result = parsed(text)
    assert result.unparsed == []
    assert result.station in text


@pytest.mark.parametrize(
    ("groups", "fields"),
    [
        ("22008KT", {"direction_degrees": 220, "speed": 8, "gust": None, "unit": "KT"}),
        ("18012G24KT 150V220", {"gust": 24, "varying_from_degrees": 150}),
        ("VRB02KT", {"direction_degrees": None, "variable": True, "speed": 2}),
        ("00000KT", {"calm": True}),
        ("24004MPS", {"unit": "MPS", "speed": 4}),
        ("240P99KT", {"speed": 99, "speed_bound": "more_than"}),
        ("360100KT", {"direction_degrees": 360, "speed": 100}),
    ],
)
def test_wind(groups: str, fields: dict[str, Any]) -> None:
    wind = body(f"{groups} 9999 Q1013").wind
    assert wind is not None
    assert {name: getattr(wind, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("groups", "distance", "unit", "bound"),
    [
        ("9999", 10000, "M", "at_least"),
        ("9999NDV", 10000, "M", "at_least"),
        ("0800", 800, "M", None),
        ("10SM", 10, "SM", None),
        ("1 1/2SM", 1.5, "SM", None),
        ("P6SM", 6, "SM", "more_than"),
        ("M1/4SM", 0.25, "SM", "less_than"),
    ],
)
def test_visibility(groups: str, distance: float, unit: str, bound: str | None) -> None:
    (visibility,) = body(f"24005KT {groups} Q1013").visibility
    assert (visibility.distance, visibility.unit, visibility.bound) == (distance, unit, bound)


def test_second_visibility_keeps_its_direction() -> None:
    prevailing, lowest = body("24005KT 4000 1500SW Q1013").visibility
    assert (prevailing.distance, prevailing.direction_degrees) == (4000, None)
    assert (lowest.distance, lowest.direction_degrees) == (1500, 225)


def test_slashes_are_missing_values_and_never_a_visibility_of_ten_kilometres() -> None:
    result = body("AUTO /////KT //// // ////// ///// Q////")
    assert result.wind is None
    assert result.visibility == []
    assert result.weather == []
    assert result.qnh_hpa is None
    assert result.not_reported == [
        "wind",
        "visibility",
        "weather",
        "cloud",
        "temperature",
        "pressure",
    ]


@pytest.mark.parametrize("groups", ["/////KT 0800 Q1013", "0800 FG Q1013", "FEW020 0800 Q1013"])
def test_low_visibility_is_not_taken_for_a_wind(groups: str) -> None:
    result = body(groups)
    assert result.wind is None
    assert [one.distance for one in result.visibility] == [800]


def test_low_visibility_in_a_trend_is_not_taken_for_a_wind() -> None:
    (trend,) = body("24005KT 9999 10/05 Q1013 BECMG FM1430 0800 FG").trends
    assert trend.wind is None
    assert trend.visibility[0].distance == 800
    assert trend.times == ["FM1430"]


@pytest.mark.parametrize(
    ("groups", "named"),
    [
        ("24005KT 9999 10/05 Q1013 XXGARBAGE", ["XXGARBAGE"]),
        ("24005 9999 10/05 Q1013", ["24005"]),
        ("24005KT 9999 10/05 0800", ["0800"]),
        ("99005KT 9999 10/05 Q1013", ["99005KT"]),
        ("24005KT 9999 10/05 Q2992", ["Q2992"]),
        ("24005KT 9999 10/05 Q1013 TEMPO NONSENSE", ["TEMPO", "NONSENSE"]),
    ],
)
def test_what_nobody_can_read_is_named_and_gives_no_value(groups: str, named: list[str]) -> None:
    result = body(groups)
    assert result.unparsed == named
    if named[0].startswith("99"):
        assert result.wind is None
    if named[0] in ("0800", "Q2992"):
        assert (result.qnh_hpa, result.altimeter_inhg) == (None, None)
    assert result.trends == []


def test_inches_stay_inches_and_hectopascals_stay_hectopascals() -> None:
    assert (body("24005KT 10SM A2992").altimeter_inhg, body("24005KT 10SM A2992").qnh_hpa) == (
        29.92,
        None,
    )
    both = body("24005KT 9999 Q1013 A2992")
    assert (both.qnh_hpa, both.altimeter_inhg, both.not_spoken) == (1013, None, ["A2992"])


def test_remarks_do_not_change_the_reported_temperature() -> None:
    result = body("31015KT 10SM M01/M13 A2992 RMK AO2 T10061128")
    assert (result.temperature_c, result.dew_point_c) == (-1, -13)
    assert result.remarks == "AO2 T10061128"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("+TSRA", "thunderstorm with heavy rain"),
        ("-SHRASN", "light showers of rain and snow"),
        ("VCSH", "showers in the vicinity"),
        ("VCTS", "thunderstorm in the vicinity"),
        ("FZFG", "freezing fog"),
        ("BLSN", "blowing snow"),
        ("BCFG", "patches of fog"),
        ("+FC", "tornado or waterspout"),
        ("TSGR", "thunderstorm with hail"),
        ("SQ", "squalls"),
    ],
)
def test_weather_in_words(code: str, words: str) -> None:
    assert [one.words for one in body(f"24005KT 9999 {code} Q1013").weather] == [words]


@pytest.mark.parametrize(
    ("day_group", "expected"),
    [
        ("151350Z", datetime(2026, 11, 15, 13, 50, tzinfo=UTC)),
        ("151410Z", datetime(2026, 11, 15, 14, 10, tzinfo=UTC)),  # a clock may be a little fast
        ("151500Z", datetime(2026, 10, 15, 15, 0, tzinfo=UTC)),  # the future is last month
        ("311350Z", datetime(2026, 10, 31, 13, 50, tzinfo=UTC)),
    ],
)
def test_the_day_group_is_the_latest_such_day(day_group: str, expected: datetime) -> None:
    assert report.observation_time(f"ENGM {day_group} 24005KT", NOW) == expected


def test_the_thirty_first_read_in_march_is_of_january() -> None:
    now = datetime(2027, 3, 1, 0, 5, tzinfo=UTC)
    assert report.observation_time("ENGM 312350Z", now) == datetime(2027, 1, 31, 23, 50, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "hello", "ENGM", "ENGM 991350Z", "ENGM 152560Z", "<html>"])
def test_what_is_no_metar_is_refused(text: str) -> None:
    with pytest.raises(MalformedReportError):
        report.observation_time(text, NOW)


GROUPS = st.lists(st.sampled_from(sorted({g for line in TRICKY for g in line.split()[2:]})))
NOISE = st.text(st.sampled_from("0123456789/ABCDEFGKLMNOPQRSTVWXZ+-"), min_size=1, max_size=9)


@given(GROUPS, NOISE, st.integers(0, 20))
def test_any_order_of_groups_is_read_or_refused(groups: list[str], noise: str, at: int) -> None:
    groups.insert(at, noise)
    try:
        result = body(" ".join(groups))
    except MalformedReportError:
        return
    assert result.wind is None or (result.wind.speed or 0) <= 250
    assert result.qnh_hpa is None or 850 <= result.qnh_hpa <= 1100
