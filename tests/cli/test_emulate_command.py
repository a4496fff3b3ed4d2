"""`cordboard emulate`: the way of a user without a key, as the README describes it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from cordboard_testkit.emulators.attendant import Attendant, transcriber
from cordboard_testkit.emulators.heard_words import Ear
from cordboard_testkit.emulators.script import Answer, CallerTurn, Prompter, Script, Use
from cordboard_testkit.free_ports import free_port

from .commands import PROGRAM, ROOT, program, typed

HANGUP = {"name": "hangup_call", "description": "End the call.", "parameters": {}}
HOURS = {"name": "mcp_shop_opening_hours", "description": "When the shop is open."}
TRANSFER = {
    "name": "transfer",
    "description": "Put the caller through.",
    "parameters": {
        "properties": {"destination": {"type": "string", "enum": ["sales", "front_desk"]}},
        "required": ["destination"],
    },
}
ATIS = {
    "name": "get_atis",
    "description": "The weather at an airport.",
    "parameters": {"properties": {"icao": {"type": "string"}}, "required": ["icao"]},
}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("What are your opening hours?", (Use("mcp_shop_opening_hours"),)),
        (
            "Could I talk to the front desk, please?",
            (Use("transfer", {"destination": "front_desk"}),),
        ),
        ("The weather for E. K. C. H.", (Use("get_atis", {"icao": "EKCH"}),)),
        ("The weather for Copenhagen", ()),
        ("Thank you. Good bye!", (Use("hangup_call"),)),
        ("Sing me a song.", ()),
    ],
)
def test_an_emulator_finds_the_tool_for_the_words(words: str, answer: tuple[Use, ...]) -> None:
    notes: list[str] = []
    attendant = Attendant(lambda sound, rate: words, notes.append)
    tools = (HANGUP, HOURS, TRANSFER, ATIS)
    made = attendant(CallerTurn(sound=b"1234", tools=tools))
    assert (made.heard, made.asks) == (words, answer)
    assert notes[0] == f"heard: {words}"
    assert made.asks or words in made.says


def test_an_emulator_without_hangup_says_goodbye() -> None:
    attendant = Attendant(lambda sound, rate: "", lambda line: None)
    assert attendant(CallerTurn("Goodbye.")) == Answer("Goodbye.", heard="Goodbye.")


def test_an_emulated_recogniser_hears_at_each_pause_and_keeps_what_it_has_given() -> None:
    frame = (8000 * np.sin(np.arange(160) * 0.3)).astype("<i2").tobytes()
    heard: list[int] = []

    def listen(sound: bytes, rate: int) -> str:
        heard.append(len(sound) * 1000 // rate // 2)
        return "one two"

    notes: list[str] = []
    ear = Ear(Prompter(Script(improvises=transcriber(listen, notes.append))), 8000, 600)
    for _ in range(25):
        ear.hear(frame)
    assert ear.words() == [], "while the caller speaks"
    for _ in range(10):
        ear.hear(bytes(320))
    assert [word.text for word in ear.give()] == ["one", "two"]
    for sound in [frame] * 25 + [bytes(320)] * 10:
        ear.hear(sound)
    assert [word.text for word in ear.new_words()] == ["one", "two"], "of the second piece"
    assert len(ear.words()) == 4
    assert notes == ["heard: one two"] * 2
    assert all(500 < ms < 900 for ms in heard), "each piece alone"


def test_an_unknown_vendor() -> None:
    done = typed("emulate", "acme")
    assert done.status == 2
    said = " ".join(done.err.replace("│", " ").split())
    assert "'acme' is not one of openai, deepgram, gemini, elevenlabs, anthropic" in said


def test_without_the_test_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: there(name) if "kit" not in name else None
    )
    done = typed("emulate", "openai")
    assert done.status == 1
    assert "install the distribution cordboard-testkit (from a checkout: pip install" in done.err


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = program("emulate", "anthropic", "--port", str(port))
    assert done.status == 1
    assert f"port {port} of 127.0.0.1 cannot be opened" in done.err
    assert "give another with --port" in done.err


def test_a_chat_with_an_emulated_language_model(tmp_path: Path) -> None:
    with _emulated("anthropic") as service:
        brain = service.line("brain:")["brain"]
        file = tmp_path / "ai-agent.yaml"
        tree: dict[str, Any] = {
            "providers": {"claude": {"type": "pipeline", "brain": brain}},
            "contexts": {"desk": {"provider": "claude", "tools": ["hangup_call"]}},
        }
        _write(file, tree)
        words = ("-m", "Sing me a song.", "-m", "Goodbye.")
        done = program("chat", "-c", str(file), *words, **service.environment)
    assert (done.status, done.err) == (0, "")
    assert "You said: Sing me a song." in done.out
    assert "tool asked   hangup_call {}" in done.out
    assert "anthropic heard: Sing me a song.\n" in service.said
    assert "refused" not in service.said


@pytest.mark.voices
@pytest.mark.parametrize(
    ("vendor", "line"),
    [
        ("openai", "providers: {live: {type: openai_live"),
        ("deepgram", "stt: {type: deepgram,"),
        ("deepgram", "stt: {type: deepgram_flux,"),
    ],
)
def test_a_call_with_an_emulated_service(vendor: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "ai-agent.yaml"
    with _emulated(vendor) as service:
        found = service.line(line)
        providers = found.get("providers") or {"parts": {"type": "pipeline", **found}}
        tree: dict[str, Any] = {
            "providers": providers,
            "contexts": {"desk": {"provider": next(iter(providers)), "tools": ["hangup_call"]}},
            "calls": {"directory": str(tmp_path / "calls")},
        }
        _write(file, tree)
        done = program("call", "-c", str(file), "--say", "Goodbye.", **service.environment)
    assert done.status == 0, done.err
    assert "tool asked   hangup_call" in done.out
    assert "call ended: completed (agent_hangup)" in done.out
    assert f"{vendor} heard: Good" in service.said
    assert "refused" not in service.said


@pytest.mark.voices
def test_the_readmes_cloud_example_as_written_but_without_a_key(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("## With a cloud provider\n")[2]
    (shell,) = re.findall(r"^```sh\n(.*?)^```", section.partition("\n## ")[0], re.M | re.S)
    (example,) = re.findall(r"^```yaml\n(.*?)^```", section.partition("\n## ")[0], re.M | re.S)
    check, call = (line.partition("#")[0] for line in shell.splitlines()[1:])
    tree = YAML(typ="safe").load(example)
    file = tmp_path / "ai-agent.yaml"
    tree["calls"] = {"directory": str(tmp_path / "calls")}
    with _emulated("openai") as service:
        tree["providers"] |= service.line("providers:")["providers"]
        _write(file, tree)
        done = _shell(f"{check} -c {file}", service.environment)
        assert done.stdout.count(": ok") == 3, done.stdout + done.stderr
        done = _shell(f"{call} -c {file}", service.environment)
        assert done.returncode == 0, done.stderr
        assert "You said: What are your opening hours?" in done.stdout
        assert "tool asked   hangup_call" in done.stdout
        assert "call ended: completed (agent_hangup)" in done.stdout
    assert "openai heard: What are your opening hours?\n" in service.said
    assert "refused" not in service.said
    done = _shell(f"{call} -c {file}", service.environment)
    assert "From eight to four." in done.stdout, "the rules of the fallback answer"
    assert "call ended: completed (agent_hangup)" in done.stdout


class _Emulated:
    """A running emulator."""

    def __init__(self) -> None:
        self.said = ""
        self.environment: dict[str, str] = {}

    def line(self, begins: str) -> dict[str, Any]:
        """Return the first line of configuration that begins so."""
        found = next(line for line in self.said.splitlines() if line.strip().startswith(begins))
        parsed: dict[str, Any] = YAML(typ="safe").load(found)
        return parsed


@contextlib.contextmanager
def _emulated(vendor: str) -> Iterator[_Emulated]:
    """The command until Ctrl-C, after which it must have ended well and quickly."""
    arguments = [*PROGRAM, "emulate", vendor, "--port", str(free_port())]
    service = _Emulated()
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        try:
            for line in running.stdout:
                service.said += line
                if name := re.match(r" *export (\w+)=(.*)\n", line):
                    service.environment[name[1]] = name[2]
                if line.startswith("Ctrl-C"):
                    break
            yield service
            running.send_signal(signal.SIGINT)
            service.said += running.communicate(timeout=60)[0]
            assert running.returncode == 0
        finally:
            running.kill()


def _shell(command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the README with the `cordboard` of this environment."""
    start = f'{PROGRAM[0]} -m cordboard "$@"'
    script = f"cordboard() {{ {start}; }}; {command}"
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )


def _write(path: Path, tree: dict[str, Any]) -> None:
    with path.open("w") as file:
        YAML(typ="safe").dump(tree, file)
