"""The YAML on the pages about providers, and the example with one context for each of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cordboard.chat.tool_trial import payload_limits
from cordboard.config.chosen import Chosen
from cordboard.config.load import LoadedConfig, read
from cordboard.config.plugins import installed
from cordboard.config.providers import BRAINS, RECOGNISERS, VOICES, PipelineProvider, paid_parts
from cordboard.config.schema import AGENTS, chain_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = "\n".join(
    path.read_text() for path in (DOCS / "providers.md", *sorted(DOCS.glob("providers/*.md")))
)
"""The page of providers, with those of single ones."""
FURTHER_PAGES = [(DOCS / name).read_text() for name in ("cloud-parts.md", "language-models.md")]
README = (ROOT / "README.md").read_text()
EXAMPLE = ROOT / "examples" / "providers" / "ai-agent.yaml"


class AnyVariable(dict[str, str]):
    """An environment in which everything is set."""

    def __missing__(self, name: str) -> str:
        return f"value-of-{name}"

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)


ALL_BLOCKS = [
    *(block for page in (PAGE, *FURTHER_PAGES) for block in blocks(page)),
    *(block for block in blocks(README) if "providers:" in block),
]


def types_of(chosen: Chosen) -> set[str]:
    """The `type`s that a section may have."""
    return set(chosen.sections(installed()))


def example(environ: dict[str, str]) -> LoadedConfig:
    return read(EXAMPLE.read_text(), EXAMPLE, environ)


@pytest.mark.parametrize("block", ALL_BLOCKS)
def test_an_example_of_a_page_is_in_order(block: str) -> None:
    document = YAML(typ="safe").load(block)
    text = block if "contexts" in document else f"{block}\ncontexts: {{demo: {{}}}}\n"
    problems = read(text, ROOT / "config" / "example.yaml", AnyVariable()).problems
    assert [told for told in problems if "there is no file" not in told.message] == []


def test_the_page_has_an_example_of_every_realtime_agent_and_tells_of_every_part() -> None:
    for kind in types_of(AGENTS) - {"pipeline"}:
        assert any(f"type: {kind}" in block for block in blocks(PAGE)), kind
    for part in (RECOGNISERS, BRAINS, VOICES):
        for kind in types_of(part):
            assert f"`{kind}`" in PAGE, kind


def test_the_example_is_in_order_when_all_keys_are_there() -> None:
    assert example(AnyVariable()).problems == ()


def test_without_any_key_the_example_runs_offline_and_only_warns() -> None:
    loaded = example({})
    assert loaded.problems
    assert all("no key: set " in problem.message for problem in loaded.problems)
    config = loaded.config
    assert config.default_context == "offline"
    provider = config.providers[config.contexts["offline"].provider or ""]
    assert list(paid_parts(provider)) == []


def test_the_example_has_a_context_for_each_provider_and_all_can_fall_back() -> None:
    config = example(AnyVariable()).config
    assert {str(provider.type) for provider in config.providers.values()} == types_of(AGENTS)
    used = {context.provider for context in config.contexts.values()}
    assert used == set(config.providers)
    assert all(chain_of(config, context)[-1] == "local" for context in config.contexts.values())
    brains = {p.brain.type for p in config.providers.values() if isinstance(p, PipelineProvider)}
    assert {"openai_chat", "openai_responses", "anthropic", "rules"} <= brains


def test_the_page_about_tools_has_the_payload_limits_of_every_agent_and_model() -> None:
    page = (ROOT / "docs" / "tools" / "desk.md").read_text()
    _, _, table = page.partition("| agent | bytes | depth | entries | characters of a text |")
    told: dict[str, tuple[int, ...]] = {}
    for line in table.split("\n\n")[0].splitlines()[2:]:
        names, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        limits = tuple(int(number.replace(",", "")) for number in numbers)
        told |= dict.fromkeys(re.findall("`([a-z_]+)`", names), limits)
    assert told == {
        name: (each.max_bytes, each.max_depth, each.max_items, each.max_text)
        for name, each in payload_limits(None).items()
    }
