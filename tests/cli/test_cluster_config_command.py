"""`cordboard cluster config` beside a real NATS server, and two engines in processes of their own
that follow it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.nats_server import NatsServer

from cordboard.cluster.config_versions import ConfigVersions
from cordboard.cluster.config_wire import PublishedVersion
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

from .commands import ROOT, Done, typed

KEY = "sk-not-a-real-key"
VERSION = """\
# The words of all desks.
contexts:
  desk:
    greeting: {greeting}
providers:
  live: {{type: openai_realtime, api_key: "${{FRONT_KEY}}"}}
"""


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@dataclass
class Engines:
    """Nodes of a cluster: their files, and `cordboard run` for each."""

    server: NatsServer
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def file(self, node: str) -> Path:
        path = self.folder / f"{node}.json"
        if not path.exists():
            config = {
                "contexts": {"desk": {"greeting": "Own words."}},
                "providers": {"live": {"type": "openai_realtime", "api_key": "${FRONT_KEY}"}},
                "health": {"port": free_port()},
                "audiosocket": {"port": 0},
                "calls": {"directory": str(self.folder / f"calls-{node}")},
                "admin": {"ui": {"data": str(self.folder / f"admin-{node}")}},
                "cluster": {
                    "node": node,
                    "config": "bus",
                    "nats": {"servers": [self.server.url]},
                },
            }
            path.write_text(json.dumps(config))
        return path

    def start(self, node: str, **environment: str) -> None:
        with (self.folder / f"{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                [sys.executable, "-m", "cordboard", "run", "-c", str(self.file(node))],
                cwd=ROOT,
                stderr=log,
                env={**os.environ, "FRONT_KEY": KEY, **environment},
            )

    def log(self, node: str) -> str:
        path = self.folder / f"{node}.log"
        return path.read_text() if path.exists() else ""

    def stop(self, node: str) -> None:
        process = self.processes.pop(node)
        process.terminate()
        assert process.wait(PATIENCE) == 0, self.log(node)

    def command(self, *arguments: str, **environment: str) -> Done:
        config = ("-c", str(self.file("a")))
        given = {"FRONT_KEY": KEY, **environment}
        return typed("cluster", "config", *arguments, *config, **given)

    def write(self, greeting: str) -> str:
        path = self.folder / "version.yaml"
        path.write_text(VERSION.format(greeting=greeting))
        return str(path)

    def status(self) -> dict[str, Any]:
        """Version, state and problem by node; nothing while the bus does not answer."""
        done = self.command("status", "--json")
        if not done.out:
            return {}
        found = json.loads(done.out)
        return {
            each["instance"].split("-")[0]: (each["number"], each["state"], each["problem"])
            for each in found["engines"]
        }


@pytest.fixture
def engines(server: NatsServer, tmp_path: Path) -> Iterator[Engines]:
    made = Engines(server, tmp_path)
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()


def eventually(so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 3 * PATIENCE  # several programs start side by side
    while not so():
        assert time.monotonic() < end, what
        time.sleep(1.0)  # a look at the bus costs more than a second of a busy processor


def test_versions_are_checked_published_listed_and_rolled_back(engines: Engines) -> None:
    done = engines.command("status")
    assert (done.status, done.out.splitlines()[0]) == (0, "no version is published")
    done = engines.command("publish", engines.write("Good day"), "-m", "first", "--wait", "0")
    assert (done.status, done.out[:23]) == (0, "version 1 is published "), done.err

    wrong = engines.folder / "wrong.yaml"
    wrong.write_text("contexts:\n  desk:\n    greting: Hi\n")
    done = engines.command("publish", str(wrong))
    assert done.status == 1
    assert f"{wrong}:3: contexts.desk.greting: unknown key; did you mean greeting?" in done.err
    done = engines.command("publish", engines.write("${NOT_SET_ANYWHERE}"))
    assert done.status == 1
    assert "the environment variable NOT_SET_ANYWHERE is not set" in done.err

    done = engines.command("publish", engines.write("Good evening"), "--base", "0")
    assert done.status == 1
    assert "has been changed meanwhile: the newest version is 1 by " in done.err
    done = engines.command("publish", engines.write("Good evening"), "--base", "1", "--wait", "0")
    assert done.status == 0
    done = engines.command("rollback", "1", "--wait", "0")
    assert done.out.splitlines()[0] == "version 3 is published, the text of version 1"
    assert engines.command("show", "3").out == VERSION.format(greeting="Good day")
    rows = json.loads(engines.command("history", "--json").out)
    assert [(row["number"], row["note"], row["in_force"]) for row in rows] == [
        (3, "version 1 again", True),
        (2, "", False),
        (1, "first", False),
    ]
    assert engines.command("history").out.splitlines()[1].startswith("3 *")

    version = engines.write("Other words")
    assert engines.command("publish", version, "--canary", "80%").status == 2
    done = engines.command("publish", version, "--canary", "10%", "--context", "nowhere")
    assert done.status == 2
    done = engines.command("publish", version, "--canary", "10%", "--context", "desk")
    assert done.out.startswith("version 4 is a canary"), done.err
    done = engines.command("publish", version)
    assert (done.status, "promote or withdraw it first" in done.err) == (1, True)
    assert "version 4 is a canary, 10 % of the calls" in engines.command("status").out
    assert engines.command("withdraw", "-m", "not good").out == "version 4 is withdrawn\n"
    assert "withdrawn" in engines.command("history").out


def test_who_is_overtaken_while_waiting_for_the_engines_is_told(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = ConfigVersions.publish

    async def two(self: ConfigVersions, text: str, *more: Any) -> PublishedVersion:
        version = await publish(self, text, *more)
        await publish(self, f"# other\n{text}", "bo", "", None)
        return version

    monkeypatch.setattr(ConfigVersions, "publish", two)
    done = engines.command("publish", engines.write("Good day"))
    assert done.out.splitlines()[1] == "version 2 in force"
    assert done.status == 1


def test_a_draft_listens(engines: Engines) -> None:
    assert engines.command("shadow").out == "no draft listens\n"
    draft = engines.write("Other words")
    assert engines.command("shadow", draft, "--context", "nowhere").status == 2
    assert engines.command("shadow", draft, "--turns", "-1").status == 2  # no head would have it
    done = engines.command("shadow", draft, "--share", "25%")
    assert done.out.startswith("the draft listens to 25 % of the calls of desk"), done.err
    told = json.loads(engines.command("shadow", "--json").out)
    assert (told["order"]["context"], told["engines"]) == ("desk", [])
    assert engines.command("shadow").out.splitlines()[1].split() == ["0", "same"]
    assert engines.command("shadow", "--stop").status == 0
    assert "no draft listens" in engines.command("shadow", "--stop").err


def test_two_engines_follow_stop_where_one_cannot_and_keep_the_version_without_the_bus(
    engines: Engines, server: NatsServer
) -> None:
    engines.start("a", EVENING="evening")
    engines.start("b")
    for node in ("a", "b"):
        eventually(lambda node=node: "engine_ready" in engines.log(node), "two engines start")  # type: ignore[misc]
    eventually(lambda: set(engines.status()) == {"a", "b"}, "two engines follow")
    done = engines.command("publish", engines.write("Good day"))
    assert done.status == 0, done.out + done.err
    assert engines.status() == {"a": (1, "in_force", ""), "b": (1, "in_force", "")}

    evening = engines.write("Good ${EVENING}")
    done = engines.command("publish", evening, EVENING="evening")  # `b` has no such variable
    assert done.status == 1
    assert "b-" in done.out
    number, state, problem = engines.status()["b"]
    assert (number, state) == (1, "refused")
    assert problem.startswith("version 2 of the cluster:4: contexts.desk.greeting: the environment")
    assert engines.command("rollback", "1").status == 0
    assert {number for number, _, _ in engines.status().values()} == {3}

    server.kill()
    engines.processes["a"].send_signal(signal.SIGHUP)
    eventually(lambda: "why=SIGHUP" in engines.log("a"), "a reload of the file")
    (line,) = [line for line in engines.log("a").splitlines() if "why=SIGHUP" in line]
    assert "changed=[]" in line
    engines.stop("b")
    engines.start("b")
    eventually(lambda: engines.log("b").count("engine_ready") == 2, "a start without the bus")
    server.start()
    eventually(lambda: set(engines.status()) == {"a", "b"}, "both are back")
    eventually(lambda: engines.status()["b"][:2] == (3, "in_force"), "the version that it had")
    assert engines.log("b").count("number=3") == 1  # it was applied once, before the restart
    for node in ("a", "b"):
        engines.stop(node)
        assert KEY not in engines.log(node)
