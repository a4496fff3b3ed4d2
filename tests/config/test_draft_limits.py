"""The limits of drafts: whatever they are, a draft within them takes nothing out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.draft_limits import FREE, beyond_a_draft
from cordboard.config.yaml_document import KeyPath, parse

KEYS = st.sampled_from(["contexts", "routes", "mcp", "tools", "demo", "prompt", "pre_call", "x"])
TEXTS = st.sampled_from(["plain", "${A}", "with ${B} in it", "$${A}", "«secret:1»", "$5", "$"])
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        TEXTS | st.integers(0, 2) | st.booleans() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def beyond(draft: dict[str, Any], in_force: dict[str, Any]) -> list[str]:
    text = json.dumps(draft or {"contexts": {}}, ensure_ascii=False)
    return [problem.key for problem in beyond_a_draft(parse(text, "a.yaml"), in_force)]


def values(tree: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(tree, str):
        yield path, tree
    items: Any = tree.items() if isinstance(tree, dict) else ()
    for key, item in enumerate(tree) if isinstance(tree, list) else items:
        yield from values(item, (*path, key))


@given(TREES, TREES)
def test_a_draft_within_the_limits_has_no_value_that_is_not_in_force_at_that_place(
    draft: dict[str, Any], in_force: dict[str, Any]
) -> None:
    if beyond(draft, in_force):
        return
    known = dict(values(in_force))
    for path, text in values(draft):
        if "${" in text.replace("$$", "") or "«secret:" in text:
            assert known.get(path) == text
    fixed = [{key: tree[key] for key in tree if key not in FREE} for tree in (draft, in_force)]
    assert json.dumps(fixed[0], sort_keys=True) == json.dumps(fixed[1], sort_keys=True)


@given(TREES)
def test_the_text_in_force_is_within_them_itself(tree: dict[str, Any]) -> None:
    assert beyond(tree, tree or {"contexts": {}}) == []


@pytest.mark.parametrize(
    ("context", "key"),
    [
        ({"prompt": "Ask ${SHOP}.", "greeting": "New."}, None),
        ({"prompt": "Ask ${SHOP}!"}, "contexts.demo.prompt"),
        ({"prompt": "It costs $${5}."}, None),
        ({"prompt": "$$${SHOP}"}, "contexts.demo.prompt"),
        ({"prompt": "$$$${SHOP}"}, None),
        ({"pre_call": [{"tool": "other", "arguments": {"a": "${K}"}}]}, "contexts.demo.pre_call"),
        ({"pre_call": []}, None),
    ],
)
def test_parts_with_a_reference_stay_as_they_are(context: dict[str, Any], key: str | None) -> None:
    before = {
        "prompt": "Ask ${SHOP}.",
        "pre_call": [{"tool": "look", "arguments": {"a": "${K}"}}],
    }
    found = beyond({"contexts": {"demo": context}}, {"contexts": {"demo": before}})
    assert [each.startswith(key) for each in found] == [True] if key else found == []
