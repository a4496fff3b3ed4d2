"""Twenty requests that somebody wrote for tools which no prompt mentions (`bench.goals`)."""

from __future__ import annotations

from pathlib import Path

from bench.goals import RIGHT, ask_all, patient_brain


async def test_requests_reach_the_right_tool_and_nothing_is_invented(model_file: Path) -> None:
    lines: list[str] = []
    outcomes = await ask_all(patient_brain(), lines.append)
    assert sum(outcome.right for outcome in outcomes) >= RIGHT, "\n".join(lines)
    assert [outcome.spoken for outcome in outcomes if outcome.invented] == []
    assert [outcome.spoken for outcome in outcomes if outcome.machine_words] == []
