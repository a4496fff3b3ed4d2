"""`admin.ui`: where the port may be opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cordboard.config.load import read
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import ConfigError

TLS = {"certificate": "/etc/c.pem", "key": "/etc/k.pem"}
PROXY = {"public_url": "https://voice.example.org", "trusted_proxies": ["10.0.0.1"]}


def made(**ui: Any) -> AdminUi:
    text = json.dumps({"contexts": {"demo": {}}, "admin": {"ui": ui}}, indent=1)
    return read(text, Path("agent.yaml"), {}).config.admin.ui


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "engine.example.org"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"public_url": "https://voice.example.org"},
        {"trusted_proxies": ["10.0.0.1"]},
        {"public_url": "http://voice.example.org", "trusted_proxies": ["10.0.0.1"]},
    ],
)
def test_off_loopback_without_encryption_the_file_is_refused_and_says_what_to_write(
    host: str, more: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as refused:
        made(host=host, **more)
    (problem,) = refused.value.problems
    assert problem.key == "admin.ui"
    assert problem.line is not None
    for line in ("tls: {certificate", "public_url: https://", "trusted_proxies: ["):
        assert line in problem.message


@pytest.mark.parametrize("more", [{"tls": TLS}, PROXY])
def test_off_loopback_it_may_be_with_tls_or_behind_a_proxy(more: dict[str, Any]) -> None:
    assert made(host="0.0.0.0", **more).host == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_loopback_nothing_else_is_needed(host: str) -> None:
    ui = made(host=host)
    assert not ui.enabled, "the port costs nothing unless it is wanted"
    assert ui.address == f"http://{f'[{host}]' if ':' in host else host}:15001"


@pytest.mark.parametrize(
    ("ui", "key"),
    [
        ({"trusted_proxies": ["proxy.example.org"]}, "admin.ui.trusted_proxies"),
        ({"trusted_proxies": ["10.0.0.300"]}, "admin.ui.trusted_proxies[0]"),
        ({"public_url": "voice.example.org"}, "admin.ui.public_url"),
        ({"public_url": "https://voice.example.org/path"}, "admin.ui.public_url"),
        ({"tls": {"certificate": "c.pem"}}, "admin.ui.tls"),
        ({"tls": TLS, "public_url": "http://voice.example.org"}, "admin.ui"),
        ({"data": "a\0b"}, "admin.ui.data"),
        ({"sessions": {"hours": 0}}, "admin.ui.sessions.hours"),
    ],
)
def test_other_mistakes_are_named(ui: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        made(**ui)
    assert refused.value.problems[0].key.startswith(key)
