"""The build hook of the wheel: no package is made with a missing or an old interface."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
HASH = """source <(sed -n '/^sources_hash() {/,/^}/p' "$1"); sources_hash"""


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    path = ROOT / "scripts" / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One whose interface is built."""
    for name in ("src/app/a.tsx", "src/B.ts", "public/icon.svg", "index.html", "biome.json"):
        file = tmp_path / "admin-ui" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    (tmp_path / "admin-ui" / "node_modules").symlink_to(tmp_path)
    stamp = tmp_path / "src/cordboard/admin/assets/sources.sha256"
    stamp.parent.mkdir(parents=True)
    command = ["bash", "-c", HASH, "-", ROOT / "scripts" / "install-admin-ui"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    stamp.write_text(made.stdout)
    return tmp_path


def initialize(hook: ModuleType, checkout: Path, version: str = "standard") -> None:
    hook.AdminUiHook(str(checkout), {}, None, None, "", "wheel").initialize(version, {})


def test_a_built_interface_is_taken_and_an_older_one_refused(
    hook: ModuleType, checkout: Path
) -> None:
    initialize(hook, checkout)
    (checkout / "admin-ui" / "biome.json").write_text("of the linter alone")
    initialize(hook, checkout)
    (checkout / "admin-ui" / "src" / "new.ts").write_text("")
    with pytest.raises(RuntimeError, match="is older than its sources: run make admin-ui"):
        initialize(hook, checkout)
    initialize(hook, checkout, "editable")


def test_without_an_interface_a_wheel_must_be_meant_so(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="is not built: run make admin-ui, or set CORDBOARD_WI"):
        initialize(hook, tmp_path)
    initialize(hook, tmp_path, "editable")
    monkeypatch.setenv("CORDBOARD_WITHOUT_ADMIN_UI", "1")
    initialize(hook, tmp_path)
