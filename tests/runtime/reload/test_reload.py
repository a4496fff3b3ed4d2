"""A changed file comes into force: the next call gets it, calls that live keep theirs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from cordboard.api.administration_view import Deferred
from cordboard.calls.events import Bound
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Guest, Stand, context, server

ECHO = ("mcp_s_echo", "mcp_s_environment")


async def test_the_next_call_gets_what_has_changed_and_the_live_one_keeps_its_own(
    stand: Stand,
) -> None:
    stand.write(contexts={"demo": context("hangup_call", prompt="Old.")})
    await stand.begin()
    before = await stand.ring()
    stand.write(contexts={"demo": context("send_digits", prompt="New.", greeting="Good evening.")})
    report = await stand.reload()
    assert report.applied
    assert report.generation == 2
    assert report.changed == (
        "contexts.demo.prompt",
        "contexts.demo.greeting",
        "contexts.demo.tools",
    )
    assert report.deferred == report.problems == ()
    after = await stand.ring()
    assert (after.greeting, after.tools) == ("Good evening.", ["send_digits"])
    assert after.agent.session is not None
    assert after.agent.session.prompt == "New."
    assert (before.greeting, before.tools) == ("Good morning.", ["hangup_call"])
    assert (await before.ask("send_digits", keys="1")).status == "refused", "it never had it"
    assert [event.generation for event in stand.events if isinstance(event, Bound)] == [1, 2]


async def test_a_context_comes_and_a_context_goes(stand: Stand) -> None:
    stand.write(contexts={"demo": context(), "old": context(greeting="Old.")})
    await stand.begin()
    on_old = await stand.ring(AI_CONTEXT="old")
    stand.write(contexts={"demo": context(), "new": context(greeting="New.")})
    report = await stand.reload()
    assert report.changed == ("contexts.new", "contexts.old")
    assert (await stand.ring(AI_CONTEXT="new")).greeting == "New."
    assert "not available" in (await stand.ring(AI_CONTEXT="old")).greeting
    assert on_old.greeting == "Old."


BAD = {
    "not YAML": ("contexts: [\n", 2, ""),
    "an unknown key": ("contexts:\n  demo:\n    greetin: x\n", 3, "contexts.demo.greetin"),
    "a wrong value": ("contexts: {demo: {}}\ncalls:\n  max_calls: many\n", 3, "calls.max_calls"),
    "a name of nothing": ("contexts: {demo: {}}\nroutes:\n  '1': x\n", 3, "routes.1"),
    "empty": ("", 1, ""),
    "a sentence nested 400 deep": (
        "contexts:\n  demo:\n    rules:\n      intents:\n        a:\n          say: x\n"
        f"          sentences:\n          - {'(' * 400}a{')' * 400}\n",
        8,
        "contexts.demo.rules.intents.a.sentences[0]",
    ),
    "lists nested 50,000 deep": ("contexts:\n  demo: " + "[\n" * 50_000, 51, ""),
}


@pytest.mark.parametrize(("text", "line", "key"), BAD.values(), ids=BAD)
async def test_a_bad_file_changes_nothing_and_says_why(
    stand: Stand, text: str, line: int, key: str
) -> None:
    stand.write(mcp={"servers": {"s": server()}}, contexts={"demo": context(*ECHO)})
    await stand.begin()
    generation, pid = stand.succession.generation, stand.pid()
    stand.path.write_text(text)
    report = await stand.reload()
    assert not report.applied
    assert (report.generation, report.changed) == (1, ())
    problem = report.problems[0]
    assert (problem.file, problem.line, problem.key) == (str(stand.path), line, key)
    assert stand.succession.generation is generation
    assert (await stand.ring()).greeting == "Good morning."
    assert stand.pid() == pid
    assert stand.logged("reload_refused")[0]["problems"] == [p.labelled() for p in report.problems]


async def test_a_file_that_is_gone_changes_nothing(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    stand.path.unlink()
    report = await stand.reload()
    assert not report.applied
    assert "cannot be read" in str(report.problems[0])
    stand.write(contexts={"demo": context(greeting="Back.")})
    assert (await stand.reload()).applied
    assert (await stand.ring()).greeting == "Back."


async def test_what_is_no_file_of_a_possible_size_changes_nothing(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    with stand.path.open("wb") as file:
        file.truncate(50_000_000)
    (problem,) = (await stand.reload()).problems
    assert "larger than 1024 KiB" in problem.message
    stand.path.unlink()
    os.mkfifo(stand.path)
    (problem,) = (await stand.reload()).problems
    assert "not a regular file" in problem.message
    assert (await stand.ring()).greeting == "Good morning."


async def test_a_secret_is_read_again_with_the_file(stand: Stand) -> None:
    secret = stand.path.parent / "token"
    secret.write_text("the old secret\n")
    stand.write(admin={"token": "${file:token}"})
    await stand.begin()
    secret.write_text("the new secret\n")
    report = await stand.reload()
    assert (report.applied, report.changed) == (True, ("admin.token",))
    assert {"the old secret", "the new secret"} <= stand.secrets
    secret.unlink()
    (problem,) = (await stand.reload()).problems
    assert (problem.key, problem.message.partition(";")[0]) == (
        "admin.token",
        f"there is no file {secret}",
    )
    assert not any(secret in str(stand.log) for secret in stand.secrets)
    token = stand.succession.config.admin.token
    assert token is not None
    assert token.get_secret_value() == "the new secret"


async def test_a_file_that_says_the_same_makes_no_generation(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    stand.path.write_text(f"# a comment\n{stand.path.read_text()}")
    report = await stand.reload()
    assert (report.applied, report.generation, report.changed) == (True, 1, ())


async def test_what_is_wrong_without_being_fatal_is_told_and_applied(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    stand.write(mcp={"servers": {"s": {"command": ["no-such-program-anywhere"]}}})
    report = await stand.reload()
    assert report.applied
    (problem,) = report.problems
    assert (problem.key, problem.fatal) == ("mcp.servers.s.command", False)


async def test_rules_of_all_calls_change_too(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    await stand.ring()
    stand.write(calls={"max_calls": 1}, routes={"100": "demo"})
    assert (await stand.reload()).changed == ("routes.100", "calls.max_calls")
    refused = stand.registry
    from cordboard_testkit.fake_line import FakeLine

    line = FakeLine("99999999-0000-4000-8000-000000000000")
    refused.offer(line.offer())
    await until(lambda: line.released > 0)
    assert line.declined == ["busy"]


async def test_what_is_opened_once_waits_for_the_next_start(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    stand.write(health={"port": 1234}, audiosocket={"port": 5, "advertise_host": "10.0.0.1"})
    report = await stand.reload()
    waiting = tuple(
        Deferred(k, "the engine is restarted") for k in ("health.port", "audiosocket.port")
    )
    assert report.deferred == waiting
    assert report.changed == ("health.port", "audiosocket.port", "audiosocket.advertise_host")
    assert stand.changed[-1].audiosocket.advertise_host == "10.0.0.1"
    again = await stand.reload()
    assert (again.changed, again.deferred) == ((), waiting), "still not in force"
    stand.write()
    assert (await stand.reload()).deferred == ()


async def test_the_token_of_the_administration_is_the_new_one(stand: Stand) -> None:
    stand.write(admin={"token": "old-old-old"})
    await stand.begin()
    stand.write(admin={"token": "new-new-new"})
    report = await stand.reload()
    assert (report.changed, report.deferred) == (("admin.token",), ())
    token = stand.succession.config.admin.token
    assert token is not None
    assert token.get_secret_value() == "new-new-new"
    assert "new-new-new" in stand.secrets


async def test_without_a_file_there_is_nothing_to_reload(stand: Stand) -> None:
    from cordboard.runtime.administration import Administration

    stand.write()
    await stand.begin()
    report = await _begun(Administration(stand.succession)).reload()
    assert not report.applied
    assert "not started from a file" in str(report.problems[0])


def _begun(administration: Any) -> Any:
    administration._begun.set()
    return administration


async def test_a_model_is_not_loaded_into_the_engine_during_calls(
    stand: Stand, tmp_path: Path
) -> None:
    """The load would stop the sound of the call for seconds."""
    file = tmp_path / "model.gguf"
    file.touch()
    stand.write()
    await stand.begin()
    caller = await stand.ring()
    local = {"type": "pipeline", "brain": {"type": "gguf", "model": str(file)}}
    contexts = {"demo": context(greeting="Second.")}
    stand.write(providers={"model": local}, contexts=contexts)
    report = await stand.reload()
    assert not report.applied
    assert "providers.model.brain: its model is loaded only while no call is active (1 now)" in str(
        report.problems[0]
    )
    assert (await stand.ring()).greeting == "Good morning.", "calls come in as before"
    assert caller.agent.session is not None


async def test_reloads_at_the_same_time_follow_one_another(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    reports = []

    async def write_and_reload(number: int) -> None:
        stand.write(contexts={"demo": context(greeting=f"Number {number}.")})
        reports.append(await stand.reload())

    await asyncio.gather(*(write_and_reload(number) for number in range(5)))
    assert all(report.applied for report in reports)
    assert stand.succession.generation.number == 1 + sum(bool(r.changed) for r in reports)
    assert (await stand.ring()).greeting == "Number 4."


async def test_who_gives_up_waiting_does_not_stop_the_reload(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    stand.write(contexts={"demo": context(greeting="New.")})
    impatient = asyncio.create_task(stand.administration.reload())
    await asyncio.sleep(0)
    impatient.cancel()
    await until(lambda: stand.succession.generation.number == 2)


async def test_an_engine_that_stops_changes_nothing_any_more(stand: Stand) -> None:
    stand.write(mcp={"servers": {"s": server()}})
    await stand.begin()
    stand.write(mcp={"servers": {"s": server(version="2"), "t": server()}})
    asked = asyncio.create_task(stand.administration.reload())
    await asyncio.sleep(0)
    stand.succession.freeze()
    await stand.administration.close()
    report = await asyncio.wait_for(asked, PATIENCE)
    assert not report.applied
    assert "stopping" in str(report.problems[0])
    assert not (await stand.reload()).applied
    assert stand.succession.generation.number == 1
    assert list(stand.succession.generation.fleet.servers) == ["s"]


async def test_a_reload_asked_for_during_the_start_is_done_after_it(stand: Stand) -> None:
    stand.write()
    await stand.begin()
    stand.administration._begun.clear()
    stand.write(contexts={"demo": context(greeting="New.")})
    asked = asyncio.create_task(stand.administration.reload())
    await asyncio.sleep(0.02)
    assert not asked.done()
    await stand.administration.begin()
    assert (await asyncio.wait_for(asked, PATIENCE)).generation == 2


async def test_secrets_of_a_new_file_are_known_before_anything_is_done(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.write()
    await stand.begin()
    monkeypatch.setenv("ORDER_KEY", "hunter2-hunter2")
    stand.write(mcp={"servers": {"s": server(env={"KEY": "${ORDER_KEY}"})}})
    report = await stand.reload()
    assert "hunter2-hunter2" in stand.secrets
    assert "hunter2-hunter2" not in repr(report)
    assert "hunter2-hunter2" not in str(stand.log)


async def test_dialogues_that_have_not_changed_are_not_compiled_again_and_none_on_the_loop(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from cordboard.agents.rules import brain

    compiled: list[tuple[str, str]] = []
    real = brain.compile_grammar

    def watched(rules: Any, toolbox: Any) -> Any:
        compiled.append((next(iter(rules.intents), ""), threading.current_thread().name))
        return real(rules, toolbox)

    monkeypatch.setattr(brain, "compile_grammar", watched)

    def rules(name: str) -> dict[str, Any]:
        return {"intents": {name: {"sentences": ["hello there"], "say": "Hello."}}}

    stand.write(contexts={"demo": context(rules=rules("a")), "other": context(rules=rules("b"))})
    await stand.begin()
    assert sorted(name for name, _ in compiled) == ["a", "b"]
    compiled.clear()
    stand.write(contexts={"demo": context(rules=rules("a")), "other": context(rules=rules("c"))})
    await stand.reload()
    assert [name for name, _ in compiled] == ["c"]
    assert threading.main_thread().name not in {thread for _, thread in compiled}


async def test_a_dialogue_is_compiled_ahead_when_a_servers_tools_come(stand: Stand) -> None:
    """It may depend on them, and must not be compiled while somebody waits on the line."""
    rules = {"intents": {"look": {"sentences": ["look"], "tool": "mcp_s_environment"}}}
    stand.write(mcp={"servers": {"s": server()}}, contexts={"demo": context(*ECHO, rules=rules)})
    await stand.begin()
    providers = stand.succession.providers
    assert providers is not None
    await until(lambda: len(providers._brains["demo"]._grammars) == 2)


@pytest.fixture
def lock(stand: Stand) -> Path:
    return stand.path.parent / "mcp.lock"


async def test_accepted_tools_are_offered_after_a_reload(stand: Stand, lock: Path) -> None:
    from cordboard.mcp.definitions.lock import Lock, save_lock

    stand.write(
        mcp={"lock": "enforce", "servers": {"s": server()}}, contexts={"demo": context(*ECHO)}
    )
    await stand.begin()
    assert (await stand.ring()).tools == []
    listing = stand.succession.generation.fleet.servers["s"].listing
    save_lock(lock, Lock().accepted("s", listing))
    report = await stand.reload()
    assert (report.applied, report.generation, report.changed) == (True, 1, ("mcp.lock_file",))
    assert (await stand.ring()).tools == [*ECHO]
    lock.write_text("{")
    report = await stand.reload()
    assert not report.applied
    assert report.problems[0].file == str(lock)
    assert (await stand.ring()).tools == [*ECHO], "a damaged lockfile changes nothing"


async def test_a_policy_with_a_mistake_leaves_the_one_in_force(stand: Stand) -> None:
    """Neither policy allows what the other refuses: a reload is all or nothing, and a call keeps
    the policy that it began with."""
    tools = {"transfer": {"destinations": {"trunk": {"target": "+4722123456", "context": "out"}}}}
    shut, open_ = {"deny": ["+4722*"]}, {"deny": []}

    async def transfers(guest: Guest) -> bool:
        asking = asyncio.ensure_future(guest.ask("transfer", destination="trunk"))
        await until(lambda: asking.done() or bool(guest.line.transfers), "the transfer")
        asking.cancel()  # a call that was transferred answers nothing
        return bool(guest.line.transfers)

    contexts = {"demo": context("transfer")}
    stand.write(contexts=contexts, tools=tools, firewall=shut)
    await stand.begin()
    early = await stand.ring()
    stand.write(contexts=contexts, tools=tools, firewall={**open_, "allow": ["oops"]})
    report = await stand.reload()
    assert not report.applied
    (problem,) = report.problems
    assert (problem.file, problem.key) == (str(stand.path), "firewall.allow[0]")
    assert problem.line is not None
    assert not await transfers(await stand.ring())
    stand.write(contexts=contexts, tools=tools, firewall=open_)
    assert (await stand.reload()).changed == ("firewall.deny",)
    assert not await transfers(early), "its own policy"
    assert await transfers(await stand.ring())
