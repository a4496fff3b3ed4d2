"""deploy/compose: its doors are shut, and its files agree with each other and with the engine.

`tests/whole_calls/test_cluster_container.py` starts it.
"""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.telephony.asterisk.dialplan import dialplan

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
COMPOSE: dict[str, Any] = YAML(typ="safe").load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ENGINES = [name for name in SERVICES if name.startswith("engine-")]
ASTERISKS = [name for name in SERVICES if name.startswith("asterisk-")]
NATS = [name for name in SERVICES if name.startswith("nats-")]
KEYS = set(
    "build cap_drop command depends_on environment healthcheck image init network_mode ports "
    "read_only restart security_opt stop_grace_period tmpfs ulimits user volumes".split()
)
"""The keys of a service in the Compose Specification that are used here."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment") / "site"
    prepare(folder)
    return folder


def prepare(folder: Path) -> str:
    command = [ROOT / "docker" / "prepare", "--cluster", folder]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def mounts(service: str) -> dict[str, dict[str, Any]]:
    """The host's files and folders, by where the container sees them."""
    volumes = SERVICES[service]["volumes"]
    return {volume["target"]: volume for volume in volumes if not isinstance(volume, str)}


def configuration(service: str, site: Path, changed: tuple[str, str] = ("", "")) -> Config:
    """The file as this engine reads it, with another text in place of one."""
    path = site / "config" / f"{service}.yaml"
    text = (site / "config" / "ai-agent.yaml").read_text().replace(*changed)
    path.write_text(text.replace("/run/secrets", str(site / "secrets" / "engine")))
    return load(path, SERVICES[service]["environment"]).config


def test_it_is_three_engines_two_asterisks_three_nats_servers_and_postgresql() -> None:
    assert [len(ENGINES), len(ASTERISKS), len(NATS)] == [3, 2, 3]
    assert SERVICES.keys() == {*ENGINES, *ASTERISKS, *NATS, "postgres"}


@pytest.mark.parametrize("service", SERVICES)
def test_names_lead_to_what_is_there(service: str) -> None:
    said = SERVICES[service]
    assert said.keys() <= KEYS
    for name, how in said.get("depends_on", {}).items():
        assert how["condition"] == "service_healthy"
        assert "build" in SERVICES[name] or "healthcheck" in SERVICES[name]
    for volume in said["volumes"]:
        if isinstance(volume, str):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        elif not volume["source"].startswith("./site/"):
            assert (FOLDER / volume["source"]).is_file(), volume["source"]
    if "build" in said:
        assert (FOLDER / said["build"] / "Dockerfile").is_file()
    else:
        assert re.fullmatch(r"[a-z]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}", said["image"])


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_no_rights_and_no_writable_files(service: str) -> None:
    said = SERVICES[service]
    assert said["read_only"] is True
    assert said["cap_drop"] == ["ALL"]
    assert "cap_add" not in said
    assert said["security_opt"] == ["no-new-privileges:true"]
    assert not said.get("privileged")
    assert said["ulimits"]["nofile"] == 65536
    for mount in mounts(service).values():
        assert mount["read_only"] is True
        assert mount["bind"]["create_host_path"] is False


@pytest.mark.parametrize("service", SERVICES)
def test_secrets_are_files_and_never_environment(service: str) -> None:
    environment = SERVICES[service].get("environment", {})
    for name, value in environment.items():
        assert not re.search("PASSWORD|TOKEN|KEY|SECRET", name) or value.startswith("/run/secrets/")
    [secrets] = [m for m in mounts(service).values() if m["source"].startswith("./site/secrets/")]
    assert secrets["source"] == f"./site/secrets/{re.sub('-.*', '', service)}"


def test_only_phones_reach_it_from_elsewhere() -> None:
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            address, host, container = re.fullmatch(r"(.*?):([\d-]+):(\S+)", port).groups()
            assert name in ASTERISKS
            if container.endswith("/udp"):
                assert re.fullmatch(r"\$\{SIP_ADDRESS_\d:-127\.0\.0\.\d\}", address)
            else:
                assert address == "127.0.0.1"
                assert host == container


@pytest.mark.parametrize("service", ENGINES)
def test_an_engine_shares_the_network_of_its_asterisk_and_has_a_place_of_its_own_there(
    service: str, site: Path
) -> None:
    said, config = SERVICES[service], configuration(service, site)
    asterisk = said["network_mode"].removeprefix("service:")
    assert asterisk in said["depends_on"]
    assert f"127.0.0.1:{config.health.port}:{config.health.port}" in SERVICES[asterisk]["ports"]
    assert f":{config.health.port}/live" in said["healthcheck"]["test"][-1]
    assert config.asterisk is not None
    [file] = [m["source"] for t, m in mounts(asterisk).items() if t.endswith("/http.conf")]
    bound = re.search(r"bindaddr = (\S+)\nbindport = (\d+)", (FOLDER / file).read_text())
    assert bound is not None
    assert config.asterisk.url == f"http://{bound[1]}:{bound[2]}"
    grace = config.calls.shutdown_grace_ms / 1000
    assert int(said["stop_grace_period"].removesuffix("s")) > grace + 30


@pytest.mark.parametrize("service", ENGINES)
def test_the_interface_can_be_enabled_and_is_published_then(service: str, site: Path) -> None:
    config = configuration(service, site, ("ui: {enabled: false", "ui: {enabled: true"))
    ui = config.admin.ui
    assert ui.enabled
    asterisk = SERVICES[SERVICES[service]["network_mode"].removeprefix("service:")]
    assert f"127.0.0.1:{ui.port}:{ui.port}" in asterisk["ports"]


def test_engines_differ_where_they_must_and_nowhere_else(site: Path) -> None:
    configs = [configuration(service, site) for service in ENGINES]
    nodes = [c.cluster.node for c in configs if c.cluster]
    ports = [p for c in configs for p in (c.health.port, c.audiosocket.port, c.admin.ui.port)]
    assert (len(set(nodes)), len(set(ports))) == (3, 9)
    assert len({c.asterisk.url for c in configs if c.asterisk}) == len(ASTERISKS)
    assert len({tuple(c.contexts) for c in configs}) == 1
    databases = {config.calls.index.database.get_secret_value() for config in configs}
    (database,) = databases  # the image makes it, with the name of the user
    assert database.endswith(f"@postgres/{SERVICES['postgres']['environment']['POSTGRES_USER']}")


def test_engines_and_nats_servers_have_the_same_names_and_passwords(site: Path) -> None:
    config = configuration(ENGINES[0], site)
    assert config.cluster is not None
    nats = config.cluster.nats
    assert nats.servers == tuple(f"nats://{name}:4222" for name in NATS)
    assert nats.replicas == len(NATS)
    users = (site / "secrets" / "nats" / "users.conf").read_text()
    assert nats.password is not None
    assert f'password: "{nats.password.get_secret_value()}"' in users
    routes = (site / "secrets" / "nats" / "routes.conf").read_text()
    assert re.findall(r"@(\S+):6222", routes) == NATS


def test_the_nats_server_takes_its_file(site: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").symlink_to(site / "secrets" / "nats")
    (tmp_path / "nats.conf").write_text((FOLDER / "nats.conf").read_text())
    program = Path(sys.executable).with_name("nats-server")
    command = [program, "-t", "--config", tmp_path / "nats.conf"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr


def test_the_dialplan_is_the_one_that_the_engine_prints() -> None:
    ours = (FOLDER / "asterisk" / "cordboard.conf").read_text()
    printed = dialplan(["desk"], {}, shared=True).partition("[cordboard]\n")[2]
    assert printed.partition(" same => n(closed)")[0] in ours


def test_prepared_secrets_are_random_shut_and_kept(site: Path) -> None:
    assert stat.S_IMODE((site / "secrets").stat().st_mode) == 0o700
    before = {path: path.read_text() for path in site.glob("secrets/*/*")}
    found = re.findall(r"\b[0-9a-f]{32}\b", "\n".join(before.values()))
    assert len(set(found)) == 6, "ARI, softphones, admin, NATS' engines and routes, PostgreSQL"
    said = prepare(site)
    assert {path: path.read_text() for path in site.glob("secrets/*/*")} == before
    assert not [secret for secret in found if secret in said]
