"""Drafts that run aside: what they share, what they may not touch; nothing of them stays."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cordboard.agents.providers import Providers
from cordboard.calls.binding import bind
from cordboard.calls.call import Call
from cordboard.calls.call_registry import CallRegistry
from cordboard.calls.offer import CallTest
from cordboard.calls.services import CallServices
from cordboard.chat.trial_runs import END_SECONDS, LIFE, MOST, Draft, Trial, TrialRuns
from cordboard.config.load import ConfigSource, load
from cordboard.config.schema import Config
from cordboard.config.versions import MOST_TRIED, Versions
from cordboard.errors import (
    AgentError,
    ChatRefused,
    ConfigError,
    ModelError,
    NeedsPublish,
    NotThere,
    VersionsUnusable,
)
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision.status import ServerState
from cordboard.observe.degradation import Degradation
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import ToolAsk
from cordboard.tools.tool_use import CannedAnswer, ToolUse
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.virtual_time import virtual_time

from .conftest import Guest, Stand, context, lives, server

TOOLS = ("mcp_s_environment", "mcp_t_echo")
LEAK = "the-value-that-nobody-sees-4711"


def tree(*tools: str, mode: str = "idle", **servers: Any) -> dict[str, Any]:
    return {
        "contexts": {"demo": context(*(tools or TOOLS))},
        "reload": {"watch": False, "mcp": mode},
        "mcp": {"servers": servers},
    }


class Bench:
    """A stand with trials."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.degradation = Degradation()
        self.errors: list[str] = []
        source = ConfigSource(stand.path, os.environ, register_secrets=stand.secrets.update)
        self.runs = TrialRuns(
            lambda: stand.succession.generation,
            stand.succession.aside,
            source,
            stand.versions,
            self.degradation,
            self.errors.append,
        )

    async def begin(
        self, draft: dict[str, Any] | str, who: str = "anna", *, may_publish: bool = True
    ) -> Trial:
        text = draft if isinstance(draft, str) else json.dumps(draft)
        made = Draft(text=text, context="demo", may_publish=may_publish)
        trial = await asyncio.wait_for(self.runs.begin(made, who), PATIENCE)
        assert await trial.generation.fleet.wait_settled(PATIENCE)
        return trial

    async def end(self, trial: Trial) -> None:
        await asyncio.wait_for(self.runs.end(trial.id, trial.owner), PATIENCE)


def pid(generation: Generation, name: str = "s") -> int | None:
    return generation.fleet.servers[name].status().pid


def state(generation: Generation, name: str = "s") -> ServerState:
    return generation.fleet.leases[name].status().state


async def version_of(generation: Generation) -> str:
    """Which server `s` answers a conversation on it."""
    toolbox = generation.admit("demo")
    desk = Desk(toolbox, NoCaller("c", "demo", "local", {}))
    reply = await desk.run(ToolAsk("1.1", "mcp_s_environment", {}, 1))
    await desk.close(0)
    return str(reply.data["VERSION"]) if reply.ok else reply.message


@pytest.fixture
async def bench(stand: Stand) -> AsyncIterator[Bench]:
    stand.write(**tree(s=server(), t=server()))
    await stand.begin()
    made = Bench(stand)
    yield made
    await asyncio.wait_for(made.runs.close(), PATIENCE)
    assert made.errors == []


async def test_unchanged_servers_are_shared_changed_ones_are_its_own_and_end_with_it(
    bench: Bench,
) -> None:
    stand = bench.stand
    in_force = stand.succession.generation
    call = await stand.ring()
    trial = await bench.begin(tree(s=server(version="2"), t=server()))
    own = pid(trial.generation)
    assert own not in (None, pid(in_force))
    assert pid(trial.generation, "t") == pid(in_force, "t")
    assert await version_of(trial.generation) == "2"
    assert await call.version() == "1"
    assert stand.succession.generation is in_force
    assert stand.changed == []
    await bench.end(trial)
    assert not lives(own)
    assert [state(in_force), state(in_force, "t")] == [ServerState.READY] * 2
    with pytest.raises(NotThere):
        bench.runs.find(trial.id, "anna")


async def test_two_trials_share_a_changed_server_until_the_last_of_them_ends(bench: Bench) -> None:
    draft = tree(s=server(version="2"), t=server())
    first, second = await bench.begin(draft), await bench.begin(draft, "bert")
    own = pid(first.generation)
    assert own == pid(second.generation) is not None
    await bench.end(first)
    assert lives(own)
    assert await version_of(second.generation) == "2"
    await bench.end(second)
    assert not lives(own)


@pytest.mark.parametrize("mode", ["idle", "live"])
async def test_a_reload_neither_waits_for_a_trial_nor_takes_its_server(
    bench: Bench, mode: str
) -> None:
    """The new file has the very definition that the trial runs: its process served experiments."""
    stand = bench.stand
    trial = await bench.begin(tree(s=server(version="2"), t=server(), mode=mode))
    old, own = stand.pid(), pid(trial.generation)
    trial.generation.acquire()
    stand.write(**tree(s=server(version="2"), t=server(), mode=mode))
    report = await stand.reload()
    assert report.applied
    assert report.deferred == ()
    await stand.ready()
    assert stand.pid() not in (old, own)
    assert await (await stand.ring()).version() == "2"
    assert lives(own)
    await until(lambda: not lives(old), "the end of the replaced server")
    trial.generation.release()


@pytest.mark.parametrize("mode", ["idle", "live"])
async def test_a_shared_server_that_is_replaced_is_gone_for_the_trial(
    bench: Bench, mode: str
) -> None:
    """The new one may need the same file or port: it never runs beside one kept for a trial."""
    stand = bench.stand
    trial = await bench.begin(tree(s=server(), t=server(version="2"), mode=mode))
    old = stand.pid()
    assert pid(trial.generation) == old
    stand.write(**tree(s=server(version="3"), t=server(), mode=mode))
    assert (await stand.reload()).applied
    await stand.ready()
    await until(lambda: not lives(old), "the end of the replaced server")
    assert await (await stand.ring()).version() == "3"
    assert trial.generation.toolbox("demo").missing == ("mcp_s_environment",)
    assert len(trial.generation.toolbox("demo").specs) == 1
    await bench.end(trial)


async def test_a_changed_server_in_use_by_a_call_never_becomes_the_trials(bench: Bench) -> None:
    """`idle` keeps the server that runs for calls: not the one of a trial, which is newer."""
    stand = bench.stand
    call = await stand.ring()
    trial = await bench.begin(tree(s=server(version="2"), t=server()))
    stand.write(**tree(s=server(version="3"), t=server()))
    report = await stand.reload()
    assert [item.what for item in report.deferred] == ["mcp.servers.s"]
    assert await (await stand.ring()).version() == "1"
    assert await version_of(trial.generation) == "2"
    for guest in (call, stand.guests[-1]):
        await guest.hang_up()
    await stand.ready()
    await until(lambda: stand.succession.deferred() == (), "the new server")
    assert await (await stand.ring()).version() == "3"


async def test_a_killed_server_of_a_trial_comes_back_and_metrics_tell_nothing_of_it(
    bench: Bench,
) -> None:
    stand = bench.stand
    trial = await bench.begin(tree(s=server(version="2"), t=server()))
    own, in_force = pid(trial.generation), stand.pid()
    assert own is not None
    os.kill(own, signal.SIGKILL)
    await until(lambda: not lives(own), "the end of the process")
    await until(
        lambda: state(trial.generation) is ServerState.READY and pid(trial.generation) != own,
        "its return",
    )
    assert stand.pid() == in_force
    page = stand.metrics.render().decode()
    assert 'ai_agent_mcp_server_up{server="s"} 1.0' in page
    assert 'ai_agent_mcp_server_restarts_total{server="s"} 1' not in page


async def test_a_server_that_never_starts_leaves_nothing(bench: Bench) -> None:
    """Meanwhile it does not offer the tools of the one in force: their definitions may differ."""
    servers = {"s": server("exits"), "t": server("mute", start_timeout_ms=300)}
    draft = Draft(text=json.dumps(tree(**servers)), context="demo", may_publish=True)
    trial = await bench.runs.begin(draft, "anna")
    assert trial.generation.toolbox("demo").missing == TOOLS
    assert await trial.generation.fleet.wait_settled(PATIENCE)
    assert state(trial.generation) is not ServerState.READY
    await bench.end(trial)


async def test_no_caller_gets_a_trial(bench: Bench) -> None:
    """Neither by its context, nor by a channel variable, nor when it is all there is of a name."""
    stand = bench.stand
    draft = tree(s=server(version="2"), t=server())
    draft["contexts"]["demo"]["greeting"] = "Draft."
    draft["contexts"]["new"] = context(greeting="New.")
    trial = await bench.begin(draft)
    names = {"AI_CONTEXT": "new", "AI_PROVIDER": trial.id, "trial": trial.id}
    guest = await stand.ring(**names)
    assert "Good morning." in guest.greeting
    assert await guest.version() == "1"
    assert trial.generation.calls == 0
    source = inspect.signature(CallRegistry.__init__).parameters["generation"].annotation
    assert source == "Callable[[], Generation]"
    with pytest.raises(TypeError):
        bench.runs.generation()  # type: ignore[call-arg]


async def test_only_its_author_finds_a_trial(bench: Bench) -> None:
    trial = await bench.begin(tree(s=server(), t=server()))
    assert bench.runs.generation(trial.id, "anna") is trial.generation
    for who, trial_id in (("bert", trial.id), ("key:anna", trial.id), ("anna", "trial-0")):
        with pytest.raises(NotThere):
            bench.runs.generation(trial_id, who)
        with pytest.raises(NotThere):
            await bench.runs.end(trial_id, who)
    assert bench.runs.of("bert") == []


async def test_two_run_at_once_and_none_while_the_engine_is_busy_or_stops(bench: Bench) -> None:
    draft = tree(s=server(), t=server())
    bench.degradation.level = 1
    with pytest.raises(ChatRefused, match="busy"):
        await bench.begin(draft)
    bench.degradation.level = 0
    beginnings = [bench.begin(draft) for _ in range(MOST + 1)]
    begun = await asyncio.gather(*beginnings, return_exceptions=True)
    assert sum(isinstance(each, ChatRefused) for each in begun) == 1
    await bench.end(next(each for each in begun if isinstance(each, Trial)))
    await bench.begin(draft)
    await bench.runs.close()
    assert len(bench.runs) == 0
    with pytest.raises(ChatRefused, match="stopping"):
        await bench.begin(draft)


async def test_the_engine_stops_while_a_trial_begins(bench: Bench) -> None:
    beginning = asyncio.create_task(bench.begin(tree(s=server(version="2"), t=server())))
    await asyncio.sleep(0)
    await bench.runs.close()
    bench.stand.succession.freeze()
    with pytest.raises((ChatRefused, AgentError)):
        await beginning
    assert len(bench.runs) == 0


async def test_its_text_is_a_version_that_is_in_nobodys_place(bench: Bench) -> None:
    versions = bench.stand.versions
    before = versions.history()
    text = json.dumps(tree(s=server(version="2"), t=server()))
    trial = await bench.begin(text)
    assert versions.content(trial.generation.version) == text.encode()
    assert versions.history() == before
    assert versions.latest() == bench.stand.succession.generation.version
    again = await bench.runs.begin(
        Draft(version=trial.generation.version[:12], context="demo", may_publish=True), "anna"
    )
    assert again.generation.version == trial.generation.version


async def test_a_text_that_cannot_be_kept_is_tried_and_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise VersionsUnusable("versions cannot be kept in X: No space left on device")

    monkeypatch.setattr(Versions, "tried", full)
    trial = await bench.begin(tree(s=server(), t=server()))
    assert trial.generation.version == ""
    assert "No space left" in str(trial.problems[-1])


def test_the_texts_of_old_trials_go_and_versions_stay(tmp_path: Path) -> None:
    versions = Versions(tmp_path / "versions", tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_bytes(b"a: 1")
    kept = versions.begun_with(b"a: 1")
    old = versions.tried(b"a: 2", "anna")
    assert versions.tried(b"a: 1", "anna") == kept
    for number in range(MOST_TRIED - 1):
        assert versions.content(old)
        versions.tried(b"a: %d" % (number + 10), "anna")
    with pytest.raises(NotThere):
        versions.content(old)
    assert versions.content(kept) == b"a: 1"


async def test_a_bad_draft_is_refused_with_its_problems_and_leaves_nothing(bench: Bench) -> None:
    with pytest.raises(ConfigError) as caught:
        await bench.begin({"contexts": {"demo": {"tool": []}}})
    assert [(each.key, each.line) for each in caught.value.problems] == [("contexts.demo.tool", 1)]
    with pytest.raises(ChatRefused, match="no context 'demo' in the draft"):
        await bench.begin({"contexts": {"other": {}}})
    with pytest.raises(NotThere):
        await bench.runs.begin(Draft(version="0123abcd", context="demo", may_publish=True), "anna")
    assert len(bench.runs) == 0


async def test_what_fails_while_it_is_built_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AgentError("no way")

    monkeypatch.setattr(Providers, "warm_aside", broken)
    with pytest.raises(AgentError, match="no way"):
        await bench.begin(tree(s=server(version="2"), t=server()))
    assert len(bench.runs) == 0
    started = [entry["server"] for entry in bench.stand.logged("mcp_server_ready")]
    assert sorted(started) == ["s", "t"]


async def test_a_model_is_not_loaded_while_somebody_is_on_the_phone(bench: Bench) -> None:
    guest = await bench.stand.ring()
    draft = tree(s=server(), t=server())
    (bench.stand.path.parent / "model.gguf").write_bytes(b"GGUF")
    brain = {"type": "gguf", "model": str(bench.stand.path.parent / "model.gguf")}
    draft["providers"] = {
        "local": {"type": "pipeline"},
        "big": {"type": "pipeline", "brain": brain},
    }
    with pytest.raises(ModelError, match=r"providers\.big\.brain: its model is loaded only while"):
        await bench.begin(draft)
    await guest.hang_up()


async def test_a_call_on_a_trial_has_its_words_and_tools_and_ends_with_it(bench: Bench) -> None:
    """The way of a call from the browser."""
    stand = bench.stand
    draft = tree(s=server(version="2"), t=server())
    draft["contexts"]["demo"] |= {
        "greeting": "Draft.",
        "post_call": [{"tool": "mcp_t_echo", "arguments": {"text": "x"}}],
    }
    trial = await bench.begin(draft)
    guest = Guest(stand, 7)
    answers = {"mcp_t_echo": CannedAnswer("It is canned.")}
    test = CallTest(ToolUse(canned=answers), trial.id)
    offer = replace(guest.line.offer({}), test=test)
    jobs: list[object] = []
    services = CallServices(
        stand._writer, stand.metrics, stand.path.parent / "calls", post_call=Taker(jobs)
    )
    config = trial.generation.config
    call = Call(offer, bind(offer, config), trial.generation, guest.agent, services)
    trial.used_by(lambda: call.end("completed", "trial_over"))
    running = asyncio.create_task(call.run())
    await guest.talking()
    assert "Draft." in guest.greeting
    assert (await guest.ask("mcp_t_echo", text="x")).message == "It is canned."
    assert (await guest.ask("mcp_s_environment")).status == "refused"
    await bench.end(trial)
    ended = await asyncio.wait_for(running, PATIENCE)
    assert (ended.outcome, ended.reason) == ("completed", "trial_over")
    stand._writer.flush()
    (path,) = (stand.path.parent / "calls").glob(f"*/{offer.call_id}.jsonl")
    first, bound = [json.loads(line) for line in path.read_text().splitlines()[:2]]
    assert (first["test"], first["trial"]) == (True, trial.id)
    assert (first["config"], bound["generation"]) == (trial.generation.version, 0)
    assert jobs == []


class Taker:
    def __init__(self, jobs: list[object]) -> None:
        self._jobs = jobs

    async def put(self, jobs: Iterable[object]) -> bool:
        self._jobs += jobs
        return True


class Short:
    """The parts of an engine whose trials need no thread and no process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def here(work: Any, *args: Any) -> Any:
            return work(*args)

        monkeypatch.setattr(asyncio, "to_thread", here)
        path = folder / "a.yaml"
        path.write_text("contexts: {demo: {}}")
        config = load(path, {}).config
        versions = Versions(folder / "versions", path)

        async def build(config: Config, context: str, version: str) -> tuple[Generation, Providers]:
            return Generation(config), Providers(config, None)

        self.runs = TrialRuns(
            lambda: Generation(config),
            build,
            ConfigSource(path, {}),
            versions,
            Degradation(),
            self.failed,
        )

    def failed(self, place: str) -> None:
        raise AssertionError(place)


def test_it_ends_after_half_an_hour_with_all_that_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with virtual_time() as loop:
        loop.run_until_complete(_expiry(Short(tmp_path, monkeypatch).runs))


async def _expiry(runs: TrialRuns) -> None:
    loop, order = asyncio.get_running_loop(), list[str]()
    draft = Draft(text="contexts: {demo: {}}", context="demo", may_publish=True)
    trial = await runs.begin(draft, "anna")
    began = loop.time()
    trial.generation.acquire()

    def end() -> None:
        order.append(f"told after {loop.time() - began:.0f} s")
        loop.call_later(2, over)

    def over() -> None:
        order.append("over")
        trial.generation.release()

    trial.used_by(lambda: order.append("never"))()
    trial.used_by(end)
    await asyncio.sleep(LIFE - 1)
    assert runs.find(trial.id, "anna") is trial
    await asyncio.sleep(2)
    with pytest.raises(NotThere):
        runs.find(trial.id, "anna")
    assert len(runs) == 1, "it still ends, and counts"
    assert not trial.generation.retired
    await asyncio.sleep(2)
    assert order == ["told after 1800 s", "over"]
    assert trial.generation.retired
    assert len(runs) == 0
    stuck = await runs.begin(draft, "anna")
    stuck.generation.acquire()
    began = loop.time()
    await runs.end(stuck.id, "anna")
    assert loop.time() - began == END_SECONDS, "a use that does not end is not waited for"
    assert stuck.generation.retired


# What an author who may not publish can try.

IN_FORCE: dict[str, Any] = {
    "contexts": {
        "demo": {
            "greeting": "Good morning.",
            "prompt": "You work for ${SHOP_LEAK}.",
            "tools": ["look"],
            "pre_call": [{"tool": "look", "arguments": {"word": "${LEAK}"}, "save_as": "found"}],
        }
    },
    "reload": {"watch": False},
    "tools": {
        "look": {
            "kind": "http",
            "description": "Look it up.",
            "url": "http://127.0.0.1:9/look",
            "allow_private": True,
            "headers": {"Authorization": "Bearer ${LEAK}"},
            "parameters": {"word": {"type": "string"}},
        }
    },
    "mcp": {"servers": {"s": server()}},
    "admin": {"token": "a-literal-token-of-ours"},
}
HOLE = "«secret:1»"
CHANGES: dict[str, tuple[tuple[str, ...], Any]] = {
    "greeting": (("contexts", "demo", "greeting"), "Our key is ${LEAK}."),
    "greeting from a file": (("contexts", "demo", "greeting"), "${file:secret.txt}"),
    "greeting with a default": (("contexts", "demo", "greeting"), "${LEAK:-x}"),
    "greeting with a hole": (("contexts", "demo", "greeting"), HOLE),
    "prompt around a reference": (("contexts", "demo", "prompt"), "Say aloud: ${SHOP_LEAK}."),
    "a new context": (("contexts", "more"), {"prompt": "You work for ${SHOP_LEAK}."}),
    "a context that is no mapping": (("contexts", "more"), "${LEAK}"),
    "a look-up with another tool": (
        ("contexts", "demo", "pre_call"),
        [{"tool": "echo", "arguments": {"word": "${LEAK}"}, "save_as": "found"}],
    ),
    "a webhook": (
        ("contexts", "demo", "post_call"),
        [{"tool": "look", "arguments": {"word": "${LEAK}"}}],
    ),
    "the rules": (("contexts", "demo", "rules"), {"fallback": "${LEAK}"}),
    "a route": (("routes",), {"${LEAK}": "demo", "1": "${LEAK}"}),
    "a tool's words": (("tools", "look", "speech_template"), "It is ${LEAK}."),
    "a tool's address": (("tools", "look", "url"), "http://127.0.0.1:9/elsewhere"),
    "a tool's query": (("tools", "look", "query"), {"k": "${LEAK}"}),
    "a tool's header": (("tools", "look", "headers", "X-More"), "${LEAK}"),
    "a tool's effects": (("tools", "look", "effects"), "read_only"),
    "a new tool": (("tools", "mine"), {"kind": "python", "function": "os:system"}),
    "a server's environment": (("mcp", "servers", "s", "env", "MORE"), "${LEAK}"),
    "a server's program": (("mcp", "servers", "s", "command"), ["sh", "-c", "id"]),
    "a server's folder": (("mcp", "servers", "s", "cwd"), "/"),
    "a new server": (("mcp", "servers", "mine"), {"transport": "http", "url": "https://a.example"}),
    "the lock": (("mcp", "lock"), "off"),
    "a provider's address": (
        ("providers",),
        {"mine": {"type": "openai_realtime", "url": "wss://a.example"}},
    ),
    "the token": (("admin", "token"), "another-token-that-i-know"),
    "the folder of stored secrets": (("admin", "ui"), {"data": "/elsewhere"}),
    "the folder of ledgers": (("calls",), {"directory": "/elsewhere"}),
    "anything unknown": (("anything",), "${LEAK}"),
}


def changed(path: tuple[str, ...], value: Any) -> str:
    """The text that its author has: with a hole for the literal token."""
    draft = json.loads(json.dumps(IN_FORCE))
    draft["admin"]["token"] = HOLE
    holder = draft
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
    holder[path[-1]] = value
    text = json.dumps(draft, ensure_ascii=False)
    return text.replace(f'"token": "{HOLE}"', f'"token": {HOLE}')  # a hole has the quotes in it


@pytest.fixture
async def guarded(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Bench]:
    monkeypatch.setenv("LEAK", LEAK)
    monkeypatch.setenv("SHOP_LEAK", LEAK)
    (tmp_path / "secret.txt").write_text(LEAK)
    stand.write(**IN_FORCE)
    await stand.begin()
    made = Bench(stand)
    yield made
    await asyncio.wait_for(made.runs.close(), PATIENCE)


@pytest.mark.parametrize("way", CHANGES)
async def test_without_publish_no_draft_takes_a_value_out_or_starts_a_program(
    guarded: Bench, way: str
) -> None:
    path, value = CHANGES[way]
    before = len(guarded.stand.logged("mcp_server_ready"))
    with pytest.raises(NeedsPublish) as caught:
        await guarded.begin(changed(path, value), may_publish=False)
    told = str(caught.value)
    assert ".".join(path[:2]) in told
    assert LEAK not in told
    assert "literal-token" not in told
    assert len(guarded.runs) == 0
    assert len(guarded.stand.logged("mcp_server_ready")) == before


async def test_without_publish_words_and_rules_are_tried(guarded: Bench) -> None:
    trial = await guarded.begin(
        changed(("contexts", "demo", "greeting"), "Welcome, it costs $5."), may_publish=False
    )
    config = trial.generation.config
    assert config.contexts["demo"].greeting == "Welcome, it costs $5."
    assert config.contexts["demo"].prompt == f"You work for {LEAK}.", "as in force"
    token = config.admin.token
    assert token is not None
    assert token.get_secret_value() == "a-literal-token-of-ours"
    await guarded.end(trial)
    more = await guarded.begin(changed(("contexts", "more"), {"prompt": "New."}), may_publish=False)
    assert "more" in more.generation.config.contexts


async def test_with_publish_a_new_server_is_tried(guarded: Bench) -> None:
    path = ("mcp", "servers", "s", "env")
    trial = await guarded.begin(changed(path, {"VERSION": "${LEAK}"}))
    assert state(trial.generation) is ServerState.READY
    assert LEAK in guarded.stand.secrets, "masked in logs"


async def test_without_publish_another_version_is_held_to_the_same(guarded: Bench) -> None:
    versions = guarded.stand.versions
    old = versions.keep(json.dumps(IN_FORCE | {"mcp": {}}).encode())
    with pytest.raises(NeedsPublish, match=r"mcp\.servers"):
        await guarded.runs.begin(Draft(version=old, context="demo", may_publish=False), "anna")
    same = json.loads(json.dumps(IN_FORCE))
    same["contexts"]["demo"]["greeting"] = "As it was."
    old = versions.keep(json.dumps(same, indent=3).encode())
    await guarded.runs.begin(Draft(version=old, context="demo", may_publish=False), "anna")


async def test_without_publish_a_guess_of_a_secret_is_not_confirmed(guarded: Bench) -> None:
    """The same refusal for the right token as for a wrong one."""
    told = set()
    for guess in ("a-literal-token-of-ours", "a-literal-token-of-mine"):
        draft = json.loads(json.dumps(IN_FORCE)) | {"admin": {"token": guess}}
        with pytest.raises(NeedsPublish) as caught:
            await guarded.begin(draft, may_publish=False)
        told.add(str(caught.value))
    assert len(told) == 1


async def test_without_publish_and_without_a_kept_text_nothing_is_tried(guarded: Bench) -> None:
    guarded.stand.succession.generation.version = ""
    with pytest.raises(NeedsPublish, match="not kept"):
        await guarded.begin(changed(("contexts", "demo", "greeting"), "Hi."), may_publish=False)
