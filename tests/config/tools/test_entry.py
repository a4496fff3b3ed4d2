"""`tools:` of the file: five kinds, and what is said when one is not in order."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from cordboard.config.changes import changes
from cordboard.config.load import LoadedConfig, read
from cordboard.config.reference import reference
from cordboard.config.schema import Config
from cordboard.config.tools.entry import tools_of_servers
from cordboard.errors import ConfigError

KINDS = "builtin, mcp, http, python, workflow"
SERVER = "mcp: {servers: {crm: {command: [sh]}, open: {command: [sh]}}}\n"
PYTHON = '{kind: python, function: "json:dumps"}'
STEPS = "steps: [{id: a, tool: hangup_call}]"
WORKFLOW = f"{{kind: workflow, description: d, {STEPS}}}"


def loaded(text: str) -> LoadedConfig:
    return read(textwrap.dedent(text), Path("a.yaml"), {"PATH": os.environ["PATH"]})


def told(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return [str(problem) for problem in caught.value.problems]


def tools(text: str, context: str = "{}") -> str:
    return f"contexts: {{demo: {context}}}\n{SERVER}tools:\n{textwrap.indent(text, '  ')}\n"


ONE = [
    ("weather: {}", f"tools.weather.kind: missing; expected one of {KINDS}"),
    (
        "transfr: {destinations: {}}",
        f"tools.transfr.kind: missing; expected one of {KINDS};"
        " did you mean the built-in tool transfer?",
    ),
    (
        "weather: {kind: htp}",
        f'tools.weather.kind: expected one of {KINDS}, found the text "htp"; did you mean http?',
    ),
    ("weather: {kind: 5}", f"tools.weather.kind: expected one of {KINDS}, found the number 5"),
    ("weather: 5", "tools.weather: expected a mapping (key: value lines), found the number 5"),
    ("weather:", "tools.weather: expected a mapping (key: value lines), found nothing"),
    (
        "weather: {kind: mcp, tool: x}",
        "tools.weather.server: missing; expected an identifier (lower-case letters, digits and _,"
        " a letter first, at most 41) (Name under `mcp.servers`)",
    ),
    (
        "weather: {kind: mcp, server: crm, tool: x, url: y}",
        "tools.weather.url: unknown key of a tool of `kind: mcp`; it is one of `kind: http`",
    ),
    (
        "weather: {kind: mcp, server: crm, tool: x, timeout: 5}",
        "tools.weather.timeout: unknown key; did you mean timeout_ms?",
    ),
    (
        "weather: {kind: mcp, server: crm, tool: x, mcp: 5}",
        "tools.weather.mcp: unknown key; known here: ",
    ),
    (
        "weather: {kind: mcp, server: cr, tool: x}",
        "tools.weather.server: there is no MCP server cr; did you mean crm?",
    ),
    (
        "hangup_cal: {kind: builtin}",
        "tools.hangup_cal: there is no built-in tool hangup_cal; did you mean hangup_call?",
    ),
    (
        "hangup_call: {destinations: {a: {target: '1'}}}",
        "tools.hangup_call.destinations: only the tool transfer has destinations;"
        " hangup_call knows none",
    ),
    (
        "hangup_call: {message: {deliver: [{tool: hangup_call}]}}",
        "tools.hangup_call.message: only the tool take_message takes messages;"
        " hangup_call does not",
    ),
    (
        "request_callback: {callback: {zone: Oslo, deliver: [{tool: hangup_call}]}}",
        "tools.request_callback.callback.zone: there is no 'Oslo'; expected Europe/Oslo, say",
    ),
    (
        "request_callback: {callback: {zone: Europe/Oslo}}",
        "tools.request_callback.callback",
    ),
    (
        "hangup_call: {email: {server: localhost, sender: a@b.example, to: [c@d.example]}}",
        "tools.hangup_call.email: only the tool send_email sends e-mail; hangup_call does not",
    ),
    (
        "take_message: {message: {deliver: []}}",
        "tools.take_message.message.deliver",
    ),
    (
        "take_message: {message: {deliver: [{tool: post}]}}",
        "tools.take_message.message.deliver[0].tool: nothing provides the tool post",
    ),
    (
        "take_message: {message: {deliver: [{tool: transfer}]}}",
        "tools.take_message.message.deliver[0].tool: transfer needs a caller on the line;",
    ),
    (
        f"{{convert: {PYTHON}, take_message: {{message: {{deliver: [{{tool: convert,"
        ' arguments: {a: "{message.txt}"}}]}}}',
        "tools.take_message.message.deliver[0].arguments.a: there is no value {message.txt};",
    ),
    (
        f"hangup_call: {PYTHON}",
        "tools.hangup_call: hangup_call is the name of a built-in tool; give this one of"
        " `kind: python` another name",
    ),
    (
        "convert: {kind: python, function: dumps}",
        "tools.convert.function: expected a function as module:name, such as"
        ' my_package.tools:convert, found the text "dumps"',
    ),
    (
        "transfer: {destinations: {a: {target: '1', type: queue, mode: attended}}}",
        "tools.transfer.destinations.a.mode: a queue can only be blind",
    ),
    (
        "transfer: {destinations: {a: {target: '1', mode: warm}}}",
        "tools.transfer.destinations.a: endpoint: warm needs the phone's channel, such as"
        " PJSIP/6001",
    ),
    (
        "transfer: {destinations: {a: {target: '1', mode: attended, endpoint: Local/1@x/n}}}",
        "tools.transfer.destinations.a.endpoint: attended needs the phone's channel, such as"
        " PJSIP/6001",
    ),
    (
        "transfer: {destinations: {a: {target: '1', mode: warm, endpoint: A/1, returns: true}}}",
        "tools.transfer.destinations.a.returns: only of mode blind; see return_on_hangup",
    ),
    (
        "transfer: {destinations: {a: {target: '1', endpoint: 'PJSIP/1&PJSIP/2'}}}",
        "tools.transfer.destinations.a.endpoint: expected a channel such as PJSIP/6001 or"
        ' PJSIP/+4722334455@trunk, or nothing, found the text "PJSIP/1&PJSIP/2"',
    ),
    (
        "transfer: {timeout_ms: soon}",
        "tools.transfer.timeout_ms: expected a whole number from 50 to 600000,"
        ' found the text "soon"',
    ),
]


@pytest.mark.parametrize(("text", "message"), ONE, ids=[text for text, _ in ONE])
def test_what_is_wrong_with_one_tool(text: str, message: str) -> None:
    (problem,) = told(tools(text))
    assert problem.startswith(f"a.yaml:4: {message}")


def test_the_rules_of_every_tool_hold_for_every_kind() -> None:
    text = f"""\
hangup_call: {{per_call: 1}}
look: {{kind: mcp, server: crm, tool: find, timeout_ms: 60, approval: caller}}
convert: {{kind: python, function: "json:dumps", cache_ttl_ms: 1000}}
book: {{kind: workflow, description: d, duplicates: reject, {STEPS}}}
fetch: {{kind: http, url: "https://example.com/", slow_response_message: Wait.}}
"""
    config = loaded(tools(text)).config
    assert config.tools["hangup_call"].per_call == 1
    assert config.tools["fetch"].slow_response_message == ("Wait.",)
    (tool,) = tools_of_servers(config.tools)["crm"]
    assert (tool.name, tool.expose_as, tool.timeout_ms) == ("find", "look", 60)
    assert tool.approval == "caller"


def test_a_tool_of_a_server_is_named_once() -> None:
    text = """\
        contexts: {demo: {}}
        mcp:
          servers:
            crm:
              command: [sh]
              tools: [{name: find}, {name: other, expose_as: look}]
        tools:
          search: {kind: mcp, server: crm, tool: find}
          again: {kind: mcp, server: crm, tool: find}
          look: {kind: python, function: "json:dumps"}
        """
    assert told(text) == [
        "a.yaml:6: mcp.servers.crm.tools[0].name: the tool find of the MCP server crm is named in"
        " tools.search too; name it once",
        "a.yaml:6: mcp.servers.crm.tools[1]: two tools have the exposed name look: tools.look,"
        " and other of the MCP server crm; give one of them another name with `expose_as: ...`",
        "a.yaml:9: tools.again.tool: the tool find of the MCP server crm is named in tools.search"
        " too; name it once",
    ]


def test_contexts_know_the_tools_of_every_kind_and_the_groups_of_servers() -> None:
    entries = f"look: {{kind: mcp, server: crm, tool: find}}\nconvert: {PYTHON}\nbook: {WORKFLOW}"
    names = "[look, convert, book, hangup_call, 'open.*', mcp_open_any]"
    assert loaded(tools(entries, f"{{tools: {names}}}")).problems == ()
    problems = told(tools(entries, "{tools: [lok, 'opn.*', 'a.b']}"))
    assert [problem.partition(", found")[0] for problem in problems][-1].startswith(
        "a.yaml:1: contexts.demo.tools[2]: expected a tool reference"
    )
    assert told(tools(entries, "{tools: [lok, 'opn.*']}")) == [
        "a.yaml:1: contexts.demo.tools[0]: nothing provides the tool lok; did you mean look?",
        "a.yaml:1: contexts.demo.tools[1]: there is no MCP server opn; did you mean open?",
    ]


def test_a_tool_of_a_server_may_be_listed_by_its_id() -> None:
    """As in logs and ledgers: `mcp:server:tool`, whatever name the tool is exposed by."""
    entry = "look: {kind: mcp, server: crm, tool: find}"
    context = "{tools: ['mcp:crm:find', 'mcp:open:getIt', hangup_call]}"
    config = loaded(tools(entry, context)).config
    assert config.contexts["demo"].tools == ("look", "mcp_open_get_it", "hangup_call")
    text = """\
        contexts: {demo: {tools: ["mcp:crm:find"]}}
        mcp: {servers: {crm: {command: [sh], tools: [{name: find, expose_as: search}]}}}
        """
    assert loaded(text).config.contexts["demo"].tools == ("search",)
    (problem,) = told(text.replace("mcp:crm:find", "mcp:crn:find"))
    assert "contexts.demo.tools[0]: nothing provides the tool mcp_crn_find" in problem


def test_a_tool_that_was_given_another_name_has_no_longer_its_own() -> None:
    entry = "look: {kind: mcp, server: open, tool: findIt}"
    assert told(tools(entry, "{tools: [mcp_open_find_it]}")) == [
        "a.yaml:1: contexts.demo.tools[0]: nothing provides the tool mcp_open_find_it:"
        " tools.look gives it the name look"
    ]


def test_what_is_switched_off_is_a_warning() -> None:
    text = """\
        contexts: {demo: {tools: ["crm.*", look]}}
        mcp: {enabled: false, servers: {crm: {command: [sh]}}}
        tools: {look: {kind: mcp, server: crm, tool: find}}
        """
    assert [str(problem) for problem in loaded(text).problems] == [
        "a.yaml:1: contexts.demo.tools[0]: no tool of crm is offered, since mcp.enabled is false",
        "a.yaml:1: contexts.demo.tools[1]: the tool look is not offered, since mcp.enabled is"
        " false",
    ]


def test_a_module_that_is_not_installed_is_a_warning() -> None:
    text = tools('convert: {kind: python, function: "no_such_package.tools:convert"}')
    assert [str(problem) for problem in loaded(text).problems] == [
        "a.yaml:4: tools.convert.function: there is no module no_such_package where the engine"
        " runs; the tool is not offered"
    ]


def test_rules_may_use_a_tool_of_a_group() -> None:
    text = """\
        contexts:
          demo:
            tools: ["crm.*"]
            rules:
              intents:
                find: {sentences: [find], tool: TOOL, say: "{message}"}
        mcp: {servers: {crm: {command: [sh], tools: [{name: find}]}}}
        """
    loaded(text.replace("TOOL", "mcp_crm_find"))
    assert "is not in the `tools` of this context" in told(text.replace("TOOL", "hangup_call"))[0]


def test_changes_are_told_by_tool_and_key() -> None:
    def config(**entries: object) -> Config:
        return Config.model_validate({"contexts": {"demo": {}}, "tools": entries})

    before = config(a={"kind": "python", "function": "m:f"}, transfer={})
    after = config(
        a={"kind": "python", "function": "m:g", "timeout_ms": 100},
        transfer={"destinations": {"sales": {"target": "1"}}},
        hangup_call={"per_call": 1},
    )
    assert changes(before, after) == (
        "tools.a.timeout_ms",
        "tools.a.function",
        "tools.transfer.destinations.sales",
        "tools.hangup_call",
    )
    other = config(a={"kind": "http", "url": "https://example.com/"}, transfer={})
    assert changes(before, other) == ("tools.a",)


def test_the_page_has_a_table_for_each_kind_and_the_rules_once() -> None:
    page = reference()["tools.md"]
    for kind in KINDS.split(", "):
        assert f"## `tools.<name>(kind:{kind})`" in page
    assert page.count("| `duplicates` |") == 1
    assert page.count("## `tools.<name>.error_messages`") == 1
    assert (
        "](tools.md#toolsname) apply too.\n\n"
        "| key | value | default | meaning |\n|---|---|---|---|\n| `name`" in reference()["mcp.md"]
    )
