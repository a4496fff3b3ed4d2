"""`audiosocket.allow_from`: what an entry may be, and who may connect when there is none."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.load import read
from cordboard.config.peers import network_of
from cordboard.config.schema import Asterisk, AudioSocket
from cordboard.errors import ConfigError


@pytest.mark.parametrize(
    ("entry", "network"),
    [
        ("10.0.0.5", "10.0.0.5/32"),
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("fd00::/8", "fd00::/8"),
        ("::1", "::1/128"),
        ("asterisk", None),
        ("pbx-1.example.org", None),
        ("my_asterisk", None),
        ("::ffff:10.0.0.5", "10.0.0.5/32"),
        ("::ffff:10.0.0.0/120", "10.0.0.0/24"),
    ],
)
def test_an_entry_is_an_address_a_network_or_a_name(entry: str, network: str | None) -> None:
    assert network_of(entry) == (ipaddress.ip_network(network) if network else None)


@given(st.ip_addresses())
def test_every_address_is_an_entry(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if getattr(address, "scope_id", None) is None:
        plain = getattr(address, "ipv4_mapped", None) or address
        assert network_of(str(address)) == ipaddress.ip_network(plain)


@given(st.text(max_size=40))
def test_no_text_is_worse_than_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        network_of(text)


@pytest.mark.parametrize("section", ["health", "audiosocket", "rtp"])
@pytest.mark.parametrize("host", ["engine..local", "e" * 64])
def test_a_host_that_no_name_service_takes_is_named_by_its_place(section: str, host: str) -> None:
    text = f"contexts: {{demo: {{}}}}\n{section}:\n  host: {host}\n"
    with pytest.raises(ConfigError) as caught:
        read(text, Path("ai-agent.yaml"), {})
    [problem] = caught.value.problems
    assert (problem.line, problem.key) == (3, f"{section}.host")
    assert "expected an address (10.0.0.5) or a host name" in problem.message


@pytest.mark.parametrize(
    "entry",
    ["10.0.0.300", "10.0.0.5/24", "10.0.0", "http://asterisk", "asterisk:8088", '"*"', '""'],
)
def test_a_bad_entry_is_named_by_its_place(entry: str) -> None:
    text = f"contexts: {{demo: {{}}}}\naudiosocket:\n  allow_from:\n    - 10.0.0.9\n    - {entry}\n"
    with pytest.raises(ConfigError) as caught:
        read(text, Path("ai-agent.yaml"), {})
    [problem] = caught.value.problems
    assert (problem.file, problem.line) == ("ai-agent.yaml", 5)
    assert problem.key == "audiosocket.allow_from[1]"
    assert problem.message.startswith(
        "expected an address (10.0.0.5), a network (10.0.0.0/24) or a host name"
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.300:8088",
        "http://bücher.example:8088",
        "'http://[bad:8088'",
        "http://pbx:80880",
        "http://:8088",
    ],
)
@pytest.mark.parametrize("media", ["audiosocket", "websocket", "rtp"])
def test_a_url_of_asterisk_without_a_host_is_named_by_its_place(url: str, media: str) -> None:
    """The engine would die of it at the start."""
    text = f"contexts: {{demo: {{}}}}\nasterisk:\n  media: {media}\n  password: x\n  url: {url}\n"
    with pytest.raises(ConfigError) as caught:
        read(text, Path("ai-agent.yaml"), {})
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.key) == ("ai-agent.yaml", 5, "asterisk.url")
    assert problem.message.startswith("expected a URL with an address or a host name")


def test_a_bad_entry_from_the_environment_is_not_shown() -> None:
    text = "contexts: {demo: {}}\naudiosocket: {allow_from: ['${PBX}']}\n"
    with pytest.raises(ConfigError) as caught:
        read(text, Path("ai-agent.yaml"), {"PBX": "user:s3cret@pbx"})
    assert "s3cret" not in str(caught.value)


def test_an_empty_list_is_an_error() -> None:
    text = "contexts: {demo: {}}\naudiosocket: {allow_from: []}\n"
    with pytest.raises(ConfigError, match=r"audiosocket\.allow_from"):
        read(text, Path("ai-agent.yaml"), {})


@pytest.mark.parametrize(
    ("asterisk", "audiosocket", "peers"),
    [
        (None, {}, ("localhost",)),
        ("http://127.0.0.1:8088", {}, ("127.0.0.1", "localhost")),
        ("http://10.0.0.5:8088", {"advertise_host": "10.0.0.6"}, ("10.0.0.5",)),
        ("http://pbx:8088", {"advertise_host": "engine"}, ("pbx",)),
        ("http://10.0.0.6:8088", {}, ("10.0.0.6", "localhost")),
        ("https://[fd00::5]:8089", {"advertise_host": "fd00::6"}, ("fd00::5",)),
        ("http://10.0.0.5:8088", {"allow_from": ["10.0.0.0/24"]}, ("10.0.0.0/24",)),
    ],
)
def test_who_may_connect_follows_from_asterisk(
    asterisk: str | None, audiosocket: dict[str, Any], peers: tuple[str, ...]
) -> None:
    ari = Asterisk.model_validate({"url": asterisk, "password": "x"}) if asterisk else None
    assert AudioSocket.model_validate(audiosocket).peers(ari) == peers


def test_bare_calls_have_a_tenth_beside_asterisk_and_all_without() -> None:
    assert AudioSocket().share(100, has_ari=False) == 100
    assert AudioSocket().share(100, has_ari=True) == 10
    assert AudioSocket().share(3, has_ari=True) == 1
    assert AudioSocket(max_calls=7).share(100, has_ari=True) == 7


@pytest.mark.parametrize("written", ["", "audiosocket: {port: 1}", "audiosocket: {context: null}"])
def test_nobody_opens_the_door_to_bare_calls_but_who_writes_it(written: str) -> None:
    text = f"contexts: {{demo: {{}}}}\n{written}\n"
    assert read(text, Path("ai-agent.yaml"), {}).config.audiosocket.context is None
