"""Reading a configuration: what a person is told about a wrong one, word by word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.config.checks import semantics
from cordboard.config.load import LoadedConfig, load, read
from cordboard.config.yaml_document import KeyPath, dotted, parse
from cordboard.errors import ConfigError

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "SECRET": "hunter2-from-the-environment"}
CONTEXTS = "contexts: {demo: {}}\n"


def good(text: str, environ: dict[str, str] | None = None) -> LoadedConfig:
    return read(dedent(text), Path("a.yaml"), environ or ENVIRONMENT)


def told(text: str) -> list[str]:
    """All messages about a text that is refused."""
    with pytest.raises(ConfigError) as caught:
        good(text)
    messages = [str(problem) for problem in caught.value.problems]
    assert str(caught.value) == "\n".join(messages)
    assert "hunter2" not in str(caught.value)
    return messages


def warned(text: str) -> list[str]:
    """All messages about a text that is accepted, with reservations."""
    problems = good(text).problems
    assert not any(problem.fatal for problem in problems)
    return [str(problem) for problem in problems]


# --- what is accepted ----------------------------------------------------------------------


def test_one_context_is_a_whole_configuration() -> None:
    loaded = good("contexts:\n  demo:\n")
    assert loaded.problems == ()
    assert loaded.config.default_context == "demo"
    assert loaded.config.audiosocket.context is None
    assert loaded.config.providers["local"].type == "pipeline"
    assert loaded.config.asterisk is None


def test_the_first_context_is_the_default() -> None:
    config = good("contexts: {second: {}, first: {}}").config
    assert config.default_context == "second"


def test_the_only_provider_is_the_default_unless_one_is_named() -> None:
    text = "providers: {voices: {type: pipeline}}\n" + CONTEXTS
    assert good(text).config.default_provider == "voices"
    assert told("default_provider: local\n" + text) == [
        "a.yaml:1: default_provider: there is no provider local; known here: voices"
    ]


def test_sections_with_all_lines_commented_out_are_as_good_as_left_out() -> None:
    text = """
        asterisk:
        #  url: http://127.0.0.1
        health:
        tools:
        mcp: {servers: }
        routes:
        contexts: {demo: {tools: , variables: , rules: }}
        """
    config = good(text).config
    assert (config.asterisk, config.health.port, config.contexts["demo"].tools) == (None, 15000, ())


def test_variables_are_expanded_in_values_of_any_type() -> None:
    text = """
        health: {port: "${PORT}"}
        asterisk: {password: "${SECRET}", username: "${USER_NAME:-cordboard}"}
        calls: {directory: "${FOLDER}"}
        contexts:
          demo: {greeting: "Costs $$5, {caller_name}. ${HELLO}"}
        """
    environ = {"PORT": "8080", "SECRET": "hunter2", "HELLO": "hi: [x", "FOLDER": "a/${SECRET}"}
    config = good(text, environ).config
    assert config.health.port == 8080
    assert config.asterisk is not None
    assert config.asterisk.password.get_secret_value() == "hunter2"
    assert config.asterisk.username == "cordboard"
    assert config.contexts["demo"].greeting == "Costs $5, {caller_name}. hi: [x"
    assert str(config.calls.directory) == "a/${SECRET}"


def test_keys_that_look_like_numbers_need_no_quotes() -> None:
    assert good("routes: {0049123: demo, 600: demo}\n" + CONTEXTS).config.routes == {
        "0049123": "demo",
        "600": "demo",
    }


def test_secrets_are_known_to_the_log_and_to_nobody_else() -> None:
    text = """
        asterisk: {password: "pass-word"}
        mcp: {servers: {a: {command: [sh], env: {TOKEN: "Bearer ${SECRET}", MODE: plain}}}}
        contexts: {demo: {}}
        """
    loaded = good(text)
    assert loaded.secrets == {"pass-word", ENVIRONMENT["SECRET"]}
    assert "pass-word" not in repr(loaded)


def test_a_key_in_the_path_of_a_servers_url_is_known_to_the_log() -> None:
    text = """
        mcp: {servers: {a: {transport: http, url: "https://tools.example.com/${SECRET}/mcp"}}}
        contexts: {demo: {}}
        """
    assert good(text).secrets == {ENVIRONMENT["SECRET"]}


# --- reading -------------------------------------------------------------------------------


def test_a_file_is_read_and_named(tmp_path: Path) -> None:
    path = tmp_path / "ai-agent.yaml"
    path.write_text("\ufeff" + CONTEXTS + "helth: {}\n", "utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(caught.value) == f"{path}:2: helth: unknown key; did you mean health?"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    (tmp_path / "folder.yaml").mkdir()
    for name, message in {
        "none.yaml": ": cannot be read: No such file or directory",
        "folder.yaml": ": cannot be read: Is a directory",
        "latin.yaml": ":2: not UTF-8 text",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / name, {})
        assert str(caught.value) == f"{tmp_path / name}{message}"


# --- the schema ----------------------------------------------------------------------------

NAME = "a name (lower-case letters, digits, - and _, a letter first, at most 63)"
TOOL = "a tool name (letters, digits and _, no digit first, at most 64)"
REFERENCE = (
    "a tool reference (a tool name: letters, digits and _, no digit first, at most 64;"
    " or SERVER.*: all tools of that MCP server; or mcp:SERVER:TOOL: one of them)"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contxts: {demo: {}}", "a.yaml:1: contxts: unknown key; did you mean contexts?"),
        (
            "health: {prot: 1}",
            "a.yaml:1: health.prot: unknown key; did you mean port?",
        ),
        (
            "health: {xyz: 1}",
            "a.yaml:1: health.xyz: unknown key; known here: allowed_hosts, host, port",
        ),
        (
            "health: {port: http}",
            'a.yaml:1: health.port: expected a whole number from 0 to 65535, found the text "http"',
        ),
        (
            "health: {port: 70000}",
            "a.yaml:1: health.port: expected a whole number from 0 to 65535,"
            " found the number 70000",
        ),
        (
            "health: {port: 1.5}",
            "a.yaml:1: health.port: expected a whole number from 0 to 65535, found the number 1.5",
        ),
        (
            "health: {port: true}",
            "a.yaml:1: health.port: expected a whole number from 0 to 65535, found true",
        ),
        (
            "health: {port: }",
            "a.yaml:1: health.port: expected a whole number from 0 to 65535, found nothing",
        ),
        (
            'health: {port: "${SECRET}"}',
            "a.yaml:1: health.port: expected a whole number from 0 to 65535,"
            " found a text from outside the file (not shown)",
        ),
        (
            "health: 15000",
            "a.yaml:1: health: expected a mapping (key: value lines), found the number 15000",
        ),
        (
            "health: []",
            "a.yaml:1: health: expected a mapping (key: value lines), found an empty list",
        ),
        (
            "health: {host: 127}",
            "a.yaml:1: health.host: expected a text, found the number 127; put it in quotes",
        ),
        (
            "asterisk:\n  url: http://127.0.0.1",
            "a.yaml:1: asterisk.password: missing; expected a text"
            ' (ARI password, usually "${ASTERISK_ARI_PASSWORD}")',
        ),
        (
            "asterisk:\n  password: 12345",
            "a.yaml:2: asterisk.password: expected a text, found a number (not shown);"
            " put it in quotes",
        ),
        (
            "asterisk: {password: x, url: 127.0.0.1}",
            "a.yaml:1: asterisk.url: expected a URL such as http://127.0.0.1:8088, without user,"
            ' password or query, found the text "127.0.0.1"',
        ),
        (
            "asterisk: {password: x, url: 'http://user:hunter2@pbx:8088'}",
            "a.yaml:1: asterisk.url: expected a URL such as http://127.0.0.1:8088, without user,"
            ' password or query, found the text "http://***@pbx:8088"',
        ),
        (
            "providers: {local: {type: pipline}}",
            "a.yaml:1: providers.local.type: expected one of pipeline, deepgram_agent, "
            'elevenlabs_agent, gemini_live, openai_live, openai_realtime, found the text "pipline";'
            " did you mean pipeline?",
        ),
        (
            "providers: {local: {type: pipeline, brain: ruels}}",
            "a.yaml:1: providers.local.brain: expected one of rules, gguf, "
            "anthropic, gemini, openai_chat, openai_responses, "
            'found the text "ruels"; did you mean rules?',
        ),
        (
            "providers: {local: {}}",
            "a.yaml:1: providers.local.type: missing; expected one of pipeline, deepgram_agent, "
            "elevenlabs_agent, gemini_live, openai_live, openai_realtime",
        ),
        (
            "mcp: {enabled: maybe}",
            'a.yaml:1: mcp.enabled: expected true or false, found the text "maybe"',
        ),
        (
            "tools: {transfer: {destinations: {sales: {target: 6001}}}}",
            "a.yaml:1: tools.transfer.destinations.sales.target: expected an extension or queue"
            " (letters, digits, and * # + . - _, at most 79), found the number 6001;"
            " put it in quotes",
        ),
        (
            'tools: {transfer: {destinations: {sales: {target: "1", type: que}}}}',
            "a.yaml:1: tools.transfer.destinations.sales.type: expected one of"
            " extension, number, queue, ring_group, voicemail, dialplan, refer, found the text"
            ' "que"; did you mean queue?',
        ),
        (
            "mcp: {servers: {a: {command: [sh], env: {API_KEY: 5}}}}",
            "a.yaml:1: mcp.servers.a.env.API_KEY: expected a text, found a number (not shown);"
            " put it in quotes",
        ),
        (
            "mcp: {servers: {a: {command: []}}}",
            "a.yaml:1: mcp.servers.a: `transport: stdio` needs `command`",
        ),
        (
            "mcp: {servers: {a: {transport: http, url: 'https://x.example', run: cluster}}}",
            "a.yaml:1: mcp.servers.a: `run: cluster` is for `transport: stdio`; each engine"
            " connects to a server of `transport: http` by itself",
        ),
        (
            "mcp: {servers: {a: {command: sh -c x}}}",
            "a.yaml:1: mcp.servers.a.command: expected a list,"
            ' found the text "sh -c x"; a list is written [one, two],'
            " or as lines that begin with -",
        ),
        (
            "mcp: {servers: {My-Server: {command: [sh]}}}",
            "a.yaml:1: mcp.servers.My-Server: expected an identifier"
            " (lower-case letters, digits and _, a letter first, at most 41)",
        ),
        (
            "mcp:\n  servers:\n    a:\n      command: [sh]\n      tools:\n        - expose_as: x",
            "a.yaml:6: mcp.servers.a.tools[0].name: missing; expected a text"
            " (The tool's name as the server gives it)",
        ),
        (
            "calls: {index: {database: 'mysql://host/calls'}}",
            "a.yaml:1: calls.index.database: expected postgresql://user:password@host/database,"
            " or nothing",
        ),
    ],
)
def test_what_the_schema_refuses(text: str, message: str) -> None:
    contexts = "" if "contxts" in text else "\n" + CONTEXTS
    assert message in told(text + contexts)
    assert len(told(text + contexts)) == (2 if "contxts" in text else 1)


def test_contexts_are_needed() -> None:
    expected = "expected a mapping (key: value lines) with at least 1 entry"
    assert told("# head\nhealth: {}\n") == [
        f"a.yaml:2: contexts: missing; {expected} (The personas by name)"
    ]
    assert told("contexts: {}\n") == [f"a.yaml:1: contexts: {expected}, found an empty mapping"]


def test_wrong_items_of_lists_have_their_own_line() -> None:
    text = """\
        contexts:
          demo:
            tools:
              - hangup_call
              - "hang up"
              - 5
          Other One: {}
        """
    assert told(text) == [
        f'a.yaml:5: contexts.demo.tools[1]: expected {REFERENCE}, found the text "hang up"',
        f"a.yaml:6: contexts.demo.tools[2]: expected {REFERENCE}, found the number 5;"
        " put it in quotes",
        f"a.yaml:7: contexts.Other One: expected {NAME}",
    ]


def test_problems_of_every_kind_are_reported_together_in_the_order_of_the_file() -> None:
    text = """\
        health: {port: x}
        audiosocket: {port: 1, port: 2}
        asterisk: {password: "${NOT_SET}"}
        contexts:
          demo:
            greeting: "${ALSO_NOT_SET} ${oh"
            promt: hello
        """
    assert told(text) == [
        'a.yaml:1: health.port: expected a whole number from 0 to 65535, found the text "x"',
        "a.yaml:2: audiosocket.port: duplicate key; it is already in line 2",
        "a.yaml:3: asterisk.password: the environment variable NOT_SET is not set; set it,"
        " or give a default: ${NOT_SET:-default}",
        "a.yaml:6: contexts.demo.greeting: the environment variable ALSO_NOT_SET is not set;"
        " set it, or give a default: ${ALSO_NOT_SET:-default}",
        "a.yaml:6: contexts.demo.greeting: ${ without a name; write ${NAME} or ${file:PATH},"
        " or $${ for a literal ${",
        "a.yaml:7: contexts.demo.promt: unknown key; did you mean prompt?",
    ]


def test_what_does_not_fit_together_is_told_along_with_what_is_wrong_in_itself() -> None:
    text = """\
        helth: {}
        audiosocket: {port: x, context: demmo}
        contexts: {demo: {tools: [hang_up], max_duration_ms: 1}}
        """
    assert told(text) == [
        "a.yaml:1: helth: unknown key; did you mean health?",
        'a.yaml:2: audiosocket.port: expected a whole number from 0 to 65535, found the text "x"',
        "a.yaml:2: audiosocket.context: there is no context demmo; did you mean demo?",
        "a.yaml:3: contexts.demo.max_duration_ms: expected a whole number of at least 1000,"
        " found the number 1",
        "a.yaml:3: contexts.demo.tools[0]: nothing provides the tool hang_up;"
        " did you mean hangup_call?",
    ]


def test_a_part_that_is_wrong_is_not_also_missing() -> None:
    text = """\
        default_provider: voices
        providers: {voices: {type: pipline}}
        contexts: {demo: {tools: [mcp_crm_find]}}
        mcp: {servers: {crm: {comand: [sh], tools: [{name: find}]}}}
        """
    assert told(text) == [
        "a.yaml:2: providers.voices.type: expected one of pipeline, deepgram_agent, "
        'elevenlabs_agent, gemini_live, openai_live, openai_realtime, found the text "pipline"; '
        "did you mean pipeline?",
        "a.yaml:4: mcp.servers.crm.comand: unknown key; did you mean command?",
    ]


def test_a_missing_variable_is_not_also_a_wrong_value() -> None:
    assert len(told('health: {port: "${NOT_SET}"}\n' + CONTEXTS)) == 1


def test_problems_in_rules_have_their_own_line() -> None:
    text = """\
        contexts:
          demo:
            tools: [hangup_call]
            rules:
              intents:
                weather:
                  sentences:
                    - "weather in {town}"
                    - "weather ("
                  hang_up: sometimes
        """
    messages = told(text)
    assert messages == [
        "a.yaml:10: contexts.demo.rules.intents.weather.hang_up: expected true or false,"
        ' found the text "sometimes"'
    ]
    messages = told(text.replace("sometimes", "true"))
    assert len(messages) == 1
    assert messages[0].startswith("a.yaml:8: contexts.demo.rules.intents.weather.sentences[0]: ")
    assert "town" in messages[0]


# --- what must fit together ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "default_context: dem\n" + CONTEXTS,
            "a.yaml:1: default_context: there is no context dem; did you mean demo?",
        ),
        (
            "default_provider: locl\n" + CONTEXTS,
            "a.yaml:1: default_provider: there is no provider locl; did you mean local?",
        ),
        (
            "contexts:\n  demo:\n    provider: openai",
            "a.yaml:3: contexts.demo.provider: there is no provider openai; known here: local",
        ),
        (
            CONTEXTS + "routes:\n  600: sales",
            "a.yaml:3: routes.600: there is no context sales; known here: demo",
        ),
        (
            CONTEXTS + "audiosocket: {context: demoo}",
            "a.yaml:2: audiosocket.context: there is no context demoo; did you mean demo?",
        ),
        (
            CONTEXTS + "audiosocket: {port: 15000}",
            "a.yaml:2: audiosocket.port: health.port and audiosocket.port are both 15000;"
            " expected two ports",
        ),
        (
            CONTEXTS + "health: {port: 15001}\nadmin: {ui: {enabled: true}}",
            "a.yaml:2: health.port: health.port and admin.ui.port are both 15001;"
            " expected two ports",
        ),
        (
            CONTEXTS + "audiosocket: {host: 0.0.0.0}\nadmin: {ui: {enabled: true, port: 8090}}",
            "a.yaml:3: admin.ui.port: audiosocket.port and admin.ui.port are both 8090;"
            " expected two ports",
        ),
        (
            "contexts:\n  demo:\n    variables: [TIER, call_id]",
            "a.yaml:3: contexts.demo.variables[1]: call_id is a call variable already;"
            " expected a channel variable",
        ),
        (
            "contexts: {demo: {tools: [hang_up_call]}}",
            "a.yaml:1: contexts.demo.tools[0]: nothing provides the tool hang_up_call;"
            " did you mean hangup_call?",
        ),
        (
            "contexts: {demo: {tools: [mcp_crm_find]}}",
            "a.yaml:1: contexts.demo.tools[0]: nothing provides the tool mcp_crm_find;"
            " known here: collect_digits, hangup_call, pause_recording, request_callback,"
            " resume_recording, send_digits, send_email, take_message, transfer",
        ),
    ],
)
def test_names_must_name_something(text: str, message: str) -> None:
    assert told(text) == [message]


@pytest.mark.parametrize(
    "listeners",
    [
        "health: {port: 15001}\nadmin: {ui: {enabled: false}}",
        "health: {port: 0}\naudiosocket: {port: 0}\nadmin: {ui: {enabled: true, port: 0}}",
        "health: {host: 127.0.0.2, port: 15001}\nadmin: {ui: {enabled: true}}",
        "audiosocket: {host: '::', port: 15001}\nadmin: {ui: {enabled: true}}",
    ],
)
def test_listeners_that_do_not_meet_may_have_one_port(listeners: str) -> None:
    assert good(CONTEXTS + listeners).problems == ()


@pytest.mark.parametrize(
    ("media", "codec", "usable"),
    [
        ("websocket", "g722", "ulaw, alaw, slin, slin16"),
        ("audiosocket", "ulaw", "slin, slin16"),
        ("rtp", "slin16", "ulaw, alaw, slin, g722"),
    ],
)
def test_a_codec_must_fit_the_transport(media: str, codec: str, usable: str) -> None:
    asterisk = f"asterisk:\n  password: x\n  media: {media}\n  codec: "
    assert told(CONTEXTS + asterisk + codec) == [
        f"a.yaml:5: asterisk.codec: {codec} cannot be used with `media: {media}`;"
        f" expected auto or one of {usable}"
    ]
    for fits in ("auto", *usable.split(", ")):
        assert warned(CONTEXTS + asterisk + fits) == []


def test_a_codec_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantics, "_is_installed", lambda module: False)
    assert told(CONTEXTS + "asterisk: {password: x, media: rtp, codec: g722}") == [
        "a.yaml:2: asterisk.codec: this needs the extra `g722`, which is not installed;"
        " pip install 'cordboard[g722]', or take another codec"
    ]


@pytest.mark.parametrize("key", ["prompt", "greeting", "purpose"])
def test_an_unknown_placeholder_is_refused_with_the_known_ones(key: str) -> None:
    text = f"contexts:\n  demo:\n    variables: [TIER]\n    {key}: 'Hi {{caller_nam}} {{TIER}}'\n"
    assert told(text) == [
        f"a.yaml:4: contexts.demo.{key}: there is no call variable {{caller_nam}};"
        " did you mean caller_name?; known: caller_number, caller_name,"
        " called_number, call_id, context_name, provider_name, current_date, current_weekday,"
        " current_time, current_datetime_iso, TIER; a channel variable must be listed in"
        " `variables`, and a literal brace is written twice"
    ]


def test_a_placeholder_that_looks_meant_and_stays_is_a_warning_with_its_place() -> None:
    text = "contexts:\n  demo:\n    greeting: 'It is {current_time:tme}, {shape:round}.'\n"
    (warning,) = warned(text)
    assert warning.startswith(
        "a.yaml:3: contexts.demo.greeting: {current_time:tme} stays as it is written: at character"
        " 21: expected a format (.2f, choice, "
    )
    assert told("contexts:\n  demo:\n    prompt: 'For {call_id..x}.'\n") == [
        "a.yaml:3: contexts.demo.prompt: {call_id..x} stays as it is written: at character 14:"
        " expected the name of a field or a list index, found '.x}'"
    ]


SERVER = """
mcp:
  servers:
    crm:
      command: [sh]
      tools:
        - name: find
        - {name: delete, expose_as: remove_customer}
    open:
      command: [sh]
    resting:
      command: [sh]
      enabled: false
      tools: [{name: sleep}]
"""


def test_tools_of_servers_are_provided_under_their_exposed_names() -> None:
    text = "contexts: {demo: {tools: [mcp_crm_find, remove_customer, mcp_open_anything]}}"
    assert good(text + SERVER).problems == ()


def test_a_tool_that_a_server_does_not_list_is_fatal() -> None:
    assert told("contexts: {demo: {tools: [mcp_crm_delete]}}" + SERVER) == [
        "a.yaml:1: contexts.demo.tools[0]: nothing provides the tool mcp_crm_delete;"
        " did you mean mcp_crm_find?"
    ]


def test_a_tool_of_a_server_that_is_switched_off_is_a_warning() -> None:
    text = "contexts: {demo: {tools: [mcp_resting_sleep]}}" + SERVER
    assert warned(text) == [
        "a.yaml:1: contexts.demo.tools[0]: the tool mcp_resting_sleep is not offered,"
        " since mcp.servers.resting.enabled is false"
    ]
    text = "contexts: {demo: {tools: [mcp_crm_find]}}" + SERVER.replace(
        "mcp:\n", "mcp:\n  enabled: false\n"
    )
    assert warned(text) == [
        "a.yaml:1: contexts.demo.tools[0]: the tool mcp_crm_find is not offered,"
        " since mcp.enabled is false"
    ]


def test_a_tool_that_is_named_twice_is_fatal() -> None:
    text = """\
        contexts: {demo: {}}
        mcp:
          servers:
            a:
              command: [sh]
              tools:
                - {name: find}
                - {name: find, expose_as: lookup}
        """
    assert told(text) == [
        "a.yaml:8: mcp.servers.a.tools[1].name: the tool find of this server is named twice;"
        " name it once"
    ]


def test_two_tools_with_one_name_are_fatal_and_both_are_named() -> None:
    text = """\
        contexts: {demo: {}}
        mcp:
          servers:
            a:
              command: [sh]
              tools:
                - {name: find, expose_as: lookup}
                - {name: Find-It}
                - {name: find_it}
            b:
              command: [sh]
              tools:
                - {name: search, expose_as: lookup}
                - {name: bye, expose_as: hangup_call}
        """
    ending = "give one of them another name with `expose_as: ...`"
    assert told(text) == [
        "a.yaml:9: mcp.servers.a.tools[2]: two tools have the exposed name mcp_a_find_it:"
        f" Find-It of the MCP server a, and find_it of the MCP server a; {ending}",
        "a.yaml:13: mcp.servers.b.tools[0]: two tools have the exposed name lookup:"
        f" find of the MCP server a, and search of the MCP server b; {ending}",
        "a.yaml:14: mcp.servers.b.tools[1]: two tools have the exposed name hangup_call:"
        f" the built-in tool hangup_call, and bye of the MCP server b; {ending}",
    ]


def test_transfer_without_destinations_and_double_tools_are_warnings() -> None:
    assert warned("contexts: {demo: {tools: [transfer, hangup_call, hangup_call]}}") == [
        "a.yaml:1: contexts.demo.tools[0]: there is nowhere to transfer to;"
        " name tools.transfer.destinations",
        "a.yaml:1: contexts.demo.tools[2]: hangup_call is listed twice",
    ]


def test_a_server_for_a_cluster_that_is_not_there_is_a_warning() -> None:
    text = "contexts: {demo: {}}\nmcp: {servers: {a: {command: [sh], run: cluster}}}"
    assert warned(text) == [
        "a.yaml:2: mcp.servers.a.run: there is no `cluster:`;"
        " this engine runs the server for itself alone"
    ]


def test_a_server_that_cannot_start_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("#!/bin/sh\n")
    text = f"""\
        contexts: {{demo: {{}}}}
        mcp:
          servers:
            a: {{command: [no-such-program, x]}}
            b: {{command: [sh]}}
            c: {{command: [{tmp_path}/server]}}
            d: {{command: [sh], cwd: {tmp_path}/nowhere}}
            e: {{command: [python, -m, anything]}}
        """
    assert warned(text) == [
        "a.yaml:4: mcp.servers.a.command: there is no program no-such-program that could be run;"
        " the server cannot start",
        f"a.yaml:6: mcp.servers.c.command: there is no program {tmp_path}/server that could be run;"
        " the server cannot start",
        f"a.yaml:7: mcp.servers.d.cwd: there is no directory {tmp_path}/nowhere;"
        " the server cannot start",
    ]


RULES = """\
tools: {transfer: {destinations: {sales: {target: "1"}}}}
contexts:
  demo:
    tools: [transfer]
    variables: [TIER]
    rules:
      intents:
        weather:
          sentences: [weather]
          tool: mcp_weather_get
          say: "{message}, {TIER}"
        pass_on:
          sentences: [sale]
          transfer: sale
"""


def test_rules_use_only_the_tools_and_destinations_that_are_there() -> None:
    assert told(RULES) == [
        "a.yaml:10: contexts.demo.rules.intents.weather.tool: the tool mcp_weather_get is not in"
        " the `tools` of this context; add it there",
        "a.yaml:14: contexts.demo.rules.intents.pass_on.transfer: there is no"
        " tools.transfer destination sale; did you mean sales?",
    ]


def test_rules_use_only_known_placeholders() -> None:
    messages = told(RULES.replace("{TIER}", "{TEIR}"))
    assert len(messages) == 3
    assert messages[1].startswith(
        "a.yaml:11: contexts.demo.rules.intents.weather.say: unknown placeholder {TEIR}"
    )


WHOLE = f"""
default_context: demo
default_provider: local
health: {{host: 127.0.0.1, port: 15000}}
asterisk: {{password: x}}
audiosocket: {{context: demo}}
providers: {{local: {{type: pipeline}}}}
routes: {{600: demo}}
{SERVER}
{RULES.replace("weather_get", "crm_find").replace("[transfer]", "[transfer, mcp_crm_find]")}
"""
WHOLE = WHOLE.replace("transfer: sale\n", "transfer: sales\n")
PLACES = sorted(parse(WHOLE, "").places, key=dotted)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["${", "${X}", "{x}", "demo", "find", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


def test_the_whole_of_it_is_accepted() -> None:
    assert good(WHOLE).problems == ()


@given(st.sampled_from([place for place in PLACES if place]), ANYTHING)
@settings(max_examples=60)
def test_whatever_is_in_the_file_is_accepted_or_explained(place: KeyPath, value: object) -> None:
    tree = parse(WHOLE, "").tree
    holder: Any = tree
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = value
    try:
        good(json.dumps(tree))
    except ConfigError as error:
        for problem in error.problems:
            assert re.match(r"a\.yaml:\d+: .", str(problem))


@given(st.text("ab:-[]{}#&*!|>'\"%@`?,\n\t ${}<é\0", max_size=40))
@settings(max_examples=100)
def test_whatever_text_is_in_the_file_is_accepted_or_explained(text: str) -> None:
    with pytest.raises(ConfigError):
        good(text)


def test_rules_without_effect_are_warned_about() -> None:
    text = """
default_provider: cloud
providers:
  cloud: {type: openai_realtime, api_key: x}
  local: {type: pipeline, stt: whisper, brain: rules, tts: hibari}
contexts:
  demo: {fallback: [local]}
  salon:
    provider: local
    tools: [hangup_call]
    rules:
      lists: {when: {type: time, earliest: "09:00"}}
      intents:
        book: {sentences: ["book at {time:when}"], keywords: [squeeze], say: "Booked."}
        open: {sentences: ["open up"], keywords: [unlock], tool: hangup_call}
"""
    assert [message.split(": ", 1)[1] for message in warned(text)] == [
        "contexts.demo.fallback[0]: local needs `rules` in this context: it can only apologise"
        " without",
        "contexts.salon.rules.lists.when: no sentence uses this list; write {when} or {when:slot}",
        "contexts.salon.rules.intents.open.keywords: without a `title` the agent cannot ask whether"
        " this is meant",
    ]
