"""The table of what was tried with which provider is made of what the tests have written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "provider_matrix"
RESULTS = ROOT / "docs" / "provider-matrix.json"
PAGE = ROOT / "docs" / "providers.md"


def written(results: Path, page: Path) -> str:
    subprocess.run([sys.executable, SCRIPT, results, page], check=True, timeout=300)
    return page.read_text()


def test_the_page_has_the_table_of_the_committed_results(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    assert written(RESULTS, page) == PAGE.read_text(), "run scripts/provider_matrix"


def test_the_committed_results_are_of_the_behaviours_that_are_tested() -> None:
    tests = (ROOT / "tests" / "whole_calls" / "test_providers.py").read_text()
    titles = re.findall(r'await for_each\(\s*"([^"]+)"', tests)
    assert titles
    assert list(json.loads(RESULTS.read_text())) == titles, "run make matrix"


def test_what_a_failure_says_cannot_break_the_table(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text("before\n<!-- matrix:begin -->\nold\n<!-- matrix:end -->\nafter\n")
    row = {"local": "no connection to drop", "other": "AssertionError: a|b <c>\nd", "hybrid": "yes"}
    results.write_text(json.dumps({"greeting": row, "transfer": {"local": "yes"}}))
    assert written(results, page) == (
        "before\n<!-- matrix:begin -->\n"
        "| | `hybrid` | `local` | `other` |\n"
        "|---|---|---|---|\n"
        "| greeting | yes | no connection to drop | **no**: AssertionError: a\\|b &lt;c> d |\n"
        "| transfer | not run yet | yes | not run yet |\n"
        "<!-- matrix:end -->\nafter\n"
    )
