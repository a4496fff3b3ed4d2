"""An MCP server over stdio that fails in any requested way. Standard library only, no SDK.

    python faulty.py [BEHAVIOUR]

BEHAVIOUR at start: `good` (default), `exits`, `mute`, `slow-start`, `bad-list`, `modern-only`,
`ignores-end` (neither the end of its input nor SIGTERM ends it), `deaf` (never reads its input),
`paged`, `banner`, `stderr-flood`, `flaky FILE` (exits at start unless FILE exists; creates it),
`names` (tools with unusual names), `hostile` (schemas that must be refused), `endless` (pages
without end), `circle` (its second page leads to the second page), `lists FILE` (lists what the JSON
array in FILE holds at that moment, as it is; any tool works, and says that the tools have changed).
With `--tells` as the last argument it logs its requests on stderr.

With `good`, each fault is a tool of its own; see the functions named `tool_*`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
GRANDCHILD_SECONDS = "60"

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

extra_tools: list[str] = []
subscriptions: list[Any] = []


def send(message: dict[str, Any]) -> None:
    """Write one message as one line."""
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def write(data: bytes) -> None:
    """Write raw bytes to stdout."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def say(words: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def answer(request_id: Any, result: dict[str, Any]) -> None:
    """Answer a request."""
    send({"id": request_id, "result": result})


def text(request_id: Any, words: str, **more: Any) -> None:
    """Answer a tool call with text."""
    answer(request_id, {"content": [{"type": "text", "text": words}], **more})


def grandchild() -> int:
    """Start a process that holds our pipes open; returns its pid."""
    return subprocess.Popen(["sleep", GRANDCHILD_SECONDS]).pid


def tool_echo(request_id: Any, arguments: dict[str, Any]) -> None:
    structured = {"text": arguments.get("text", ""), "pid": os.getpid()}
    text(request_id, json.dumps(structured), structuredContent=structured)


def tool_plain(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "Runway two seven is in use.")


def tool_json_text(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, '{"weather": [{"summary": "rain"}]}')


def tool_environment(request_id: Any, arguments: dict[str, Any]) -> None:
    answer(request_id, {"content": [], "structuredContent": dict(os.environ)})


def tool_fails(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "Error executing tool fails: No report for that station.", isError=True)


def tool_rpc_error(request_id: Any, arguments: dict[str, Any]) -> None:
    send({"id": request_id, "error": {"code": -32602, "message": "no such thing"}})


def tool_hangs(request_id: Any, arguments: dict[str, Any]) -> None:
    """Never answers; logs a cancellation on stderr (see `serve`)."""


def tool_waits(request_id: Any, arguments: dict[str, Any]) -> None:
    """Never answers either, but is read-only (see `definition`): it can be cancelled without
    loss."""


def tool_waits_for_file(request_id: Any, arguments: dict[str, Any]) -> None:
    """Answer as soon as a file is there, a minute later at most."""
    end = time.monotonic() + 60
    while not Path(arguments["path"]).exists() and time.monotonic() < end:
        time.sleep(0.02)
    text(request_id, "It is there.")


def tool_slow(request_id: Any, arguments: dict[str, Any]) -> None:
    time.sleep(arguments["seconds"])
    text(request_id, "At last.")


def tool_stops_reading(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "from now on")
    time.sleep(60)


def tool_exits(request_id: Any, arguments: dict[str, Any]) -> None:
    os._exit(3)


def tool_killed_with_grandchild(request_id: Any, arguments: dict[str, Any]) -> None:
    say(f"grandchild {grandchild()}")
    os.kill(os.getpid(), signal.SIGKILL)


def tool_leaves_grandchild(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, str(grandchild()))


def tool_escapes(request_id: Any, arguments: dict[str, Any]) -> None:
    """Start a process that holds our pipes open, in a session of its own."""
    escaped = subprocess.Popen(["sleep", GRANDCHILD_SECONDS], start_new_session=True)
    text(request_id, str(escaped.pid))


def tool_closes_stdout(request_id: Any, arguments: dict[str, Any]) -> None:
    sys.stdout.flush()
    os.close(1)


def tool_not_utf8(request_id: Any, arguments: dict[str, Any]) -> None:
    line = json.dumps(
        {"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"type": "text", "text": "@"}]}}
    )
    write(line.encode().replace(b"@", b"caf\xe9") + b"\n")


def tool_garbage(request_id: Any, arguments: dict[str, Any]) -> None:
    write(b"Loading model...\n\x00\xff\xfe{\n[1, 2\n{}\nnull\n" * 50)
    write(b'{"id": ' + b"9" * 5_000 + b", more than Python makes a number of\n")
    text(request_id, "clean")


def tool_stderr_flood(request_id: Any, arguments: dict[str, Any]) -> None:
    line = "x" * 999 + "\n"
    for _ in range(arguments.get("kilobytes", 20_000)):
        sys.stderr.write(line)
    sys.stderr.flush()
    text(request_id, "still here")


def tool_rows(request_id: Any, arguments: dict[str, Any]) -> None:
    rows = [{"id": number, "name": f"row {number}"} for number in range(arguments["count"])]
    text(request_id, "many", structuredContent={"rows": rows})


def tool_json_rows(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, json.dumps([{"id": number} for number in range(arguments["count"])]))


def tool_parts(request_id: Any, arguments: dict[str, Any]) -> None:
    part = {"type": "text", "text": "a part of it"}
    answer(request_id, {"content": [part] * arguments["count"]})


def tool_floods(request_id: Any, arguments: dict[str, Any]) -> None:
    """Answer, then write without end until the reader stops, or for 10 s."""
    text(request_id, "here it comes")
    line = arguments["line"].encode() + b"\n"
    end = time.monotonic() + 10
    while time.monotonic() < end:
        write(line * 1_000)


def tool_huge(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "y" * arguments["bytes"])


def tool_huge_id_last(request_id: Any, arguments: dict[str, Any]) -> None:
    body = json.dumps("z" * arguments["bytes"])
    content = f'{{"content":[{{"type":"text","text":{body}}}]}}'
    write(f'{{"result":{content},"jsonrpc":"2.0","id":{request_id}}}\n'.encode())


def tool_deep(request_id: Any, arguments: dict[str, Any]) -> None:
    levels = arguments.get("levels", 10_000)
    nested = "[" * levels + "]" * levels
    content = f'{{"content":[],"structuredContent":{{"a":{nested}}}}}'
    write(f'{{"jsonrpc":"2.0","id":{request_id},"result":{content}}}\n'.encode())


def tool_no_result(request_id: Any, arguments: dict[str, Any]) -> None:
    send({"id": request_id})


def tool_wrong_shape(request_id: Any, arguments: dict[str, Any]) -> None:
    answer(request_id, {"content": "not a list", "isError": 7})


def tool_bad_structured(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "{}", structuredContent={"count": "many"})


def tool_no_structured(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "forgot it")


def tool_partial(request_id: Any, arguments: dict[str, Any]) -> None:
    write(f'{{"jsonrpc":"2.0","id":{request_id},"result":'.encode())


def tool_wrong_id(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id + 1_000, "for somebody else")


def tool_null_id(request_id: Any, arguments: dict[str, Any]) -> None:
    send({"id": None, "error": {"code": -32700, "message": "parse error"}})


def tool_controls(request_id: Any, arguments: dict[str, Any]) -> None:
    say("\x1b[2Jwiped\x07")
    message = "red\x1b[31m\nforged line\u202egnp"
    send({"id": request_id, "error": {"code": -32000, "message": message}})


def tool_twice(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "first")
    text(request_id, "second")


def tool_to_nobody(request_id: Any, arguments: dict[str, Any]) -> None:
    text(987_654, "for nobody")
    send({"id": None, "error": {"code": -32700, "message": "parse error"}})
    text(request_id, "for you")


def tool_string_id(request_id: Any, arguments: dict[str, Any]) -> None:
    text(str(request_id), "same")


def tool_pretty(request_id: Any, arguments: dict[str, Any]) -> None:
    result = {"content": [{"type": "text", "text": "pretty"}]}
    whole = {"jsonrpc": "2.0", "id": request_id, "result": result}
    write(json.dumps(whole, indent=2).encode() + b"\n")


def tool_progress(request_id: Any, arguments: dict[str, Any]) -> None:
    for step in (1, 2, 3):
        params = {"progressToken": request_id, "progress": step, "total": 3}
        send({"method": "notifications/progress", "params": params})
    text(request_id, "done")


def tool_new_tool(request_id: Any, arguments: dict[str, Any]) -> None:
    extra_tools.append("surprise")
    for subscription in subscriptions:
        meta = {"_meta": {SUBSCRIPTION: subscription}}
        send({"method": "notifications/tools/list_changed", "params": meta})
    if not subscriptions:
        send({"method": "notifications/tools/list_changed"})
    text(request_id, "listed", resultType="complete")


def tool_surprise(request_id: Any, arguments: dict[str, Any]) -> None:
    text(request_id, "boo")


FAULTS = {
    name.removeprefix("tool_"): function
    for name, function in list(globals().items())
    if name.startswith("tool_")
}
COUNT_SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
}


def definition(name: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A tool as listed."""
    described: dict[str, Any] = {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": schema or {"type": "object"},
    }
    if name in {"echo", "waits", "waits_for_file"}:
        described["annotations"] = {"readOnlyHint": True}
    if name == "echo":
        described["inputSchema"] = {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        }
    if name in {"bad_structured", "no_structured"}:
        described["outputSchema"] = COUNT_SCHEMA
    return described


def tools(behaviour: str) -> list[dict[str, Any]]:
    """Return the listed tools."""
    if behaviour == "names":
        return [definition(name) for name in ("get-atis", "getAtis", "v1.café/ü", "t" * 128, "✈")]
    if behaviour == "hostile":
        deep: dict[str, Any] = {"type": "object"}
        for _ in range(60):
            deep = {"type": "object", "properties": {"a": deep}}
        remote = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/s.json"}}}
        return [
            definition("remote", remote),
            definition("deep", deep),
            definition("no_type", {"type": "object", "properties": {"a": {"type": "nonsense"}}}),
            definition("fine"),
        ]
    return [definition(name) for name in FAULTS if name != "surprise"] + [
        definition(name) for name in extra_tools
    ]


def list_tools(request_id: Any, behaviour: str, params: dict[str, Any]) -> None:
    """Answer `tools/list`."""
    if behaviour == "bad-list":
        answer(request_id, {"tools": {"not": "a list"}})
        return
    listed: dict[str, Any] = {"tools": tools(behaviour)}
    if behaviour == "paged":
        page = int(params.get("cursor", "0"))
        listed = {"tools": [definition(f"page_{page}")]}
        if page < 4:
            listed["nextCursor"] = str(page + 1)
    if behaviour in {"endless", "circle"}:
        page = int(params.get("cursor", "0"))
        listed = {"tools": [definition(f"page_{page}")], "nextCursor": str(page + 1)}
        if behaviour == "circle":
            listed["nextCursor"] = "1"
    if behaviour == "lists":  # as text: it may be nested deeper than any parser goes
        tools_text = Path(sys.argv[2]).read_bytes().replace(b"\n", b" ")
        head = json.dumps({"jsonrpc": "2.0", "id": request_id}).encode()[:-1]
        write(head + b', "result": {"tools": ' + tools_text + b"}}\n")
        return
    if behaviour == "modern-only":
        listed |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    answer(request_id, listed)


def initialize(request_id: Any, behaviour: str) -> None:
    """Answer `initialize`."""
    if behaviour == "modern-only":
        send({"id": request_id, "error": {"code": -32601, "message": "Method not found"}})
        return
    answer(
        request_id,
        {
            "protocolVersion": HANDSHAKE_VERSION,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "faulty", "version": "1"},
        },
    )


def discover(request_id: Any, behaviour: str) -> None:
    """Answer `server/discover`, as servers of 2026-07-28 do."""
    if behaviour != "modern-only":
        send({"id": request_id, "error": {"code": -32601, "message": "Method not found"}})
        return
    answer(
        request_id,
        {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": {"tools": {"listChanged": True}},
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "public",
        },
    )


def subscribe(request_id: Any) -> None:
    """Confirm `subscriptions/listen`; its answer comes when the subscription ends, so never."""
    subscriptions.append(request_id)
    honoured = {"toolsListChanged": True}
    params = {"notifications": honoured, "_meta": {SUBSCRIPTION: request_id}}
    send({"method": "notifications/subscriptions/acknowledged", "params": params})


def serve(behaviour: str) -> None:
    """Answer until the input ends."""
    shaken = behaviour != "strict"
    for line in sys.stdin:
        message = json.loads(line)
        request_id, method = message.get("id"), message.get("method")
        params = message.get("params") or {}
        if sys.argv[-1] == "--tells":
            say(f"asked {method}")
        shaken = shaken or method == "initialize"
        if not shaken:
            send({"id": request_id, "error": {"code": -32600, "message": "not initialized"}})
        elif method == "initialize":
            initialize(request_id, behaviour)
        elif method == "server/discover":
            discover(request_id, behaviour)
        elif method == "subscriptions/listen":
            subscribe(request_id)
        elif method == "tools/list":
            list_tools(request_id, behaviour, params)
        elif method == "tools/call" and behaviour == "lists":
            send({"method": "notifications/tools/list_changed"})
            text(request_id, f"{params['name']} was called")
        elif method == "tools/call":
            FAULTS[params["name"]](request_id, params.get("arguments") or {})
        elif method == "notifications/cancelled":
            say(f"cancelled {params['requestId']}")


def main() -> None:
    """Run the requested behaviour."""
    behaviour = sys.argv[1] if len(sys.argv) > 1 else "good"
    if behaviour == "exits":
        sys.exit("cannot open the database")
    if behaviour == "flaky" and not Path(sys.argv[2]).exists():
        Path(sys.argv[2]).touch()
        sys.exit(1)
    if behaviour == "ignores-end":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour in {"mute", "deaf"}:
        time.sleep(60)
    if behaviour == "slow-start":
        time.sleep(0.5)
    if behaviour == "banner":
        write(b"Welcome to the server!\n\n")
    if behaviour == "stderr-flood":
        sys.stderr.write("noise\n" * 200_000)
    serve(behaviour)
    if behaviour == "ignores-end":
        time.sleep(60)


if __name__ == "__main__":
    main()
