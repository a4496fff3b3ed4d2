"""Requests to services that work, refuse, stall and break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from cordboard.errors import FailureKind, VoiceError
from cordboard.net import service_http
from cordboard.net.failures import RequestFailed
from cordboard.net.service_http import ServiceHttp

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@asynccontextmanager
async def service(
    *answers: Serve, answer_silence: float = 30, error: type[VoiceError] | None = None
) -> AsyncIterator[tuple[ServiceHttp, asyncio.Queue[None]]]:
    """Requests to a service that gives these answers, one per connection; the connections' ends."""
    waiting = [*answers]
    ended: asyncio.Queue[None] = asyncio.Queue()
    tasks: set[asyncio.Task[None] | None] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                await waiting.pop(0)(writer)
                await writer.drain()
                await reader.read()
        finally:
            ended.put_nowait(None)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = ServiceHttp(
        "Acme",
        f"http://127.0.0.1:{port}/v1/",
        {"Authorization": "Bearer hidden-key"},
        error,
        connect_seconds=30,
        silence_seconds=answer_silence,
        key="hidden-key",
    )
    async with server:
        yield http, ended
        await http.close()
    await asyncio.gather(*(task for task in tasks if task is not None))


def gives(data: bytes) -> Serve:
    async def give(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return give


def breaks_after(data: bytes) -> Serve:
    async def give(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return give


async def fetch(http: ServiceHttp, **settings: float) -> bytes:
    body = b""
    async with http.request("GET", "/x", answer_seconds=settings.get("seconds")) as response:
        async for piece in response.aiter_bytes():
            body += piece
    return body


async def test_a_good_answer() -> None:
    async with service(gives(HEAD + b"0123456789")) as (http, _):
        assert await fetch(http) == b"0123456789"


async def test_a_refusal_whose_words_never_come_has_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_http, "WORDS_SECONDS", 0.05)
    head = b"HTTP/1.1 503 No\r\nRetry-After: 2\r\nContent-Length: 10\r\n\r\n"
    async with service(gives(head), breaks_after(head)) as (http, _):
        for _ in range(2):
            with pytest.raises(RequestFailed, match="HTTP 503") as failure:
                await fetch(http)
            assert (failure.value.kind, failure.value.after) == ("connect", 2.0)


async def test_the_key_is_never_told() -> None:
    said = b'{"message": "the model hidden-key is not known"}'
    head = b"HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n" % len(said)
    async with service(gives(head + said)) as (http, _):
        with pytest.raises(RequestFailed) as failure:
            await fetch(http)
    assert str(failure.value) == "Acme answers HTTP 404: the model *** is not known"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (breaks_after(b""), "dropped"),
        (breaks_after(HEAD + b"0123"), "dropped"),
        (gives(HEAD + b"0123"), "stalled"),
        (gives(b"SSH-2.0-OpenSSH\r\n\r\n"), "dropped"),
    ],
    ids=["no answer", "broken body", "silent body", "no HTTP"],
)
async def test_what_goes_wrong_has_its_kind(answer: Serve, kind: FailureKind) -> None:
    async with service(answer, answer_silence=1.0) as (http, _):
        with pytest.raises(RequestFailed, match=r"^Acme ") as failure:
            await fetch(http)
    assert failure.value.kind == kind


async def test_the_head_of_an_answer_has_a_limit_of_its_own() -> None:
    async with service(gives(b"")) as (http, _):
        with pytest.raises(RequestFailed, match="does not answer") as failure:
            await fetch(http, seconds=0.05)
    assert (failure.value.kind, failure.value.again) == ("stalled", False)


async def test_the_body_may_take_longer_than_the_head() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"01234")
        await asyncio.sleep(1.2)
        writer.write(b"56789")

    async with service(slow) as (http, _):
        assert await fetch(http, seconds=1.0) == b"0123456789"


async def spoken(http: ServiceHttp) -> bytes:
    async with http.post("/x", json={}) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_part_fails_with_its_own_error() -> None:
    async with service(breaks_after(HEAD), error=VoiceError) as (http, _):
        with pytest.raises(VoiceError) as failure:
            await spoken(http)
    assert failure.value.kind == "dropped"


async def test_an_error_of_ours_in_the_middle_of_an_answer_stays_ours() -> None:
    async with service(gives(HEAD), gives(HEAD)) as (http, ended):
        for error in (TimeoutError(), OSError("disk")):
            with pytest.raises(type(error)):
                async with http.request("GET", "/x"):
                    raise error
            async with asyncio.timeout(60):
                await ended.get()


async def test_closing_waits_for_the_answer_that_is_being_given() -> None:
    async with service(gives(HEAD + b"0123456789")) as (http, ended):
        async with http.request("GET", "/x") as response:
            await http.close()
            assert await response.aread() == b"0123456789"
        async with asyncio.timeout(60):
            await ended.get()
