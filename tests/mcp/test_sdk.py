"""The MCP SDK is loaded with the first server, so that calls can be answered sooner."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import cordboard.cli.run, cordboard.runtime.engine
assert "mcp" not in sys.modules, sorted(name for name in sys.modules if "mcp" in name)
from cordboard.mcp.sdk import load_sdk
load_sdk()
assert "mcp.client.session" in sys.modules
"""


def test_the_engine_is_imported_without_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
