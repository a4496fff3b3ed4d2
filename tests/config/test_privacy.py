"""Section `privacy`: what it refuses, without showing a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import load
from cordboard.errors import ConfigError

KEY = "ab" * 32


def problems(tmp_path: Path, privacy: str, environ: dict[str, str] | None = None) -> str:
    file = tmp_path / "ai-agent.yaml"
    file.write_text(
        f"contexts: {{demo: {{}}}}\ncalls: {{directory: '{tmp_path}/calls'}}\nprivacy: {privacy}\n"
    )
    try:
        load(file, environ or {})
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("privacy", "expected"),
    [
        ("{encryption: {enabled: true}}", "enabled needs a master_key"),
        ("{encryption: {master_key: shortkey}}", "expected 32 random bytes"),
        ("{encryption: {master_key: '${NO_SUCH}'}}", "NO_SUCH"),
        ("{redact: {kinds: [cards]}}", "card"),
        ("{redact: {patterns: {customer: 'KD'}}}", "such as KD-######"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, privacy: str, expected: str) -> None:
    told = problems(tmp_path, privacy)
    assert expected in told
    assert "shortkey" not in told


def test_keys_lie_outside_of_the_calls(tmp_path: Path) -> None:
    keys = f"keys_directory: '{tmp_path}/calls/keys'"
    section = f"{{encryption: {{enabled: true, master_key: '${{K}}', {keys}}}}}"
    assert "outside of calls.directory" in problems(tmp_path, section, {"K": KEY})
    apart = section.replace("calls/keys", "keys")
    assert problems(tmp_path, apart, {"K": KEY}) == ""
