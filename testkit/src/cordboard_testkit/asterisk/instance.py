"""`AsteriskInstance`: one throw-away real Asterisk in its own folder, on its own loopback ports.

It boots in about a second, is killed with this process if this process dies, and removes its folder
when it stops. When the `async with` block ends by an exception the folder is kept and named.
The extensions are listed in `cordboard_testkit.asterisk.dialplan`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from cordboard.errors import KitError
from cordboard_testkit.asterisk.configuration import AsteriskConfiguration
from cordboard_testkit.asterisk.control_socket import run_command
from cordboard_testkit.asterisk.dialplan import DialplanSettings
from cordboard_testkit.asterisk.installation import find_asterisk
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port, free_port_range
from cordboard_testkit.patience import PATIENCE

_BOOT_POLL = 0.02  # seconds between two checks of a booting Asterisk
_RTP_PORTS = 200  # a call through ExternalMedia RTP takes 4

log = structlog.get_logger()


class AsteriskInstance:
    """A real Asterisk for one test or one session of tests.

    `dialplan` and `pjsip` are text appended to `extensions.conf` and `pjsip.conf`, `modules` lines
    appended to `modules.conf`, `files` further configuration files (name to text, e.g.
    `queues.conf`). `phones` maps a number to the SIP address of a phone that answers it.
    """

    host = "127.0.0.1"
    ari_user = "cordboard"
    ari_password = "test-ari-password"  # noqa: S105 - loopback only, dies with the test
    ari_password_hash = "$6$rounds=1000$cordboardtestkit$Dc71X7MKjsT5eMe/tIZ37t5Ugj4un3nstcqVFjiU2.mMPCRTZ3oY4Tmr.kqvoUFFDik.ZP.OYsqFEI.aek3j70"  # noqa: S105, E501 - as above
    """Hash of `ari_password`. It has 1,000 rounds, the minimum, because Asterisk computes them for
    every request, also on an open websocket (0.45 ms each; the usual 5,000 take 2.3 ms)."""

    def __init__(
        self,
        *,
        app: str = "cordboard",
        dialplan: str = "",
        pjsip: str = "",
        modules: str = "",
        audiosocket: str = "127.0.0.1:8090",
        phones: Mapping[str, tuple[str, int]] | None = None,
        files: Mapping[str, str] | None = None,
        boot_timeout: float = PATIENCE,
    ) -> None:
        self.app = app
        self.boot_seconds = 0.0
        """Duration of the last start, until ARI answered."""
        self.root = Path()
        """The instance's folder, once started."""
        self._dialplan = DialplanSettings(app=app, audiosocket=audiosocket, extra=dialplan)
        self._pjsip, self._modules = pjsip, modules
        self._phones: dict[str, tuple[str, int]] = dict(phones or {})
        self._files = dict(files or {})
        self._boot_timeout = boot_timeout
        self._configuration: AsteriskConfiguration | None = None
        self._process: asyncio.subprocess.Process | None = None

    # -- addresses ---------------------------------------------------------------------------

    @property
    def sip_port(self) -> int:
        return self._configured.sip_port

    @property
    def sip_address(self) -> tuple[str, int]:
        return self.host, self.sip_port

    def sip_uri(self, extension: str) -> str:
        """The address under which a phone calls an extension of this Asterisk."""
        return f"sip:{extension}@{self.host}:{self.sip_port}"

    @property
    def http_port(self) -> int:
        return self._configured.http_port

    @property
    def ari_url(self) -> str:
        """The base URL, for the key `asterisk.url` of the engine's file."""
        return f"http://{self.host}:{self.http_port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise KitError("Asterisk is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    # -- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Boot until ARI answers. Raises `AsteriskMissing`, or `KitError` with the log's end."""
        if self._configuration is None:
            # The control socket's path must stay below 108 bytes (sun_path): a short folder.
            self.root = Path(tempfile.mkdtemp(prefix="ast"))
            self._configuration = AsteriskConfiguration(
                root=self.root,
                installation=find_asterisk(),
                sip_port=free_port(),
                http_port=free_port(),
                rtp_ports=free_port_range(_RTP_PORTS),
                ari_user=self.ari_user,
                ari_password_hash=self.ari_password_hash,
                dialplan=self._dialplan,
                pjsip=self._pjsip,
                modules=self._modules,
                files=self._files,
            )
            self._configuration.write()
            self._configuration.write_phones(self._phones)
        await self._boot(self._configuration)

    async def stop(self, *, keep_folder: bool = False) -> None:
        """End Asterisk and remove its folder. Idempotent."""
        await self._end_process(signal.SIGTERM)
        if self._configuration is not None and not keep_folder:
            await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)
            self._configuration = None

    async def restart(self, *, graceful: bool = False) -> None:
        """End Asterisk (`kill -9`, or SIGTERM when graceful) and boot it on the same ports."""
        await self.kill(graceful=graceful)
        await self.start()

    async def kill(self, *, graceful: bool = False) -> None:
        """End Asterisk but keep folder and ports, so that `start` boots the same one again."""
        await self._end_process(signal.SIGTERM if graceful else signal.SIGKILL)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop(keep_folder=True)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            log.warning("asterisk_folder_kept", folder=str(self.root), error=repr(error))
        await self.stop(keep_folder=kind is not None)

    # -- inspection --------------------------------------------------------------------------

    async def cli(self, command: str) -> str:
        """Run a command as on Asterisk's console and return its output."""
        return await run_command(self.root / "run/asterisk.ctl", command)

    async def channels(self) -> list[str]:
        """The names of all live channels, e.g. `PJSIP/caller-00000001`."""
        lines = (await self.cli("core show channels concise")).splitlines()
        return [line.split("!")[0] for line in lines if "!" in line]

    async def bridges(self) -> list[str]:
        """The ids of all live bridges."""
        lines = (await self.cli("bridge show all")).splitlines()
        return [line.split()[0] for line in lines[1:] if line.strip()]

    async def connect_phone(self, number: str, address: tuple[str, int]) -> None:
        """Make `number` (context `internal`) ring the phone at this SIP address."""
        self._phones[number] = address
        self._configured.write_phones(self._phones)
        await self.cli("module reload res_pjsip.so")
        await self.cli("dialplan reload")

    async def set_global(self, name: str, value: str) -> None:
        """Set a global dialplan variable, e.g. `AUDIOSOCKET` to the address that `bare` connects
        to."""
        await self.cli(f"dialplan set global {name} {value}")

    def log_text(self) -> str:
        """All console output of Asterisk so far."""
        return (self.root / "log/console.txt").read_text(errors="replace")

    # -- inside ------------------------------------------------------------------------------

    @property
    def _configured(self) -> AsteriskConfiguration:
        if self._configuration is None:
            raise KitError("Asterisk has not been started")
        return self._configuration

    async def _boot(self, configuration: AsteriskConfiguration) -> None:
        started = time.monotonic()
        launcher = configuration.installation.launcher
        self._process = await start_child(
            [str(launcher), "-C", str(configuration.etc / "asterisk.conf"), "-f"],
            folder=self.root,
            output=self.root / "log/console.txt",
        )
        try:
            async with asyncio.timeout(self._boot_timeout):
                while not await self._is_up():  # noqa: ASYNC110 - a process gives no event
                    await asyncio.sleep(_BOOT_POLL)
        except TimeoutError:
            raise KitError(f"Asterisk did not boot in time:\n{self.log_text()[-2000:]}") from None
        self.boot_seconds = time.monotonic() - started

    async def _is_up(self) -> bool:
        if self._process is not None and self._process.returncode is not None:
            code = self._process.returncode
            raise KitError(f"Asterisk ended with {code} at start:\n{self.log_text()[-2000:]}")
        with contextlib.suppress(KitError):
            booted = await self.cli("core waitfullybooted")
            return "fully booted" in booted and await self._ari_answers()
        return False

    async def _ari_answers(self) -> bool:
        credentials = base64.b64encode(f"{self.ari_user}:{self.ari_password}".encode()).decode()
        try:
            reader, writer = await asyncio.open_connection(self.host, self.http_port)
        except OSError:
            return False
        try:
            writer.write(
                b"GET /ari/asterisk/ping HTTP/1.0\r\n"
                + f"Host: {self.host}\r\nAuthorization: Basic {credentials}\r\n\r\n".encode()
            )
            return b" 200 " in await reader.readline()
        except OSError:
            return False
        finally:
            writer.close()

    async def _end_process(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            await asyncio.wait_for(process.wait(), 10.0)
        except TimeoutError:
            process.kill()
            await process.wait()
        self._process = None
