"""The structured part of an ATIS answer: the results of the tools, field by field.

Units are in the field names or beside the value; ``None`` means that the report has no value.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

Bound = Literal["at_least", "more_than", "less_than"]
"""Relation to the real value: 9999 is at least 10 km, P6SM more than 6 miles."""


class SettingsError(Exception):
    """The settings file cannot be used. The text is for the operator."""


class MalformedReportError(ValueError):
    """The text is not a METAR: no station, no observation time, or it broke the parser."""


class ReportUnavailableError(Exception):
    """There is no report that may be spoken.

    ``reason`` is a short machine-readable word, ``because`` a sentence to speak to the caller,
    ``detail`` is for the log. ``retry_after`` is in seconds, if upstream sent one.
    """

    def __init__(
        self, reason: str, because: str, detail: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(detail or because)
        self.reason = reason
        self.because = because
        self.detail = detail or because
        self.retry_after = retry_after


class Wind(BaseModel):
    direction_degrees: int | None = Field(description="True direction; null if variable or missing")
    variable: bool = Field(description="Direction reported as VRB")
    speed: int | None
    speed_bound: Bound | None
    gust: int | None
    unit: Literal["KT", "MPS", "KMH"]
    varying_from_degrees: int | None
    varying_to_degrees: int | None

    @property
    def calm(self) -> bool:
        return self.speed == 0 and not self.gust


class Visibility(BaseModel):
    distance: float
    unit: Literal["M", "KM", "SM"]
    bound: Bound | None
    direction_degrees: int | None = Field(
        description="Sector the value is for; null for prevailing"
    )


class RunwayVisualRange(BaseModel):
    runway: str
    low: int
    low_bound: Bound | None
    high: int | None = Field(description="Upper value of a varying range")
    high_bound: Bound | None
    unit: Literal["M", "FT"]
    tendency: Literal["increasing", "decreasing", "no change"] | None


class Weather(BaseModel):
    code: str = Field(description="As reported, e.g. -SHRA")
    words: str = Field(description="The same in words")


class CloudLayer(BaseModel):
    cover: Literal["FEW", "SCT", "BKN", "OVC", "VV", "CLR", "SKC", "NSC", "NCD", "///"]
    base_feet: int | None = Field(
        description="Above aerodrome level; for VV the vertical visibility"
    )
    kind: str | None = Field(description="CB, TCU, ...")


class Conditions(BaseModel):
    """Wind to cloud: the groups common to observations and trends."""

    wind: Wind | None
    visibility: list[Visibility]
    cavok: bool
    weather: list[Weather]
    clouds: list[CloudLayer]


class Trend(Conditions):
    kind: Literal["NOSIG", "TEMPO", "BECMG"]
    times: list[str] = Field(description="FM, TL and AT groups as reported")


class ParsedReport(Conditions):
    station: str
    special: bool
    automatic: bool
    corrected: bool
    runway_visual_range: list[RunwayVisualRange]
    temperature_c: int | None
    dew_point_c: int | None
    qnh_hpa: int | None
    altimeter_inhg: float | None
    recent_weather: list[Weather]
    wind_shear: list[str] = Field(description="Runways, or ALL")
    trends: list[Trend]
    remarks: str | None = Field(description="RMK section as reported; never spoken")
    not_reported: list[str] = Field(description="Groups the station filled with slashes")
    not_spoken: list[str] = Field(description="Groups understood but left out of the speech")
    unparsed: list[str] = Field(description="Unreadable groups; left out of the speech")


class Information(BaseModel):
    letter: str = Field(pattern="^[A-Z]$")
    origin: Literal["configured", "derived_from_observation_time"]


class Atis(BaseModel):
    """The result of ``get_atis``."""

    atis_text: str = Field(description="Ready to be spoken: words, commas and full stops only")
    icao: str
    name: str
    metar_raw: str
    observed_at: str = Field(description="UTC, ISO 8601")
    age_minutes: int
    parsed: ParsedReport
    runway: list[str]
    frequency: str | None
    advisories: list[str]
    information: Information | None
    source: Literal["metno", "file"]
    sample_data: bool = Field(description="True: read from a file, not for flight")
    settings_problem: str | None = Field(
        description="Set while an edited settings file is broken and the last good one is in use"
    )


class Aerodrome(BaseModel):
    icao: str
    name: str
    aliases: list[str]


class AerodromeList(BaseModel):
    """The result of ``list_aerodromes``."""

    aerodromes: list[Aerodrome]
    source: Literal["metno", "file"]
    sample_data: bool
