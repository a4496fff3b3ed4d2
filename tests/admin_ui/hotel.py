"""The hotel: a running engine with people, a history of real calls, and a telephone.

The engine is a process of its own, `cordboard run` in a folder of its own. A test of the interface
is synchronous, as Playwright is; what the engine and its callers need runs in a thread `Elsewhere`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import wave
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tests.admin_ui.site.call_everybody import LINES, SITE, write_site
from tests.history.ledgers import Told

from cordboard.accounts import passwords
from cordboard.accounts.rights import EVERYWHERE, Grant, Role, Scope
from cordboard.accounts.store import Accounts
from cordboard.calls.history import CallHistory, ledgers, read
from cordboard.history.keeper import IndexKeeper
from cordboard.history.sql_store import SqlHistoryStore
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.timeline import Samples

REPOSITORY = Path(__file__).parents[2]
PASSWORD = "plum tangible orbit 41"
PEOPLE: dict[str, tuple[str, Role, tuple[Grant, ...], Scope]] = {
    "viewer": ("vera", Role.VIEWER, (), EVERYWHERE),
    "operator": ("otto", Role.OPERATOR, (), EVERYWHERE),
    "admin": ("anna", Role.ADMIN, tuple(Grant), EVERYWHERE),
    "booker": ("bodil", Role.OPERATOR, (), ("booking",)),
}
"""Name, role, grants and scope of each person, by the word that tests use. All have PASSWORD."""

WANTED: dict[str, tuple[str, list[str] | None, list[str] | None, int | None]] = {
    "Ida Jensen": ("completed", None, None, 1),
    "Erik Holm": ("completed", ["find_room", "hangup_call"], [], 0),
    "Maja Lund": ("completed", None, ["send_invoice"], 0),
    "Otto Berg": ("transferred", None, None, 0),
    "Anna Falk": ("completed", None, [], None),
}
"""Calls of the history by the caller's name: outcome, tools, those that failed, interruptions;
None if it does not matter."""
EXTENSIONS = ["ctx-*@from-test", "nobody@from-test"]
"""Patterns of the extensions that browsers may call in a hotel with an Asterisk."""

Result = TypeVar("Result")
_CALLS = "/api/v1/calls?limit=1"


PATIENT_ENGINE = """
from cordboard.cli import main
from cordboard.observe import degradation

degradation.MUCH_LAG = degradation.LONG_WAIT = degradation.REFUSING_WAIT = 3600.0
main()
"""
"""The engine without its overload guard, which refuses calls on a busy machine: the page is not
about that."""


class Elsewhere:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="elsewhere")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result], seconds: float = PATIENCE) -> Result:
        """Wait for work that is done there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Caller:
    """Somebody who calls the hotel, in the middle of the call."""

    def __init__(self, elsewhere: Elsewhere, lines: Path, line: SimulatedCaller) -> None:
        self._elsewhere, self._lines, self._line = elsewhere, lines, line

    @property
    def external_id(self) -> str:
        """As in the ledger's `call.offered`."""
        return str(self._line.uuid)

    def say(self, text: str) -> None:
        """Say one of LINES, to its end."""
        sound = sound_of(self._lines / f"{LINES.index(text)}.wav")

        async def speak() -> None:
            self._line.say(sound)
            await self._line.said()

        self._elsewhere.run(speak())

    def wait_for_silence(self) -> None:
        """Until the agent has said something and fallen silent."""

        async def listen() -> None:
            await self._line.hear_speech(after=0.0)
            await self._line.hear_silence(1_500)

        self._elsewhere.run(listen())

    def hang_up(self) -> None:
        self._elsewhere.run(self._line.close())

    def ended(self) -> str:
        """Wait for the end of the call; `us` or `them` has hung up."""
        return self._elsewhere.run(self._line.ended()).by


@dataclass
class Hotel:
    """One running engine."""

    folder: Path
    lines: Path
    elsewhere: Elsewhere
    password: str
    """Hash of PASSWORD."""
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    audiosocket_port: int = field(default_factory=free_port)
    _process: asyncio.subprocess.Process | None = None
    _token: str = ""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "agent.yaml"

    @property
    def cookie(self) -> str:
        """Name of the session's cookie."""
        return f"cordboard-{self.port}"

    def is_test(self, ledger: str) -> bool:
        """True for a call that a person made to try the agent, such as another test has left."""
        with (self.folder / "calls" / ledger).open() as lines:
            return bool(json.loads(next(lines)).get("test"))

    def start(self) -> None:
        """Start the engine in its folder; return when it is ready, with its history."""
        self._token = self._token or self.session("viewer")
        command = (sys.executable, "-c", PATIENT_ENGINE, "run", "--config", str(self.config))
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(self.folder)}
        log = self.folder / "engine.log"
        starting = start_child(command, folder=self.folder, output=log, environment=environment)
        self._process = self.elsewhere.run(starting)
        deadline = time.monotonic() + PATIENCE
        while not (self._answers(self.http_port, "/ready") and self._answers(self.port, _CALLS)):
            assert self._process.returncode is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            self.elsewhere.run(self._process.wait())

    def session(self, role: str, *, elevated: bool = False) -> str:
        """Sign that person in without the page; return the token of the cookie."""
        with self.accounts() as accounts:
            name = PEOPLE[role][0]
            return accounts.begin_session(name, "127.0.0.1", self.password, elevated=elevated)

    @contextlib.contextmanager
    def accounts(self) -> Iterator[Accounts]:
        """The people of this hotel, as `cordboard users` sees them."""
        accounts = Accounts(self.folder / "admin")
        try:
            yield accounts
        finally:
            accounts.close()

    @contextlib.contextmanager
    def call(self) -> Iterator[Caller]:
        """Call the reception, which is greeting the caller from here on."""

        async def dial() -> SimulatedCaller:
            line = SimulatedCaller("127.0.0.1", self.audiosocket_port)
            await line.start()
            return line

        caller = Caller(self.elsewhere, self.lines, self.elsewhere.run(dial()))
        try:
            yield caller
        finally:
            caller.hang_up()

    def _answers(self, port: int, path: str) -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        request.add_header("Cookie", f"{self.cookie}={self._token}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE):
                return True
        except OSError:  # also a refusal
            return False


def build_hotel(
    folder: Path,
    history: Path,
    elsewhere: Elsewhere,
    password: str,
    bulk: int = 0,
    asterisk: AsteriskInstance | None = None,
    phone: str = "",
    cluster: str = "",
    database: str = "",
) -> Hotel:
    """Make a hotel, not started, with a copy of the history and `bulk` invented calls besides. With
    an Asterisk browsers may call the extensions that lead to the engine; `phone`: a number of it,
    the destination `anna`, from which operators take calls over. `cluster`: its section, as YAML
    on a line. `database`: the address of the index, in place of a file."""
    hotel = Hotel(folder, history / "lines", elsewhere, password)
    skipped = shutil.ignore_patterns("index.sqlite3*", "open")
    shutil.copytree(history / "calls", folder / "calls", ignore=skipped)
    versions = folder / "admin" / "versions"
    shutil.copytree(history / "admin" / "versions", versions)
    log = versions / "log.jsonl"
    log.write_text(re.sub(r'"file":"[^"]*"', f'"file":"{hotel.config}"', log.read_text()))
    for number in range(bulk):
        invented(number, bulk).write(folder / "calls")
    write_index(folder / "calls")
    changes = {
        "15000": str(hotel.http_port),
        "8090": str(hotel.audiosocket_port),
        "15001": str(hotel.port),
    }
    if asterisk is not None:
        ari = f"{{url: '{asterisk.ari_url}', password: {asterisk.ari_password}}}"
        changes["default_provider: local"] = f"default_provider: local\nasterisk: {ari}"
        changes["data: admin"] = f"data: admin, extensions: {EXTENSIONS}"
    if cluster:
        changes["default_provider: local"] = f"default_provider: local\ncluster: {cluster}"
    if database:
        changes["index: {enabled: true}"] = f"index: {{enabled: true, database: '{database}'}}"
    if phone:
        anna = f"anna: {{target: '{phone}', endpoint: PJSIP/phone-{phone}, takeover: true}}"
        changes["    destinations:\n"] = f"    destinations:\n      {anna}\n"
    write_site(folder, changes)
    with hotel.accounts() as accounts:
        for name, role, grants, scope in PEOPLE.values():
            accounts.add(name, role, grants, scope)
            accounts.use_link(accounts.reset(name), password)
    return hotel


def write_index(calls: Path) -> None:
    """Index all ledgers. An engine would be ready before it has done so."""
    keeper = IndexKeeper(calls, SqlHistoryStore(calls))
    keeper.start()
    keeper.catch_up()
    keeper.close()


def invented(number: int, count: int) -> Told:
    """One of `count` calls, all different, spread over the last thirty days."""
    age = datetime.timedelta(seconds=number * 30 * 86_400 // count)
    return Told(
        f"bulk-{number:05}",
        started=datetime.datetime.now(datetime.UTC) - age,
        number=f"+45{20_000_000 + number * 7_919 % 10_000_000}",
        name=f"Caller {number}",
        context=("reception", "booking", "weather")[number % 3],
        outcome="failed" if number % 17 == 0 else "completed",
        tools=[("find_room", "ok" if number % 5 else "error")] if number % 3 == 1 else [],
        waited=400 + number % 900,
        cost=number % 50 / 100,
    )


def hash_of_password() -> str:
    return passwords.hashed(PASSWORD)


def history_of_today() -> Path:
    """Return the folder of the history, which is made once a day, and anew when the hotel or the
    form of the ledgers changes: it takes half a minute of real calls."""
    cache = Path(os.environ.get("CORDBOARD_CACHE") or REPOSITORY / ".cache") / "admin-ui-history"
    cache.mkdir(parents=True, exist_ok=True)
    sources = sorted([*SITE.iterdir(), *(REPOSITORY / "src/cordboard/calls").rglob("*.py")])
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    key = hashlib.sha256(today.encode())
    for source in sources:
        if source.is_file():
            key.update(source.read_bytes())
    folder = cache / f"{today}-{key.hexdigest()[:12]}"
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for old in cache.glob("20*"):
                if not old.name.startswith(today):
                    shutil.rmtree(old, ignore_errors=True)
            new = cache / "new"
            try:
                for _ in range(3):  # a stall of the machine changes what is said
                    shutil.rmtree(new, ignore_errors=True)
                    new.mkdir()
                    _make_history(new)
                    if not (wrong := _wrong_in(new)):
                        break
                assert not wrong, wrong
                new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return folder


def _wrong_in(folder: Path) -> list[str]:
    """Return what is not as the tests need it in a history, which all of them share."""
    calls = {call.caller_name: call for call in map(read, ledgers(folder / "calls"))}
    wrong = []
    for name, wanted in WANTED.items():
        call = calls.get(name, CallHistory())
        cut = sum(turn.interrupted is not None for turn in call.turns.values())
        failed = [tool.name for tool in call.tools if tool.status != "ok"]
        found = (call.outcome, [tool.name for tool in call.tools], failed, cut)
        if any(one is not None and one != other for one, other in zip(wanted, found, strict=True)):
            wrong.append(f"{name}: {found}")
    return wrong


def _make_history(folder: Path) -> None:
    environment = dict(os.environ)
    if "CORDBOARD_ASTERISK" not in environment:
        command = [REPOSITORY / "scripts" / "install-asterisk", "--print"]
        asterisk = subprocess.run(command, capture_output=True, text=True, check=True)
        environment["CORDBOARD_ASTERISK"] = asterisk.stdout.strip()
    made = subprocess.run(
        [sys.executable, SITE / "call_everybody.py", folder.resolve()],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert made.returncode == 0, f"the history could not be made:\n{made.stdout[-4000:]}"


def sound_of(path: Path) -> Samples:
    """The samples of a file of 8 kHz."""
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.int16)
