"""compose.yaml and the images it starts keep their doors shut, and agree with each other."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cordboard.config.load import load
from cordboard.errors import ConfigError

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILES = [ROOT / "Dockerfile", ROOT / "docker" / "asterisk" / "Dockerfile"]
CALLS = 50


def mounts(service: str) -> dict[str, dict[str, Any]]:
    """The host's folders, by where the container sees them."""
    volumes = SERVICES[service]["volumes"]
    return {volume["target"]: volume for volume in volumes if not isinstance(volume, str)}


def published() -> list[tuple[str, str, str]]:
    """Address, host's ports and container's ports of everything that compose publishes."""
    found = []
    for service in SERVICES.values():
        for port in service.get("ports", []):
            address, host, container = re.fullmatch(r"(.*?):([\d-]+):(\S+)", port).groups()
            found.append((address, host, container))
    return found


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_every_base_image_is_named_by_its_digest(path: Path) -> None:
    stages = re.findall(r"^FROM (\S+)", path.read_text(), flags=re.MULTILINE)
    assert stages
    for stage in stages:
        assert re.fullmatch(r"[a-z]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}", stage), stage


def test_the_package_of_asterisk_is_pinned_and_its_archive_is_a_day_of_the_past(
    tmp_path: Path,
) -> None:
    text = DOCKERFILES[1].read_text()
    assert re.search(r"\basterisk=1:22\.\d+\.\d+\S*", text)
    sed = re.search(r"sed -i -E '([^']+)'", text)
    assert sed is not None
    sources = tmp_path / "debian.sources"
    sources.write_text(
        "Types: deb\n# http://archive.example/debian/20260803T000000Z\n"
        "URIs: http://mirror.example/debian\nSuites: sid\nComponents: main\n"
    )
    subprocess.run(["sed", "-i", "-E", sed[1], sources], check=True)
    assert sources.read_text() == (
        "Types: deb\nURIs: http://archive.example/debian/20260803T000000Z\n"
        "Suites: sid\nComponents: main\n"
    )


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_no_rights_and_no_writable_files(service: str) -> None:
    said = SERVICES[service]
    assert said["read_only"] is True
    assert said["cap_drop"] == ["ALL"]
    assert "cap_add" not in said
    assert said["security_opt"] == ["no-new-privileges:true"]
    assert not said.get("privileged")
    assert all(mount["read_only"] for mount in mounts(service).values())
    assert all(not mount["bind"]["create_host_path"] for mount in mounts(service).values())


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_no_image_runs_as_root(path: Path) -> None:
    users = re.findall(r"^USER (\S+)", path.read_text(), flags=re.MULTILINE)
    assert users
    assert users[-1] not in ("root", "0")


@pytest.mark.parametrize("service", SERVICES)
def test_secrets_are_files_and_never_environment(service: str) -> None:
    environment = SERVICES[service].get("environment", {})
    assert not [name for name in environment if re.search("PASSWORD|TOKEN|KEY|SECRET", name)]
    assert mounts(service)["/run/secrets"]["source"] == f"./site/secrets/{service}"


def test_only_phones_reach_it_from_elsewhere() -> None:
    for address, _, container in published():
        if container.endswith("/udp"):
            assert address == "${SIP_ADDRESS:-127.0.0.1}"
        else:
            assert (address, container) == ("127.0.0.1", "15000")


def test_fifty_calls_have_ports_and_descriptors() -> None:
    rtp = (ROOT / "docker" / "asterisk" / "etc" / "rtp.conf").read_text()
    first, last = map(int, re.findall(r"^rtp(?:start|end) = (\d+)$", rtp, flags=re.MULTILINE))
    assert last - first + 1 >= 2 * CALLS, "a phone leg takes two ports"
    ports = {(host, container) for _, host, container in published()}
    assert (f"{first}-{last}", f"{first}-{last}/udp") in ports
    assert ("5060", "5060/udp") in ports
    for service in SERVICES.values():
        assert service["ulimits"]["nofile"] >= 1024 + 20 * CALLS


def test_the_engine_shares_the_network_of_asterisk_and_has_time_to_stop() -> None:
    engine = SERVICES["engine"]
    assert engine["network_mode"] == "service:asterisk"
    assert "ports" not in engine
    assert int(engine["stop_grace_period"].removesuffix("s")) >= 30


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    subprocess.run([ROOT / "docker" / "prepare", folder], check=True, capture_output=True)
    return folder


def test_prepare_shuts_what_a_changed_checkout_has_open_and_opens_what_it_has_shut(
    tmp_path: Path,
) -> None:
    """A configuration switched on for another use, in a checkout that one user can read."""
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    shutil.copytree(ROOT / "config", tmp_path / "config")
    source = tmp_path / "config" / "ai-agent.yaml"
    text = source.read_text().replace("  # context: demo", "  context: demo")
    source.write_text(text.replace("# admin: ", "admin: "))
    source.chmod(0o600)
    source.parent.chmod(0o700)
    subprocess.run([tmp_path / "docker" / "prepare"], check=True, capture_output=True)
    prepared = tmp_path / "site" / "config" / "ai-agent.yaml"
    tree = YAML(typ="safe").load(prepared)
    assert "context" not in tree["audiosocket"]
    assert tree["admin"] == {"token": "${file:/run/secrets/admin_token}"}
    assert stat.S_IMODE(prepared.stat().st_mode) & 0o044 == 0o044
    assert stat.S_IMODE(prepared.parent.stat().st_mode) & 0o055 == 0o055


def test_prepare_makes_what_compose_mounts(site: Path) -> None:
    for service in SERVICES:
        for mount in mounts(service).values():
            assert (site.parent / mount["source"]).is_dir(), mount["source"]


def test_secrets_are_random_shut_to_other_users_and_kept(site: Path) -> None:
    assert stat.S_IMODE((site / "secrets").stat().st_mode) == 0o700
    secrets = {path.name: path.read_text() for path in site.glob("secrets/*/*")}
    assert len(set(secrets.values())) == 3, "ARI's password is the same on both sides"
    assert all(len(secret) == 32 for secret in secrets.values())
    (site / "config" / "ai-agent.yaml").write_text("mine")
    again = subprocess.run([ROOT / "docker" / "prepare", site], check=True, capture_output=True)
    assert {path.name: path.read_text() for path in site.glob("secrets/*/*")} == secrets
    assert (site / "config" / "ai-agent.yaml").read_text() == "mine"
    assert not [secret for secret in secrets.values() if secret.encode() in again.stdout]


def test_the_prepared_configuration_is_the_shipped_one_with_asterisk_and_a_token(
    site: Path,
) -> None:
    yaml = YAML(typ="safe")
    shipped = yaml.load((ROOT / "config" / "ai-agent.yaml").read_text())
    prepared = yaml.load((site / "config" / "ai-agent.yaml").read_text())
    assert prepared.pop("admin") == {"token": "${file:/run/secrets/admin_token}"}
    assert prepared.pop("asterisk") == {
        "url": "http://127.0.0.1:8088",
        "username": "cordboard",
        "password": "${file:/run/secrets/ari_password}",
        "app": "cordboard",
        "media": "audiosocket",
    }
    assert prepared["health"].pop("host") == "0.0.0.0"
    assert "context" not in prepared["audiosocket"], "no calls past ARI"
    shipped["health"].pop("host")
    shipped["audiosocket"].pop("context", None)
    assert prepared == shipped


def test_the_prepared_configuration_is_valid(site: Path) -> None:
    path = site / "config" / "ai-agent.yaml"
    path.write_text(path.read_text().replace("/run/secrets", str(site / "secrets" / "engine")))
    try:
        load(path, {})
    except ConfigError as error:
        pytest.fail(str(error))
