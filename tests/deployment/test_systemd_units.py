"""The units of deploy/systemd: systemd's own check of them, how closed they are, and what they say
of the engine."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cordboard.cli.run import REPLACED

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "systemd"
UNITS = ("cordboard@.service", "nats-server.service")
MOST_EXPOSED = 2.0
"""Of 10, as `systemd-analyze security` counts; "OK" begins at 4."""


class Unit(configparser.RawConfigParser):
    """A unit file; of a key that is there several times, the last one."""

    def __init__(self, name: str) -> None:
        super().__init__(strict=False, delimiters="=", interpolation=None)
        self.read_string((FOLDER / name).read_text())

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture
def analyze() -> str:
    """systemd's checker. It is part of systemd, which other systems have not got."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("not tried: no systemd-analyze on this machine")
    return program


def installed(name: str, folder: Path) -> Path:
    """The unit as it is on a machine: an instance of it, with programs that exist."""
    path = folder / name.replace("@.", "@a.")
    text = (FOLDER / name).read_text()
    for program in set(re.findall(r"(?:/opt/cordboard|/usr/local)/bin/\S+", text)):
        text = text.replace(program, "/bin/true")
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_unit_without_a_word(analyze: str, name: str, tmp_path: Path) -> None:
    command = [analyze, "verify", "--man=no", "--recursive-errors=no", installed(name, tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stderr == ""


@pytest.mark.parametrize("name", UNITS)
def test_the_service_can_do_little_to_its_machine(analyze: str, name: str, tmp_path: Path) -> None:
    threshold = f"--threshold={int(MOST_EXPOSED * 10)}"
    unit = installed(name, tmp_path)
    command = [analyze, "security", "--offline=yes", "--no-pager", threshold, str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout[-600:] + said.stderr


def test_sysusers_makes_the_users_of_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-sysusers")
    if program is None:
        pytest.skip("not tried: no systemd-sysusers on this machine")
    command = [program, f"--root={tmp_path}", "--dry-run", FOLDER / "sysusers.conf"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    for name in UNITS:
        assert f"Creating user '{Unit(name)['Service']['User']}'" in said.stdout + said.stderr


def test_an_instance_that_was_replaced_is_started_anew() -> None:
    unit = Unit("cordboard@.service")
    assert REPLACED != 0
    assert unit["Service"]["Restart"] == "on-failure", "for every status but 0"
    assert "RestartPreventExitStatus" not in unit["Service"]
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


def test_a_stop_has_time_to_hand_calls_over_and_for_the_engines_own_end() -> None:
    text, service = (FOLDER / UNITS[0]).read_text(), Unit(UNITS[0])["Service"]
    advised = re.search(r"calls\.shutdown_grace_ms .*\n# (\d+);", text)
    assert advised is not None
    assert int(service["TimeoutStopSec"].removesuffix("s")) > int(advised[1]) / 1000 + 35
    assert "ExecStop" not in service, "SIGTERM does it"


def test_the_command_of_the_page_has_the_surroundings_of_the_unit() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text().replace("\\\n", " ")
    [line] = re.findall(r"^ *(runuser .*)", page, re.MULTILINE)
    command, service = shlex.split(line), Unit("cordboard@.service")["Service"]
    assert command[2] == service["User"]
    assert command[command.index("-C") + 1] == service["WorkingDirectory"].replace("%i", "a")
    assert service["Environment"].split()[0].replace("%i", "a") in command
    run = service["ExecStart"].split()
    assert run[0] in command
    assert command[-2:] == run[-2:], "the same configuration"


def test_no_secret_is_in_a_unit() -> None:
    for name in UNITS:
        assert not re.search(r"(?i)(password|token|key)\s*=\s*\S", (FOLDER / name).read_text())
