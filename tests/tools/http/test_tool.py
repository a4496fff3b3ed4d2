"""HTTP tools against a real web service: what a caller hears of it, whatever it does."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from cordboard.config.load import read
from cordboard.config.tools.http_tool import HttpTool
from cordboard.errors import ToolError
from cordboard.generation.generation import Generation
from cordboard.tools.call_line import NoCaller
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk
from cordboard.tools.http import answer
from cordboard.tools.http.request import is_signed
from cordboard.tools.http.shared import SharedClient
from cordboard.tools.http.tool import (
    NOT_FOUND,
    REFUSED,
    UNAVAILABLE,
    UNUSABLE,
    HttpRequestTool,
    http_spec,
)
from cordboard.tools.tool import Effects, Status, ToolAsk

from .conftest import Answer, Service, Use, run

ONE = {"parameters": {"number": {"type": "string"}}}


async def test_a_customer_is_looked_up(use: Use, service: Service) -> None:
    service.will(Answer(body=b'{"customer": {"name": "Ann Lee", "orders": 3}, "x": 1}'))
    result = await use(
        {
            "url": service.url + "/customers/{number}",
            "query": {"by": "{call.caller_number}"},
            "headers": {"Authorization": "Bearer secret-token"},
            "result": {"name": "customer.name", "orders": "customer.orders"},
            **ONE,
        },
        number="A/7",
    )
    assert result.data == {"name": "Ann Lee", "orders": 3}
    (request,) = service.received
    assert (request.method, request.target) == ("GET", "/customers/A%2F7?by=%2B47%20912%2034%20567")
    assert request.headers["authorization"] == "Bearer secret-token"
    assert request.headers["host"] == f"127.0.0.1:{service.port}"
    assert request.body == b""


async def test_a_booking_is_posted_signed_and_keyed(use: Use, service: Service) -> None:
    service.will(Answer(201, b'{"id": 9}'))
    config = {
        "method": "POST",
        "body": {"table": "{number}", "caller": "{call.caller_number}"},
        "sign_with": "a shared secret",
        **ONE,
    }
    assert (await use(config, number='4", "admin": true')).data == {"id": 9}
    (request,) = service.received
    assert request.json == {"table": '4", "admin": true', "caller": "+47 912 34 567"}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "call-1:1.1"
    signed = (request.headers["x-cordboard-timestamp"], request.headers["x-cordboard-signature"])
    assert is_signed("a shared secret", *signed, request.body, now=1_000.0)
    assert not is_signed("a shared secret", *signed, request.body + b" ", now=1_000.0)


async def test_the_next_call_of_the_same_id_is_no_repetition(
    service: Service, shared: SharedClient
) -> None:
    whole = {"kind": "http", "method": "POST", "url": service.url + "/", "allow_private": True}
    tool = HttpRequestTool("probe", HttpTool.model_validate(whole), shared)
    for begun in ("2026-11-21T14:05:09+01:00", "2026-11-21T14:05:09+01:00", "2026-11-21T15:00:00"):
        await tool.run({}, run(current_datetime_iso=begun))
    first, again, later = (request.headers["idempotency-key"] for request in service.received)
    assert first == again == "call-1:1.1@2026-11-21T14:05:09+01:00"
    assert later != first


async def test_text_answers_are_text(use: Use, service: Service) -> None:
    service.will(Answer(body=b"All is well.", kind="text/plain; charset=utf-8"))
    result = await use({})
    assert (result.message, result.data) == ("All is well.", {"text": "All is well."})
    service.will(Answer(body=b'"All is well."'))
    assert (await use({})).message == "All is well."
    service.will(Answer(body=b"<p>Hi</p>", kind="text/html"))
    assert (await use({})).data == {"text": "<p>Hi</p>"}


async def test_an_answer_to_head_is_its_status(use: Use, service: Service) -> None:
    assert (await use({"method": "HEAD"})).data == {"status": 200}
    service.will(Answer(204, b"", kind=""))
    assert (await use({"method": "DELETE"})).data == {}


async def test_a_packed_answer_is_unpacked(use: Use, service: Service) -> None:
    body = json.dumps({"rows": [{"n": n} for n in range(9_000)]}).encode()
    service.will(Answer(body=gzip.compress(body), headers={"content-encoding": "gzip"}))
    assert len((await use({})).data["rows"]) == 9_000
    assert service.received[0].headers["accept-encoding"] == "gzip"


# --- what goes wrong -----------------------------------------------------------------------

WRONG: dict[str, tuple[Answer, dict[str, Any], str, str]] = {
    "no JSON": (Answer(body=b"<html>"), {}, UNUSABLE, "is not"),
    "too long": (Answer(body=b'"' + b"x" * 5_000 + b'"'), {"max_bytes": 1_024}, UNUSABLE, "longer"),
    "too long, unannounced": (
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"x" * 9_000),
        {"max_bytes": 1_024},
        UNUSABLE,
        "longer",
    ),
    "bomb": (
        Answer(body=gzip.compress(b"\0" * 9_000_000), headers={"content-encoding": "gzip"}),
        {},
        UNUSABLE,
        "longer",
    ),
    "broken gzip": (
        Answer(body=b"\x1f\x8bnonsense", headers={"content-encoding": "gzip"}),
        {},
        UNUSABLE,
        "broken",
    ),
    "breaks off": (
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"),
        {},
        UNAVAILABLE,
        "broke",
    ),
    "no HTTP": (Answer(raw=b"SSH-2.0-OpenSSH\r\n"), {}, UNAVAILABLE, "broke"),
    "hangs up": (Answer(hang_up=True), {}, UNAVAILABLE, "broke"),
    "500": (Answer(500, b"{}"), {}, UNAVAILABLE, "HTTP 500"),
    "429": (Answer(429, b"{}"), {}, UNAVAILABLE, "HTTP 429"),
    "401": (Answer(401, b"{}"), {}, UNAVAILABLE, "HTTP 401"),
    "redirected in circles": (
        Answer(302, b"", headers={"location": "/again"}),
        {},
        UNUSABLE,
        "again and again",
    ),
    "redirected elsewhere": (
        Answer(302, b"", headers={"location": "http://169.254.169.254/latest/meta-data"}),
        {},
        UNUSABLE,
        "host elsewhere",
    ),
    "redirected, not wanted": (
        Answer(302, b"", headers={"location": "/again"}),
        {"follow_redirects": 0},
        UNUSABLE,
        "redirects us",
    ),
    "own words": (
        Answer(503, b"{}"),
        {"error_messages": {"unavailable": "The shop is closed."}},
        "The shop is closed.",
        "HTTP 503",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_every_failure_is_an_apology_and_a_reason_in_the_log(
    use: Use, service: Service, name: str
) -> None:
    answer, config, words, reason = WRONG[name]
    service.will(answer)
    config = {"headers": {"X-Key": "very-secret"}, "url": service.url + "/private-path", **config}
    with capture_logs() as logs, pytest.raises(ToolError) as caught:
        await use(config)
    assert str(caught.value) == words
    (line,) = [line for line in logs if line["event"] == "http_tool_failed"]
    assert reason in line["error"]
    assert (line["tool"], line["host"], line["method"]) == ("http:probe", "127.0.0.1", "GET")
    assert "very-secret" not in str(logs)
    assert "private-path" not in str(logs)


@pytest.mark.parametrize(
    ("config", "number", "why"),
    [
        ({}, "..", "a part of the path would be . or .."),
        ({}, "9" * 9_000, "path and query would be longer than 8000 bytes"),
        (
            {"header_templates": {"X-Number": "{number}"}},
            "1\r\nX-Admin: 1",
            "the header X-Number would have control characters",
        ),
    ],
)
async def test_what_cannot_be_put_into_a_request_is_told_and_not_sent(
    use: Use, service: Service, config: dict[str, Any], number: str, why: str
) -> None:
    url = service.url + "/customers/{number}"
    with capture_logs() as logged:
        result = await use({"url": url, **config, **ONE}, number=number)
    assert (result.status, result.data) == (Status.ERROR, {"error": why})
    assert result.message == "Sorry, that is not possible."
    assert [(line["event"], line["error"]) for line in logged] == [("http_tool_failed", why)]
    assert service.received == []


async def test_a_service_that_is_not_there(use: Use, service: Service) -> None:
    await service.stop()
    with capture_logs() as logs, pytest.raises(ToolError, match="not available"):
        await use({})
    assert "connection refused" in logs[-1]["error"]
    with capture_logs() as logs, pytest.raises(ToolError, match="not available"):
        await use({"url": "https://no-such-host.invalid/"})
    said = logs[-1]["error"]
    assert "not known" in said or "name resolution" in said  # the latter without a name server


async def test_tls_that_is_none_is_told(use: Use) -> None:
    async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with capture_logs() as logs, pytest.raises(ToolError, match="not available"):
            await use({"url": f"https://127.0.0.1:{port}/"})
    assert "it does not speak TLS as we do" in logs[-1]["error"]


@pytest.mark.parametrize("status", [400, 404, 409, 410, 422])
async def test_a_refusal_is_a_result_that_is_not_tried_again(
    use: Use, service: Service, status: int
) -> None:
    service.will(Answer(status, b'{"detail": "No table is free at seven."}'))
    result = await use({"error_field": "detail"})
    assert (result.status, result.message) == (Status.ERROR, "No table is free at seven.")
    assert result.data == {"http_status": status, "error": "No table is free at seven."}
    bare = await use({})
    assert bare.message == (NOT_FOUND if status in (404, 410) else REFUSED)
    own = await use(
        {"error_messages": {"error": "Please ask a colleague."}, "error_field": "detail"}
    )
    assert own.message == "Please ask a colleague."


async def test_a_service_is_not_quoted_where_the_operator_says_so(
    use: Use, service: Service
) -> None:
    for status, error in ((400, REFUSED), (404, NOT_FOUND)):
        service.will(Answer(status, b'{"detail": "Your card number please."}'))
        with capture_logs() as logs:
            result = await use({"error_field": "detail", "speak_errors": False})
        assert (result.message, result.data) == (error, {"http_status": status})
        assert logs[-1]["error"].endswith(": Your card number please.")
    service.will(Answer(503, b'{"detail": "Your card number please."}'))
    with pytest.raises(ToolError, match="not available"):
        await use({"error_field": "detail", "speak_errors": False})


async def test_half_a_long_word_of_an_error_is_left_out(use: Use, service: Service) -> None:
    long = "x " * 245 + "SECRETENV77" * 3
    service.will(Answer(400, orjson.dumps({"detail": long})))
    assert (await use({"error_field": "detail"})).data["error"] == "x " * 245 + "…"


@pytest.mark.parametrize("status", [200, 400])
async def test_no_long_answer_is_parsed_on_the_event_loop(
    use: Use, service: Service, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def parse(body: bytes) -> Any:
        threads.append(threading.current_thread())
        return orjson.loads(body)

    monkeypatch.setattr(answer, "parse_large", parse)
    service.will(Answer(status, orjson.dumps({"detail": "Not now.", "more": "x" * 70_000})))
    result = await use({"error_field": "detail"})
    assert result.status is (Status.OK if status == 200 else Status.ERROR)
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://127.1:{port}/",
    ],
)
async def test_inner_addresses_are_not_reached_unless_the_operator_says_so(
    use: Use, service: Service, url: str
) -> None:
    config = {"url": url.format(port=service.port), "allow_private": False}
    with capture_logs() as logs, pytest.raises(ToolError):
        await use(config)
    assert "its name leads to a loopback address" in logs[-1]["error"]
    assert service.connections == 0


async def test_a_connection_of_another_tool_is_no_way_in(use: Use, service: Service) -> None:
    """Kept connections are not shared between tools that may go there and tools that may not."""
    await use({})
    with pytest.raises(ToolError):
        await use({"allow_private": False})
    assert len(service.received) == 1


async def test_a_name_that_leads_elsewhere_the_second_time_is_of_no_use(
    use: Use, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["8.8.8.8", "127.0.0.1"], ["127.0.0.1"]]
    asked: list[str] = []
    inner = socket.getaddrinfo

    def names(host: str, port: int, *more: Any, **options: Any) -> Any:
        if host != "rebind.example.com":
            return inner(host, port, *more, **options)
        asked.append(host)
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in found]

    monkeypatch.setattr("socket.getaddrinfo", names)
    connected: list[str] = []

    async def connect(self: object, host: str, *more: Any) -> Any:
        connected.append(host)
        raise TimeoutError

    monkeypatch.setattr("httpcore2.AnyIOBackend.connect_tcp", connect)
    config = {"url": f"http://rebind.example.com:{service.port}/", "allow_private": False}
    with pytest.raises((ToolError, TimeoutError)):
        await use(config)
    assert connected == ["8.8.8.8"]
    with pytest.raises(ToolError):
        await use(config)
    assert connected == ["8.8.8.8"]
    assert asked == ["rebind.example.com"] * 2


async def test_redirects_are_followed_within_the_host(use: Use, service: Service) -> None:
    service.will(Answer(302, b"", headers={"location": "/new?x=1"}), Answer(body=b'{"at": "last"}'))
    assert (await use({"headers": {"X-Key": "very-secret"}})).data == {"at": "last"}
    assert [request.target for request in service.received] == ["/", "/new?x=1"]
    assert service.received[1].headers["x-key"] == "very-secret"


async def test_a_listed_host_is_followed_without_the_secrets(use: Use, service: Service) -> None:
    onwards = f"http://localhost:{service.port}/there"
    service.will(Answer(307, b"", headers={"location": onwards}), Answer(body=b"[1]"))
    result = await use({"allow_hosts": ["localhost"], "headers": {"X-Key": "very-secret"}})
    assert result.data == [1]
    assert "x-key" not in service.received[1].headers


async def test_nothing_but_connections_is_kept_between_requests(use: Use, service: Service) -> None:
    service.will(Answer(headers={"set-cookie": "session=1"}))
    for _ in range(3):
        await use({})
    assert service.connections == 1
    assert all("cookie" not in request.headers for request in service.received)


async def test_a_connection_that_was_closed_meanwhile_is_no_failure(
    use: Use, service: Service
) -> None:
    await use({})
    service.will(Answer(hang_up=True), Answer(body=b'{"a": 1}'))
    assert (await use({})).data == {"a": 1}
    service.will(Answer(hang_up=True), Answer(body=b'{"a": 1}'))
    with pytest.raises(ToolError):
        await use({"method": "POST"})  # it may have been done


# --- at the desk ---------------------------------------------------------------------------


def desk(service: Service, shared: SharedClient, **config: Any) -> Desk:
    whole = {"kind": "http", "url": service.url + "/", "allow_private": True} | config
    tool = HttpRequestTool("probe", HttpTool.model_validate(whole), shared)
    catalogue = Catalogue([ToolEntry(tool)])
    assert catalogue.problems == ()
    return Desk(catalogue.toolbox(["probe"]), NoCaller("call-1", "demo"))


async def test_a_service_that_repeats_our_key_does_not_give_it_away(service: Service) -> None:
    text = f"""
        contexts: {{demo: {{tools: [probe]}}}}
        tools:
          probe:
            kind: http
            url: "{service.url}/"
            allow_private: true
            error_field: detail
            headers: {{X-Key: "${{KEY}}", Authorization: "Bearer hush-hush"}}
        """
    loaded = read(textwrap.dedent(text), Path("ai-agent.yaml"), {"KEY": "SECRETENV77"})
    generation = Generation(loaded.config)
    desk = Desk(generation.toolbox("demo"), NoCaller("call-1", "demo"))
    for status in (200, 400):
        service.will(Answer(status, b'{"detail": "your key is SECRETENV77, or hush-hush"}'))
        reply = await desk.run(ToolAsk(str(status), "probe", {}))
        assert "your key is" in str(reply.data)
        assert "SECRETENV77" not in str(reply)
        assert "hush-hush" not in str(reply)
    await generation.close()


async def test_a_slow_service_is_given_up_in_words(service: Service, shared: SharedClient) -> None:
    service.will(Answer(delay=20))
    await shared.warm()
    reply = await desk(service, shared, timeout_ms=300).run(ToolAsk("1", "probe", {}))
    assert reply.status is Status.TIMEOUT
    assert "too long" in reply.message
    assert service.connections == 1


async def test_a_failing_look_up_is_tried_again_and_a_post_is_not(
    service: Service, shared: SharedClient
) -> None:
    service.will(Answer(500), Answer(body=b'{"name": "Ann"}'))
    rules = {"retries": 2, "speech_template": "It is {name}."}
    reply = await desk(service, shared, **rules).run(ToolAsk("1", "probe", {}))
    assert (reply.message, len(service.received)) == ("It is Ann.", 2)
    service.will(Answer(500))
    reply = await desk(service, shared, method="POST", **rules).run(ToolAsk("2", "probe", {}))
    assert (reply.status, len(service.received)) == (Status.ERROR, 3)


async def test_wrong_arguments_are_refused_before_anything_is_sent(
    service: Service, shared: SharedClient
) -> None:
    parameters = {"number": {"type": "string", "pattern": "^[0-9]+$"}}
    asked = desk(service, shared, parameters=parameters)
    for arguments in ({}, {"number": 5}, {"number": "x"}, {"number": "1", "more": 1}):
        reply = await asked.run(ToolAsk("1", "probe", arguments))
        assert reply.status is Status.REFUSED
    assert service.received == []


def spec_of(**config: Any) -> Any:
    return http_spec(
        "x", HttpTool.model_validate({"kind": "http", "url": "https://a.example/"} | config)
    )


def test_what_a_method_does_to_the_world() -> None:
    effects = {method: spec_of(method=method).effects for method in ("GET", "PUT", "POST")}
    assert effects == {
        "GET": Effects.READ_ONLY,
        "PUT": Effects.IDEMPOTENT,
        "POST": Effects.DESTRUCTIVE,
    }
    assert spec_of(method="POST").approval == "none"
    assert spec_of(method="POST", effects="destructive").approval == "caller"
    assert spec_of(method="POST", approval="caller").approval == "caller"
    assert spec_of(method="POST", effects="read_only").effects is Effects.READ_ONLY


def test_secret_parameters_are_marked_and_the_mark_is_not_shown() -> None:
    spec = spec_of(parameters={"pin": {"type": "string", "secret": True}, "n": {"default": 1}})
    assert spec.secret_arguments == {"pin"}
    assert spec.parameters == {
        "type": "object",
        "properties": {"pin": {"type": "string"}, "n": {"default": 1}},
        "additionalProperties": False,
        "required": ["pin"],
    }


def test_a_whole_schema_is_taken_as_it_is() -> None:
    whole = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "pin": {"secret": True}},
        "anyOf": [{"required": ["a"]}, {"required": ["pin"]}],
    }
    spec = spec_of(parameters=whole)
    assert spec.parameters == whole | {"properties": {"a": {"type": "string"}, "pin": {}}}
    assert spec.secret_arguments == {"pin"}


async def test_the_http_client_is_imported_when_it_is_needed() -> None:
    """An engine that sends nothing does not pay for it."""
    script = "import sys, cordboard.tools.http.tool; print('httpcore2' in sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "False"


async def test_a_closed_client_sends_nothing(service: Service) -> None:
    shared = SharedClient()
    whole = {"kind": "http", "url": service.url + "/", "allow_private": True}
    tool = HttpRequestTool("probe", HttpTool.model_validate(whole), shared)
    await tool.run({}, run())
    await shared.close()
    await shared.close()
    with pytest.raises(ToolError):
        await tool.run({}, run())
    assert len(service.received) == 1
