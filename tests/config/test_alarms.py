"""What a person is told about wrong alarms: the key, its line, and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.changes import changes, needs_restart
from cordboard.config.load import LoadedConfig, read
from cordboard.errors import ConfigError

FILE = """\
contexts: {{demo: {{}}}}
calls: {{index: {{enabled: {index}}}}}
mcp: {{servers: {{crm: {{command: [python]}}}}}}
tools:
  tell: {{kind: http, url: "https://x.example/a", method: POST, body: {{text: "{{text}}"}},
         parameters: {{text: {{}}}}}}
alarms:
{alarms}
"""


def load(alarms: str, *, index: bool = True) -> LoadedConfig:
    lines = "\n".join(f"  {line}" for line in alarms.strip().splitlines())
    return read(FILE.format(alarms=lines, index=str(index).lower()), Path("a.yaml"), {})


def rule(text: str) -> str:
    return f"rules:\n  slow: {{{text}}}"


def test_all_kinds_of_rules_and_ways() -> None:
    config = load("""
rules:
  slow: {measure: wait, percentile: p99, of: brain, above: 1500, at_least: 20, context: demo}
  crm: {server: crm, after_minutes: 2}
  disk: {measure: disk_free, below: 10}
  rec: {component: recordings}
  quiet:
    {measure: calls, below: 1, over_minutes: 240, hours: {days: [sat], from: "09:00", to: "12:00"}}
  money: {measure: cost, above: 20, today: true, note: "ring Bo"}
tool: {tool: tell, arguments: {text: "{alarm.name}: {alarm.text}"}}
email: {server: mail.example.org, sender: a@example.org, to: [b@example.org]}
remind_minutes: 60
""").config
    assert list(config.alarms.rules) == ["slow", "crm", "disk", "rec", "quiet", "money"]


def test_only_measures_of_calls_need_the_index() -> None:
    load("rules:\n  a: {measure: disk_free, below: 5}\n  b: {component: ari}", index=False)
    with pytest.raises(ConfigError, match=r"calls needs the index of calls; set `calls.index.en"):
        load(rule("measure: calls, above: 1"), index=False)


@pytest.mark.parametrize(
    ("text", "line", "key", "expected"),
    [
        (rule("above: 5"), 9, "alarms.rules.slow", "expected one of `measure`, `component` and"),
        (rule("component: ari, server: crm"), 9, "alarms.rules.slow", "expected one of `measure`"),
        (rule("measure: wait"), 9, "alarms.rules.slow", "expected `above` or `below`"),
        (rule("component: ari, above: 5"), 9, "alarms.rules.slow", "expected `above` or `below`"),
        (rule("measure: nonsense, above: 1"), 9, "alarms.rules.slow.measure", "expected one of"),
        (rule("component: ari, of: x"), 9, "alarms.rules.slow.of", "expected only with a measure"),
        (rule("measure: wait, above: 1, of: x"), 9, "alarms.rules.slow.of", "there is no stage x"),
        (rule("measure: calls, above: 1, of: x"), 9, "alarms.rules.slow.of", "is not separated by"),
        (
            rule("measure: calls, above: 1, context: dema"),
            9,
            "alarms.rules.slow.context",
            "there is no context dema; did you mean demo?",
        ),
        (rule("server: crn"), 9, "alarms.rules.slow.server", "there is no MCP server crn"),
        (
            rule('component: ari, hours: {from: "09:00", to: "08:00"}'),
            9,
            "alarms.rules.slow.hours.to",
            "expected a time after `from`",
        ),
        ("tool: {tool: tel}", 8, "alarms.tool.tool", "nothing provides the tool tel"),
        ("tool: {tool: transfer}", 8, "alarms.tool.tool", "needs a caller on the line"),
        (
            'tool: {tool: tell, arguments: {text: "{call.text}"}}',
            8,
            "alarms.tool.arguments.text",
            "there is no value {call.text}; expected one of {alarm.name}",
        ),
        (
            "email: {server: s.example, sender: Bo <a@b.example>, to: [a@b.example]}",
            8,
            "alarms.email.sender",
            "expected an e-mail address alone",
        ),
        (
            "email: {server: s.example, sender: a@b.example, to: [ops]}",
            8,
            "alarms.email.to",
            "expected an e-mail address such as",
        ),
        (
            "email: {server: s.example, security: none, user: a, password: geheim12, "
            "sender: a@b.example, to: [a@b.example]}",
            8,
            "alarms.email.password",
            "it would cross the network unencrypted",
        ),
        (
            "email: {server: s.example, user: a, sender: a@b.example, to: [a@b.example]}",
            8,
            "alarms.email",
            "expected `user` and `password`",
        ),
    ],
)
def test_a_wrong_alarm_is_named_with_line_and_key(
    text: str, line: int, key: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (line, key)
    assert expected in problem.message


def test_the_password_is_secret_and_a_change_takes_effect_at_once() -> None:
    mail = "email: {server: s.example, user: a, password: PW, sender: a@b.example, to: [a@b.c]}"
    before, after = (load(mail.replace("PW", each)) for each in ("geheim12", "geheim34"))
    assert "geheim12" in before.secrets
    (key,) = changes(before.config, after.config)
    assert (key, needs_restart(key)) == ("alarms.email.password", False)
    assert "geheim" not in repr(before.config)
