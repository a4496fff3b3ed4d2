"""`cordboard doctor` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cordboard_testkit.free_ports import free_port

from .commands import typed


def file(folder: Path, **more: Any) -> Path:
    tree = {
        "contexts": {"demo": {"greeting": "Good day."}},
        "health": {"port": free_port()},
        "audiosocket": {"port": free_port(), "context": "demo"},
        "calls": {"directory": str(folder / "calls")},
        **more,
    }
    path = folder / "ai-agent.yaml"
    path.write_text(json.dumps(tree))
    return path


def test_an_installation_in_order_is_a_success(tmp_path: Path) -> None:
    done = typed("doctor", "-c", str(file(tmp_path)))
    assert done.status == 0, done.out
    assert [line.split()[0] for line in done.out.splitlines()] == [
        *("ok", "skipped", "ok", "skipped", "ok", "ok"),
    ]


def test_a_bad_step_and_its_fix_are_printed(tmp_path: Path) -> None:
    asterisk = {"url": f"http://127.0.0.1:{free_port()}", "password": "s3cret-word"}
    done = typed("doctor", "-c", str(file(tmp_path, asterisk=asterisk)))
    assert done.status == 1
    lines = done.out.splitlines()
    (bad,) = [number for number, line in enumerate(lines) if line.startswith("bad ")]
    assert lines[bad].startswith("bad      ARI user and version: cannot reach Asterisk at http://")
    assert lines[bad + 1].startswith("         -> Start Asterisk, and let its HTTP server listen")
    assert lines[bad + 2] == "            ; http.conf"
    assert "            exten => 700,1,Goto(cordboard-demo,s,1)" in lines
    assert "s3cret-word" not in done.out + done.err


def test_a_missing_file_is_a_bad_step(tmp_path: Path) -> None:
    done = typed("doctor", "-c", str(tmp_path / "none.yaml"), "--test-call", "demo")
    assert done.status == 1
    assert done.out.startswith("bad      configuration: ")
    assert "Traceback" not in done.out + done.err


def test_the_steps_as_json_with_the_dialplan_for_freepbx(tmp_path: Path) -> None:
    asterisk = {"url": f"http://127.0.0.1:{free_port()}", "password": "x"}
    path = file(tmp_path, asterisk=asterisk)
    done = typed("doctor", "-c", str(path), "--json", "--freepbx")
    steps = {step["id"]: step for step in json.loads(done.out)["steps"]}
    assert set(steps["ari"]) == {"id", "state", "what", "said", "fix"}
    assert set(steps["ari"]["fix"]) == {"text", "copy"}
    assert "[from-internal-custom]" in steps["dialplan"]["fix"]["copy"]
    assert steps["disk"]["fix"] is None


def test_a_test_call_to_a_context_that_does_not_exist_is_bad(tmp_path: Path) -> None:
    done = typed("doctor", "-c", str(file(tmp_path)), "--test-call", "nope")
    assert done.status == 1
    assert "bad      test call: there is no context 'nope'" in done.out


def test_a_test_call_is_answered(tmp_path: Path) -> None:
    done = typed("doctor", "-c", str(file(tmp_path)), "--test-call", "demo")
    assert done.status == 0, done.out
    assert done.out.splitlines()[-1].startswith("ok       test call: demo answered: ")
    assert list((tmp_path / "calls").glob("*/*.jsonl")), "it is on record as any call"


@pytest.fixture
def running() -> Iterator[int]:
    """The port of an engine that runs, but has lost its audio port."""
    media = {"ready": False, "detail": "the AudioSocket port cannot be opened"}

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"ready": False, "components": {"media": media}}).encode()
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_an_engine_that_runs_is_asked(tmp_path: Path, running: int) -> None:
    done = typed("doctor", "-c", str(file(tmp_path, health={"port": running})))
    assert done.status == 1
    assert "bad      ports of the engine: the AudioSocket port cannot be opened" in done.out
