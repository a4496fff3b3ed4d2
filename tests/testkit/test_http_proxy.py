"""The kit's proxy without a service of its own: it leads to the host that is named."""

from __future__ import annotations

import asyncio
import contextlib

from cordboard_testkit.http_proxy import HttpProxy


async def test_a_tunnel_leads_to_the_named_host_until_it_is_cut() -> None:
    over = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionResetError):
            while piece := await reader.read(100):
                writer.write(piece)
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
        over.set()

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

        assert await reader.read(1) == b"", "the connection is closed"
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
        assert proxy.cut() == 0
        await over.wait()
