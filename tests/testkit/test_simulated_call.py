"""The results of a simulated call."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from cordboard.audio import wav
from cordboard.calls.history import read_lines
from cordboard.calls.reference import EXAMPLE
from cordboard_testkit.scenario import ConversationRecord
from cordboard_testkit.simulated_call import CallerLine, PlacedCall, save
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
