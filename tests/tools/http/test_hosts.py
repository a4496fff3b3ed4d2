"""Where requests and their redirects may go."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.remote_url import inner_problem, literal_address
from cordboard.errors import HttpAddressRefused, HttpError
from cordboard.tools.http.client import redirected
from cordboard.tools.http.request import (
    HttpRequest,
    all_but_forbidden,
    host_allowed,
    public_addresses,
)

ALWAYS_FORBIDDEN = [
    "169.254.169.254",
    "fe80::1",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "fd00:ec2::254",
    "100.100.100.200",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
]
INNER = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fd00::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
    "198.18.0.1",
    "192.0.2.1",
]


@pytest.mark.parametrize("text", ALWAYS_FORBIDDEN)
def test_some_addresses_are_never_connected_to(text: str) -> None:
    for choose in (public_addresses, all_but_forbidden):
        with pytest.raises(HttpAddressRefused, match="its name leads to a"):
            choose([ip_address(text)])


@pytest.mark.parametrize("text", INNER)
def test_inner_addresses_only_where_the_operator_says_so(text: str) -> None:
    address = ip_address(text)
    assert all_but_forbidden([address]) == [address]
    with pytest.raises(HttpAddressRefused):
        public_addresses([address])


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_fine(text: str) -> None:
    address = ip_address(text)
    assert public_addresses([ip_address("10.0.0.1"), address]) == [address]


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_what_is_not_global_is_not_public(address: object) -> None:
    found = ip_address(str(address))
    if not found.is_global or found.is_multicast or found.is_link_local:
        assert inner_problem(found) is not None


@pytest.mark.parametrize("spelled", ["127.1", "0x7f000001", "2130706433", "017700000001"])
def test_loopback_in_its_other_spellings(spelled: str) -> None:
    address = literal_address(spelled)
    assert address is not None
    assert inner_problem(address) == "loopback"


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("api.example.com", True),
        ("API.example.com.", True),
        ("x.shop.example", True),
        ("shop.example", False),
        ("xshop.example", False),
        ("evil-api.example.com", False),
        ("api.example.com.evil.example", False),
    ],
)
def test_allow_hosts(host: str, is_allowed: bool) -> None:
    assert host_allowed(host, ["api.example.com", "*.shop.example"]) is is_allowed


def request(method: str = "GET", scheme: str = "https", port: int = 443) -> HttpRequest:
    return HttpRequest(
        method,
        scheme,
        "api.example.com",
        port,
        "/v1/a?b=c",
        (("Content-Type", b"x/y"), ("Idempotency-Key", b"1"), ("Accept", b"*")),
        (("Authorization", b"secret"),),
        b"body" if method != "GET" else None,
    )


def test_a_redirect_on_the_same_host_is_followed_with_everything() -> None:
    onwards = redirected(request(), 302, "../v2/a?x=1#part", ())
    assert (onwards.host, onwards.target) == ("api.example.com", "/v2/a?x=1")
    assert onwards.secret_headers == (("Authorization", b"secret"),)
    assert redirected(request("POST"), 308, "/v2/a", ()).body == b"body"


def test_an_upgrade_to_https_is_no_other_host() -> None:
    plain = request(scheme="http", port=80)
    assert redirected(plain, 301, "https://api.example.com/v1", ()).origin[0] == "https"


def test_a_listed_host_is_followed_without_secrets() -> None:
    onwards = redirected(request(), 302, "https://cdn.example.com/a", ["cdn.example.com"])
    assert onwards.host == "cdn.example.com"
    assert onwards.secret_headers == ()
    back = redirected(onwards, 302, "https://api.example.com/", ["*.example.com"])
    assert back.secret_headers == ()


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/",
        "//evil.example/",
        "http://api.example.com/",
        "https://api.example.com:8443/",
        "https://user@api.example.com/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://[::1",
        "/\r\nHost: evil.example",
        "/ä",
        "/" + "a" * 5000,
    ],
)
def test_any_other_redirect_is_refused(location: str) -> None:
    with pytest.raises(HttpAddressRefused):
        redirected(request(), 302, location, ())


def test_a_post_that_is_sent_elsewhere_to_be_lost_is_not() -> None:
    for status in (301, 302):
        with pytest.raises(HttpError, match="would lose the request"):
            redirected(request("POST"), status, "/elsewhere", ())


def test_see_other_is_a_get_without_what_the_post_had() -> None:
    onwards = redirected(request("POST"), 303, "/done", ())
    assert (onwards.method, onwards.body) == ("GET", None)
    assert [name for name, _ in onwards.headers] == ["Accept"]
