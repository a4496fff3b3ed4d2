"""Remote servers over TLS: we connect to an address that we looked up, and check the name."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cordboard.config.mcp import McpServer
from cordboard.errors import McpError, McpUnavailable
from cordboard.mcp.connection import connect
from cordboard.mcp.negotiation import Negotiation
from cordboard.mcp.remote.http_transport import remote_transport

from .http_servers import MODERN, Faulty

PATIENCE = 60.0


def certificate(folder: Path, name: str) -> Path:
    """A certificate for a host, signed by itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(signed.public_bytes(Encoding.PEM) + secret)
    return file


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Faulty]:
    """Has a certificate for localhost, which is trusted."""
    file = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    found = Faulty(protocol=MODERN)
    found.http.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.http.tls.load_cert_chain(file)
    await found.http.start()
    yield found
    await found.http.stop()


async def echo(url: str) -> str:
    config = McpServer.model_validate({"transport": "http", "url": url})
    transport = remote_transport("far", config)
    async with connect(transport, PATIENCE, Negotiation(handshake_first=False)) as connection:
        result = await connection.call("echo", {"text": "safely"}, PATIENCE)
        return result.content[0].text  # type: ignore[union-attr]


async def test_the_name_is_checked_though_the_address_is_connected_to(server: Faulty) -> None:
    assert await echo(f"https://localhost:{server.http.port}/mcp") == "safely"


async def test_a_certificate_for_another_name_is_refused(server: Faulty) -> None:
    with pytest.raises(McpUnavailable, match="its certificate is not valid") as caught:
        await echo(f"https://127.0.0.1:{server.http.port}/mcp")
    assert "127.0.0.1" in str(caught.value)
    assert server.http.requests == []


async def test_a_certificate_of_nobody_we_trust_is_refused(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate(tmp_path, "other")))
    with pytest.raises(McpUnavailable, match="its certificate is not valid"):
        await echo(f"https://localhost:{server.http.port}/mcp")
    assert server.http.requests == []


async def test_a_server_that_speaks_no_tls_is_told_in_words() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        with pytest.raises(McpUnavailable, match="it does not speak TLS as we do"):
            await echo(f"https://127.0.0.1:{port}/mcp")


async def test_missing_authorities_are_told_in_words(
    server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(McpError, match="certificate authorities cannot be read"):
        await echo(f"https://localhost:{server.http.port}/mcp")
