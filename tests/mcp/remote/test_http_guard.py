"""Where requests may go: no URL of a server leads elsewhere, no name to where it must not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import httpcore2
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.remote_url import unwrapped
from cordboard.errors import McpAddressRefused, McpUnavailable
from cordboard.mcp.remote.http_channel import Channel
from cordboard.mcp.remote.http_guard import allowed, guarded_backend, origin, within
from cordboard.net.address_guard import GuardedBackend

BASE = httpx2.URL("https://tools.example.com/mcp/sse")


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("/messages?session=1", "https://tools.example.com/messages?session=1"),
        ("messages", "https://tools.example.com/mcp/messages"),
        ("https://tools.example.com/x#part", "https://tools.example.com/x"),
        ("https://TOOLS.example.com:443/x", "https://tools.example.com/x"),
        ("//tools.example.com/x", "https://tools.example.com/x"),
        ("", "https://tools.example.com/mcp/sse"),
    ],
)
def test_what_stays_with_the_server_is_followed(reference: str, url: str) -> None:
    assert str(within(BASE, reference)) == url


@pytest.mark.parametrize(
    "reference",
    [
        "http://tools.example.com/x",
        "https://tools.example.com:8443/x",
        "https://tools.example.com.evil.example/x",
        "https://evil.example/x",
        "//evil.example/x",
        "https://user@tools.example.com/x",
        "https://tools.example.com@evil.example/",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://[::1",
        "/" + "a" * 10_000,
    ],
)
def test_what_leads_elsewhere_is_not(reference: str) -> None:
    with pytest.raises(McpAddressRefused):
        within(BASE, reference)


@given(st.text(max_size=80), st.sampled_from(["", "/", "//", "https://", "https:", "\\\\"]))
def test_no_text_leads_off_the_origin(text: str, start: str) -> None:
    try:
        url = within(BASE, start + text)
    except McpAddressRefused:
        return
    assert origin(url) == origin(BASE)
    assert not url.userinfo


def addresses() -> st.SearchStrategy[IPv4Address | IPv6Address]:
    return st.ip_addresses(v=4) | st.ip_addresses(v=6)


@given(st.lists(addresses(), max_size=6))
def test_only_this_machine_is_connected_to_without_https(
    found: list[IPv4Address | IPv6Address],
) -> None:
    try:
        good = allowed(found, only_loopback=True)
    except McpAddressRefused:
        return
    assert good
    assert all(unwrapped(address).is_loopback for address in good)


class Names:
    """A name server of ours: each name has its addresses, one list for each look-up."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **more: Any) -> list[Any]:
        self.asked.append(host)
        if host not in self.answers:
            raise socket.gaierror("no such name")
        lists = self.answers[host]
        found = lists.pop(0) if len(lists) > 1 else lists[0]
        return [(0, 0, 0, "", (address, port)) for address in found]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr("socket.getaddrinfo", found)
    return found


class Connected(httpcore2.AsyncNetworkBackend):
    """Where connections would have been opened to."""

    def __init__(self, refuse: Callable[[str], bool] = lambda address: False) -> None:
        self.to: list[str] = []
        self._refuse = refuse

    async def connect_tcp(
        self, host: str, port: int, *more: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        self.to.append(host)
        if self._refuse(host):
            raise httpcore2.ConnectError("refused")
        return httpcore2.AsyncNetworkStream()


def backend(only_loopback: bool, connected: Connected) -> GuardedBackend:
    guarded = guarded_backend(only_loopback)
    guarded._inner = connected  # type: ignore[assignment]
    return guarded


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "::"])
async def test_a_name_that_leads_to_a_forbidden_address_is_refused(
    names: Names, address: str
) -> None:
    names.answers["tools.example.com"] = [[address]]
    connected = Connected()
    with pytest.raises(McpAddressRefused, match="leads to a"):
        await backend(False, connected).connect_tcp("tools.example.com", 443, 5)
    assert connected.to == []


async def test_dns_rebinding_is_of_no_use(names: Names) -> None:
    """What is connected to is the address that was checked, not a second answer for the name."""
    names.answers["tools.example.com"] = [["203.0.113.7"], ["169.254.169.254"]]
    connected = Connected()
    guarded = backend(False, connected)
    await guarded.connect_tcp("tools.example.com", 443, 5)
    assert connected.to == ["203.0.113.7"]
    with pytest.raises(McpAddressRefused):
        await guarded.connect_tcp("tools.example.com", 443, 5)
    assert connected.to == ["203.0.113.7"]


async def test_localhost_that_is_elsewhere_gets_nothing_in_the_clear(names: Names) -> None:
    names.answers["localhost"] = [["203.0.113.7"]]
    connected = Connected()
    with pytest.raises(McpAddressRefused, match="only https"):
        await backend(True, connected).connect_tcp("localhost", 80, 5)
    assert connected.to == []


async def test_each_allowed_address_is_tried(names: Names) -> None:
    names.answers["tools"] = [["fd00::1", "169.254.1.1", "10.0.0.1"]]
    connected = Connected(refuse=lambda address: ":" in address)
    await backend(False, connected).connect_tcp("tools", 443, 5)
    assert connected.to == ["fd00::1", "10.0.0.1"]


async def test_a_name_is_looked_up_once_however_many_wait(names: Names) -> None:
    names.answers["tools"] = [["10.0.0.1"]]
    connected = Connected()
    guarded = backend(False, connected)
    await asyncio.gather(*(guarded.connect_tcp("tools", 443, 5) for _ in range(5)))
    assert names.asked == ["tools"]
    assert connected.to == ["10.0.0.1"] * 5


async def test_addresses_are_not_looked_up(names: Names) -> None:
    connected = Connected()
    await backend(True, connected).connect_tcp("127.0.0.1", 80, 5)
    assert names.asked == []
    assert connected.to == [str(ip_address("127.0.0.1"))]


async def test_a_request_to_a_forbidden_address_is_never_sent(names: Names) -> None:
    names.answers["tools.example.com"] = [["169.254.169.254", "fe80::1"]]
    channel = Channel("https://tools.example.com/mcp")
    await channel.open()
    with pytest.raises(McpAddressRefused, match="its name leads to a link-local address"):
        async with channel.request("GET", {}):
            pytest.fail("sent")
    await channel.close()


async def test_an_unknown_name_is_told_in_words(names: Names) -> None:
    channel = Channel("https://nowhere.example.com/mcp")
    await channel.open()
    with pytest.raises(McpUnavailable, match="cannot be reached: its name is not known"):
        async with channel.request("GET", {}):
            pass
    await channel.close()
