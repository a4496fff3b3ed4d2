"""The kit's proxy without a service of its own: it leads to the host that is named."""

from __future__ import annotations

import asyncio

import pytest

from cordboard_testkit.http_proxy import HttpProxy


async def test_a_tunnel_leads_to_the_named_host_until_it_is_cut() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(100):
            writer.write(piece)
        writer.close()

    async with (
        await asyncio.start_server(echo, "127.0.0.1", 0) as server,
        HttpProxy() as proxy,
    ):
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"

        assert proxy.cut() == 1

        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        assert proxy.cut() == 0
