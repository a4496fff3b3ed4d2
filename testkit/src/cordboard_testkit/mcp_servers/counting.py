"""An MCP server over stdio with one tool that changes the world. Standard library only, no SDK.

    python counting.py FILE [SECONDS]

Each call of `order` appends its arguments to FILE as a line of JSON, before anything else, and is
answered SECONDS later (default 0). The server ends with its input, as when its engine is killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TOOL = {
    "name": "order",
    "description": "Orders one bicycle.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": True},
}


def answer(request_id: Any, result: dict[str, Any]) -> None:
    """Answer a request."""
    line = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def order(arguments: dict[str, Any], path: str) -> None:
    """Count one order, so that it survives a kill of this process."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, json.dumps(arguments).encode() + b"\n")
    os.close(file)


def main() -> None:
    """Answer until the input ends."""
    path, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    for line in sys.stdin:
        message = json.loads(line)
        request_id, method = message.get("id"), message.get("method")
        if method == "initialize":
            version = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            answer(request_id, {**version, "serverInfo": {"name": "counting", "version": "1"}})
        elif method == "tools/list":
            answer(request_id, {"tools": [TOOL]})
        elif method == "tools/call":
            order(message["params"].get("arguments") or {}, path)
            time.sleep(seconds)
            answer(request_id, {"content": [{"type": "text", "text": "It is ordered."}]})
        elif request_id is not None:
            error = {"code": -32601, "message": "Method not found"}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))
            sys.stdout.write("\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
