"""Whatever is in a file: a configuration, or a message with the line, and never much work.

That reading is quick is shown by the limits that end it, not by a clock.
"""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.config import load, sentences, yaml_document
from cordboard.config.environment import MOST_TEXT
from cordboard.config.load import LoadedConfig, read
from cordboard.config.templates import prompt_names, prompt_problems
from cordboard.config.yaml_document import parse
from cordboard.errors import ConfigError

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LONG": "x" * 100_000, "BYTES": "caf\udce9"}
GOOD = (Path(__file__).parents[2] / "config" / "ai-agent.yaml").read_text()
DEEP = yaml_document.MAX_DEPTH + 1


def told(text: str) -> list[str]:
    """All messages about a text that is refused."""
    with pytest.raises(ConfigError) as caught:
        read(text, Path("a.yaml"), ENVIRONMENT)
    return [str(problem) for problem in caught.value.problems]


def rules(sentence: str, **words: str) -> str:
    intent = {"sentences": [sentence], "say": "yes"}
    return json.dumps({"contexts": {"demo": {"rules": {"intents": {"a": intent}, "words": words}}}})


# --- the file ------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load.load(path, ENVIRONMENT)
    return str(caught.value).removeprefix(f"{path}: ")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A named pipe would block until somebody writes to it, and a device might never end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert refusal(tmp_path / "socket") == "cannot be read: No such device or address"
    for path in (pipe, Path("/dev/zero"), Path("/dev/null")):
        assert refusal(path) == "cannot be read: not a regular file"
    assert refusal(tmp_path) == "cannot be read: Is a directory"
    assert refusal(tmp_path / ("a" * 5_000)) == "cannot be read: File name too long"
    assert refusal(Path("a\0b")) == "cannot be read: the path has a NUL character"


def test_a_huge_file_is_refused_and_the_limit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    message = "cannot be read: larger than 1024 KiB, the most that a configuration may have"
    assert refusal(path) == message
    path.write_text("contexts: {demo: {}}\n#" + "x" * (load.MOST_KIB * 1024 - 22))
    assert load.load(path, {}).problems == ()
    path.write_text(path.read_text() + "x")
    assert refusal(path) == message


# --- YAML ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: " + "[\n" * 50_000, DEEP),
        ("a: " + "{a: " * 50_000, 1),
        ("- " * 50_000, 1),
        ("\n".join(" " * depth + "a:" for depth in range(1_000)), DEEP),
        ("a: " + "[" * 40 + "x" + "]" * 40 + "\nb: " + "[" * DEEP, 2),
    ],
)
def test_deep_nesting_ends_with_the_line(text: str, line: int) -> None:
    assert told(text) == [f"a.yaml:{line}: nested more than 50 deep"]


def test_aliases_cannot_nest_deeper_either() -> None:
    text = "a: &a " + "[" * 40 + "x" + "]" * 40 + "\nb: " + "[" * 20 + "*a" + "]" * 20
    (message,) = told(text)
    assert re.match(
        r"a\.yaml:1: b\[0\].*: nested more than 50 deep \(aliases in aliases\)", message
    )


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "x," * 100_000 + "]",
        "a: [" + "x,\n" * 100_000 + "]",
        "a: [" + "{}," * 100_000 + "]",
        "a: &a " + json.dumps(["x"] * 1_000) + "\nb: [" + "*a," * 1_000 + "]",
        # Each mapping merges ten times all that the one before it has merged.
        "a0: &a0 {k: v}\n"
        + "".join(
            f"a{n}: &a{n} {{<<: [" + ",".join([f"*a{n - 1}"] * 10) + "]}\n" for n in range(1, 15)
        ),
    ],
    ids=["list", "lines", "mappings", "aliases", "merges"],
)
def test_the_number_of_values_is_limited(text: str) -> None:
    (message,) = told(text)
    assert re.match(r"a\.yaml:\d+: (\S+: )?more than 50,000 keys and values", message)


def test_long_texts_cannot_be_multiplied() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [" + "*a, " * 1_000 + "]"
    (message,) = told(text)
    assert message.startswith("a.yaml:1: b[39]: more than 4,000,000 characters of text")
    text = 'contexts: {demo: {}}\nroutes:\n  "1": "' + "${LONG}" * 21 + '"\n'
    assert (
        told(text)[0]
        == f"a.yaml:3: routes.1: the expanded text has more than {MOST_TEXT:,} characters"
    )
    text = "contexts: {demo: {}}\nroutes:\n" + "".join(f'  "{n}": "${{LONG}}"\n' for n in range(30))
    assert "the values from outside the file make more than" in told(text)[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "9" * 5_000, "a.yaml:1: a: a number with more than 40 digits"),
        ("a: 0x" + "f" * 5_000, "a.yaml:1: a: a number with more than 40 digits"),
        ("? " + "k" * 2_000 + "\n: 1", "a.yaml:1: a key with more than 1,000 characters"),
        ('b: 1\na: "\\U00110000"', "a.yaml:2: not valid YAML: an escape beyond \\U0010FFFF"),
        ('b: 1\na: "\\UFFFFFFFF"', "a.yaml:2: not valid YAML: an escape beyond \\U0010FFFF"),
        ('a: "\\uD800"', "a.yaml:1: a: half of a surrogate pair"),
        ('"\\uD800": 1', "a.yaml:1: half of a surrogate pair"),
        ('contexts: {d: {greeting: "${BYTES}"}}', "variable BYTES is not UTF-8 text"),
        ("x: &x {<<: &y {<<: *x}}\nz: {<<: *x}\n", "x.<<: expected the alias of a mapping"),
    ],
)  # fmt: skip
def test_values_that_nothing_can_work_with(text: str, message: str) -> None:
    found = told(text)
    assert message in "\n".join(found)
    assert all(re.match(r"a\.yaml:\d+: ", problem) for problem in found)
    assert max(map(len, found)) < 3_000


def test_a_program_folder_that_no_path_can_name() -> None:
    text = json.dumps({"contexts": {"demo": {}}, "mcp": {"servers": {"a": {
        "command": ["sh"], "cwd": "x" * 5_000}}}})  # fmt: skip
    (problem,) = read(text, Path("a.yaml"), ENVIRONMENT).problems
    assert (problem.key, problem.line) == ("mcp.servers.a.cwd", 1)


def test_a_thousand_problems_are_not_listed_one_by_one() -> None:
    text = "contexts: {demo: {}}\n" + "".join(f"k{number}: 1\n" for number in range(1_000))
    found = told(text)
    assert found[0] == "a.yaml:2: k0: unknown key; known here: " + found[0].partition("here: ")[2]
    assert found[-1] == "a.yaml:101: 900 more problems, which are not shown"
    assert len(found) == 101


@given(st.integers(10, 10_000), st.sampled_from(["{a", "{", "{a ", "{a|", "{a.", "{{", "{a \n"]))
@settings(deadline=None, max_examples=30)
def test_an_open_brace_before_many_spaces_is_no_placeholder(number: int, start: str) -> None:
    assert prompt_names(start + " " * number, ["a"]) == []
    assert prompt_names(start * number + "{b}", ["a"]) in ([], [("b",)])
    assert list(prompt_problems(start * number, ["a"])) == []


# --- sentences -----------------------------------------------------------------------------

AT = "a.yaml:1: contexts.demo.rules.intents.a.sentences[0]: "


def test_deeply_nested_sentences_are_refused() -> None:
    for brackets in ("()", "[]"):
        for depth in (25, 400, 900):
            (message,) = told(rules(f"x {brackets[0] * depth}a{brackets[1] * depth}"))
            assert message.startswith(AT)
            assert message.endswith("brackets and <pieces> are nested more than 24 deep")
    read(rules("(" * 24 + "a" + ")" * 24), Path("a.yaml"), ENVIRONMENT)


def test_pieces_in_a_circle_are_shown_as_one() -> None:
    (message,) = told(rules("<a>", a="<b>", b="[x] <c>", c="y <a>"))
    assert message.startswith(AT)
    assert message.endswith("refer to each other in a circle: <a> → <b> → <c> → <a>")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{0} {0}", "a wording of more than 256 words"),
        ("({0} y|{0})", "more than 256 wordings; write it as several sentences"),
        ("(" + "|".join(["{0}"] * 100) + ")", "have too many wordings in all"),
    ],
)
def test_a_bomb_of_words_is_not_called_a_circle(template: str, message: str) -> None:
    """Each piece uses the one before it several times."""
    words = {f"w{number}": template.format(f"<w{number - 1}>") for number in range(1, 11)}
    (found,) = told(rules("<w10>", w0="x", **words))
    assert found.startswith(AT)
    assert found.endswith(message)


def test_a_sentence_has_a_length_and_is_not_quoted_whole() -> None:
    (message,) = told(rules("a" + " " * 100_000))
    assert message.endswith("longer than 2,048 characters")
    assert len(message) < 400


def test_the_work_for_all_sentences_of_a_file_is_limited() -> None:
    heavy = [f"{'(a b|c d) ' * 8}{number}" for number in range(1_000)]
    text = json.dumps({"contexts": {"demo": {"rules": {"intents": {"a": {
        "sentences": heavy, "say": "x"}}}}}})  # fmt: skip
    (message,) = told(text)
    assert message.endswith("the sentences of the file have too many wordings in all")


def test_the_work_is_counted_over_all_contexts_and_aliases() -> None:
    heavy = json.dumps([f"{'(a b|c d) ' * 8}{number}" for number in range(100)])
    text = f"contexts:\n  a: &a {{rules: {{intents: {{a: {{say: x, sentences: {heavy}}}}}}}}}\n"
    assert good(text)
    text += "".join(f"  b{number}: *a\n" for number in range(100))
    assert "too many wordings in all" in told(text)[0]


# --- anything ------------------------------------------------------------------------------


def good(text: str) -> LoadedConfig:
    return read(text, Path("a.yaml"), ENVIRONMENT)


def accepted_or_explained(text: str) -> None:
    try:
        good(text)
    except ConfigError as error:
        for problem in error.problems:
            assert re.match(r"a\.yaml:\d+: .", str(problem)), str(problem)[:200]


GRAMMAR = st.recursive(
    st.sampled_from(["a", "b c", "{text}", "{number:n}", "<p>", "<q>", "|", "{", "]", "<", ""]),
    lambda inner: (
        st.tuples(st.sampled_from(["()", "[]", "(]", "<>", "{}"]), inner).map(
            lambda found: found[0][0] + found[1] + found[0][1]
        )
        | st.lists(inner, max_size=4).map("|".join)
        | st.lists(inner, max_size=4).map(" ".join)
        | st.tuples(inner, st.integers(1, 40)).map(lambda found: found[0] * found[1])
    ),
    max_leaves=12,
)


@given(GRAMMAR, GRAMMAR, GRAMMAR)
@settings(deadline=None, max_examples=100)
def test_whatever_sentence_is_accepted_or_explained(sentence: str, p: str, q: str) -> None:
    accepted_or_explained(rules(sentence, p=p, q=q))


@given(GRAMMAR, st.integers(1, 400), st.integers(1, 400))
@settings(deadline=None, max_examples=60)
def test_whatever_sentence_is_read_with_bounded_work(text: str, wordings: int, left: int) -> None:
    try:
        found = sentences.read_sentence(
            text, {"p": "a <q>", "q": "(b|c d)"}, most=wordings, effort=sentences.Effort(left)
        )
    except sentences.SentenceError:
        return
    assert len(found) <= wordings
    assert sum(map(len, found)) <= left


NESTED: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["contexts", "tools", "demo", "rules", "intents", "x", "<<"]), inner
        )
        | st.tuples(inner, st.integers(1, 200)).map(lambda found: _within(*found))
    ),
    max_leaves=8,
)


def _within(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@given(
    st.sampled_from(["contexts", "tools", "providers", "mcp", "prices", "calls", "x"]),
    NESTED,
)
@settings(deadline=None, max_examples=100)
def test_whatever_structure_is_accepted_or_explained(key: str, value: Any) -> None:
    accepted_or_explained(json.dumps({"routes": {}, key: value}))


PIECES = st.sampled_from("[]{}\"'|>#\t\n\0\ufeff\x85") | st.sampled_from(
    ["- ", "? ", ": ", "&a ", "*a", "<<: *a", "!!int ", "!x ", "%YAML 1.1\n", "---\n", "\\U", "${"]
)
CUTS = st.tuples(st.integers(0, len(GOOD)), st.integers(0, 40), PIECES, st.integers(1, 60))


@given(st.lists(CUTS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_whatever_is_done_to_a_good_file_is_accepted_or_explained(
    cuts: list[tuple[int, int, str, int]],
) -> None:
    text = GOOD
    for start, length, piece, times in cuts:
        text = text[:start] + piece * times + text[start + length :]
    accepted_or_explained(text)


@given(st.lists(PIECES | st.sampled_from(["a", "1", " "]), max_size=30).map("".join))
@settings(deadline=None, max_examples=200)
def test_whatever_pieces_of_yaml_are_read_or_explained(text: str) -> None:
    try:
        parse(text, "a.yaml")
    except ConfigError as error:
        for problem in error.problems:
            assert re.match(r"a\.yaml:\d+: .", str(problem)), str(problem)[:200]


def test_thousands_of_problems_are_not_all_put_into_words() -> None:
    tools = [f"nobody_has_{number}" for number in range(20_000)]
    messages = told(json.dumps({"contexts": {"demo": {"tools": tools}}}))
    assert len(messages) == load.MOST_PROBLEMS + 1
    assert "nothing provides the tool nobody_has_0" in messages[0]
    assert "more problems, which are not shown" in messages[-1]


def test_a_hint_names_as_many_names_as_can_be_read() -> None:
    tools = [{"name": f"tool_{number}"} for number in range(3_000)]
    servers = {"s": {"command": ["x"], "tools": tools}}
    contexts = {"demo": {"tools": ["qqqqq"]}, "near": {"tools": ["mcp_s_tool_29999"]}}
    far, near, _ = told(json.dumps({"mcp": {"servers": servers}, "contexts": contexts}))
    assert re.search(r"known here: .* and \d+ more$", far)
    assert len(far) < 3_000
    assert "did you mean mcp_s_tool_2999" in near


@pytest.mark.parametrize("directory", ["a/" * 1_500, "a\0b"], ids=["long", "NUL"])
def test_a_directory_that_cannot_be_is_refused(directory: str) -> None:
    tree = {"calls": {"directory": directory}, "contexts": {"demo": {}}}
    (message,) = told(json.dumps(tree))
    assert "calls.directory: expected a path" in message
