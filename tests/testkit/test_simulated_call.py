"""The results of a simulated call."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from cordboard.audio import wav
from cordboard.calls.history import read_lines
from cordboard.calls.reference import EXAMPLE
from cordboard.config.load import read
from cordboard_testkit.caller_voice import render_script
from cordboard_testkit.mcp_servers import FAULTY_SERVER
from cordboard_testkit.scenario import ConversationRecord
from cordboard_testkit.simulated_call import (
    CallerLine,
    PlacedCall,
    bench,
    call_target,
    save,
    voice_of,
)
from cordboard_testkit.timeline import Samples


class SilentLine:
    def write_wav(self, path: Path) -> None:
        wav.write_mono(path, bytes(320), 8000)

    def spoken(self) -> Samples:
        return np.zeros(160, np.int16)

    heard = spoken


def test_what_was_said_in_a_demo_is_its_users_alone(tmp_path: Path) -> None:
    placed = PlacedCall(cast(CallerLine, SilentLine()), ConversationRecord())
    placed.ledger = [dict(line) for line in read_lines(EXAMPLE)]
    for _ in range(2):  # the second demo replaces the results of the first
        found = save(placed, tmp_path / "var" / "demo")
    assert [name for name, _ in found] == ["recording", "ledger", "picture"]
    assert {path.stat().st_mode & 0o777 for _, path in found} == {0o600}
    folders = [tmp_path / "var", tmp_path / "var" / "demo"]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    assert read_lines(found[1][1]) == read_lines(EXAMPLE)


@pytest.mark.asterisk
@pytest.mark.voices
async def test_a_call_to_a_running_engine_waits_behind_a_filler(tmp_path: Path) -> None:
    """By SIP, with a context: the ledger of the call is found by the extension that it dialled."""
    slow = {
        "command": [sys.executable, str(FAULTY_SERVER), "good"],
        "start_timeout_ms": 60_000,
        "defaults": {
            "slow_response_threshold_ms": 400,
            "slow_response_message": "Let me look.",
            "timeout_ms": 60_000,
        },
    }
    order = {
        "sentences": ["please send my order"],
        "tool": "mcp_s_slow",
        "arguments": {"seconds": 4},
    }
    tree = {
        "contexts": {
            "other": {},
            "shop": {
                "greeting": "Hello.",
                "tools": ["hangup_call", "mcp_s_slow"],
                "rules": {"intents": {"order": order}},
            },
        },
        "mcp": {"lock": "off", "servers": {"s": slow}},
        "calls": {"directory": str(tmp_path / "calls")},
    }
    config = read(json.dumps(tree), tmp_path / "ai-agent.yaml", {"PATH": os.environ["PATH"]}).config
    directory = config.calls.directory
    async with bench(config, "shop", "sip", directory, sheds_load=False) as place:
        script = await render_script(voice_of(place.engine), ["Please send my order.", "Goodbye."])
        assert place.asterisk is not None
        _, _, address = place.asterisk.sip_uri("x").rpartition("@")
        host, port = address.split(":")
        said: list[str] = []
        placed = await call_target(config, "shop", script, "sip", host, int(port), said.append)
    assert said == ["Please send my order.", "Goodbye."]
    history = placed.history
    assert (history.context, [use.status for use in history.tools]) == ("shop", ["ok", "ok"])
    first, second = placed.record.exchanges
    assert first.answered_at is not None
    assert second.answered_at is not None
    assert first.answered_at - first.said_at > 2, "a filler comes after a second"
    assert not any(turn.interrupted for turn in history.turns.values())
