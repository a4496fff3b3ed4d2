"""The server as an operator runs it: a child process, real stdio, the official client."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mcp import Client
from mcp_types import CallToolResult

if TYPE_CHECKING:
    from conftest import AtisProcess, FakeMetno

SHIPPED = Path(__file__).parents[2] / "config" / "aviation_atis.yaml"
FINE = "22008KT 9999 FEW030 06/02 Q1013 NOSIG"


def metar_now(station: str, rest: str, minutes_ago: int = 10) -> str:
    observed = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return f"{station} {observed:%d%H%M}Z {rest}="


async def ask(client: Client, icao: str = "ENGM") -> CallToolResult:
    return await client.call_tool("get_atis", {"icao": icao})


def reason(result: CallToolResult) -> str:
    assert result.is_error
    assert result.structured_content is None
    return str((result.meta or {})["cordboard.atis/reason"])


def spoken(result: CallToolResult) -> str:
    assert not result.is_error, result.content
    return str((result.structured_content or {})["atis_text"])


async def test_the_example_of_live_settings_runs(atis: AtisProcess, metno: FakeMetno) -> None:
    example = SHIPPED.with_name("aviation_atis.example.yaml").read_text()
    here = f"metno:\n  base_url: {metno.url}\n  user_agent: tests@example.org\n"
    atis.write(example.replace("metno:\n", here, 1).replace("source: " + here, "source: metno\n"))
    metno.body = metar_now("ENHD", FINE)
    async with atis.client() as client:
        text = spoken(await ask(client, "ENHD"))
    assert "Haugesund information" in text
    assert "Runway in use not available." in text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_and_a_sample_report(atis: AtisProcess, mode: str) -> None:
    atis.write(
        SHIPPED.read_text().replace("metar/sample.txt", str(SHIPPED.parent / "metar/sample.txt"))
    )
    async with atis.client(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await ask(client, "engm")
        aerodromes = await client.call_tool("list_aerodromes", {})
    icao = tools["get_atis"].input_schema["properties"]["icao"]
    assert icao["pattern"] == "^[A-Za-z]{4}$"
    assert "atis_text" in (tools["get_atis"].output_schema or {})["properties"]
    content = result.structured_content or {}
    assert content["atis_text"].startswith("Sample data, not for flight. Oslo Gardermoen.")
    assert (content["icao"], content["source"], content["sample_data"]) == ("ENGM", "file", True)
    assert content["observed_at"] == "2026-11-15T13:50:00Z"
    assert content["parsed"]["wind"]["direction_degrees"] == 220
    assert json.loads(result.content[0].text) == content  # type: ignore[union-attr]
    listed = (aerodromes.structured_content or {})["aerodromes"]
    assert {"icao": "ENBR", "name": "Bergen Flesland", "aliases": ["Bergen", "Flesland"]} in listed


async def test_a_live_report_with_the_operators_additions(
    atis: AtisProcess, metno: FakeMetno
) -> None:
    atis.write_live(metno.url, "aerodromes: {ENGM: {name: Oslo, runway: 01L}}")
    older = metar_now("ENGM", "01099KT CAVOK 01/01 Q0999", minutes_ago=40)
    metno.body = f"{older}\n{metar_now('ENGM', FINE)}\n\n"
    async with atis.client() as client:
        result = await ask(client)
        again = await ask(client)
    text = spoken(result)
    assert text.startswith("Oslo. Time ")
    assert "Runway in use zero one left. Wind two two zero degrees, eight knots." in text
    content = result.structured_content or {}
    assert content["sample_data"] is False
    assert 9 <= content["age_minutes"] <= 12
    assert spoken(again) == text
    assert metno.icaos() == ["ENGM"]
    assert metno.requests[0][0].startswith("/weatherapi/tafmetar/1.0/metar.txt?")
    assert metno.requests[0][1]["user-agent"] == "tests@example.org"


async def test_upstream_trouble_is_a_speakable_error(atis: AtisProcess, metno: FakeMetno) -> None:
    atis.write_live(
        metno.url,
        "aerodromes: {ENGM: {name: Oslo}}",
        metno=", cache_ttl_seconds: 0.001, retry_pause_seconds: 0, refresh_in_background: false",
    )
    troubles = [
        (500, "oops", "upstream_error"),
        (429, "slow down", "rate_limited"),
        (403, "who are you", "refused"),
        (404, "", "no_report"),
        (200, "", "empty"),
        (200, "<html><body>maintenance</body></html>", "malformed"),
        (200, "\0\xff" * 50, "malformed"),
        (200, "x" * 300_000, "malformed"),
        (200, metar_now("ESSA", FINE), "no_report"),
        (200, metar_now("ENGM", FINE, minutes_ago=200), "too_old"),
        (200, metar_now("ENGM", FINE, minutes_ago=-300), "too_old"),
        (200, metar_now("ENGM", "NIL"), "nil"),
        (200, metar_now("ENGM", "24005KT 1/0SM Q1013"), "malformed"),
    ]
    async with atis.client() as client:
        for metno.status, metno.body, expected in troubles:
            result = await ask(client)
            assert reason(result) == expected, metno.body[:80]
            text = result.content[0].text  # type: ignore[union-attr]
            assert text.startswith("The weather for Oslo is not available. ")
            assert text.endswith(".")
            assert not any(character.isdigit() for character in text)
        metno.body = metar_now("ENGM", FINE)
        assert spoken(await ask(client)).startswith("Oslo.")


async def test_a_silent_or_absent_upstream(atis: AtisProcess, metno: FakeMetno) -> None:
    atis.write_live(metno.url, metno=", timeout_seconds: 0.2, retry_pause_seconds: 0")
    metno.hold()
    async with atis.client() as client:
        assert reason(await ask(client)) == "timeout"
        atis.write_live("http://127.0.0.1:1")
        assert reason(await ask(client)) == "unreachable"


async def test_nothing_stale_after_the_cache_ran_out(atis: AtisProcess, metno: FakeMetno) -> None:
    atis.write_live(
        metno.url,
        metno=", cache_ttl_seconds: 0.1, retry_pause_seconds: 0, refresh_in_background: false",
    )
    metno.body = metar_now("ENGM", FINE)
    async with atis.client() as client:
        spoken(await ask(client))
        metno.status = 500
        await asyncio.sleep(0.1)  # the TTL itself: an answer may be reused before, not after
        result = await ask(client)
        assert reason(result) == "upstream_error"
        metno.status = 200
        spoken(await ask(client))


async def test_unchanged_reports_cost_upstream_a_304(atis: AtisProcess, metno: FakeMetno) -> None:
    atis.write_live(metno.url, metno=", cache_ttl_seconds: 0.1, refresh_in_background: false")
    stamp = format_datetime(datetime.now(UTC) - timedelta(minutes=5), usegmt=True)
    metno.body, metno.headers = metar_now("ENGM", FINE), {"Last-Modified": stamp}
    async with atis.client() as client:
        text = spoken(await ask(client))
        async with asyncio.timeout(60):
            while len(metno.requests) < 2:
                assert spoken(await ask(client)) == text
                await asyncio.sleep(0.02)
    assert metno.requests[1][1]["if-modified-since"] == stamp


async def test_expires_keeps_the_server_from_asking(atis: AtisProcess, metno: FakeMetno) -> None:
    atis.write_live(metno.url, metno=", cache_ttl_seconds: 0.001")
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    metno.body, metno.headers = metar_now("ENGM", FINE), {"Expires": later}
    async with atis.client() as client:
        for _ in range(5):
            spoken(await ask(client))
            await asyncio.sleep(0.01)
    assert len(metno.requests) == 1


async def test_callers_at_once_share_one_request(atis: AtisProcess, metno: FakeMetno) -> None:
    atis.write_live(metno.url)
    metno.body = metar_now("ENGM", FINE)
    metno.hold()
    async with atis.client() as client:
        asking = [asyncio.create_task(ask(client)) for _ in range(8)]
        await asyncio.wait_for(metno.asked.wait(), 60)
        metno.release.set()
        texts = {spoken(result) for result in await asyncio.gather(*asking)}
    assert len(texts) == 1
    assert len(metno.requests) == 1


async def test_settings_are_read_again_and_a_broken_edit_is_survived(
    atis: AtisProcess, metno: FakeMetno
) -> None:
    metno.body = metar_now("ENGM", FINE)
    atis.write_live(metno.url, "aerodromes: {ENGM: {name: Oslo, runway: 01L}}")
    async with atis.client() as client:
        assert "Runway in use zero one left." in spoken(await ask(client))
        atis.write_live(metno.url, "aerodromes: {ENGM: {name: Oslo, runway: 19R}}")
        assert "Runway in use one niner right." in spoken(await ask(client))
        atis.write_live(metno.url, "aerodromes: {ENGM: {runway: 99}}")
        broken = await ask(client)
        assert "Runway in use one niner right." in spoken(broken)
        assert "ENGM.runway" in (broken.structured_content or {})["settings_problem"]
        assert "last good ones stay in force" in atis.stderr
        (atis.folder / "m.txt").write_text("ENGM 010000Z 36005KT CAVOK 01/00 Q1001\n")
        atis.write("source: file\nmetar_file: m.txt\n")
        switched = await ask(client)
        assert spoken(switched).startswith("Sample data, not for flight. Echo November Golf Mike.")
        assert (switched.structured_content or {})["settings_problem"] is None
        (atis.folder / "m.txt").write_text("ENGM 010000Z 18010KT CAVOK 01/00 Q1001 NOSIG\n")
        assert "Wind one eight zero degrees" in spoken(await ask(client))
        (atis.folder / "m.txt").unlink()
        assert reason(await ask(client)) == "file_unreadable"


async def test_what_is_no_icao_code_never_reaches_upstream(
    atis: AtisProcess, metno: FakeMetno
) -> None:
    atis.write_live(metno.url)
    async with atis.client() as client:
        for icao in ("ENG", "ENGM1", "E1GM", "", "../x", "ENGM,ESSA"):
            assert reason(await ask(client, icao)) == "bad_icao"
    assert metno.requests == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "cannot be read"), ("source: metno\n", "METNO_USER_AGENT"), ("sauce: x\n", "sauce")],
)
def test_unusable_settings_end_it_with_one_line(
    atis: AtisProcess, text: str | None, complaint: str
) -> None:
    if text is not None:
        atis.write(text)
    process = atis.start()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == b""
    assert complaint in err.decode()
    assert "Traceback" not in err.decode()


def request(number: int | None, method: str, params: dict[str, object] | None = None) -> bytes:
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    if number is not None:
        message["id"] = number
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("ending", ["eof", "sigterm"])
async def test_it_ends_at_once_even_while_upstream_is_silent(
    atis: AtisProcess, metno: FakeMetno, ending: str
) -> None:
    atis.write_live(metno.url, metno=", timeout_seconds: 60")
    metno.hold()
    process = atis.start()
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {
        "protocolVersion": "2024-11-05",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    call = {"name": "get_atis", "arguments": {"icao": "ENGM"}}
    process.stdin.write(request(1, "initialize", hello))
    process.stdin.flush()
    answer = json.loads(await asyncio.to_thread(process.stdout.readline))
    assert answer["result"]["protocolVersion"] == "2024-11-05"
    process.stdin.write(request(None, "notifications/initialized") + request(2, "tools/call", call))
    process.stdin.flush()
    await asyncio.wait_for(metno.asked.wait(), 60)
    if ending == "sigterm":
        process.send_signal(signal.SIGTERM)
        out, _ = await asyncio.to_thread(process.communicate, None, 60)
    else:
        out, _ = await asyncio.to_thread(process.communicate, b"", 60)
    assert process.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
