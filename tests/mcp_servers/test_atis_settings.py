"""The settings file: what is refused, and how clearly."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.mcp_servers.aviation_atis.config import MET_NO, SettingsFile, load
from cordboard.mcp_servers.aviation_atis.model import SettingsError

USER_AGENT = {"METNO_USER_AGENT": "tests/1.0 ops@example.org"}


def settings_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "atis.yaml"
    path.write_text(text)
    return path


def test_the_shipped_settings_are_good_and_name_twelve_aerodromes() -> None:
    shipped = Path(__file__).parents[2] / "config" / "aviation_atis.yaml"
    settings = load(shipped, {})
    assert settings.source == "file"
    assert len(settings.aerodromes) == 12
    assert settings.metar_file is not None
    reports = settings.metar_file.read_text()
    assert all(f"{icao} " in reports for icao in settings.aerodromes)


def test_the_example_needs_only_a_user_agent() -> None:
    example = Path(__file__).parents[2] / "config" / "aviation_atis.example.yaml"
    assert load(example, USER_AGENT).aerodromes.keys() == {"ENGM", "ENHD"}
    with pytest.raises(SettingsError, match="METNO_USER_AGENT"):
        load(example, {})


def test_defaults_ask_met_no_with_a_five_minute_cache(tmp_path: Path) -> None:
    settings = load(settings_file(tmp_path, "source: metno\n"), USER_AGENT)
    assert (settings.metno.base_url, settings.metno.cache_ttl_seconds) == (MET_NO, 300)
    assert MET_NO.startswith("https://")


def test_the_environment_wins(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "metno: {user_agent: file@example.org}\n")
    settings = load(path, {**USER_AGENT, "METNO_CACHE_TTL_SECONDS": "60"})
    assert settings.metno.user_agent == USER_AGENT["METNO_USER_AGENT"]
    assert settings.metno.cache_ttl_seconds == 60


def test_unquoted_runways_keep_their_leading_zero(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "aerodromes: {ENGM: {runway: 04}, ENVA: {runway: [09, 27l]}}\n")
    settings = load(path, USER_AGENT)
    assert settings.aerodromes["ENGM"].runway == ["04"]
    assert settings.aerodromes["ENVA"].runway == ["09", "27L"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("source: metno\n", "METNO_USER_AGENT"),
        ("metno: {user_agent: python}\n", "e-mail address or a web address"),
        ("source: file\n", "metar_file"),
        ("source: radio\n", "source:"),
        ("sauce: file\n", "sauce:"),
        ("source: file\nsource: file\n", "duplicate key"),
        ("source: [\n", "atis.yaml"),
        ("- a\n", "expected keys"),
        ("", "expected keys"),
        ("source: file\nmetar_file: x\naerodromes: {ENGM: {runway: 40}}\n", "ENGM.runway"),
        ("source: file\nmetar_file: x\naerodromes: {ENGM: {frequency: fm}}\n", "ENGM.frequency"),
        (
            "source: file\nmetar_file: x\naerodromes: {ENGM: {information: AB}}\n",
            "ENGM.information",
        ),
        ("source: file\nmetar_file: x\naerodromes: {oslo: {}}\n", "oslo"),
        ("source: file\nmetar_file: x\nmetno: {base_url: http://example.org}\n", "https"),
        ("source: file\nmetar_file: x\nmetno: {cache_ttl_seconds: 0}\n", "cache_ttl_seconds"),
    ],
)
def test_bad_settings_get_one_clear_message(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load(settings_file(tmp_path, text), {})


def test_a_broken_edit_keeps_the_last_good_settings_until_it_is_mended(tmp_path: Path) -> None:
    path = settings_file(tmp_path, "aerodromes: {ENGM: {name: Oslo}}\n")
    settings = SettingsFile(path, USER_AGENT)
    path.write_text("aerodromes: {ENGM: {nam: Bergen}}\n")
    assert settings.current().aerodromes["ENGM"].name == "Oslo"
    assert settings.problem is not None
    assert "nam" in settings.problem
    path.unlink()
    assert settings.current().aerodromes["ENGM"].name == "Oslo"
    path.write_text("aerodromes: {ENGM: {name: Gardermoen}}\n")
    assert settings.current().aerodromes["ENGM"].name == "Gardermoen"
    assert settings.problem is None
