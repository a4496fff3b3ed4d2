"""A program for `test_publish`: publishes in a child process that is stopped at each step.

    python publish_killed.py FOLDER kill      the process is killed before line N of the code
    python publish_killed.py FOLDER disk      no file may grow beyond N bytes

Prints for each N a JSON line: the file's text, its mode, the versions' texts, the files beside it,
and the error.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import sys
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from cordboard import private_files
from cordboard.config import files, publish, versions
from cordboard.config.plugins import installed
from cordboard.errors import CordboardError, NotThere

OLD = b"contexts: {demo: {greeting: old}}\n"
PLUGINS = installed()
NEW = "contexts: {demo: {greeting: new, prompt: This is much longer than before.}}\n"
CODE = {module.__file__ for module in (publish, versions, private_files, files)}


def prepare(folder: Path) -> tuple[Path, versions.Versions]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "ai-agent.yaml"
    path.write_bytes(OLD)
    path.chmod(0o640)
    return path, versions.Versions(folder / "admin" / "versions", path)


def publish_once(path: Path, store: versions.Versions) -> None:
    author = versions.Author("anna", "why", "page")
    publish.publish(NEW, files.digest_of(OLD), author, path, store, {}, PLUGINS)


def killer(step: int) -> Any:
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in CODE:
            return None
        if event == "line":
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def child(how: str, number: int, path: Path, store: versions.Versions, told: int) -> None:
    if how == "kill":
        sys.settrace(killer(number))
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
    try:
        publish_once(path, store)
    except CordboardError as error:
        os.write(told, str(error).encode())


def report(folder: Path, path: Path, store: versions.Versions) -> dict[str, Any]:
    texts = []
    for version in store.history():
        try:
            texts.append(store.content(version.digest).decode())
        except NotThere as error:
            texts.append(f"missing: {error}")
    return {
        "file": path.read_text(),
        "mode": stat.S_IMODE(path.stat().st_mode),
        "versions": texts,
        "beside": sorted(name.name for name in folder.iterdir()),
    }


def main(folder: Path, how: str) -> None:
    for number in range(1, 2_000) if how == "kill" else range(0, 700, 5):
        path, store = prepare(folder)
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(how, number, path, store, tell)
            os._exit(0)
        os.close(tell)
        error = os.read(told, 4_096).decode()
        os.close(told)
        status = os.waitpid(pid, 0)[1]
        found = report(folder, path, store) | {"error": error}
        if how == "kill":  # the next engine or command goes on from there
            if path.read_bytes() == OLD:
                publish_once(path, store)
            found["after"] = report(folder, path, store)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()  # else each child has it again
        if how == "kill" and os.WIFEXITED(status):
            return


if __name__ == "__main__":
    # Neither concerns a killed process, and they take most of the time.
    with mock.patch.object(publish, "read"), mock.patch("os.fsync"):
        main(Path(sys.argv[1]), sys.argv[2])
