"""The peers' own environment: `python -m bench.peers.install` makes it, `--lock` locks it anew.

It lies in the cache folder (`CORDBOARD_CACHE`, default `.cache`), some 750 MB, and is made once for
each content of `requirements.txt`: exact versions and sha256 hashes, no address. Wheels only, and
nothing beyond the file: one package of the closure (docopt, of num2words' command line) has no
wheel and is left out. The licence of LiveKit's voice activity model allows its use within LiveKit
Agents only; that is where it is used.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "requirements.txt"
_ROOT = HERE.parents[1]
_LEFT_OUT = "docopt"


def interpreter() -> Path:
    """Path of the environment's Python, which may not exist yet."""
    cache = Path(os.environ.get("CORDBOARD_CACHE", _ROOT / ".cache")).expanduser()
    return cache / "peers" / "bin" / "python"


def is_installed() -> bool:
    stamp = _stamp()
    return stamp.is_file() and stamp.read_text() == _content()


def install() -> Path:
    """Make the environment if it is not there. Raises `OSError`."""
    python = interpreter()
    if is_installed():
        return python
    folder = python.parents[1]
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    pip += ["--progress-bar=off", "--quiet", "--no-deps", "--require-hashes"]
    _run([*pip, "--only-binary=:all:", f"--requirement={LOCK}"])
    _stamp().write_text(_content())
    return python


def lock() -> None:
    """Write `requirements.txt` anew from `requirements.in`. Needs uv (`UV` names it)."""
    command = [os.environ.get("UV", "uv"), "pip", "compile", "--quiet", "--universal"]
    command += ["--python-version=3.11", "--fork-strategy=fewest", "--generate-hashes"]
    command += ["--no-annotate", "--no-emit-index-url", f"--no-emit-package={_LEFT_OUT}"]
    command += ["--custom-compile-command=python -m bench.peers.install --lock"]
    _run([*command, f"--output-file={LOCK}", str(HERE / "requirements.in")])


def _stamp() -> Path:
    return interpreter().parents[1] / "installed"


def _content() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command[:4])} ... failed:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--lock"]:
        lock()
    else:
        print(install())
