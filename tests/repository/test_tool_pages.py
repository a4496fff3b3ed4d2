"""The YAML on the pages about tools can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cordboard.config.load import read

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (DOCS / "tools.md", *sorted(DOCS.glob("tools/*.md")), DOCS / "call-phases.md")
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
]


class AnyVariable(dict[str, str]):
    """An environment in which everything is set."""

    def __missing__(self, name: str) -> str:
        return f"value-of-{name}"

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_is_in_order(block: str) -> None:
    document = YAML(typ="safe").load(block)
    text = block if "contexts" in document else f"{block}\ncontexts: {{demo: {{}}}}\n"
    loaded = read(text, ROOT / "config" / "example.yaml", AnyVariable())
    own = ("/opt/", "where the engine runs")
    missing = [p for p in loaded.problems if not any(words in p.message for words in own)]
    assert missing == [], "only programs and modules of the reader's own are not there"


def test_the_verification_that_is_shown_verifies() -> None:
    from cordboard.tools.http.request import signature_headers

    text = (DOCS / "tools" / "http.md").read_text()
    (code,) = [c for c in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "hmac" in c]
    names: dict[str, Any] = {}
    exec(code, names)
    sent = signature_headers("a shared secret", names["time"].time(), b"{}")
    assert names["is_genuine"]("a shared secret", sent, b"{}")
    assert not names["is_genuine"]("a shared secret", sent, b"{} ")
    assert not names["is_genuine"]("another secret", sent, b"{}")
