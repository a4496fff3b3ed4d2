"""What the caller hears."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordboard.mcp_servers.aviation_atis import phrases, report, speech
from cordboard.mcp_servers.aviation_atis.model import Information, MalformedReportError

NOW = datetime(2026, 11, 15, 14, 5, tzinfo=UTC)
TRICKY = Path(__file__).with_name("tricky_metars.txt").read_text().splitlines()
SPEAKABLE = re.compile(r"[A-Za-z][A-Za-z ,.']*\.")


def said(metar: str, **settings: object) -> str:
    observed_at = report.observation_time(metar, NOW)
    options: dict[str, object] = {"name": "Oslo", **settings}
    return speech.atis_text(report.parse(metar, observed_at), observed_at, **options)  # type: ignore[arg-type]


def test_a_whole_announcement() -> None:
    text = said(
        "METAR ENBR 151350Z AUTO 18012G24KT 150V220 8000 -RA SCT009 BKN014CB 09/M08 Q0998 NOSIG",
        name="Bergen Flesland",
        runways=["17", "22L"],
        frequency_mhz="125.250",
        advisories=["Birds near runway 17, 2 deer"],
        information=Information(letter="B", origin="configured"),
        sample_data=True,
    )
    assert text == (
        "Sample data, not for flight. Bergen Flesland information Bravo. "
        "Time one three five zero zulu. Automatic report. "
        "Runway in use one seven and two two left. "
        "Wind one eight zero degrees, one two knots, gusting two four knots, "
        "varying between one five zero and two two zero degrees. "
        "Visibility eight kilometres. Weather, light rain. "
        "Cloud scattered niner hundred feet, broken cumulonimbus one thousand four hundred feet. "
        "Temperature niner. Dew point minus eight. Q N H zero niner niner eight. "
        "No significant change. Frequency one two five decimal two five. "
        "Birds near runway one seven, two deer."
    )


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("00000KT", "Wind calm."),
        ("VRB01KT", "Wind variable, one knot."),
        ("24004MPS", "Wind two four zero degrees, four metres per second."),
        ("///05KT", "Wind direction not available, five knots."),
        ("24005KT CAVOK", "Cav oh kay."),
        ("24005KT 9999", "Visibility one zero kilometres or more."),
        ("24005KT 4500", "Visibility four thousand five hundred metres."),
        ("24005KT 0350", "Visibility three five zero metres."),
        ("24005KT 1 1/2SM", "Visibility one and one half miles."),
        ("24005KT 2 3/4SM", "Visibility two and three quarters miles."),
        ("24005KT M1/4SM", "Visibility less than one quarter mile."),
        ("24005KT P6SM", "Visibility more than six miles."),
        ("24005KT 1SM", "Visibility one mile."),
        (
            "24005KT 0900 R24L/P1500N",
            "Runway visual range, runway two four left, "
            "more than one thousand five hundred metres, no change.",
        ),
        (
            "24005KT 1SM R10L/1600V2400FT",
            "Runway visual range, runway one zero left, "
            "varying between one thousand six hundred and two thousand four hundred feet.",
        ),
        ("24005KT 9999 NSC", "No significant cloud."),
        ("24005KT 9999 NCD", "No cloud detected."),
        ("24005KT 0100 FG VV002", "Vertical visibility two hundred feet."),
        ("24005KT 0100 FG VV///", "Sky obscured."),
        ("24005KT 9999 SCT250", "Cloud scattered two five thousand feet."),
        ("24005KT 9999 ///CB", "Cloud cumulonimbus, base not available."),
        ("24005KT 9999 M01/M03", "Temperature minus one. Dew point minus three."),
        ("24005KT 9999 00/M00", "Temperature zero. Dew point zero."),
        ("24005KT 10SM A2992", "Altimeter two niner niner two."),
        ("24005KT 9999 RETSRA WS R24L", "Recent weather, thunderstorm with rain."),
        ("24005KT 9999 Q1013 WS ALL RWY", "Wind shear, all runways."),
        (
            "24005KT 9999 Q1013 TEMPO FM1430 0800 +SHSN BKN008",
            "Temporarily, from one four three zero, visibility eight hundred metres, "
            "heavy showers of snow, cloud broken eight hundred feet.",
        ),
        ("AUTO /////KT //// // ////// ///// Q////", "Visibility not available."),
        ("24005KT 9999 Q1013 GIBBERISH", "Part of the report could not be read."),
    ],
)
def test_sentences(groups: str, sentence: str) -> None:
    assert sentence in said(f"ENGM 151350Z {groups}")


def test_missing_settings_are_passed_over_or_said_to_be_missing() -> None:
    metar = "ENGM 151350Z 24005KT CAVOK 10/05 Q1013"
    assert "available" not in said(metar)
    explicit = said(metar, explicit_not_available=True)
    for sentence in ("Runway in use", "Frequency", "Advisories"):
        assert f"{sentence} not available." in explicit


def test_a_derived_letter_is_said_to_be_derived() -> None:
    derived = Information(letter="X", origin="derived_from_observation_time")
    text = said("ENGM 151350Z 24005KT CAVOK 10/05 Q1013", information=derived)
    assert "information Xray. Information letter derived from the observation time." in text


def test_an_aerodrome_without_a_name_is_spelled() -> None:
    assert said("ENGM 151350Z CAVOK", name=None).startswith("Echo November Golf Mike.")


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Trondheim Værnes", "Trondheim Vaernes"),
        ("Zürich", "Zurich"),
        ("Chicago O'Hare", "Chicago O'Hare"),
        ("'s-Hertogenbosch", "s Hertogenbosch"),
        ("'", ""),
        ("TWY B closed btn 01L/19R", "TWY B closed btn zero one left one niner right"),
        (
            "Ground 121.9 MHz; 50% & wet!",
            "Ground one two one decimal niner MHz. five zero percent and wet",
        ),
    ],
)
def test_free_text_becomes_speakable(text: str, spoken: str) -> None:
    assert phrases.speakable(text) == spoken


@pytest.mark.parametrize("metar", TRICKY)
def test_tricky_reports_are_speakable(metar: str) -> None:
    assert SPEAKABLE.fullmatch(said(metar))


GROUPS = st.lists(st.sampled_from(sorted({g for line in TRICKY for g in line.split()[2:]})))


@given(GROUPS, st.text(max_size=40), st.lists(st.text(max_size=60), max_size=3), st.booleans())
@example([], "'", ["'s", "closed '"], False)
def test_speech_never_contains_digits_or_symbols(
    groups: list[str], name: str, advisories: list[str], flag: bool
) -> None:
    metar = f"ENGM 151350Z {' '.join(groups)}"
    try:
        text = said(metar, name=name, advisories=advisories, explicit_not_available=flag)
    except MalformedReportError:
        return
    assert SPEAKABLE.fullmatch(text)
    assert ".." not in text
