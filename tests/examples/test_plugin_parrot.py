"""examples/plugin-parrot: built, installed into an environment of its own, and called through."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "plugin-parrot"
FILE = EXAMPLE / "ai-agent.yaml"
SCRIPT = Path(__file__).with_name("parrot_call.py")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the plug-in, and sees the locked packages."""
    folder = tmp_path_factory.mktemp("plugin")
    flags = ("--no-deps", "--no-index", "--disable-pip-version-check")
    built = run(
        *(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", *flags),
        *("--wheel-dir", folder, EXAMPLE),
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("cordboard_parrot-0.1.0-*.whl")
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "env" / "lib" / version / "site-packages"
    locked = sysconfig.get_paths()["purelib"]
    (packages / "locked.pth").write_text(f"import site; site.addsitedir({locked!r})\n")
    installed = run(sys.executable, "-m", "pip", "--python", python, "install", *flags, wheel)
    assert installed.returncode == 0, installed.stderr
    return python


def packages_of(python: Path) -> Path:
    (packages,) = python.parents[1].glob("lib/*/site-packages")
    return packages


def install_broken(python: Path, name: str, module: str, points: str) -> None:
    """A distribution 2.3.4 with that module, as an installer would have left it."""
    packages = packages_of(python)
    (packages / f"{name}.py").write_text(module)
    info = packages / f"cordboard_{name}-2.3.4.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: cordboard-{name}\nVersion: 2.3.4\n"
    )
    (info / "entry_points.txt").write_text(points)


def test_it_is_called_through_each_of_its_doors(environment: Path, tmp_path: Path) -> None:
    done = run(environment, SCRIPT, FILE, tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["call"] == {
        "said": ["Press a key.", "You pressed 5.", "That was number 7."],
        "pressed": ["5", "#"],
        "asked": [["count", "parrot_count:count"]],
        "answered": [["ok", "That was number 7."]],
        "heard_ms": 120 * (3 + 3 + 4),
    }
    assert told["samples"] == 3 * 960
    assert told["back"] == ["hello"]
    assert told["ready"]["agents"] == [True, True, ""]
    assert "plugins" not in told["ready"]


def test_check_finds_the_file_in_order_and_knows_the_settings(
    environment: Path, tmp_path: Path
) -> None:
    fine = run(environment, "-m", "cordboard", "check", "--config", FILE)
    assert (fine.returncode, "in order" in fine.stdout) == (0, True), fine.stderr
    wrong = tmp_path / "wrong.yaml"
    text = FILE.read_text().replace("pitch: 600", "pich: 600").replace("first: 7", "first: no")
    wrong.write_text(text.replace("type: parrot_voice", "type: parrot_voise"))
    refused = run(environment, "-m", "cordboard", "check", "--config", wrong)
    assert refused.returncode == 1
    assert "wrong.yaml:3: providers.bird.pich: unknown key; did you mean pitch?" in refused.stderr
    assert "wrong.yaml:4: providers.whistler.tts.type: expected one of" in refused.stderr
    assert "did you mean parrot_voice?" in refused.stderr
    assert (
        "wrong.yaml:6: tools.count.first: expected a whole number of at least 0" in refused.stderr
    )


def test_the_engine_starts_without_what_is_broken_and_says_so(
    environment: Path, tmp_path: Path
) -> None:
    install_broken(
        environment,
        "crow",
        "raise ImportError('no feathers')\n",
        "[cordboard.providers]\ncrow = crow:PROVIDERS\n[cordboard.tools]\ncrow = crow:TOOLS\n",
    )
    told = "plug-in crow of cordboard-crow 2.3.4: cannot be imported: ImportError: no feathers"
    file = tmp_path / "with-crow.yaml"
    file.write_text(
        FILE.read_text().replace("providers:\n", "providers:\n  dark: {type: crow, any: thing}\n")
        + "  other: {provider: dark}\n"
    )
    try:
        checked = run(environment, "-m", "cordboard", "check", "--config", file)
        assert checked.returncode == 0, checked.stderr
        assert f"with-crow.yaml:3: providers.dark: {told}" in checked.stderr
        done = run(environment, SCRIPT, file, tmp_path)
        assert done.returncode == 0, done.stderr
        ready = json.loads(done.stdout.splitlines()[-1])["ready"]
        assert ready["agents"] == [True, True, f"dark: {told}"]
        assert ready["plugins"] == [False, False, f"{told}; {told}"]
    finally:
        (packages_of(environment) / "cordboard_crow-2.3.4.dist-info" / "entry_points.txt").unlink()
