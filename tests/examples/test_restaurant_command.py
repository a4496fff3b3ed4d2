"""`python -m restaurant`: one command starts everything, and Ctrl-C leaves nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import stat
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cordboard_testkit.patience import PATIENCE

from .conftest import EXAMPLE

# isort: split
from restaurant.__main__ import main

SECONDS = PATIENCE
ANY_PORTS = {
    "RESTAURANT_ISSUER_PORT": "0",
    "RESTAURANT_BACKEND_PORT": "0",
    "RESTAURANT_MCP_PORT": "0",
}


async def _start(
    folder: Path, *arguments: str, **environment: str
) -> tuple[asyncio.subprocess.Process, Path]:
    """The command with any ports, and where it writes what the engine needs."""
    env_file = folder / "engine.env"
    given = {
        "PATH": os.environ["PATH"],
        "RESTAURANT_DATABASE_URL": f"sqlite:///{folder / 'restaurant.sqlite'}",
        **ANY_PORTS,
        **environment,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "restaurant", "--env-file", str(env_file), *arguments),
        cwd=EXAMPLE,
        env=given,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return process, env_file


async def _ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """Its exit status, and all that it still says."""
    async with asyncio.timeout(SECONDS):
        said, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, (said + errors).decode()


def _is_open(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((parts.hostname, parts.port)) == 0


async def test_one_command_starts_all_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    process, env_file = await _start(tmp_path)
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        said = b""
        while b"cordboard run" not in said:
            line = await process.stdout.readline()
            assert line, (await _ended(process), said)
            said += line
    urls = re.findall(r"http://\S+", said.decode())
    assert len(urls) == 3
    assert all(_is_open(url) for url in urls)
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    written = env_file.read_text()
    secret = re.search(r"RESTAURANT_CLIENT_SECRET=(\S{30,})", written)
    assert secret
    assert urls[2] in written
    token = re.search(r"CORDBOARD_TOKEN=(\S{30,})", written)
    assert token, "nobody could talk with the engine in writing"

    process.send_signal(signal.SIGINT)
    status, more = await _ended(process)
    assert status == 0, more
    assert not any(_is_open(url) for url in urls)
    assert not env_file.exists()
    assert secret[1] not in said.decode() + more
    assert token[1] not in said.decode() + more


async def test_with_the_engine_its_outcome_is_ours(tmp_path: Path) -> None:
    """The engine says what is wrong with its configuration and ends; so does everything."""
    config = tmp_path / "ai-agent.yaml"
    config.write_text("contexts: {}\nnonsense: true\n")
    process, env_file = await _start(tmp_path, "--engine", "--config", str(config))
    status, said = await _ended(process)
    assert status != 0
    assert "nonsense" in said
    assert not env_file.exists()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"RESTAURANT_MCP_PORT": "soon"}, "RESTAURANT_MCP_PORT: expected a port"),
        ({"RESTAURANT_DATABASE_URL": "mysql://x/y"}, "expected a URL of sqlite or postgresql"),
        ({"RESTAURANT_BACKEND_PORT": "taken"}, "cannot be opened: Address already in use"),
    ],
)
def test_what_keeps_it_from_starting_is_told_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    told: str,
) -> None:
    url = f"sqlite:///{tmp_path / 'restaurant.sqlite'}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        wanted = {"RESTAURANT_DATABASE_URL": url, **ANY_PORTS, **environment}
        for name, value in wanted.items():
            monkeypatch.setenv(name, value.replace("taken", port))
        assert main(["--env-file", str(tmp_path / "engine.env")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("restaurant: ")
    assert told in line
