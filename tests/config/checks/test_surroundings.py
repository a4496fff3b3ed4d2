"""The warnings of `cordboard check` about open ports, folders and files; it fails for none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cordboard.config.checks.surroundings import check_surroundings
from cordboard.config.load import load


def warnings(folder: Path, text: str) -> list[str]:
    """All warnings about a file with a folder for its records, and the contexts."""
    path = folder / "a.yaml"
    path.write_text(text + "\ncontexts: {demo: {}}\n")
    loaded = load(path, {})
    found = list(check_surroundings(loaded.config, loaded.document, loaded.secret_files))
    assert not any(problem.fatal for problem in found)
    return [str(problem).removeprefix(f"{path}:") for problem in found]


def about(folder: Path, text: str) -> list[str]:
    return warnings(folder, f"calls: {{directory: {folder}/calls}}\n{text}")


# --- ports ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_ports_on_loopback_are_no_news(tmp_path: Path, host: str) -> None:
    text = f'health: {{host: "{host}"}}\naudiosocket: {{host: "{host}", context: demo}}\n'
    assert about(tmp_path, text) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "engine.example", ""])
def test_the_http_port_off_loopback(tmp_path: Path, host: str) -> None:
    start = f"2: health.host: other machines can reach {host or 'every address'}: /live answers"
    (bare,) = about(tmp_path, f'health: {{host: "{host}"}}')
    assert bare.startswith(start)
    assert bare.endswith("everything else is refused, as there is no `admin.token`")
    (with_token,) = about(tmp_path, f'health: {{host: "{host}"}}\nadmin: {{token: secret}}')
    assert with_token.startswith(start)
    assert with_token.endswith("everything else answers requests with `admin.token`")


ASTERISK = "\nasterisk: {url: 'http://10.0.0.5:8088', password: x, media: "


def test_the_audiosocket_port_off_loopback(tmp_path: Path) -> None:
    (message,) = about(tmp_path, "audiosocket: {host: 0.0.0.0}" + ASTERISK + "audiosocket}")
    assert message.startswith("2: audiosocket.host: other machines can reach 0.0.0.0: ")
    assert "`audiosocket.allow_from` (default: the address of `asterisk.url`)" in message
    assert "audiosocket.context" not in message


def test_bare_calls_off_loopback_are_called_so(tmp_path: Path) -> None:
    (message,) = about(tmp_path, "audiosocket: {host: 0.0.0.0, context: demo}")
    assert "`audiosocket.allow_from`" in message
    assert "without ARI, gets the agent of `audiosocket.context`" in message


@pytest.mark.parametrize("more", ["", ASTERISK + "websocket}"])
def test_a_port_that_nothing_needs_is_closed(tmp_path: Path, more: str) -> None:
    assert about(tmp_path, "audiosocket: {host: 0.0.0.0}" + more) == []


def test_the_rtp_ports_off_loopback(tmp_path: Path) -> None:
    (message,) = about(tmp_path, "rtp: {host: 0.0.0.0}" + ASTERISK + "rtp}")
    assert message.startswith("2: rtp.host: other machines can reach 0.0.0.0: ")
    assert "`rtp.first_port` to `rtp.last_port`" in message
    assert about(tmp_path, "rtp: {host: 0.0.0.0}" + ASTERISK + "websocket}") == []


# --- folders and files ---------------------------------------------------------------------


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    calls = tmp_path / "var" / "calls"
    text = f"calls: {{directory: {calls}}}"
    assert warnings(tmp_path, text) == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    calls.mkdir(parents=True)
    calls.chmod(0o700)
    assert warnings(tmp_path, text) == []
    assert list(calls.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (message,) = warnings(tmp_path, f"calls: {{directory: {tmp_path}/a.yaml/x}}")
    assert message.startswith(f"1: calls.directory: {tmp_path}/a.yaml/x cannot be written here: ")
    assert message.endswith("Not a directory; calls would leave no record")
    (message,) = warnings(tmp_path, f"calls: {{directory: {tmp_path}/{'x' * 300}}}")
    assert "File name too long" in message


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Nobody makes files there, root included."""
    (message,) = warnings(tmp_path, "calls: {directory: /proc/cordboard/calls}")
    assert message.startswith("1: calls.directory: /proc/cordboard/calls cannot be written")


@pytest.mark.parametrize("inner", ["post_call", "usage"])
def test_a_folder_within_that_cannot_be_written(tmp_path: Path, inner: str) -> None:
    (tmp_path / "calls").mkdir(mode=0o700)
    (tmp_path / "calls" / inner).write_text("not a folder")
    (message,) = about(tmp_path, "")
    assert message.startswith(f"1: calls.directory: {tmp_path}/calls/{inner} cannot be written")
    assert message.endswith("Not a directory; calls would leave no record")


def test_a_folder_that_everybody_reads(tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()
    for mode, told in {0o755: True, 0o751: True, 0o750: False, 0o700: False}.items():
        (tmp_path / "calls").chmod(mode)
        found = about(tmp_path, "")
        expected = f"1: calls.directory: everybody on this machine can look into {tmp_path}/calls;"
        assert [message.startswith(expected) for message in found] == [True] * told


def test_a_secret_that_everybody_reads(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("correct-horse\n")
    text = "admin: {token: '${file:token}'}\n"
    secret.chmod(0o640)
    assert about(tmp_path, text) == []
    secret.chmod(0o644)
    (message,) = about(tmp_path, text)
    told = f"everybody on this machine can read the secret in {secret}; chmod o= {secret}"
    assert message == f"2: admin.token: {told}"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o644


PROVIDERS = """
providers:
  live:
    type: openai_realtime
    api_key: {key}
    headers: {{X-Team: blue, api-key: {header}}}
  mixed:
    type: pipeline
    stt: {{type: deepgram, api_key: {key}}}
  deep:
    type: deepgram_agent
    think: {{endpoint: {{url: "https://a.example", headers: {{authorization: {header}}}}}}}
"""


def test_secrets_of_providers_in_the_file_itself(tmp_path: Path) -> None:
    found = about(tmp_path, PROVIDERS.format(key="sk-123456", header="Bearer-123456"))
    assert [message.partition(": the secret stands in this file")[0] for message in found] == [
        "6: providers.live.api_key",
        "7: providers.live.headers.api-key",
        "10: providers.mixed.stt.api_key",
        "13: providers.deep.think.endpoint.headers.authorization",
    ]
    assert not any("123456" in message for message in found)


def test_secrets_of_providers_from_elsewhere_are_no_news(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-123456")
    (tmp_path / "key").chmod(0o600)
    text = PROVIDERS.format(key='"${file:key}"', header='"Bearer ${file:key}"')
    assert about(tmp_path, text) == []
