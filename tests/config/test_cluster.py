"""Section `cluster`: what it refuses, with the key and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.changes import needs_restart
from cordboard.config.load import LoadedConfig, read
from cordboard.errors import ConfigError


def load(cluster: str, environ: dict[str, str] | None = None) -> LoadedConfig:
    text = f"contexts: {{demo: {{}}}}\ncluster: {cluster}\n"
    return read(text, Path("a.yaml"), environ or {})


def test_without_the_section_an_engine_is_alone() -> None:
    assert read("contexts: {demo: {}}\n", Path("a.yaml"), {}).config.cluster is None


def test_a_whole_section() -> None:
    loaded = load(
        "{node: a, labels: [gpu], region: Oslo, lease_ms: 3000, renew_ms: 1000, nats: {servers: "
        "['nats://10.0.0.1:4222', 'tls://nats.example.org'], user: engine, password: '${SECRET}', "
        "tls: {ca: ca.pem}, replicas: 3}}",
        {"SECRET": "very-secret"},
    )
    cluster = loaded.config.cluster
    assert cluster is not None
    assert cluster.name == "cordboard"
    assert cluster.nats.tls is not None
    assert "very-secret" in loaded.secrets
    assert "very-secret" not in repr(cluster)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ("{nats: {servers: ['nats://a:1']}}", "cluster.node: missing"),
        ("{node: A B, nats: {servers: ['nats://a:1']}}", "expected a node name"),
        ("{node: a}", "cluster.nats: missing"),
        ("{node: a, nats: {servers: []}}", "cluster.nats.servers"),
        ("{node: a, nats: {servers: ['http://a']}}", "expected an address such as nats://10.0."),
        ("{node: a, nats: {servers: ['nats://u:secret-word@a']}}", "without user or password"),
        (
            "{node: a, nats: {servers: ['nats://a'], user: engine}}",
            "user and password belong together",
        ),
        (
            "{node: a, nats: {servers: ['nats://a'], token: abcdef, credentials: x.creds}}",
            "expected only one of user and password, token, or credentials",
        ),
        (
            "{node: a, nats: {servers: ['nats://a'], tls: {key: k.pem}}}",
            "certificate and key belong together",
        ),
        ("{node: a, nats: {servers: ['nats://a'], replicas: 2}}", "cluster.nats.replicas"),
        ("{node: a, lease_ms: 2500, nats: {servers: ['nats://a']}}", "cluster.lease_ms"),
        (
            "{node: a, renew_ms: 900, nats: {servers: ['nats://a']}}",
            "renew_ms: expected at most a third of lease_ms, 666 here",
        ),
    ],
)
def test_mistakes_are_told(cluster: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(cluster)
    assert expected in str(caught.value)
    assert str(caught.value).startswith("a.yaml:2: cluster")
    assert "secret-word" not in str(caught.value)


def test_it_takes_effect_with_a_restart() -> None:
    assert needs_restart("cluster")
    assert needs_restart("cluster.nats.servers")
