"""`${file:PATH}`: secrets from files, as `${VAR}` takes them from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.cli.running_engine import running_engine
from cordboard.config.environment import Expansion, expand
from cordboard.config.files import MOST_KIB, SecretFiles, digest_of
from cordboard.config.load import load, read
from cordboard.errors import ConfigError

SECRET = "hunter2-from-a-file"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET + "\n")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "large").write_bytes(b"x" * (MOST_KIB * 1024 + 1))
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def expanded(text: str, folder: Path, **environ: str) -> Expansion:
    return expand(text, environ, SecretFiles(folder))


def test_the_text_of_a_file_is_the_value(folder: Path) -> None:
    for text in ("Bearer ${file:secret}", f"Bearer ${{file:{folder}/secret}}"):
        result = expanded(text, folder)
        assert result.text == f"Bearer {SECRET}"
        assert (result.values, result.secrets) == ((), (SECRET,))
        assert result.files == (folder / "secret",)
        assert result.problems == ()


def test_only_the_line_breaks_at_the_end_go(tmp_path: Path) -> None:
    for content, value in {
        b" a\r\n": " a",
        b"a\n\n": "a",
        b"a\nb \n": "a\nb ",
        b"\xef\xbb\xbfa": "a",
        b"a": "a",
    }.items():
        (tmp_path / "secret").write_bytes(content)
        assert expanded("${file:secret}", tmp_path).text == value


def test_a_default_is_for_missing_and_empty_files(folder: Path) -> None:
    """As for variables: not for a file that is there and cannot be used."""
    assert expanded("${file:nowhere:-x}", folder).text == "x"
    assert expanded("${file:empty:-x}", folder).text == "x"
    assert expanded("${file:empty:-}", folder).problems == ()
    assert expanded("${file:secret:-x}", folder).text == SECRET
    assert expanded("${file:folder:-x}", folder).problems != ()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", "there is no file {}; write the secret into it, or give a default:"),
        ("secret/x", "the file {} cannot be read: Not a directory"),
        ("empty", "the file {} is empty; write the secret into it, or give a default:"),
        ("folder", "the file {} cannot be read: Is a directory"),
        ("latin", "the file {} is not UTF-8 text"),
        ("large", "the file {} cannot be read: larger than 64 KiB"),
        ("pipe", "the file {} cannot be read: not a regular file"),
        ("a\0b", "the file {} cannot be read: the path has a NUL character"),
        ("x" * 4_000, "the file {} cannot be read: File name too long"),
    ],
)
def test_a_file_that_gives_no_value_is_named(folder: Path, name: str, reason: str) -> None:
    result = expanded(f"[${{file:{name}}}]", folder)
    (problem,) = result.problems
    assert problem.startswith(reason.format(folder / name))
    assert (result.text, result.values) == ("[]", ())


@given(st.text(max_size=40).map(str.strip).filter(bool), st.text("${}:-fileA", max_size=20))
@settings(deadline=None)
def test_a_value_is_never_expanded_again(value: str, more: str) -> None:
    class Given(SecretFiles):
        def read(self, name: str) -> str:
            return value + more

    result = expand("${file:a}", {"A": "other"}, Given(Path("/")))
    assert result.text == value + more


CONFIG = """\
asterisk: {password: "${file:secret}"}
mcp: {servers: {a: {command: [sh], env: {TOKEN: "Bearer ${file:secret}"}}}}
routes: {"600": "${file:nowhere:-demo}"}
contexts: {demo: {greeting: "${file:secret}"}}
"""


def test_secrets_start_at_the_folder_of_the_configuration(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # no secrets are stored there
    path = folder / "agent.yaml"
    path.write_text(CONFIG)
    loaded = load(path, {"PATH": "/bin:/usr/bin"})
    assert loaded.config.asterisk is not None
    assert loaded.config.asterisk.password.get_secret_value() == SECRET
    assert loaded.config.mcp.servers["a"].env["TOKEN"] == f"Bearer {SECRET}"
    assert loaded.secrets == {SECRET}
    assert SECRET not in repr(loaded).replace(f"greeting='{SECRET}'", "").replace(
        f"Bearer {SECRET}", ""
    )
    assert loaded.digests == {
        path: digest_of(CONFIG.encode()),
        folder / "secret": digest_of(f"{SECRET}\n".encode()),
        folder / "nowhere": "",  # it may appear
    }
    assert loaded.secret_files == {folder / "secret": ("asterisk", "password")}


def test_a_file_that_is_missing_is_told_with_its_place(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read("contexts: {demo: {}}\nadmin:\n  token: ${file:no}\n", folder / "a.yaml", {})
    assert str(caught.value) == (
        f"{folder}/a.yaml:3: admin.token: there is no file {folder}/no; write the secret into it,"
        " or give a default: ${file:no:-default}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "health: {port: '${file:secret}'}",
        "default_provider: '${file:secret}'",
        "default_context: '${file:secret}'",
        "asterisk: {password: x, codec: '${file:secret}'}",
        "contexts: {demo: {greeting: '{${file:secret}}'}}",
        "contexts: {demo: {tools: ['${file:secret}']}}",
        "contexts: {demo: {rules: {phrases: {help: '${file:secret} {'}}}}",
        "contexts: {demo: {rules: {intents: {a: {say: x, sentences: ['${file:secret} (']}}}}}",
        "tools: {x: {kind: http, url: '${file:secret}', description: x}}",
    ],
)
def test_a_secret_in_the_wrong_place_is_in_no_message(folder: Path, text: str) -> None:
    if "contexts" not in text:
        text += "\ncontexts: {demo: {}}"
    with pytest.raises(ConfigError) as caught:
        read(text, folder / "a.yaml", {})
    assert SECRET not in str(caught.value)


def test_commands_take_the_token_from_its_file(folder: Path) -> None:
    path = folder / "agent.yaml"
    path.write_text("admin: {token: '${file:secret}'}\ncontexts: {demo: {}}\n")
    assert running_engine(path, {}).token == SECRET
    (folder / "secret").unlink()
    engine = running_engine(path, {})
    assert engine.token == ""
    assert "there is no file" in engine.lacking[0]


def test_commands_refuse_what_is_no_file(folder: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        running_engine(folder / "pipe", {})
