"""The interface as the admin port serves it: which files, to whom, and under which policy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from cordboard.config.sections.admin import AdminUi

from .conftest import Room, foreign_name

INDEX = b'<meta property="csp-nonce" content="__NONCE__"><script nonce="__NONCE__"></script>'
SCRIPT = b"export const words = 'hello'"


@pytest.fixture
async def built(tmp_path: Path) -> AsyncIterator[Room]:
    folder = tmp_path / "assets" / "assets"
    folder.mkdir(parents=True)
    (folder.parent / "index.html").write_bytes(INDEX)
    (folder / "index-4f2a.js").write_bytes(SCRIPT)
    (folder / "index-4f2a.js.br").write_bytes(b"in brotli")
    (folder / "index-4f2a.js.gz").write_bytes(b"in gzip")
    (folder.parent / "icon.svg").write_bytes(b"<svg/>")
    (folder / "stamp").write_bytes(b"no part of the page")
    (tmp_path / "agent.yaml").write_bytes(b"secret: here")
    room = Room(tmp_path, AdminUi())
    yield room
    room.close()


async def got(
    room: Room, path: str, *, host: str = "127.0.0.1:15001", method: str = "GET", **headers: str
) -> httpx2.Response:
    sent = {"Host": host, "Accept-Encoding": "", **headers}
    transport = httpx2.ASGITransport(room.app, client=("127.0.0.1", 40_000))
    async with (
        httpx2.AsyncClient(transport=transport, base_url=f"http://{host}") as browser,
        browser.stream(method, path, headers=sent) as answer,
    ):
        answer._content = b"".join([part async for part in answer.aiter_raw()])  # as it was sent
        return answer


@pytest.mark.parametrize("path", ["/", "/live", "/calls/call-17.4", "/contexts/a%20b", "/calls/"])
async def test_each_path_of_the_page_is_the_index_with_a_nonce_of_its_own(
    built: Room, path: str
) -> None:
    """Also for strangers: it is the page that signs them in."""
    nonces = set()
    for _ in range(2):
        answer = await got(built, path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert "microphone=(self)" in answer.headers["permissions-policy"]
        policy = answer.headers["content-security-policy"]
        (nonce,) = set(re.findall(r"'nonce-([^']+)'", policy))
        assert policy == (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; "
            f"style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; media-src 'self' blob:; "
            "connect-src 'self'; worker-src 'self'; font-src 'self'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )
        assert answer.content == INDEX.replace(b"__NONCE__", nonce.encode())
        nonces.add(nonce)
    assert len(nonces) == 2


@pytest.mark.parametrize(
    ("accepted", "coding", "content"),
    [
        ("gzip, deflate, br, zstd", "br", b"in brotli"),
        ("gzip", "gzip", b"in gzip"),
        ("br;q=0, gzip;q=0.5", "gzip", b"in gzip"),
        ("BR ;Q=0.000,identity", "", SCRIPT),
        ("", "", SCRIPT),
    ],
)
async def test_a_file_of_the_build_is_sent_compressed_and_kept_for_good(
    built: Room, accepted: str, coding: str, content: bytes
) -> None:
    answer = await got(built, "/assets/index-4f2a.js", **{"Accept-Encoding": accepted})
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers.get("content-encoding", "") == coding
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    icon = await got(built, "/icon.svg")
    kept = (icon.headers["content-type"], icon.headers["cache-control"])
    assert kept == ("image/svg+xml", "public, max-age=3600"), "its name stays when it changes"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../agent.yaml",
        "/assets/%2e%2e/%2e%2e/agent.yaml",
        "/assets/index-4f2a.js.br",
        "/assets/stamp",
        "/assets/",
        "/assets/index-4f2a.js/",
        "/index.html",
        "/favicon.ico",
        "/agent.yaml",
        "/api/v1/nothing",
    ],
)
async def test_no_other_file_is_served(built: Room, path: str) -> None:
    answer = await got(built, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_there")


async def test_a_link_on_another_page_leads_here_and_a_foreign_name_does_not(built: Room) -> None:
    """A link in a chat, or the way back from an identity provider. The page has no cookie then
    (SameSite=Strict); its own requests have it."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await got(built, "/calls/1", **link)).status_code == 200
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await got(built, "/assets/index-4f2a.js", **embedded)).status_code == 403
    assert (await got(built, "/", host=foreign_name())).status_code == 421
    ours = {"Origin": "http://127.0.0.1:15001", "X-Cordboard": "1"}
    assert (await got(built, "/", method="POST", **ours)).status_code == 404
    api = await got(built, "/api/v1/calls/live", **link)
    assert api.status_code == 403, "no page of others may ask the API"


async def test_without_a_build_the_page_says_so_and_the_api_works(room: Room) -> None:
    answer = await got(room, "/live")
    assert answer.status_code == 404
    assert "make admin-ui" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    room.add("anna")
    assert (await room.browser("anna").get("/session")).status_code == 200
