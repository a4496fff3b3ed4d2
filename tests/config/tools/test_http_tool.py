"""What a person is told about a wrong tool of `kind: http`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import LoadedConfig, read
from cordboard.config.tools.http_tool import HttpTool
from cordboard.errors import ConfigError

ENVIRONMENT = {"TOKEN": "very{secret}", "PATH": "/bin"}

FILE = """\
contexts:
  demo: {{tools: [find], variables: [TIER]}}
tools:
  find:
    kind: http
{lines}
"""


def load(text: str) -> LoadedConfig:
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    return read(FILE.format(lines=lines), Path("a.yaml"), ENVIRONMENT)


def tool(text: str) -> HttpTool:
    found = load(text).config.tools["find"]
    assert isinstance(found, HttpTool)
    return found


GOOD = """
method: POST
url: "https://api.example.com/{customer}/orders?tier={call.TIER|none}"
query: {page: 1, all: true, caller: "{call.caller_number}"}
headers: {Authorization: "Bearer ${TOKEN}"}
header_templates: {X-Caller: "{call.caller_name}"}
body: {id: "{customer}", lines: ["{items.0.name}"], brace: "{{x}}"}
parameters: {customer: {type: string}, items: {type: array, required: false}}
result: {total: order.total}
success: [200, 201]
sign_with: "${TOKEN}"
allow_hosts: ["*.Example.com", "10.0.0.1", "::1"]
"""


def test_a_whole_one() -> None:
    found = tool(GOOD)
    assert found.headers["Authorization"].get_secret_value() == "Bearer very{secret}"
    assert found.allow_hosts == ("*.example.com", "10.0.0.1", "::1")
    assert found.query == {"page": 1, "all": True, "caller": "{call.caller_number}"}
    assert "Bearer very{secret}" in load(GOOD).secrets
    assert "very{secret}" not in repr(found)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("url: 'ftp://x/'", "6: tools.find.url", "begins with https:// or http://"),
        ("url: 'https://u:p@x/'", "6: tools.find.url", "no user or password in its host"),
        ("url: 'https://x/#a'", "6: tools.find.url", "no '#' in a URL"),
        ("url: 'https://x:{port}/'", "6: tools.find.url", "port"),
        ("url: 'https://{a:url}/'", "6: tools.find.url", "there are no formats"),
        ("url: 'https://x/{a:spell}'", "6: tools.find.url", "there are no formats"),
        ("url: 'https://x/{nobody}'", "6: tools.find.url", "there is no parameter {nobody}"),
        ("url: 'https://x/{call.caler_number}'", "6: tools.find.url", "mean caller_number"),
        ("url: 'https://{call.TIER}.x/'", "6: tools.find.url", "needs `allow_hosts`"),
        ("url: 'http://127.0.0.1/'", "6: tools.find.url", "a loopback address; write `allow_priv"),
        ("url: 'http://localhost:80/'", "6: tools.find.url", "a loopback address; write `allow_p"),
        ("url: 'http://10.1/'", "6: tools.find.url", "a private address; write `allow_private"),
        ("url: 'http://0xa9fea9fe/'", "6: tools.find.url", "a link-local address, where no requ"),
        (
            "url: 'http://[fd00:ec2::254]/'\nallow_private: true",
            "6: tools.find.url",
            "a metadata service's address, where no request may go",
        ),
        ("url: 'http://x.example/'\nheaders: {X-Key: k}", "6: tools.find.url", "in the clear"),
        (
            "url: 'https://x/{a}'\nparameters: {a: {required: false}}",
            "6: tools.find.url",
            "{a} may be left out by the agent",
        ),
        ("url: 'https://x/'\nbody: {a: 1}", "7: tools.find.body", "a GET has no body"),
        (
            "url: 'https://x/'\nmethod: POST\nbody: {a: 1}\nform: {a: b}",
            "9: tools.find.form",
            "there is `body` already",
        ),
        (
            "url: 'https://x/'\nmethod: POST\nbody: {a: [1, {b: '{'}]}",
            "8: tools.find.body.a[1].b",
            "at character 2",
        ),
        (
            "url: 'https://x/'\nmethod: POST\nbody: {a: [1, {b: '{who}'}]}",
            "8: tools.find.body.a[1].b",
            "there is no parameter {who}",
        ),
        ("url: 'https://x/'\nquery: {a: '{who}'}", "7: tools.find.query.a", "no parameter {who}"),
        ("url: 'https://x/'\nheaders: {Host: x}", "7: tools.find.headers.Host", "engine's own"),
        (
            "url: 'https://x/'\nheaders: {'a b': x}",
            "4: tools.find",
            "headers.a b: it is not a header",
        ),
        ("url: 'https://x/'\nheaders: {A: \"x\\ny\"}", "7: tools.find.headers.A", "HTTP does not"),
        ("url: 'https://x/'\nparameters: {call: {}}", "7: tools.find.parameters.call", "name of"),
        ("url: 'https://x/'\nparameters: {a: text}", "7: tools.find.parameters.a", "JSON Schema"),
        ("url: 'https://x/'\nparameters: {a: {type: txt}}", "7: tools.find.parameters", "txt"),
        ("url: 'https://x/'\nresult: {a: 'b..c'}", "7: tools.find.result.a", "at character 3"),
        ("url: 'https://x/'\nallow_hosts: ['https://x']", "7: tools.find.allow_hosts[0]", "a host"),
        ("url: 'https://x/'\nsign_with: short", "7: tools.find.sign_with", "(not shown)"),
        ("url: 'https://x/'\nmethod: FETCH", "7: tools.find.method", "expected one of GET"),
        ("url: 'https://x/'\nsuccess: [99]", "7: tools.find.success[0]", "from 200 to 599"),
        ("url: 'https://x/'\nuri: 'x'", "7: tools.find.uri", "unknown key; did you mean url"),
    ],
)
def test_the_file_line_key_and_what_was_expected(text: str, place: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    message = str(caught.value)
    assert f"a.yaml:{place}" in message, message
    assert expected in message, message
    assert "very" not in message


def test_inner_addresses_where_the_operator_wants_them() -> None:
    for url in ("http://127.0.0.1:8080/", "http://[::1]/x", "http://10.0.0.7/"):
        assert tool(f"url: '{url}'\nallow_private: true\nheaders: {{X-Key: k}}").allow_private


def test_a_secret_with_braces_is_no_template() -> None:
    found = tool("url: 'https://x/'\nheaders: {X-Key: '${TOKEN}'}")
    assert found.headers["X-Key"].get_secret_value() == "very{secret}"
