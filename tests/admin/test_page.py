"""docs/admin-api.md: its commands are run as they stand, its YAML is loaded."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import wave
from pathlib import Path

import pytest

from cordboard.admin.table import ENDPOINTS
from cordboard.config.load import ConfigSource, load, read
from cordboard.runtime.engine import Engine
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE, until

PAGE = (Path(__file__).parents[2] / "docs" / "admin-api.md").read_text("utf-8")
CONFIG = """
contexts: {demo: {greeting: "Good morning, this is the demo.", tools: [hangup_call],
                  silence: {caller_after_ms: 3600000}}}
health: {port: 0}
audiosocket: {port: 0, context: demo}
reload: {watch: false}
calls: {directory: calls, index: {enabled: true}}
alarms: {rules: {disk: {measure: disk_free, above: 0}}}
admin: {ui: {enabled: true, port: PORT, data: admin}}
"""


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_the_yaml_of_the_page_is_in_order(block: str) -> None:
    text = f"contexts: {{demo: {{}}}}\n{block}"
    loaded = read(text, Path("agent.yaml"), {"OIDC_SECRET": "secret"})
    assert loaded.problems == ()


def test_the_page_names_only_paths_that_exist() -> None:
    known = {re.sub(r"\{[a-z_]+\}", "X", endpoint.path) for endpoint in ENDPOINTS}
    named = re.findall(r"\$A(/[a-zA-Z/$-]+)", PAGE)
    assert len(named) >= 10
    assert {re.sub(r"\$[A-Z]+", "X", path) for path in named} <= known


@pytest.mark.usefixtures("lent_models")
async def test_the_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("curl") is None or shutil.which("jq") is None:
        pytest.skip("curl and jq are not installed")
    monkeypatch.chdir(tmp_path)
    port, path = free_port(), tmp_path / "config" / "ai-agent.yaml"
    path.parent.mkdir()
    path.write_text(CONFIG.replace("PORT", str(port)))
    loaded = load(path, {})
    source = ConfigSource(path, {}, loaded.digests, loaded.content)
    engine = Engine(loaded.config, source=source, sheds_load=False)
    script = "\n".join(["set -euo pipefail", *blocks("sh")]).replace("15001", str(port))
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    await engine.start()
    try:
        async with SimulatedCaller("127.0.0.1", engine.audiosocket_port):
            await until(lambda: bool(engine.registry.calls), "the call")
            shell = await asyncio.create_subprocess_exec(
                *("bash", "-c", script),
                env={"PATH": programs, "HOME": str(tmp_path)},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await asyncio.wait_for(shell.communicate(), 5 * PATIENCE)
            assert (shell.returncode, err.decode()) == (0, "")
            await asyncio.wait_for(engine.calls_recorded(), PATIENCE)
    finally:
        await engine.stop(grace=0)
    shown = out.decode()
    assert '"in_order":true' in shown
    assert "event: token" in shown
    assert '"action":"call.hangup"' in shown
    assert re.search(r"\b[1-9][0-9]? lines in order", shown)
    with wave.open(str(tmp_path / "sample.wav")) as sample:
        assert sample.getnframes() > sample.getframerate(), "spoken by the real voice"
    assert '"takes_effect":"now"' in shown
    assert "+++ draft" in shown
    assert '"applied":true' in shown
    assert '{"state":"begun"}' in shown, "the agent has said it"
    ledgers = [path.read_text() for path in (tmp_path / "calls").glob("*/*.jsonl")]
    assert sum("operator_hangup" in ledger for ledger in ledgers) == 1
