"""An MCP server over stdio that says its password wherever it can. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PASSWORD = os.environ["CRM_PASSWORD"]
TOOLS = ("works", "fails", "refuses", "mangles", "babbles", "dies")


def send(message: dict[str, Any]) -> None:
    line(json.dumps({"jsonrpc": "2.0", **message}))


def line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def call(number: Any, tool: str) -> None:
    content = [{"type": "text", "text": f"cannot log in with {PASSWORD} at the office"}]
    match tool:
        case "works":
            found = {"trace": os.environ.get("SEEN", ""), "sky": "blue"}
            send({"id": number, "result": {"content": [], "structuredContent": found}})
        case "fails":
            send({"id": number, "result": {"content": content, "isError": True}})
        case "refuses":
            # Where an error is cut, the cut goes through the password.
            words = "bad login " + "x" * 246 + PASSWORD
            send({"id": number, "error": {"code": -32000, "message": words}})
        case "mangles":
            send({"id": number, "result": {"content": PASSWORD}})
        case "babbles":
            line(f"DEBUG logging in with {PASSWORD}")
            line("x" * 190 + PASSWORD)
            line(f'{{"jsonrpc": "2.0", "id": "x", "oops": "{PASSWORD}"')
            wrong = {"level": PASSWORD, "data": PASSWORD, "progressToken": {"a": PASSWORD}}
            for method in ("notifications/message", "notifications/progress", "notifications/none"):
                send({"method": method, "params": wrong})
            send({"id": 99, "result": {"token": PASSWORD}})
            send({"id": number, "result": {"content": [{"type": "text", "text": "Done."}]}})
        case "dies":
            say(f"fatal: {PASSWORD} was not accepted")
            sys.exit(3)


def main() -> None:
    say(f"starting with password={PASSWORD}")
    line(f"Welcome! Your password is {PASSWORD}.")
    for text in sys.stdin:
        message = json.loads(text)
        number, method = message.get("id"), message["method"]
        if method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "leaky", "version": "1"},
                "instructions": f"Log in with {PASSWORD}",
            }
            send({"id": number, "result": result})
        elif method == "tools/list":
            schema = {"type": "object"}
            tools = [{"name": name, "description": name, "inputSchema": schema} for name in TOOLS]
            send({"id": number, "result": {"tools": tools}})
        elif method == "tools/call":
            trace = message["params"].get("_meta", {}).get("traceparent", "")
            os.environ["SEEN"] = trace
            call(number, message["params"]["name"])


if __name__ == "__main__":
    main()
