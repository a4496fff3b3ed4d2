"""A process that checks configurations, apart from the engine's.

Parsing and validation hold the interpreter: beside 100 calls, a person who checks 2,000 lines every
second in a thread of the engine made one frame of 500 late. The process starts with the first
request and ends after a while without one. It has no more rights than the engine.

    engine ──pickles by a socket pair: a function, its arguments──▶ this process ──▶ its result
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from cordboard.config.schema import Config
from cordboard.config.versions import Versions
from cordboard.config.workspace import Workspace
from cordboard.errors import RequestRefused

IDLE_SECONDS = 300.0
"""The process ends after so long without a request."""
LONGEST_SECONDS = 30.0
"""A request that takes longer is given up, and the process with it."""
_STARTED_BY = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "TMPDIR")
"""The variables that the process itself gets. Those that fill the file come with each request."""
_PROGRAM = f"from {__name__} import main; main()"
_NICE = 5

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file of an engine, and the folder of its versions."""

    path: Path
    versions: Path

    def workspace(self) -> Workspace:
        """Return a workspace of it."""
        return Workspace(self.path, {}, Versions(self.versions, self.path))


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts that a request works with."""

    workspace: Workspace
    running: Config
    """The configuration in force."""
    environ: Mapping[str, str]
    """The values for `${NAME}`."""


class ConfigProcess:
    """The engine's side. For several threads; requests are answered one after the other."""

    def __init__(self, file: ConfigFile, *, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._file = file
        self.longest_seconds = longest_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._closed = False
        self._known: Config | None = None
        """The configuration in force that the process has."""

    def run(
        self,
        running: Config,
        environ: Mapping[str, str],
        work: Callable[Concatenate[Desk, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Return what a function of a module returns there, or raise what it raises. Blocks. Raises
        `RequestRefused` 503 if it takes too long, or if the process ends twice."""
        with self._lock:
            for _ in range(2):  # the process may have ended for want of requests
                connection = self._connection or self._start()
                if self._closed:  # asked after the start: `close` kills what it finds
                    break
                news = None if running is self._known else running
                try:
                    connection.send((news, dict(environ), work, args, kwargs))
                    self._known = running
                    if not connection.poll(self.longest_seconds):
                        break
                    is_result, answer = connection.recv()
                except (EOFError, OSError):
                    self._end()
                    continue
                if is_result:
                    return answer  # type: ignore[no-any-return]  # from `work`, in the process
                raise answer
            self._end()
        message = "the process that checks configurations took too long, or ended"
        raise RequestRefused(503, "busy", message, headers={"Retry-After": "2"})

    def close(self) -> None:
        """End the process for good. Idempotent; a request at hand fails."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()  # else the lock is held as long as its request takes
        with self._lock:
            self._end()

    def _start(self) -> Connection[Any, Any]:
        ours, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # stderr is the engine's: an error of the start shows
                env={name: os.environ[name] for name in _STARTED_BY if name in os.environ},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in a terminal is for the engine
            )
        # It ends by itself when idle, and would be a zombie until the next request.
        threading.Thread(target=self._process.wait, name="config-process", daemon=True).start()
        self._connection = ours
        with contextlib.suppress(OSError):  # it has ended already, which the first request notices
            ours.send(self._file)
        return ours

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = self._known = None


def serve(connection: Connection[Any, Any]) -> None:
    """Answer requests until the engine is gone, or has not asked for a while."""
    file: ConfigFile = connection.recv()
    workspace = file.workspace()
    running: Config | None = None
    _collect()
    gc.disable()
    while connection.poll(IDLE_SECONDS):
        try:
            news, environ, work, args, kwargs = connection.recv()
        except EOFError:
            return
        running = running if news is None else news
        workspace.environ = environ
        try:
            answer = True, work(Desk(workspace, cast(Config, running), environ), *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - border of the process: the engine raises it
            error.add_note(traceback.format_exc())
            answer = False, error
        connection.send(answer)
        del answer, work, args, kwargs
        _collect()


def _collect() -> None:
    """Find the garbage between two requests, and leave out what stays: modules, the configuration
    in force. A full collection in the middle of a check took as long as the check."""
    gc.collect()
    gc.freeze()


def main() -> None:
    """Be the process."""
    os.nice(_NICE)
    with Connection(int(sys.argv[1])) as engine, contextlib.suppress(OSError):
        serve(engine)
