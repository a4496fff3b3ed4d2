"""Where a remote MCP server may be: addresses in every spelling, and http only where it is safe."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.load import read
from cordboard.config.remote_url import (
    address_problem,
    is_loopback,
    literal_address,
    path_secrets,
    url_problem,
)
from cordboard.errors import ConfigError

METADATA = int(IPv4Address("169.254.169.254"))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0xa9.0xfe.0xa9.0xfe",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "[::169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fe80::1]",
        "0.0.0.0",
        "0.1.2.3",
        "0",
        "[::]",
        "224.0.0.1",
        "[ff02::1]",
        "255.255.255.255",
        "240.0.0.1",
    ],
)
def test_no_server_is_at_an_address_of_that_kind_however_it_is_written(host: str) -> None:
    for url in (f"https://{host}/mcp", f"http://{host}:8000/mcp"):
        problem = url_problem(url, plain_http=True)
        assert problem is not None
        assert "no server may be there" in problem


@pytest.mark.parametrize(
    ("url", "plain_http"),
    [
        ("https://tools.example.com/mcp", False),
        ("https://10.0.0.5/mcp", False),
        ("https://[fd00::5]:8443/mcp", False),
        ("http://127.0.0.1:8000/mcp", False),
        ("http://127.9.9.9/mcp", False),
        ("http://[::1]:8000/mcp", False),
        ("http://[::ffff:127.0.0.1]/mcp", False),
        ("http://localhost:8000/mcp", False),
        ("http://LOCALHOST./mcp", False),
        ("http://tools.localhost/mcp", False),
        ("http://10.0.0.5/mcp", True),
        ("http://tools/mcp", True),
    ],
)
def test_where_a_server_may_be(url: str, plain_http: bool) -> None:
    assert url_problem(url, plain_http) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://tools.example.com/mcp",
        "http://10.0.0.5/mcp",
        "http://localhost.example.com/mcp",
        "http://127.0.0.1.example.com/mcp",
        "http://mylocalhost/mcp",
    ],
)
def test_http_off_this_machine_must_be_wished_for(url: str) -> None:
    problem = url_problem(url, plain_http=False)
    assert problem is not None
    assert "plain_http: true" in problem
    assert "https://" in problem


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "https:///mcp", "https://[::1/mcp", "https://host:99999/", "x", ""]
)
def test_what_is_no_url(url: str) -> None:
    assert "not a URL" in (url_problem(url, plain_http=True) or "")


@given(st.integers(0, 2**32 - 1))
def test_ipv6_can_hide_no_ipv4_address(number: int) -> None:
    plain = address_problem(IPv4Address(number))
    assert address_problem(IPv6Address((0xFFFF << 32) | number)) == plain
    assert address_problem(IPv6Address((0x64FF9B << 96) | number)) == plain
    assert address_problem(IPv6Address((0x2002 << 112) | (number << 80) | 1)) == plain


@given(st.integers(0, 2**32 - 1))
def test_every_spelling_of_an_address_is_that_address(number: int) -> None:
    address = IPv4Address(number)
    first, second, *_ = address.packed
    spellings = [
        str(address),
        str(number),
        hex(number),
        f"{first}.{number & 0xFFFFFF}",
        f"{first}.{second}.{number & 0xFFFF}",
        ".".join(hex(byte) for byte in address.packed),
    ]
    assert {literal_address(spelling) for spelling in spellings} == {address}
    assert {is_loopback(spelling) for spelling in spellings} == {address.is_loopback}


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("::1", True),
        ("127.8.9.1", True),
        ("::ffff:127.0.0.1", True),
        ("Localhost", True),
        ("localhost.", True),
        ("0.0.0.0", False),
        ("pbx.example", False),
    ],
)
def test_loopback_or_not(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@given(st.text(max_size=60))
def test_any_text_has_a_verdict(text: str) -> None:
    for url in (text, f"http://{text}/mcp", f"https://{text}"):
        assert url_problem(url, plain_http=False) != ""


# --- in the file -------------------------------------------------------------------------------


def told(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(dedent(text), Path("a.yaml"), {"TOKEN": "hunter2\n", "KEY": "hunter2"})
    assert "hunter2" not in str(caught.value)
    return [str(problem) for problem in caught.value.problems]


def test_an_unsafe_url_has_its_line() -> None:
    messages = told(
        """
        contexts: {demo: {}}
        mcp:
          servers:
            far:
              transport: http
              url: http://tools.example.com/mcp
            cloud:
              transport: sse
              url: https://169.254.169.254/sse
            login:
              transport: http
              url: https://tools.example.com/mcp
              auth:
                type: client_credentials
                token_url: http://login.example.com/token
                client_id: us
                client_secret: ${KEY}
        """
    )
    assert len(messages) == 3
    assert messages[0].startswith("a.yaml:7: mcp.servers.far.url: http:// would send everything")
    assert "169.254.169.254 is a link-local address" in messages[1]
    assert messages[1].startswith("a.yaml:10: ")
    assert messages[2].startswith("a.yaml:16: mcp.servers.login.auth.token_url: http://")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("headers: {Host: other.example.com}", "cannot have 'Host'"),
        ('headers: {"X-A\\nB": "1"}', "it is not a header"),
        ("headers: {X-Key: '${TOKEN}'}", "`headers.X-Key` has characters"),
        ("auth: {type: bearer, token: '${TOKEN}'}", "`token` has characters"),
    ],
)
def test_headers_that_cannot_be_sent_are_told_without_their_values(
    lines: str, message: str
) -> None:
    text = f"contexts: {{demo: {{}}}}\nmcp: {{servers: {{a: {{transport: http, url: 'https://a/', {lines}}}}}}}\n"  # noqa: E501
    assert message in "\n".join(told(text))


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://tools.example.com/mcp", set()),
        ("https://tools.example.com/opening-hours/v2/2025-06-18/mcp", set()),
        ("https://tools.example.com/c/4f1d2c9e-11aa-4b7e/mcp", {"4f1d2c9e-11aa-4b7e"}),
        ("https://tools.example.com/s/abcdefghijklmnopqrst", {"abcdefghijklmnopqrst"}),
        ("https://a.example/key%3D0123456789ab", {"key%3D0123456789ab", "key=0123456789ab"}),
        ("http://[oops/key-0123456789ab", set()),
    ],
)
def test_a_key_in_the_path_is_known_as_a_secret(url: str, secrets: set[str]) -> None:
    assert path_secrets(url) == secrets
