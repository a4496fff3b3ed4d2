"""The shared part of a cluster's configuration: merged with an engine's own file, checked before it
is published, kept for the next start."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cordboard.config.changes import needs_restart
from cordboard.config.load import LoadedConfig
from cordboard.config.schema import Config
from cordboard.config.shared_part import (
    SHARED,
    SharedConfig,
    SharedText,
    check_to_publish,
    load_merged,
    shared_config_of,
)
from cordboard.config.yaml_document import dotted
from cordboard.errors import ConfigError

OWN = """\
health: {port: 15001}
admin: {token: not-a-real-token}
contexts: {desk: {greeting: Own words.}, only_here: {}}
routes: {"100": only_here}
cluster: {node: a, config: bus, nats: {servers: ["nats://a:4222"]}}
"""
ENVIRON = {"FRONT_KEY": "sk-a-real-secret"}
SHARED_TEXT = """\
# One truth.
contexts:
  desk: {greeting: Good day.}
providers:
  live: {type: openai_realtime, api_key: "${FRONT_KEY}"}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "ai-agent.yaml"
    path.write_text(OWN)
    return path


def merged(own: Path, text: str) -> LoadedConfig:
    return load_merged(own, ENVIRON, SharedText(3, text))


def test_shared_keys_come_from_the_version_alone_all_others_from_the_own_file(own: Path) -> None:
    config = merged(own, SHARED_TEXT).config
    assert config.contexts["desk"].greeting == "Good day."
    assert list(config.contexts) == ["desk"]
    assert config.routes == {}
    assert (config.default_provider, list(config.providers)) == ("live", ["live"])
    assert config.health.port == 15_001
    assert config.cluster is not None


def test_no_shared_key_needs_a_restart() -> None:
    assert not [path for path in SHARED if needs_restart(dotted(path))]
    fields = set(Config.model_fields)
    assert {path[0] for path in SHARED} <= fields
    own = fields - {path[0] for path in SHARED if len(path) == 1}
    assert own == {
        "health", "admin", "reload", "tracing", "asterisk", "audiosocket", "rtp", "calls",
        "privacy", "outbound", "cluster",
    }  # fmt: skip


def test_a_part_of_a_section_may_be_shared(own: Path) -> None:
    text = SHARED_TEXT + "privacy: {redact: {}}\n"
    assert merged(own, text).config.privacy.redact is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contexts:\n  desk: {greting: Hi}\n", "v.yaml:2: contexts.desk.greting: unknown key"),
        ("contexts: {desk: {}}\nhealth: {port: 1}\n", "v.yaml:2: health: belongs to the own file"),
        (
            "contexts: {desk: {}}\nprivacy:\n  encryption: {}\n",
            "v.yaml:3: privacy.encryption: belongs to the own file",
        ),
        ("contexts: {desk: {tools: [nothing]}}\n", "v.yaml:1: contexts.desk.tools[0]"),
        (
            "contexts: {desk: {greeting: '${NOWHERE}'}}\n",
            "v.yaml:1: contexts.desk.greeting: the env",
        ),
        ("providers: {}\n", "v.yaml:1: contexts: "),
        ("contexts: {desk: {}", "v.yaml:"),
        (
            "contexts: {desk: {}}\nproviders:\n  live:\n    type: openai_realtime\n"
            "    api_key: sk-literal-and-long\n",
            "v.yaml:5: a literal secret",
        ),
        (SHARED_TEXT + "# sk-a-real-secret\n", "v.yaml:6: a literal secret"),
    ],
)
def test_a_wrong_text_is_told_with_its_line_and_key(own: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_to_publish(own, ENVIRON, SharedText(0, text, "v.yaml"))
    assert any(line.startswith(problem) for line in str(caught.value).splitlines()), caught.value
    assert "sk-" not in str(caught.value)


def test_a_right_text_can_be_published(own: Path) -> None:
    assert check_to_publish(own, ENVIRON, SharedText(0, SHARED_TEXT, "v.yaml")).problems == ()


def test_a_version_in_use_is_named_in_problems(own: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        merged(own, "contexts: {desk: {greting: Hi}}\n")
    assert str(caught.value).startswith("version 3 of the cluster:1: contexts.desk.greting")


def test_the_last_version_outlives_the_engine(own: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data" / "copy.json"
    shared = SharedConfig(copy)
    shared.begin()
    assert shared.current is None
    assert shared.read(own, ENVIRON).config.contexts["desk"].greeting == "Own words."
    shared.keep(SharedText(3, SHARED_TEXT))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert "sk-a-real-secret" not in copy.read_text()
    later = SharedConfig(copy)
    later.begin()
    loaded = later.read(own, ENVIRON)
    assert loaded.config.contexts["desk"].greeting == "Good day."
    assert loaded.shared == SHARED_TEXT.encode()
    assert loaded.content == own.read_bytes()
    copy.write_text(copy.read_text().replace("Good day", "Good dog"))
    with pytest.raises(ConfigError, match="is damaged"):
        SharedConfig(copy).begin()


def test_engines_that_share_a_folder_have_copies_of_their_own(own: Path) -> None:
    loaded = merged(own, SHARED_TEXT)
    assert shared_config_of(loaded)._copy.name == "cluster-config-cordboard-a.json"
