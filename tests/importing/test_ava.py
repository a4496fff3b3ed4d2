"""`cordboard import ava`: the file it writes, what it says, and conversations with the result."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chat.conftest import say, words
from tests.cli.commands import ROOT, typed

from cordboard.cli.chat_here import chat_here
from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.config.yaml_document import parse
from cordboard.importing.ava import import_ava
from cordboard.importing.ava_files import Installation, read_installation
from cordboard.importing.document import mend, yaml_text
from cordboard.importing.result import Imported
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Script, Use

from .installations import V6, V7, agent, as_json, database, folder

SET = {"ASTERISK_ARI_PASSWORD": "pw-of-ari", "GROQ_API_KEY": "gsk-1234", "CRM_KEY": "crm-1234"}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "new" / "ai-agent.yaml"


def imported(place: Path, output: Path, **environment: str) -> tuple[Config, str]:
    """Type the command, and load its file as the engine does; also what it printed."""
    done = typed("import", "ava", str(place), "-o", str(output), **environment)
    assert (done.status, done.err) == (0, "")
    return load(output, {**SET, **environment}).config, done.out


def test_contexts_providers_and_tools_of_version_6(tmp_path: Path, output: Path) -> None:
    config, told = imported(folder(tmp_path / "ava", V6), output)
    bread, night = config.contexts["bread_line"], config.contexts["night"]
    assert bread.greeting == "Good morning {caller_name}, the bakery."
    assert '{{campaign_id}} anything.\nShow it as {"kind": "rye"}.' in bread.prompt
    assert bread.provider == "counter"
    assert bread.tools == ("transfer", "hangup_call", "bake_time")
    assert [step.tool for step in bread.pre_call] == ["find_customer"]
    assert bread.silence.caller_after_ms == 20_000
    assert bread.silence.reprompts == ("Hello?", "Hello?")
    assert night.greeting == "We are closed, {find_customer.customer|}."
    voice = config.providers[night.provider or ""]
    assert (voice.type, voice.model_dump()["voice"]) == ("openai_realtime", "cedar")
    counter = config.providers["counter"].model_dump()
    assert (counter["stt"]["type"], counter["tts"]["type"]) == ("whisper", "hibari")
    assert counter["brain"]["base_url"] == "https://api.groq.com/openai/v1"
    assert (counter["brain"]["temperature"], counter["brain"]["max_tokens"]) == (0.5, 100)
    shop = config.destinations["shop_floor"]
    assert shop.model_dump(exclude_unset=True) | {"priority": shop.priority} == {
        "type": "dialplan", "target": "800", "context": "ext-queues", "priority": 1,
        "description": "The shop",
    }  # fmt: skip
    assert list(config.mcp.servers) == ["recipe_book"]
    assert config.asterisk is not None
    assert (config.asterisk.media, config.rtp.first_port, config.rtp.last_port) == (
        "rtp", 18_080, 18_099
    )  # fmt: skip
    for loss in (
        "streaming: ", "contexts.Bread Line.background_music: ", "flux_capacitor: unknown",
        "request_transcript (of bread_line): nearest",
        "the context Bread Line is called bread_line", "{campaign_id} is no variable",
        "providers.deepgram: switched off", "output_variables.all: ",
        "temperature, turn_detection.create_response: ", "pipelines.counter.stt.ws_url, chunk_ms: ",
        "pipelines.counter.llm.extra: ", "providers.idle_stt: no pipeline uses it",
    ):  # fmt: skip
        assert loss in told


def test_an_old_v6_flag_of_yaml_1_1_is_understood(tmp_path: Path, output: Path) -> None:
    text = V6.replace("enabled: yes, min_ms", "enabled: off, min_ms")
    config, _ = imported(folder(tmp_path / "ava", text), output)
    assert config.contexts["night"].barge_in == "off"


def test_secrets_stay_where_they_are(tmp_path: Path, output: Path) -> None:
    root = folder(tmp_path / "ava", V6)
    _, told = imported(root, output)
    written = output.read_text()
    assert "sk-very" not in written + told
    assert "api_key: ${GROQ_API_KEY}" in written
    assert "Authorization: Bearer ${CRM_KEY}" in written
    assert "  GROQ_API_KEY\n" in told
    assert "  CRM_KEY (not in AVA's .env)\n" in told
    assert output.stat().st_mode & 0o077 == 0


def test_every_variable_that_the_result_reads_is_listed(tmp_path: Path, output: Path) -> None:
    _, told = imported(folder(tmp_path / "ava", V6), output)
    needed = told.partition("Environment variables that it needs:\n")[2].partition("\n\n")[0]
    assert set(needed.splitlines()) == {
        "  ASTERISK_ARI_PASSWORD (not in AVA's .env)", "  CRM_KEY (not in AVA's .env)",
        "  GROQ_API_KEY", "  OPENAI_API_KEY",
    }  # fmt: skip
    optional = told.partition("Environment variables with a default:\n")[2].partition("\n\n")[0]
    assert "  ASTERISK_HOST (default 127.0.0.1)\n" in optional
    assert "  HEAT (default 0.5)" in optional


@pytest.mark.parametrize(
    ("default", "ours", "listed"),
    [("nowhere", "counter", False), ("bakery_voice", "bakery_voice", True), ("", "counter", False)],
)
def test_the_active_pipeline_is_the_default_or_listed(
    default: str, ours: str, listed: bool, tmp_path: Path, output: Path
) -> None:
    """AVA attaches it only where `default_provider` names no provider that is running."""
    text = V6.replace("default_provider: bakery_voice", f"default_provider: '{default}'")
    config, told = imported(folder(tmp_path / "ava", text), output)
    assert config.default_provider == ours
    words = "  active_pipeline: AVA takes default_provider (bakery_voice) before it"
    assert (words in told) == listed


def test_a_database_replaces_the_contexts_and_is_not_touched(tmp_path: Path, output: Path) -> None:
    rows = [
        agent("old", is_active=0),
        agent(
            "front_desk", display_name="Front Desk", extension="700", is_default=1,
            greeting="Desk, ${HOME} speaking.", tools_json=as_json(["blind_transfer"]),
            extra_json=as_json({"background_music": "waltz"}), audio_profile="wideband_pcm_16k",
        ),
        agent("sales", provider="", prompt="Sell."),
    ]  # fmt: skip
    root = folder(tmp_path / "ava", V7, rows)
    before = sorted((path, path.stat().st_size) for path in root.rglob("*"))
    config, told = imported(root, output)
    assert sorted((path, path.stat().st_size) for path in root.rglob("*")) == before
    assert list(config.contexts) == ["front_desk", "sales"]
    assert (config.default_context, config.default_provider) == ("front_desk", "shop")
    assert config.routes == {"700": "front_desk"}
    desk = config.contexts["front_desk"]
    assert desk.greeting == "Desk, ${{HOME}} speaking.", "AVA does not expand its database"
    assert desk.tools == ("transfer",)
    assert "agent old: switched off in the database" in told
    assert "contexts.old: AVA ignores it beside its agents database" in told
    assert "agents.front_desk.background_music: " in told
    assert "[cordboard-front_desk]\nexten => s,1,Set(AI_CONTEXT=front_desk)\n" in told
    assert "[from-internal]\nexten => 700,1,Goto(cordboard-front_desk,s,1)\n" in told
    assert "exten => s,1,Stasis(cordboard)\n" in told
    assert "# From agents.front_desk; Front Desk.\n" in output.read_text()


def test_the_last_agents_are_read_while_ava_writes(tmp_path: Path, output: Path) -> None:
    """Rows may still be in the journal beside the database."""
    root = folder(tmp_path / "ava", V7, [agent("first")])
    connection = sqlite3.connect(root / "data" / "operator" / "agents.db")
    connection.execute("INSERT INTO agents (slug, prompt, is_active) VALUES ('late', 'Hi', 1)")
    connection.commit()
    try:
        config, _ = imported(root, output)
    finally:
        connection.close()
    assert list(config.contexts) == ["first", "late"]


def test_an_extension_adds_no_lines_to_the_dialplan(tmp_path: Path, output: Path) -> None:
    rows = [agent("desk", extension="7,1,Answer()\nexten => 8,1,System(reboot)")]
    _, told = imported(folder(tmp_path / "ava", V7, rows), output)
    assert "[cordboard-desk]\n" in told
    assert "System(" not in told.partition("Dialplan:")[2]


def test_imported_names_do_not_steer_the_terminal(tmp_path: Path, output: Path) -> None:
    rows = [agent("a\x1b[2J\nTaken over: b", extra_json=as_json({"x\x1b]0;y\x07": 1}))]
    _, told = imported(folder(tmp_path / "ava", V7, rows), output)
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "\nTaken over: b" not in told


@pytest.mark.parametrize("levels", [25, 400])
def test_a_body_that_is_nested_too_deep_is_sent_as_a_text(levels: int) -> None:
    body = "[" * levels + "]" * levels
    tool = {"kind": "generic_webhook", "url": "https://a.example", "body_template": body}
    result = import_ava(Installation({"tools": {"hook": tool}}, []))
    written = mend(result, Path("x.yaml"), "")
    assert written.problems == []
    assert parse(written.text, "x.yaml").tree["tools"]["hook"]["text"] == body


def test_a_view_without_end_is_no_agents_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.importing.ava_files.MOST_SECONDS", 0.1)
    root = folder(tmp_path / "ava", V7, [])
    with closing(sqlite3.connect(root / "data" / "operator" / "agents.db")) as connection:
        connection.execute("DROP TABLE agents")
        connection.execute(
            "CREATE VIEW agents AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) "
            "SELECT max(x) AS slug FROM n"
        )
    done = typed("import", "ava", str(root), "-o", str(tmp_path / "x.yaml"))
    assert (done.status, done.out) == (1, "")
    assert "cannot be read as AVA's agents database: interrupted" in done.err


def test_a_local_file_and_context_files_are_merged(tmp_path: Path, output: Path) -> None:
    root = folder(tmp_path / "ava", V6)
    (root / "config" / "ai-agent.local.yaml").write_text(
        "contexts: {night: null, noon: {greeting: Noon., prompt: P}}\n"
    )
    (root / "config" / "contexts").mkdir()
    (root / "config" / "contexts" / "tea.yaml").write_text("name: Tea\nsystem_prompt: Pour.\n")
    config, _ = imported(root, output)
    assert list(config.contexts) == ["bread_line", "noon", "tea"]
    assert config.contexts["tea"].prompt == "Pour."


def test_a_new_installation_without_contexts_has_one(tmp_path: Path, output: Path) -> None:
    text = "contexts: {}\nllm: {prompt: Be short., initial_greeting: Hello.}\n"
    config, _ = imported(folder(tmp_path / "ava", text), output)
    assert config.contexts["default"].greeting == "Hello."
    assert config.providers["local"].type == "pipeline"


def test_values_that_are_refused_here_are_left_out_and_named(tmp_path: Path, output: Path) -> None:
    text = (
        V6.replace("model: gpt-realtime", "max_response_output_tokens: 999999")
        .replace('target: "800"', 'target: "8 0 0"')
        .replace("restart: {enabled: true,", "restart: {enabled: maybe,")
        .replace("hangup_call, request_transcript", "hangup_call, no_such_tool")
    )
    config, told = imported(folder(tmp_path / "ava", text), output)
    assert config.destinations == {}
    assert "no_such_tool" not in config.contexts["bread_line"].tools
    for key in (
        "providers.bakery_voice.max_output_tokens", "tools.transfer.destinations.shop_floor",
        "mcp.servers.recipe_book.restart.enabled", "contexts.bread_line.tools[2]",
    ):  # fmt: skip
        assert f"{key}: refused here: " in told


def test_a_line_that_needs_a_human_is_named(tmp_path: Path, output: Path) -> None:
    """Only the environment could make the value right: it is not taken out."""
    text = V6.replace("type: server_vad", 'type: "${KIND_OF_VAD}"')
    done = typed("import", "ava", str(folder(tmp_path / "ava", text)), "-o", str(output))
    assert done.status == 1
    line = output.read_text().splitlines().index("      type: ${KIND_OF_VAD}") + 1
    assert f"{output}:{line}: providers.bakery_voice.turn_detection" in done.err
    assert done.err.endswith(f"{output} needs a human at these lines\n")


def test_a_number_may_come_from_a_variable(tmp_path: Path, output: Path) -> None:
    text = V6.replace("silence_duration_ms: 700", 'silence_duration_ms: "${QUIET}"')
    config, _ = imported(folder(tmp_path / "ava", text), output, QUIET="650")
    detection = config.providers["bakery_voice"].model_dump()["turn_detection"]
    assert detection["silence_duration_ms"] == 650


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "there is no config/ai-agent.yaml, so it is not a folder of AVA"),
        ({"config/ai-agent.golden-x.yaml": ""}, "config/ai-agent.golden-x.yaml"),
        ({"config/ai-agent.yaml": "a: [1\n"}, "ai-agent.yaml:2: not valid YAML"),
        ({"config/ai-agent.yaml": "- a\n"}, "expected a mapping"),
        ({"config/ai-agent.yaml": V7, "data/operator/agents.db": "no"}, "file is not a database"),
    ],
)
def test_what_is_no_installation_gives_one_error(
    tmp_path: Path, output: Path, files: dict[str, str], message: str
) -> None:
    (tmp_path / "ava").mkdir()
    for name, text in files.items():
        path = tmp_path / "ava" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = typed("import", "ava", str(tmp_path / "ava"), "-o", str(output))
    assert (done.status, done.out) == (1, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not output.exists()


@pytest.mark.parametrize("value", ["{", 7])
@pytest.mark.parametrize("column", ["tools_json", "extra_json"])
def test_a_broken_row_of_the_database_is_an_error(
    tmp_path: Path, column: str, value: object
) -> None:
    root = folder(tmp_path / "ava", V7, [agent("a", **{column: value})])
    done = typed("import", "ava", str(root), "-o", str(tmp_path / "x.yaml"))
    assert done.status == 1
    assert "a row of `agents` cannot be read" in done.err


def test_a_missing_folder_and_an_existing_file(tmp_path: Path) -> None:
    done = typed("import", "ava", str(tmp_path / "none"), "-o", str(tmp_path / "x.yaml"))
    assert (done.status, done.err) == (
        1, f"cordboard: {tmp_path / 'none'}: there is no such folder or file\n"
    )  # fmt: skip
    root, mine = folder(tmp_path / "ava", V6), tmp_path / "mine.yaml"
    mine.write_text("mine")
    done = typed("import", "ava", str(root), "-o", str(mine))
    assert (done.status, mine.read_text()) == (1, "mine")
    assert "--force" in done.err
    done = typed("import", "ava", str(root), "-o", str(mine), "--force")
    assert done.status == 0
    assert "contexts:" in mine.read_text()


# --- conversations with the result ---------------------------------------------------------------


class _Crm(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        number = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["number"]
        body = json.dumps({"hits": [{"name": f"Ms Rye of {number}"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def crm() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Crm) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/find"
        server.shutdown()
        thread.join()


async def test_an_agent_of_version_6_greets_a_customer_that_it_looked_up(
    tmp_path: Path, output: Path, crm: str
) -> None:
    script = Script(answers=(Answer(asks=(Use("hangup_call"),), then="Bye."),))
    async with OpenAITextEmulator(script, key="sk-test") as model:
        text = V6.replace("http://crm.bakery.example/find", crm).replace(
            "oven_llm: {type: groq, chat_model: bread-1}",
            "oven_llm:\n    type: openai\n    api_key: ${OVEN_KEY}\n    chat_model: gpt-4.1-mini\n"
            f"    chat_base_url: {model.url}",
        )
        text = text.replace("{caller_name}, the bakery", "{customer}, the bakery")
        config, _ = imported(folder(tmp_path / "ava", text), output, OVEN_KEY="sk-test")
        config = _with_calls_in(config, tmp_path)
        async with chat_here(config, tmp_path, "bread_line") as sessions:
            session, answer = sessions.begin("bread_line", None)
            greeting = [event async for event in answer]
            assert words(greeting) == "Good morning Ms Rye of unknown, the bakery."
            events = await say(session, "Goodbye")
            assert [e.data["name"] for e in events if e.name == "tool_call"] == ["hangup_call"]
        assert model.violations == []
        (system, *_) = model.asked[0]["messages"]
        assert "You sell bread.\n- Never promise {campaign_id} anything." in system["content"]


async def test_an_agent_of_the_database_uses_its_mcp_server(tmp_path: Path, output: Path) -> None:
    use = Use("mcp_aviation_atis", {"icao": "EKCH"})
    async with OpenAITextEmulator(Script(answers=(Answer(asks=(use,)),)), key="sk-test") as model:
        text = V7.replace(
            "{type: local, llm_model: models/shop.gguf}",
            f'{{type: openai, chat_model: gpt-4.1-mini, api_key: "${{SHOP_KEY}}", '
            f"chat_base_url: '{model.url}'}}",
        )
        text = text.replace("CONFIG", str(ROOT / "config" / "aviation_atis.yaml"))
        text = text.replace("python3", sys.executable)
        tools = as_json(["mcp_aviation_atis", "hangup_call"])
        rows = [agent("weather", greeting="Weather desk, {caller_name}.", tools_json=tools)]
        config, _ = imported(folder(tmp_path / "ava", text, rows), output, SHOP_KEY="sk-test")
        config = _with_calls_in(config, tmp_path)
        async with chat_here(config, ROOT, "weather") as sessions:
            session, answer = sessions.begin("weather", None)
            assert words([event async for event in answer]) == "Weather desk, there."
            assert "Copenhagen Kastrup" in words(await say(session, "Copenhagen?"))
        assert model.violations == []


def _with_calls_in(config: Config, folder: Path) -> Config:
    calls = config.calls.model_copy(update={"directory": folder / "calls"})
    return config.model_copy(update={"calls": calls})


# --- any input -----------------------------------------------------------------------------------

KEYS = sorted({line.strip(" -").partition(":")[0] for line in (V6 + V7).splitlines()} | {"$x", ""})


def _keys() -> st.SearchStrategy[str]:
    return st.sampled_from(KEYS) | st.text(max_size=8)


TEXTS = st.one_of(
    st.sampled_from(["default", "counter", "local", "deepgram", "on", "${A:-1}", "${A}", "{x}"]),
    st.text(max_size=12),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys(), inner, max_size=4),
    max_leaves=20,
)


SECTIONS = (
    "contexts providers pipelines tools in_call_tools mcp profiles no_input barge_in audiosocket "
    "external_media asterisk llm default_provider audio_transport on_provider_failure health"
).split()


def one_like_it() -> st.SearchStrategy[Any]:
    """A section of sections, as those of AVA."""
    named = st.dictionaries(_keys(), st.dictionaries(_keys(), VALUES, max_size=5), max_size=3)
    return st.one_of(VALUES, named)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from(SECTIONS), one_like_it(), max_size=6),
    st.dictionaries(st.text(min_size=1, max_size=5), st.dictionaries(_keys(), VALUES), max_size=2),
)
def test_no_tree_crashes_the_importer(tree: dict[str, Any], agents: dict[str, Any]) -> None:
    result = import_ava(Installation(tree, [], agents))
    written = mend(result, Path("ai-agent.yaml"), "Imported.")
    assert all(problem.message for problem in written.problems)
    assert "contexts:" in written.text


@given(st.dictionaries(st.text(max_size=5), VALUES, min_size=1, max_size=3))
def test_the_written_yaml_has_the_same_values(tree: dict[str, Any]) -> None:
    result = Imported({"root": tree}, {("root",): "A comment\nof two lines"})
    first = parse(yaml_text(result, "Heading"), "x").tree
    assert parse(yaml_text(Imported(first), "Other"), "x").tree == first


@given(st.dictionaries(st.sampled_from(SECTIONS), one_like_it(), max_size=6))
def test_every_place_without_a_counterpart_has_a_reason(tree: dict[str, Any]) -> None:
    result = import_ava(Installation(tree, []))
    assert all(place and reason for place, reason in result.left + result.changed)


@given(st.text(alphabet="ab \n-#:'\"{}[]|>\\$%&*!", max_size=40))
def test_a_text_is_written_as_it_is(text: str) -> None:
    assert parse(yaml_text(Imported({"a": {"b": text}}), "H"), "x").tree == {"a": {"b": text}}


def test_a_context_without_texts_has_those_of_its_provider(tmp_path: Path, output: Path) -> None:
    text = (
        "contexts: {a: {provider: deepgram}, b: {provider: deepgram, greeting: B.}, c: {}}\n"
        "providers: {deepgram: {greeting: D., instructions: I.}}\n"
        "llm: {initial_greeting: L., prompt: P.}\n"
    )
    config, _ = imported(folder(tmp_path / "ava", text), output)
    found = {name: (c.greeting, c.prompt) for name, c in config.contexts.items()}
    assert found == {"a": ("D.", "I."), "b": ("B.", "I."), "c": ("L.", "P.")}


def test_the_address_and_key_of_a_model_of_ones_own(tmp_path: Path, output: Path) -> None:
    text = (
        "default_provider: p\ncontexts: {c: {prompt: P}}\n"
        "providers: {my_llm: {type: openai, chat_base_url: 'http://10.0.0.5:8080/v1', KEY}}\n"
        "pipelines: {p: {stt: local_stt, llm: my_llm, tts: azure_tts}}\n"
    )
    for key, kept in (("not-needed", "not-needed"), ("sk-in-the-file", None), ("${K}", "sk-env")):
        written = text.replace("KEY", f'api_key: "{key}"')
        root = folder(tmp_path / kept if kept else tmp_path / "none", written)
        config, told = imported(root, output.with_name(f"{kept}.yaml"), K="sk-env")
        brain = config.providers["p"].model_dump()["brain"]
        assert brain["base_url"] == "http://10.0.0.5:8080/v1"
        assert (brain["api_key"].get_secret_value() if brain["api_key"] else None) == kept
        assert "pipelines.p.tts: no tts of azure; hibari here" in told
        assert "sk-in-the-file" not in told


def test_a_single_file_is_read_alone(tmp_path: Path) -> None:
    root = folder(tmp_path / "ava", V6, [agent("a")])
    found = read_installation(root / "config" / "ai-agent.yaml")
    assert found.agents == {}
    assert list(found.tree["contexts"]) == ["Bread Line", "night"]


def test_a_database_without_its_table_is_an_error(tmp_path: Path) -> None:
    root = folder(tmp_path / "ava", V7)
    database(root / "agents.db", [])
    connection = sqlite3.connect(root / "agents.db")
    connection.execute("DROP TABLE agents")
    connection.close()
    done = typed("import", "ava", str(root), "-o", str(tmp_path / "x.yaml"))
    assert done.status == 1
    assert "no such table: agents" in done.err
