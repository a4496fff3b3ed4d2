"""Writes what the servers of this folder list as tools into `tests/tools/listed_tools.json`.

    python -m tests.mcp_real.record_listings

To be run when their locked versions change (`scripts/install-mcp-servers` first). The JSON-RPC
lines are written and read here, so that no library stands between a server and the record.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .installed import ROOT, installed
from .test_real_servers import servers

RECORD = ROOT / "tests/tools/listed_tools.json"
CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "cordboard-tests", "version": "1"},
}


class Asker:
    """One server over stdio."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last = 0

    def tell(self, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._last += 1
        self.tell(id=self._last, method=method, params=params)
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._last and "method" not in message:
                answer: dict[str, Any] = message["result"]
                return answer
        raise SystemExit(f"{method}: the server ended")


def listing(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Name, version and tools of one server."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    ) as process:
        try:
            asker = Asker(process)
            about = asker.ask("initialize", CLIENT)["serverInfo"]
            asker.tell(method="notifications/initialized")
            tools: list[dict[str, Any]] = []
            cursor: dict[str, Any] = {}
            while True:
                page = asker.ask("tools/list", cursor)
                tools += page["tools"]
                if not page.get("nextCursor"):
                    break
                cursor = {"cursor": page["nextCursor"]}
        finally:
            process.kill()
    kept = ("name", "description", "inputSchema")
    return {
        "server": about["name"],
        "version": about["version"],
        "tools": [{key: tool[key] for key in kept if key in tool} for tool in tools],
    }


def main() -> None:
    """Ask all of them, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = [
            listing(server["command"], server.get("env", {}))
            for server in servers(installed(), Path(folder)).values()
        ]
    text = json.dumps(recorded, indent=1, ensure_ascii=False).replace(folder, "/srv/example")
    RECORD.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
