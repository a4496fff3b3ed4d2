"""Starts services of compose.yaml without a daemon and calls them; prints what it saw as JSON.

A program of `test_container`, which runs it in namespaces of its own: it has a network with nothing
but a loopback, and all that it starts dies with it. `scripts/image` stands in for docker: each
service gets the files, mounts, environment and command that compose.yaml and its image say.

    container_stage.py alone|together IMAGES-AS-JSON SITE VAR
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import psutil
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "scripts" / "image"
COMPOSE: dict[str, Any] = YAML(typ="safe").load((ROOT / "compose.yaml").read_text())
PATIENCE = 120.0
Facts = dict[str, Any]


class Container:
    """One running service."""

    def __init__(
        self, name: str, image: str, options: list[str], log: IO[str] = sys.stderr
    ) -> None:
        self.name, self.image = name, image
        self.program = subprocess.Popen([TOOL, "run", *options, image], stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """Its first process, seen from here."""
        return int(psutil.Process(self.program.pid).children()[0].pid)

    def execute(self, verb: str, *command: str) -> subprocess.CompletedProcess[str]:
        line = [TOOL, verb, str(self.pid), self.image, *command]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    def wait_until(self, done: Callable[[], object], wanted: str) -> None:
        """Look until it is true. Raises when the container ends, or after PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline, f"{self.name}: not {wanted} in {PATIENCE} s"
            try:
                status = self.program.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"{self.name} ended with {status} before it was {wanted}")

    def wait_healthy(self, *check: str) -> None:
        """Wait for the image's health check, or another one."""
        asked = ("exec", *check) if check else ("health",)

        def healthy() -> bool:
            try:
                return self.execute(*asked).returncode == 0
            except IndexError:  # no child: between the steps before the container
                return False

        self.wait_until(healthy, "healthy")

    def stop(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        return self.program.wait(PATIENCE)


def options_of(
    service: str, site: str, var: str, compose: Facts = COMPOSE, folder: Path = ROOT
) -> list[str]:
    """What a compose file in `folder` says of a service, for `scripts/image run`."""
    said = compose["services"][service]
    options = ["--read-only"] if said["read_only"] else []
    for target in said["tmpfs"]:
        options += ["--tmpfs", target.partition(":")[0]]
    for volume in said["volumes"]:
        if isinstance(volume, str):
            options += ["--mount", f"{var}:{volume.partition(':')[2]}"]
        else:
            source = str(folder / volume["source"].replace("./site", site))
            mode = ":ro" if volume["read_only"] else ""
            options += ["--mount", f"{source}:{volume['target']}{mode}"]
    options += ["--env", "SIP_ADDRESS=127.0.0.1"] if service == "asterisk" else []
    return options


def loopback_up() -> None:
    with socket.socket() as any_socket:
        request = struct.pack("16sh", b"lo", 0x49)  # IFF_UP | IFF_LOOPBACK | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def ask(url: str, authorization: str = "", method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(url, method=method)
    if authorization:
        request.add_header("Authorization", authorization)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def get(path: str, token: str = "") -> tuple[int, str]:
    """Ask the engine."""
    return ask(f"http://127.0.0.1:15000{path}", f"Bearer {token}" if token else "")


def dial(extension: str, site: str, ari: str = "http://127.0.0.1:8088") -> None:
    """Have Asterisk place a call to an extension of the softphones, and echo what it hears."""
    password = Path(site, "secrets/asterisk/ari_password").read_text()
    login = base64.b64encode(f"cordboard:{password}".encode()).decode()
    query = f"endpoint=Local/{extension}@softphones&context=softphones&extension=799&priority=1"
    status, answer = ask(f"{ari}/ari/channels?{query}", f"Basic {login}", "POST")
    assert status == 200, answer


def ledger(var: str) -> list[dict[str, Any]]:
    """The lines of the only call; one that is half written is left out."""
    paths = list(Path(var).glob("calls/*/*.jsonl"))
    assert len(paths) <= 1, paths
    return [json.loads(line) for path in paths for line in path.read_text().split("\n")[:-1]]


def types(var: str) -> list[str]:
    return [line["type"] for line in ledger(var)]


def shut_doors(container: Container) -> Facts:
    """The rights of a container's first process, and where it may write."""
    status = Path(f"/proc/{container.pid}/status").read_text().splitlines()
    rights = dict(line.split(":\t") for line in status if line.startswith(("Cap", "NoNewPrivs")))
    places = ("/", "/opt/cordboard", "/app", "/app/config", "/app/var", "/tmp", "/run/secrets")
    written = [
        place
        for place in places
        if container.execute("exec", "touch", f"{place}/written").returncode == 0
    ]
    ids = container.execute("exec", "id", "-u").stdout.strip()
    return {"rights": rights, "written": written, "uid": ids}


def bare_calls(site: str) -> Path:
    """A copy of the shipped configuration that takes calls without ARI."""
    folder = Path(site, "bare")
    shutil.copytree(ROOT / "config", folder)
    yaml, path = YAML(typ="safe"), folder / "ai-agent.yaml"
    said = yaml.load(path.read_text())
    said["audiosocket"]["context"] = "reception"
    yaml.dump(said, path)
    return folder


def alone(images: dict[str, str], site: str, var: str) -> Facts:
    """`docker run --read-only`: the image with its own command, and a caller past ARI."""
    options = ["--read-only", "--tmpfs", "/tmp", "--mount", f"{var}:/app/var"]
    options += ["--mount", f"{bare_calls(site)}:/app/config:ro"]
    engine = Container("engine", images["engine"], options)
    engine.wait_healthy()
    up = 'ai_agent_mcp_server_up{server="aviation_atis"} 1.0'
    engine.wait_until(lambda: up in get("/metrics")[1], "ready with its MCP server")
    facts = shut_doors(engine)
    call = [sys.executable, "-c", "from cordboard.cli import main; main()", "call"]
    call += ["--target", "127.0.0.1:8090", "--say", "When are you open?"]
    called = subprocess.run(call, capture_output=True, text=True, cwd=ROOT, check=False)
    engine.wait_until(lambda: "call.ended" in types(var), "done with the call")
    facts |= {"call": called.returncode, "said": called.stdout + called.stderr}
    return facts | {"ledger": ledger(var), "stopped": engine.stop()}


def together(images: dict[str, str], site: str, var: str) -> Facts:
    """`docker compose up`: both services, and a call by Asterisk's dialplan and ARI."""
    asterisk = Container("asterisk", images["asterisk"], options_of("asterisk", site, var))
    asterisk.wait_healthy()
    engine = Container("engine", images["engine"], options_of("engine", site, var))
    engine.wait_healthy()
    token = Path(site, "secrets/engine/admin_token").read_text()
    engine.wait_until(lambda: get("/ready", token)[0] == 200, "ready")
    facts: Facts = {"metrics": get("/metrics", token)[1], "doors": shut_doors(engine)}
    facts["rights"] = shut_doors(asterisk)["rights"]
    facts["asterisk_environment"] = Path(f"/proc/{asterisk.pid}/environ").read_text()
    dial("701", site)
    engine.wait_until(lambda: "agent.audio_started" in types(var), "greeting")
    facts["live"] = get("/health", token)[1]
    asterisk.execute("exec", "asterisk", "-rx", "channel request hangup all")
    engine.wait_until(lambda: "call.ended" in types(var), "done with the call")
    return facts | {"ledger": ledger(var), "stopped": [engine.stop(), asterisk.stop()]}


if __name__ == "__main__":
    loopback_up()
    scene = {"alone": alone, "together": together}[sys.argv[1]]
    sys.stdout.write(json.dumps(scene(json.loads(sys.argv[2]), *sys.argv[3:])))
