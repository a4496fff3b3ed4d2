"""The ends of models that the vendors' SDKs announce, and our tables (scripts/newest-sdks)."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from cordboard.vendors.anthropic.config import AnthropicBrain
from cordboard.vendors.openai.config import OpenAIChatBrain

SCRIPT = Path(__file__).parents[2] / "scripts" / "newest-sdks"
SOURCE = """
- "old", "old-2025-08-07",
  "older": Announced shutdown date:
  2027-01-20. See
- "odd": Not a supported model ID.
"""


@pytest.fixture(scope="module")
def newest_sdks() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("newest_sdks", str(SCRIPT))
    spec = importlib.util.spec_from_loader("newest_sdks", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("vendor", ["anthropic", "deepgram", "elevenlabs", "gemini", "openai"])
def test_our_tables_have_the_ends_that_the_locked_sdk_announces(
    newest_sdks: ModuleType, vendor: str
) -> None:
    distribution, folder = newest_sdks.SDKS[vendor]
    path = Path(str(importlib.metadata.distribution(distribution).locate_file(folder)))
    today = datetime.now(UTC).date().isoformat()
    assert list(newest_sdks.compared(vendor, path, path, today)) == []


def test_what_a_newer_sdk_has_changed(
    newest_sdks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("locked", '"low" "old" "gone"'), ("newest", f'"low"\n{SOURCE}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "types.py").write_text(text)
    values = {"gone": "One.model", "old": "Two.model", "low": "Two.effort", "mine": "Two.kind"}
    ends = {"older": "2026-12-01", "forgotten": "2027-02-02", "ended": "2026-05-07"}
    monkeypatch.setattr(newest_sdks, "ours", lambda _: (values, ends))
    found = newest_sdks.compared("openai", tmp_path / "locked", tmp_path / "newest", "2026-11-23")
    assert list(found) == [
        ("gone", "One.model: gone from the newest SDK"),
        ("old", "Two.model: ends on 2027-01-20"),
        ("old", "ends on 2027-01-20; model_ends has nothing"),
        ("older", "ends on 2027-01-20; model_ends has 2026-12-01"),
        ("forgotten", "model_ends has 2027-02-02; the newest SDK announces no end"),
    ]


def test_a_snapshot_ends_with_its_model() -> None:
    openai = OpenAIChatBrain(type="openai_chat")
    anthropic = AnthropicBrain(type="anthropic")
    assert openai.end_of("gpt-5-pro-2025-10-06") == "2026-12-11"
    assert anthropic.end_of("claude-sonnet-4-5-20250929") == "2026-11-30"
    assert anthropic.end_of("claude-haiku-5-5") == ""
