"""Which Asterisk is taken, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.errors import AsteriskMissing
from cordboard_testkit.asterisk import find_asterisk


def _extracted(folder: Path) -> Path:
    """A folder laid out as `scripts/install-asterisk` leaves it."""
    (folder / "usr/share/asterisk/documentation").mkdir(parents=True)
    (folder / "usr/lib/x86_64-linux-gnu/asterisk/modules").mkdir(parents=True)
    launcher = folder / "asterisk"
    launcher.touch(mode=0o755)
    return launcher


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CORDBOARD_ASTERISK", raising=False)
    monkeypatch.delenv("CORDBOARD_CACHE", raising=False)
    (tmp_path / "work/below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work/below")


def test_the_named_one_is_taken_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _extracted(tmp_path / "work/.cache/asterisk")
    named = _extracted(tmp_path / "named")
    monkeypatch.setenv("CORDBOARD_ASTERISK", str(named))
    found = find_asterisk()
    assert found.launcher == named
    assert found.data == tmp_path / "named/usr/share/asterisk"
    assert found.modules == tmp_path / "named/usr/lib/x86_64-linux-gnu/asterisk/modules"


def test_the_cache_of_a_folder_above_is_found(tmp_path: Path) -> None:
    launcher = _extracted(tmp_path / "work/.cache/asterisk")
    assert find_asterisk().launcher == launcher


def test_a_named_cache_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launcher = _extracted(tmp_path / "elsewhere/asterisk")
    monkeypatch.setenv("CORDBOARD_CACHE", str(tmp_path / "elsewhere"))
    assert find_asterisk().launcher == launcher


def test_a_wrong_name_is_not_replaced_by_another_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _extracted(tmp_path / "work/.cache/asterisk")
    monkeypatch.setenv("CORDBOARD_ASTERISK", str(tmp_path / "nothing"))
    with pytest.raises(AsteriskMissing, match="nothing"):
        find_asterisk()


def test_an_installation_without_modules_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = _extracted(tmp_path / "broken")
    (tmp_path / "broken/usr/lib/x86_64-linux-gnu/asterisk/modules").rmdir()
    monkeypatch.setenv("CORDBOARD_ASTERISK", str(launcher))
    with pytest.raises(AsteriskMissing, match=r"no modules.*scripts/install-asterisk"):
        find_asterisk()


def test_without_any_the_command_that_brings_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(AsteriskMissing, match="scripts/install-asterisk"):
        find_asterisk()
