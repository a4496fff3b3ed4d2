"""Proxies of the environment: the rule, HTTP services, websockets, and guarded addresses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve

from cordboard.config.remote_url import Address
from cordboard.errors import HttpAddressRefused, HttpUnavailable
from cordboard.mcp.remote.http_guard import guarded_backend
from cordboard.net.address_guard import GuardedBackend
from cordboard.net.failures import RequestFailed, why_not_connected
from cordboard.net.proxy import Proxy, ProxyFailed, proxy_for, unusable_proxies
from cordboard.net.service_http import ServiceHttp
from cordboard.net.service_websocket import Address as ServiceAddress
from cordboard.net.service_websocket import NotConnected, ServiceConnection
from cordboard.tools.http.client import HttpClient, Reach
from cordboard.tools.http.request import HttpRequest
from cordboard_testkit.emulators.throw_away_certificate import SERVICE_NAME, ThrowAwayCertificate
from cordboard_testkit.http_proxy import HttpProxy

PUBLIC = "93.184.216.34"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def certificate(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThrowAwayCertificate]:
    with ThrowAwayCertificate() as made:
        monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
        yield made


# The rule.


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://a.example", "HTTPS_PROXY"),
        ("wss://a.example/x", "HTTPS_PROXY"),
        ("http://a.example", "HTTP_PROXY"),
        ("ws://a.example", "http_proxy"),
        ("https://a.example", "ALL_PROXY"),
    ],
)
def test_the_variable_of_a_scheme(url: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for(url) is None
    monkeypatch.setenv(variable, "proxy.example:3128")
    proxy = proxy_for(url)
    assert proxy is not None
    assert (proxy.host, proxy.port, proxy.url) == (
        "proxy.example",
        3128,
        "http://proxy.example:3128",
    )


@pytest.mark.parametrize(
    ("exceptions", "direct"),
    [
        ("", False),
        ("other.example", False),
        ("api.service.example", True),
        ("service.example", True),
        (".service.example", True),
        ("*.service.example", True),
        ("ervice.example", False),
        ("x, API.SERVICE.EXAMPLE:8443", True),
        ("service.example.", True),
        (".service.example.:8443", True),
        (".", False),
        ("api.service.example:443", False),
        ("*", True),
    ],
)
def test_exceptions_by_name(exceptions: str, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert (proxy_for("wss://api.service.example:8443/v1") is None) is direct


@pytest.mark.parametrize(
    ("host", "exceptions", "direct"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:443", True),
        ("[2001:db8::1]", "2001:db8::/32", True),
        ("localhost", "", True),
        ("127.0.0.9", "", True),
        ("[::1]", "", True),
    ],
)
def test_exceptions_by_address_and_this_machine(
    host: str, exceptions: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert (proxy_for(f"https://{host}/") is None) is direct


@pytest.mark.parametrize(
    "value", ["socks5://p:1080", "https://p:443", "http://", "http://p:x", "http://p..q:1"]
)
def test_a_proxy_that_cannot_be_used_is_told_without_its_password(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value.replace("://", "://me:secret@"))
    with pytest.raises(ProxyFailed) as failure:
        proxy_for("https://a.example")
    assert "secret" not in str(failure.value)


def test_the_variables_that_name_an_unusable_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(unusable_proxies()) == []
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@p:1080")
    (told,) = unusable_proxies()
    assert told.startswith("ALL_PROXY: the proxy in the environment is of the kind socks5://; only")
    assert "secret" not in told
    monkeypatch.setenv("HTTP_PROXY", "p:3128")
    monkeypatch.setenv("HTTPS_PROXY", "https://p:443")
    (told,) = unusable_proxies()
    assert told.startswith("HTTPS_PROXY: ")


def test_a_proxy_does_not_show_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:s%40cret@proxy.example:3128")
    proxy = proxy_for("https://a.example")
    assert proxy is not None
    assert proxy.authorization == "Basic bWU6c0BjcmV0"
    assert "cret" not in repr(proxy) + str(proxy)


@given(st.binary(max_size=200), st.integers(1, 20))
def test_no_answer_of_a_proxy_is_too_strange(answer: bytes, size: int) -> None:
    proxy = Proxy("p", 1, "http://p:1")
    for end in range(0, len(answer), size):
        try:
            if proxy.is_open(answer[:end]):
                assert answer.startswith(b"HTTP/1.")
        except ProxyFailed:
            break


def test_an_endless_answer_of_a_proxy_is_refused() -> None:
    with pytest.raises(ProxyFailed, match="an answer that is too long"):
        Proxy("p", 1, "http://p:1").is_open(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000)


# Services by HTTP.


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()


async def _silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A service on loopback, until all its connections are closed: its port."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await answer(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*(task for task in tasks if task is not None))


@asynccontextmanager
async def proxied(
    tls: ssl.SSLContext | None = None, user: str = "", password: str = ""
) -> AsyncIterator[HttpProxy]:
    """A proxy before a service that says hello."""
    async with serving(_hello, tls) as port, HttpProxy(port, user=user, password=password) as proxy:
        yield proxy


async def ask(url: str) -> bytes:
    http = ServiceHttp("Acme", url, {}, connect_seconds=30, silence_seconds=30)
    try:
        async with http.request("GET", "/v1/models") as response:
            return bytes(await response.aread())
    finally:
        await http.close()


async def test_a_service_is_asked_through_the_tunnel_of_a_proxy(
    certificate: ThrowAwayCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxied(certificate.server_context, "me", "s@cret") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("s@cret", "s%40cret"))
        assert await ask(f"https://{SERVICE_NAME}") == b"hello"
        assert proxy.tunnels == [f"{SERVICE_NAME}:443"]
        assert proxy.requests == []


async def test_a_plain_service_is_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxied() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert await ask(f"http://{SERVICE_NAME}") == b"hello"
        assert proxy.requests == [f"http://{SERVICE_NAME}/v1/models"]


async def test_an_exception_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(_hello) as port, proxied() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert await ask(f"http://127.0.0.1:{port}") == b"hello"
        assert proxy.requests == proxy.tunnels == []


@pytest.mark.parametrize("secure", [True, False])
async def test_a_proxy_that_refuses_a_service(
    secure: bool, certificate: ThrowAwayCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = certificate.server_context if secure else None
    async with proxied(tls) as proxy:
        proxy.refuse_with = 403 if secure else 502
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with pytest.raises(RequestFailed) as failure:
            await ask(f"http{'s' if secure else ''}://{SERVICE_NAME}")
        assert failure.value.kind == "connect"


async def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(RequestFailed, match="connection refused") as failure:
        await ask(f"http://{SERVICE_NAME}")
    assert (failure.value.kind, failure.value.again) == ("connect", True)


# Websockets.


class Taker:
    def __init__(self) -> None:
        self.texts: asyncio.Queue[bytes] = asyncio.Queue()

    def receive_text(self, message: bytes) -> None:
        self.texts.put_nowait(message)

    def receive_binary(self, data: bytes) -> None: ...

    def connection_lost(self, code: int | None, problem: str) -> None: ...


async def _echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(f"you said {message!r}")


@asynccontextmanager
async def proxied_websocket(tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpProxy]:
    """A proxy before a websocket that says everything again."""
    async with serve(_echo, "127.0.0.1", 0, ssl=tls) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with HttpProxy(port, user="me", password="secret") as proxy:
            yield proxy


async def talk(url: str, tls: ssl.SSLContext) -> bytes:
    connection, taker = ServiceConnection(ServiceAddress(url), "Acme"), Taker()
    await connection.open(tls, 30)
    try:
        connection.take(taker)
        connection.send_text(b"hi")
        async with asyncio.timeout(60):
            return await taker.texts.get()
    finally:
        await connection.close()


@pytest.mark.parametrize("url", ["ws://acme..example", f"ws://{64 * 'a'}.example"])
async def test_a_name_that_no_name_service_takes_is_one_that_cannot_be_reached(url: str) -> None:
    with pytest.raises(NotConnected, match="Acme cannot be reached"):
        await ServiceConnection(ServiceAddress(url), "Acme").open(ssl.create_default_context(), 5)


@pytest.mark.parametrize("scheme", ["wss", "ws"])
async def test_a_websocket_goes_through_the_tunnel_of_a_proxy(
    scheme: str, certificate: ThrowAwayCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure = scheme == "wss"
    async with proxied_websocket(certificate.server_context if secure else None) as proxy:
        monkeypatch.setenv("HTTPS_PROXY" if secure else "HTTP_PROXY", proxy.url)
        said = await talk(f"{scheme}://{SERVICE_NAME}/v1", certificate.client_context)
        assert said == b"you said 'hi'"
        assert proxy.tunnels == [f"{SERVICE_NAME}:{443 if secure else 80}"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (None, 407, r"refused the connection \(HTTP 407\)"),
        (b"", 0, "closed the connection"),
        (b"SSH-2.0-x\r\n\r\n", 0, "does not speak HTTP"),
    ],
)
async def test_a_proxy_that_refuses_a_websocket(
    answer: bytes | None,
    status: int,
    words: str,
    certificate: ThrowAwayCertificate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxied_websocket(certificate.server_context) as proxy:
        proxy.answer, proxy.refuse_with = answer, status
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(NotConnected, match=words) as failure:
            await talk(f"wss://{SERVICE_NAME}/v1", certificate.client_context)
        assert failure.value.status is None, "the service itself has refused nothing"
        assert "secret" not in str(failure.value)


async def test_a_proxy_that_never_answers_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(_silence) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        connection = ServiceConnection(ServiceAddress("wss://a.example"), "Acme")
        with pytest.raises(
            NotConnected, match=r"^Acme cannot be reached \(no answer within 0.2 s\)"
        ):
            await connection.open(ssl.create_default_context(), 0.2)


# Guarded addresses: HTTP tools and remote MCP servers.


@pytest.mark.parametrize(("scheme", "port"), [("https", 443), ("http", 80)])
async def test_the_guard_asks_the_proxy_for_the_address_that_it_has_checked(
    scheme: str, port: int, certificate: ThrowAwayCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_up(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(None, None, None, "", (PUBLIC, port))]

    monkeypatch.setattr("cordboard.net.address_guard.socket.getaddrinfo", looked_up)
    tls = certificate.server_context if scheme == "https" else None
    async with proxied(tls, "me", "secret") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = HttpClient(certificate.client_context)
        try:
            request = HttpRequest("GET", scheme, SERVICE_NAME, port, "/")
            answer = await client.send(request, Reach())
        finally:
            await client.close()
        assert answer.body == b"hello"
        assert proxy.tunnels == [f"{PUBLIC}:{port}"]
        assert proxy.requests == []


@pytest.mark.parametrize("host", ["10.0.0.5", "169.254.169.254", "127.0.0.1", "fd00::1"])
async def test_the_guard_refuses_inner_addresses_with_a_proxy_too(
    host: str, certificate: ThrowAwayCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxied(certificate.server_context) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        client = HttpClient(certificate.client_context)
        try:
            with pytest.raises(HttpAddressRefused):
                await client.send(HttpRequest("GET", "https", host, 443, "/"), Reach())
        finally:
            await client.close()
        assert proxy.tunnels == [], "the proxy must not even be asked"


async def test_a_proxy_that_refuses_a_tool(
    certificate: ThrowAwayCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxied(certificate.server_context) as proxy:
        proxy.refuse_with = 403
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = HttpClient(certificate.client_context)
        try:
            with pytest.raises(HttpUnavailable, match=r"the proxy .* refused .*HTTP 403"):
                await client.send(HttpRequest("GET", "https", PUBLIC, 443, "/"), Reach())
        finally:
            await client.close()


async def test_a_proxy_that_never_answers_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(_silence) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with pytest.raises(httpcore2.ConnectTimeout) as failure:
            await GuardedBackend(list).connect_tcp(PUBLIC, 443, 0.1)
        assert why_not_connected(failure.value) == "the proxy does not answer"


async def test_plain_http_to_an_mcp_server_stays_on_this_machine_with_a_proxy_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tunnel's loopback would be the proxy's machine."""
    async with serving(_hello) as port, proxied() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        stream = await guarded_backend(True).connect_tcp("127.0.0.1", port, 30)
        await stream.aclose()
        assert proxy.tunnels == []


@pytest.mark.parametrize("exceptions", ["192.0.2.0/24", "crm.example", "example:443"])
async def test_the_guard_goes_directly_to_an_exception(
    exceptions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name, and by the network of the address that the name has."""

    def looked_up(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(None, None, None, "", ("192.0.2.1", 443))]

    monkeypatch.setattr("cordboard.net.address_guard.socket.getaddrinfo", looked_up)
    async with proxied() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exceptions)

        def anything(addresses: object) -> list[Address]:
            return [ip_address("192.0.2.1")]

        with pytest.raises((httpcore2.ConnectError, httpcore2.ConnectTimeout)):
            await GuardedBackend(anything).connect_tcp("crm.example", 443, 0.3)
        assert proxy.tunnels == []
