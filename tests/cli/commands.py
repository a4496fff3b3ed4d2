"""Commands as a user types them: what they print and their exit status.

`typed` runs one inside the process of the tests, which takes a few hundredths of a second;
`program` starts the program, which takes one and a half: for what may differ there, once of each
kind.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import structlog

from cordboard.cli import main

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from cordboard.cli import main; main()"]


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


def typed(*arguments: str, answer: str = "", **environment: str) -> Done:
    """`answer` is what the user types when asked."""
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with (
        mock.patch.object(sys, "argv", ["cordboard", *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO(answer)),
        mock.patch.dict(os.environ, environment),
        contextlib.chdir(ROOT),
        _log_left_as_it_was(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    if not isinstance(status, int):
        raise TypeError(f"the interpreter would print {status!r}")
    return Done(status, out.getvalue(), err.getvalue())


def program(*arguments: str, **environment: str) -> Done:
    done = subprocess.run(
        [*PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout
    return Done(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def user_without_a_name() -> Iterator[str]:
    """As in a container that runs as any user id; yields how the user is called in records."""
    environment = {**os.environ}
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        environment.pop(name, None)
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch("pwd.getpwuid", side_effect=KeyError("uid not found")),
    ):
        yield f"user {os.getuid()}"


@contextlib.contextmanager
def _log_left_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    loggers = [root, *(log for log in root.manager.loggerDict.values() if hasattr(log, "level"))]
    levels, handlers = [log.level for log in loggers], [*root.handlers]
    configured, configuration = structlog.is_configured(), structlog.get_config()
    yield
    for log, level in zip(loggers, levels, strict=True):
        log.setLevel(level)
    root.handlers[:] = handlers
    if configured:
        structlog.configure(**configuration)
    else:
        structlog.reset_defaults()
