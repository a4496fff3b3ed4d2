"""Plain English in docstrings and comments: the phrases that CONTRIBUTING.md asks to avoid."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCSTRING = re.compile(
    r"^(What|Who|Whoever|Whatever|Whether|Until when|From when)\b(?![^.?!]*\?)"
    r"|\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b"
    r"|\b(is|are|was|were|been|being) told (?!apart|again)"
)
"""A definition starts with a noun or a verb; a sentence has a subject that can be named."""
COMMENT = re.compile(
    r"\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b|\b(is|are|was|were) told (?!apart|again)"
)


def _texts(path: Path) -> Iterator[tuple[int, re.Pattern[str], str]]:
    """The docstrings (of attributes too) and comments of a file, with their lines."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield each.lineno, DOCSTRING, text.strip()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], COMMENT, token.string


@pytest.mark.parametrize("folder", ["src/cordboard", "testkit/src"])
def test_docstrings_and_comments_are_plain(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, rule, text in _texts(path)
        if (match := rule.search(text))
    ]
    assert found == []
