"""`scripts/image` reads Dockerfiles, and refuses what it would not do as docker does."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    loader = SourceFileLoader("image_tool", str(ROOT / "scripts" / "image"))
    spec = importlib.util.spec_from_loader("image_tool", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["image_tool"] = module  # dataclasses look themselves up
    loader.exec_module(module)
    return module


def test_lines_are_joined_and_comments_left_out(tool: ModuleType) -> None:
    text = '# one\nFROM a AS b\nRUN x \\\n # why\n && y\n\nCMD ["z", "1"]\n'
    assert list(tool.instructions(text)) == [
        ("FROM", "a AS b"),
        ("RUN", "x   && y"),
        ("CMD", '["z", "1"]'),
    ]


def test_both_forms_of_a_command(tool: ModuleType) -> None:
    assert tool.words('["a", "b c"]') == ["a", "b c"]
    assert tool.words("a 'b c'") == ["/bin/sh", "-c", "a 'b c'"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ADD a b", "ADD is not known here"),
        ("FROM alpine:3", "FROM alpine:3: scripts/image knows only python"),
        ("COPY secrets/ x/", r"COPY secrets/: \.dockerignore keeps it out"),
    ],
)
def test_what_it_does_not_know_is_refused(
    tool: ModuleType, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "Dockerfile").write_text(text)
    (tmp_path / ".dockerignore").write_text("*\n!src/\n")
    (tmp_path / "secrets").mkdir()
    with pytest.raises(tool.ImageError, match=complaint):
        tool.Build(tmp_path).run()


def test_a_result_is_named_by_all_that_went_into_it(tool: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    before = tool._contents(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("x")
    assert tool._contents(folder) == before
    (folder / "a.py").write_text("2")
    assert tool._contents(folder) != before
