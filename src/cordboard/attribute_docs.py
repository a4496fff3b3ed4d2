"""The string below an attribute of a class, which documents it.

Read from the source, for pages and documents alone: an engine that takes calls never needs them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import NamedTuple


class Attribute(NamedTuple):
    """One annotated attribute of a class."""

    name: str
    kind: str
    """Its annotation, as it is written."""
    text: str
    """The string below it; empty if there is none."""


def attributes_of(kind: type) -> Iterator[Attribute]:
    """Yield the annotated attributes of a class, without those of its bases. Raises `OSError`
    if there is no source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - the source of a class
    for statement, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = inspect.cleandoc(str(following.value.value))
        yield Attribute(statement.target.id, ast.unparse(statement.annotation), text)
