"""`cordboard demo` in a terminal: the interface shows the call until Enter."""

from __future__ import annotations

import asyncio
import os
import re
import select
import sys
from pathlib import Path

import httpx2
import pytest

from cordboard.admin.page import ASSETS, INDEX
from cordboard.cli import demo
from cordboard.cli.options import load_config
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.patience import PATIENCE, until

from .commands import ROOT

GOODBYE = (demo.Step("Goodbye.", "hangup_call", {}),)


@pytest.mark.usefixtures("lent_models")
async def test_a_link_leads_to_the_demo_s_call_until_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (ASSETS / INDEX).exists():
        pytest.fail("the interface is not built; run make admin-ui", pytrace=False)
    monkeypatch.setattr(demo, "SCRIPT", GOODBYE)
    keyboard, terminal = os.openpty()
    stdin = os.fdopen(terminal)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    text = (ROOT / "config" / "ai-agent.yaml").read_text()
    file = tmp_path / "agent.yaml"
    file.write_text(f"{text}calls: {{directory: {tmp_path}/calls}}\n")
    printed = ""

    def link() -> str:
        nonlocal printed
        printed += capsys.readouterr().out
        found = re.search(r"http://127\.0\.0\.1:(\d+)/calls/(\S+)#link=(\S+)\n.*\nEnter", printed)
        return " ".join(found.groups()) if found else ""

    before = LeakSnapshot.take()
    loaded = load_config(file)
    with demo._interface(loaded, "audiosocket") as shown:
        assert shown is not None
        folder = shown.settings.data
        call = asyncio.create_task(demo._demo(loaded, "audiosocket", tmp_path / "demo", 0.0, shown))
        await until(lambda: call.done() or bool(link()), "the link")
        port, call_id, token = link().split()
        origin = f"http://127.0.0.1:{port}"
        headers = {"Origin": origin, "X-Cordboard": "1"}
        async with httpx2.AsyncClient(
            base_url=origin, headers=headers, trust_env=False, timeout=PATIENCE
        ) as page:
            assert (await page.get("/live")).status_code == 200
            given = {"token": token, "password": "plum tangible orbit 41"}
            assert (await page.post("/api/v1/session/link", json=given)).status_code == 200
            async with asyncio.timeout(PATIENCE):
                while True:  # the index follows the ledger a moment later
                    rows = (await page.get("/api/v1/calls")).json()["rows"]
                    if rows and rows[0]["reason"]:
                        break
            (row,) = rows
            assert (row["context"], row["reason"]) == ("demo", "agent_hangup")
            assert row["id"] == call_id
            assert (await page.get(f"/api/v1/calls/{call_id}/audio")).status_code == 200
            shown_file = (await page.get("/api/v1/config")).json()
            assert shown_file["changes"] == []
            draft = {
                "text": shown_file["text"].replace("Flight information desk.", "Good day."),
                "base": shown_file["digest"],
                "comment": "Kinder",
            }
            published = await page.put("/api/v1/config", json=draft)
            assert published.status_code == 200, published.text
        assert "Good day." not in file.read_text(), "nobody edits the shipped file by it"
        os.write(keyboard, b"\n")
        await asyncio.wait_for(call, PATIENCE)
    assert not folder.exists()
    assert select.select([stdin], [], [], 0)[0] == [], "the shell would run what was typed"
    await before.assert_nothing_left()
    stdin.close()
    os.close(keyboard)


def test_without_a_terminal_there_is_no_interface() -> None:
    loaded = load_config(ROOT / "config" / "ai-agent.yaml")
    with demo._interface(loaded, "audiosocket") as shown:
        assert shown is None
