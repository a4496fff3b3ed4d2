"""Requests that somebody wrote for tools which no prompt mentions: each file of `bench.goals`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from bench.goals import FILES, ask_all, patient_brain, read_goals

LIMIT = 900
"""Seconds for one file; twenty requests took 150 on a busy machine (load 4)."""


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
async def test_requests_reach_the_right_tool_and_nothing_is_invented(
    path: Path, model_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def progress(line: str) -> None:
        with capfd.disabled():
            sys.stdout.write(f"\n  {line}")
            sys.stdout.flush()

    goals = read_goals(path)
    async with asyncio.timeout(LIMIT):
        outcomes = await ask_all(path, patient_brain(), progress)
    wrong = [str(outcome) for outcome in outcomes if not outcome.right]
    assert len(outcomes) - len(wrong) >= goals.needed, "\n".join(wrong)
    assert [str(outcome) for outcome in outcomes if outcome.invented(goals)] == []
    assert [str(outcome) for outcome in outcomes if outcome.machine_words(goals)] == []
