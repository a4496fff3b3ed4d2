"""scripts/try-clouds, against the emulators."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench import clouds

from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator

pytestmark = pytest.mark.voices
REAL_KEY = "a-key-of-the-operator"


async def test_the_scenes_are_right_and_a_provider_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai = clouds.CLOUDS["openai_realtime"]
    scenes = ("barge-in", "slow tool", "drop and resume")  # tests/whole_calls has the others
    tried = {
        "broken": replace(
            openai,
            scenes=("greeting",),
            emulator=lambda script, _: OpenAIRealtimeEmulator(script, key="another"),
        ),
        "openai_realtime": replace(openai, scenes=scenes),
        "gemini_live": replace(clouds.CLOUDS["gemini_live"], scenes=("drop and resume",)),
    }
    monkeypatch.setattr(clouds, "CLOUDS", tried)
    monkeypatch.setattr(clouds, "STOPS_WITHIN_MS", 6_000)
    monkeypatch.setattr(clouds, "SCENE_SECONDS", 180)
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)

    await clouds.run(tmp_path, list(tried), emulated=True)

    report = json.loads((tmp_path / "report.json").read_text())["providers"]
    verdicts = {
        name: {one["scene"]: one["verdict"] for one in scenes} for name, scenes in report.items()
    }
    assert verdicts == {
        "broken": {"greeting": "wrong"},
        "openai_realtime": dict.fromkeys(scenes, "right"),
        "gemini_live": {"drop and resume": "right"},
    }, (tmp_path / "report.md").read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.suffix == ".jsonl" for path in files) >= 5, "the ledgers"
    for path in files:
        content = path.read_bytes()
        assert not any(key.encode() in content for key in (REAL_KEY, clouds.KEY)), path


def test_providers_without_a_key_are_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for cloud in clouds.CLOUDS.values():
        monkeypatch.delenv(cloud.variable, raising=False)
    monkeypatch.delenv("ELEVENLABS_AGENT_ID", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
    monkeypatch.setenv("ELEVENLABS_API_KEY", REAL_KEY)

    assert clouds.chosen([], emulated=False) == ["openai_realtime", "openai_live"]

    told = capsys.readouterr().out
    assert "gemini_live: left out, GEMINI_API_KEY not in the environment" in told
    assert "elevenlabs_agent: left out, ELEVENLABS_AGENT_ID not in the environment" in told


def test_a_key_that_a_service_repeats_is_taken_out(tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()
    file = tmp_path / "calls" / "one.jsonl"
    file.write_text(f"Incorrect API key provided: {REAL_KEY}")
    clouds.without_keys(tmp_path, ["", REAL_KEY])
    assert file.read_text() == "Incorrect API key provided: [key]"
