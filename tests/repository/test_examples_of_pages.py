"""The YAML that the pages show can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cordboard.config.load import read

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)


BLOCKS = [*blocks("mcp.md"), *blocks("outbound.md"), *blocks("key-menus.md")]


class AnyVariable(dict[str, str]):
    """An environment in which everything is set."""

    def __missing__(self, name: str) -> str:
        return f"value-of-{name}"

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_of_a_page_is_in_order(block: str) -> None:
    document = YAML(typ="safe").load(block)
    text = block if "contexts" in document else f"{block}\ncontexts: {{demo: {{}}}}\n"
    loaded = read(text, ROOT / "config" / "example.yaml", AnyVariable())
    missing = [problem for problem in loaded.problems if "/opt/" not in problem.message]
    assert missing == [], "only the programs are not there"


@pytest.mark.parametrize(
    "block", [block for page in ("when-agents-fail.md", "money.md") for block in blocks(page)]
)
def test_an_example_of_failure_and_money_is_in_order(block: str) -> None:
    document = YAML(typ="safe").load(block)
    text = block if "contexts" in document else f"{block}\ncontexts: {{demo: {{}}}}\n"
    assert read(text, ROOT / "config" / "example.yaml", AnyVariable()).problems == ()


def test_the_mcp_page_has_examples() -> None:
    assert len(BLOCKS) >= 4


def test_the_examples_in_the_comments_of_the_shipped_file_are_in_order() -> None:
    text = (ROOT / "config" / "ai-agent.yaml").read_text()
    text = re.sub(r"^( *)# (?=(?:  )*[a-z_]+:)", r"\1", text, flags=re.M)
    config = read(text, ROOT / "config" / "ai-agent.yaml", AnyVariable()).config
    assert config.admin.token is not None
    assert config.asterisk is not None
    assert config.mcp.servers["crm"].auth is not None
