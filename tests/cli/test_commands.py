"""The command line as a user types it: messages and exit status, no tracebacks."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cordboard.calls.history import CallHistory, ToolUse, Turn
from cordboard.cli import call
from cordboard.cli.call import Lines, same_tools
from cordboard.errors import LineError
from cordboard.history.scenario import Scenario

from .commands import ROOT, Done, program, typed

DEMO = str(ROOT / "config" / "ai-agent.yaml")


def written(folder: Path, text: str) -> str:
    path = folder / "agent.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("run", "name"),
    [(program, ""), *((typed, name) for name in ("run", "demo", "call", "check", "version"))],
)
def test_every_command_explains_itself(run: Callable[..., Done], name: str) -> None:
    done = run(*name.split(), "--help")
    assert (done.status, done.err) == (0, "")
    assert "Usage: " in done.out


def test_check_of_the_demo_file(tmp_path: Path) -> None:
    calls = f"calls: {{directory: {tmp_path}/calls}}\n"
    done = typed("check", "-c", written(tmp_path, Path(DEMO).read_text() + calls))
    assert (done.status, done.err) == (0, "")
    assert "in order. Contexts: demo, reception." in done.out


def test_check_tells_problems_from_warnings(tmp_path: Path) -> None:
    text = (
        "contexts:\n  demo: {greting: Hi}\n"
        "mcp: {servers: {shop: {command: [no-such-program-at-all]}}}\n"
    )
    done = typed("check", "-c", written(tmp_path, text))
    first, second, total = done.err.splitlines()
    assert done.status == 1
    assert ":2: contexts.demo.greting: unknown key; did you mean greeting?" in first
    assert second.startswith("warning: ")
    assert "no-such-program-at-all" in second
    assert total.endswith("1 problem")


def test_check_warns_of_a_proxy_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@proxy.example:1080")
    done = typed("check", "-c", written(tmp_path, "contexts: {demo: {}}\n"))
    assert done.status == 0
    assert "ALL_PROXY: the proxy in the environment is of the kind socks5://" in done.err
    assert "secret" not in done.err


def test_check_says_that_names_were_not_checked(tmp_path: Path) -> None:
    text = "contexts: {demo: {tools: [nowhere]}}\nproviders: {a: {type: openai_realtme}}\n"
    problem, total = typed("check", "-c", written(tmp_path, text)).err.splitlines()
    assert "did you mean openai_realtime?" in problem
    assert total.endswith(
        "1 problem; names of contexts, tools and the like are checked when that is mended"
    )
    mended = typed("check", "-c", written(tmp_path, text.replace("realtme", "realtime")))
    assert "nothing provides the tool nowhere" in mended.err
    assert mended.err.endswith("1 problem\n")


def test_what_is_only_degraded_does_not_fail_the_check(tmp_path: Path) -> None:
    text = "contexts:\n  demo: {greeting: Hi}\nmcp: {servers: {shop: {command: [no-such-thing]}}}\n"
    done = typed("check", "-c", written(tmp_path, text))
    assert done.status == 0
    assert "warning: " in done.err


def test_open_ports_and_folders_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir(mode=0o755)
    text = (
        "health: {host: 0.0.0.0}\n"
        f"calls: {{directory: {tmp_path}/calls}}\n"
        "contexts: {demo: {greeting: Hi}}\n"
    )
    done = typed("check", "-c", written(tmp_path, text))
    first, second = done.err.splitlines()
    assert done.status == 0
    assert first.startswith("cordboard: warning: ")
    assert ":1: health.host: other machines can reach 0.0.0.0" in first
    assert ":2: calls.directory: everybody on this machine can look into" in second


NESTED = "contexts: {demo: {rules: {intents: {a: {say: x, sentences: ['%s']}}}}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            NESTED % ("(" * 400 + "a" + ")" * 400),
            ":1: contexts.demo.rules.intents.a.sentences[0]: ",
        ),
        ("a: " + "[\n" * 50_000, ":51: nested more than 50 deep"),
        ("#" * 50_000_000, ": cannot be read: larger than 1024 KiB"),
        ("a: 0x" + "f" * 5_000, ":1: a: a number with more than 40 digits"),
        ("\0\1\2", ":1: not valid YAML: the character U+0000 is not allowed"),
    ],
    ids=["sentence", "yaml", "huge", "number", "binary"],
)
def test_no_file_ends_in_a_traceback(tmp_path: Path, text: str, message: str) -> None:
    done = typed("check", "-c", written(tmp_path, text))
    assert done.status == 1
    assert message in done.err


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in {
        str(tmp_path / "pipe"): "not a regular file",
        "/dev/zero": "not a regular file",
        str(tmp_path): "Is a directory",
        "x" * 5_000: "File name too long",
    }.items():
        for command in ("check", "run", "reload"):
            done = typed(command, "-c", path)
            assert done.status == 1
            assert f"cannot be read: {reason}" in done.err


def test_a_file_without_contexts(tmp_path: Path) -> None:
    done = typed("check", "-c", written(tmp_path, "contexts: {}\n"))
    assert done.status == 1
    assert "found an empty mapping" in done.err


@pytest.mark.parametrize(
    ("run", "command"),
    [(program, "run"), (typed, "demo"), (typed, "call --say hello"), (typed, "check")],
)
def test_a_file_that_is_not_there(run: Callable[..., Done], command: str) -> None:
    done = run(*command.split(), "-c", "/nowhere/agent.yaml")
    assert done.status == 1
    assert "/nowhere/agent.yaml: cannot be read: No such file or directory" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["call"], "nothing to say"),
        (["call", "--say", " "], "--say without words"),
        (["call", "--say", "hello", "--target", "here"], "is not HOST:PORT"),
        (["call", "--say", "hello", "--record", "/nowhere/call.wav"], "there is no folder"),
        (["call", "--scenario", "x.yaml", "--say", "hello"], "--scenario has the lines"),
        (["run", "--log-level", "loud"], "'loud' is not one of"),
        (["nonsense"], "No such command"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str) -> None:
    done = (program if arguments == ["nonsense"] else typed)(*arguments)
    assert done.status == 2
    assert message in " ".join(done.err.replace("│", " ").split())


def test_a_context_that_is_not_there() -> None:
    done = typed("call", "-c", DEMO, "--say", "hello", "--context", "nowhere")
    assert done.status == 1
    assert "there is no context 'nowhere'; known: demo, reception" in done.err


def test_a_folder_for_results_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = typed("demo", "-c", DEMO, "--output", str(tmp_path / "file"))
    assert done.status == 1
    assert "the call cannot be written to" in done.err


def test_a_scenario_is_placed_to_its_context_where_the_caller_chooses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("scenario: s\ncontext: reception\ncaller: [{says: Hello.}]\n")
    placed: list[str] = []

    async def place(path: Path, config: object, context: str, *more: object, quiet: bool) -> None:
        placed.append(context)
        raise LineError("not placed")

    monkeypatch.setattr(call, "_call_running", place)
    for via in ("sip", "audiosocket"):
        done = typed(
            "call", "-c", DEMO, "--scenario", str(file), "--via", via, "--target", "127.0.0.1:1"
        )
        assert "not placed" in done.err
    assert placed == ["reception", "demo"]


class Hum:
    """A voice that is as long as its text."""

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        yield b"\1\0" * len(text)


async def test_a_scenario_is_spoken_with_its_interruptions_and_its_tools_are_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools = [{"name": "find_order"}, {"name": "hangup_call"}]
    caller = [
        {"says": "Where is it?"},
        {"says": "Bye.", "interrupts_after_ms": 1500, "tools": tools},
    ]
    scenario = Scenario.model_validate({"scenario": "s", "context": "demo", "caller": caller})
    script = await Lines.of(scenario).script(Hum())
    spoken = [(line.text, len(line.sound), line.interrupts_after) for line in script]
    assert spoken == [("Where is it?", 12, None), ("Bye.", 4, 1.5)]

    def used(*names: str) -> CallHistory:
        turn = Turn(1, tools=[ToolUse(name, name, {}, 0) for name in names])
        return CallHistory(turns={1: turn})

    assert same_tools(scenario, used("find_order", "hangup_call"))
    assert not same_tools(scenario, used("hangup_call", "find_order"))
    assert "the agent used hangup_call, find_order" in capsys.readouterr().err
