"""Endpoints of the engine: state, reload, check of the set-up."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field
from pydantic_core import from_json

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.pace import TRY
from cordboard.admin.services import AdminServices
from cordboard.api.administration import report_as_json
from cordboard.api.administration_view import Step
from cordboard.config.checks.surroundings import nearest
from cordboard.config.schema import Config
from cordboard.errors import RequestRefused
from cordboard.observe.log_words import without_words
from cordboard.observe.logging import KeptLog
from cordboard.telephony.scripted_caller import SOURCE

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
Holds: TypeAlias = Literal["calls", "admin"]
MOST_LINES = 200
"""Lines of the log in one answer."""
_GROWTH_DAYS = 7
_LISTED = 200
"""Files that are looked at without a pause."""


class Component(Gives):
    ready: bool
    required: bool
    detail: str


class Drain(Gives):
    draining: bool
    """True: new calls are refused with the reason `draining`, and live ones go on."""
    since: str | None
    calls_left: int


class GenerationInUse(Gives):
    """A configuration that new calls get, or that earlier calls keep to their end."""

    number: int
    version: str
    """Digest of its file; empty if its text is not kept."""
    calls: int


class Deferred(Gives):
    what: str
    until: str


class Load(Gives):
    """The event loop, which carries the sound of all calls."""

    lag_ms: float
    lag_p99_ms: float
    lag_worst_ms: float
    """Since the start."""
    times_blocked: int
    longest_blocked_ms: float
    late_frames: int
    """Rounds of frames that were sent late since the start; 50 a second."""
    skipped_frames: int
    given_up: list[str]
    """Features that are off because of the load."""


class EngineState(Gives):
    version: str
    uptime_seconds: float
    active_calls: int
    """Within the caller's scope."""
    max_calls: int
    ready: bool
    drain: Drain
    """`calls_left` is within the caller's scope."""
    components: dict[str, Component]
    load: Load | None
    """None for a scope of some contexts."""
    generations: list[GenerationInUse]
    """That of new calls first; empty for a scope of some contexts."""
    deferred: list[Deferred]
    """Changes of the file that are not in force yet."""
    details: dict[str, Any]
    """The same facts as in `/health` on the port of the probes, without the calls; empty for a
    scope of some contexts, as they count the calls of all."""


class Problem(Gives):
    file: str
    line: int | None
    key: str
    message: str
    fatal: bool
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    """Column behind the last character to mark."""


class Reloaded(Gives):
    applied: bool
    generation: int
    changed: list[str]
    deferred: list[Deferred]
    problems: list[Problem]


class Disk(Gives):
    holds: list[Holds]
    """`calls`: ledgers, recordings and the index; `admin`: accounts, versions, audit."""
    folder: str
    total_bytes: int
    free_bytes: int
    bytes_per_day: int | None
    """Mean of the last seven whole days of calls; None before there is one, and for a disk
    without calls."""
    days_left: float | None
    """Until it is full at that rate, if nothing is deleted meanwhile."""


class Disks(Gives):
    disks: list[Disk]


class SetupOf(Takes):
    freepbx: bool = False
    """Give the dialplan for FreePBX's file."""


class Setup(Gives):
    steps: list[Step]


class TestCallTo(Takes):
    context: str = Field(max_length=100)

    def facts(self) -> dict[str, Any]:
        """Return the context."""
        return {"context": self.context}


class TestCallPlaced(Gives):
    call_id: str
    says: str
    """The caller's words; empty if the engine has no offline voice for them."""


class LogAfter(Takes):
    after: int | None = Field(None, ge=0)
    """Number of the last line that the caller knows; without it, the newest lines are shown."""
    call: str = Field("", max_length=100)
    """Only the lines about this call."""
    level: LogLevel = "debug"
    """The least level."""


class Log(Gives):
    lines: list[dict[str, Any]]
    """The oldest first, as `cordboard run --log-json` writes them; without the permission
    `personal`, `...` stands for texts."""
    last: int
    """Number of the last line that was looked at: `after` of the next request."""
    lost: int
    """Lines after the known one that are not kept any more."""


async def state(ask: Ask) -> EngineState:
    """Show whether calls can be answered, and why not."""
    return state_for(ask.services, ask.who.rights)


def state_for(services: AdminServices, rights: Rights) -> EngineState:
    """Return the state of the engine as callers with these rights see it."""
    view = services.view
    components = view.readiness()
    counts, details = view.counts(), dict(view.health()) if rights.everywhere else {}
    calls = services.calls().values()
    covered = sum(rights.covers(call.context_name) for call in calls)
    for name in ("active_calls", "components", *counts):
        details.pop(name, None)
    return EngineState(
        version=counts["version"],
        uptime_seconds=counts["uptime_seconds"],
        active_calls=covered,
        max_calls=counts["max_calls"],
        ready=all(each.ready for each in components.values() if each.required),
        drain=_drain(services, covered),
        components={
            name: Component(ready=each.ready, required=each.required, detail=each.detail)
            for name, each in components.items()
        },
        load=_load(details) if details else None,
        generations=[GenerationInUse(**each) for each in details.get("generations", ())],
        deferred=[Deferred(**each) for each in details.get("deferred", ())],
        details=details,
    )


def _load(health: Mapping[str, Any]) -> Load:
    lag, audio = health["event_loop_lag_ms"], health["audio"]
    return Load(
        lag_ms=lag["latest"],
        lag_p99_ms=lag["p99"],
        lag_worst_ms=lag["worst"],
        times_blocked=lag["times_blocked"],
        longest_blocked_ms=lag["longest_blocked"],
        late_frames=audio["late_ticks"],
        skipped_frames=audio["skipped_ticks"],
        given_up=health["degradation"]["given_up"],
    )


async def reload(ask: Ask) -> Reloaded:
    """Read the configuration file again and put it into force; a bad file changes nothing."""
    return Reloaded(**report_as_json(await ask.services.operations.engine.reload()))


async def drain(ask: Ask) -> Drain:
    """Take no new calls from now on; live ones go on.

    `/ready` is not ready then, so that a load balancer sends calls elsewhere. It ends by
    `/engine/undrain`, or a restart.
    """
    ask.services.admission.begin_drain()
    return _drain(ask.services, len(ask.services.calls()))


async def undrain(ask: Ask) -> Drain:
    """Take calls again."""
    ask.services.admission.end_drain()
    return _drain(ask.services, len(ask.services.calls()))


def _drain(services: AdminServices, calls_left: int) -> Drain:
    since = services.admission.draining_since
    told = since.isoformat(timespec="milliseconds") if since is not None else None
    return Drain(draining=since is not None, since=told, calls_left=calls_left)


async def show_log(ask: Ask) -> Log:
    """Show the newest 200 lines of the engine's log, or the first 200 after a known one.

    The last 5,000 are kept, 8 MiB at most. Secrets are masked as in the written log. Without the
    permission `personal` only events, names, codes and numbers are shown: the log has words of
    calls.
    """
    log, query, personal = kept_log(ask), ask.query, ask.who.rights.may(Permission.PERSONAL)

    def shown() -> Log:
        if query.after is None:
            part = log.end(MOST_LINES, call_id=query.call, level=query.level)
        else:
            part = log.after(query.after, MOST_LINES, call_id=query.call, level=query.level)
        contents = [
            each.content if personal else without_words(each.content) for each in part.lines
        ]
        return Log(lines=[*map(from_json, contents)], last=part.last, lost=part.lost)

    return await ask.services.run(shown)


def kept_log(ask: Ask) -> KeptLog:
    """Return the end of the log. Raises `RequestRefused` 409 if this engine does not keep it."""
    if ask.services.log is None:
        raise RequestRefused(409, "no_log", "only an engine of `cordboard run` keeps its log")
    return ask.services.log


async def check_setup(ask: Ask) -> Setup:
    """Check the set-up: Asterisk, ports, voices, disk; with the lines that mend it.

    Nothing is changed. One check at a time.
    """
    return Setup(steps=await checked_setup(ask.services, freepbx=ask.query.freepbx))


async def checked_setup(services: AdminServices, *, freepbx: bool) -> list[Step]:
    """Return the checked steps. Raises `RequestRefused` 503 during another check, 409 without a
    file."""
    if services.source is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    if services.checking_setup.locked():
        headers = {"Retry-After": "2"}
        raise RequestRefused(503, "busy", "the set-up is being checked", headers=headers)
    async with services.checking_setup:
        return list(await services.setup(services.source, freepbx))


async def place_test_call(ask: Ask) -> TestCallPlaced:
    """Call a context from inside of the engine: a caller waits for the greeting, asks whether it is
    heard, waits for the answer and hangs up. Only tools that read run.

    The caller speaks in the engine's offline voice; without one it only hears the greeting. The
    call is admitted, answered and recorded like one by telephone, and marked as a test: follow it
    by its id. One at a time.
    """
    services = ask.services
    if any(call.offer.source == SOURCE for call in services.calls().values()):
        raise RequestRefused(503, "busy", "a test call runs", headers={"Retry-After": "5"})
    call_id, says = await services.place_test_call(ask.body.context)
    return TestCallPlaced(call_id=call_id, says=says)


def _context_of_test_call(ask: Ask) -> str | None:
    body: TestCallTo = ask.body
    return body.context if body.context in ask.services.config().contexts else None


async def show_disks(ask: Ask) -> Disks:
    """Show the disks of the engine's files, and when they will be full."""
    return Disks(disks=await ask.services.run(disks_of, ask.services.config()))


def disks_of(config: Config) -> list[Disk]:
    """Return the disks of the engine's files. Blocks for as long as a listing of a week's calls."""
    found: dict[int, Disk] = {}
    calls = config.calls.directory
    places: tuple[tuple[Holds, Path], ...] = ("calls", calls), ("admin", config.admin.ui.data)
    for holds, folder in places:
        try:
            path = nearest(folder)
            device, usage = path.stat().st_dev, shutil.disk_usage(path)
            growth = _bytes_per_day(calls) if holds == "calls" else None
        except (OSError, ValueError):
            continue
        if device in found:
            found[device].holds.append(holds)
            continue
        found[device] = Disk(
            holds=[holds],
            folder=str(path.absolute()),
            total_bytes=usage.total,
            free_bytes=usage.free,
            bytes_per_day=growth,
            days_left=round(usage.free / growth, 1) if growth else None,
        )
    return list(found.values())


def _bytes_per_day(directory: Path) -> int | None:
    """Return the mean size of the files of the last whole days; None on the first day."""
    today = datetime.datetime.now().astimezone().date()
    days = [today - datetime.timedelta(days=ago) for ago in range(_GROWTH_DAYS, 0, -1)]
    sizes = [_size_of(directory / day.isoformat()) for day in days]
    since = next((at for at, size in enumerate(sizes) if size), None)
    return sum(sizes) // (len(sizes) - since) if since is not None else None


def _size_of(folder: Path) -> int:
    """Return the size of the files of a day; 0 if there are none."""
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number % _LISTED == 0:
                time.sleep(0.001)  # the sound of live calls is in another thread
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                total += entry.stat(follow_symlinks=False).st_size
    return total


ENDPOINTS = (
    Endpoint(
        "GET",
        "/engine",
        may=Permission.ENGINE_READ,
        scope=Scope.NONE,
        takes=None,
        gives=EngineState,
        audit=UNRECORDED,
        does=state,
    ),
    Endpoint(
        "POST",
        "/engine/reload",
        may=Permission.ENGINE_CONTROL,
        scope=Scope.NONE,
        takes=None,
        gives=Reloaded,
        audit="engine.reload",
        does=reload,
    ),
    *(
        Endpoint(
            "POST",
            f"/engine/{does.__name__}",
            may=Permission.ENGINE_CONTROL,
            scope=Scope.NONE,
            takes=None,
            gives=Drain,
            audit=f"engine.{does.__name__}",
            does=does,
        )
        for does in (drain, undrain)
    ),
    Endpoint(
        "GET",
        "/engine/disks",
        may=Permission.ENGINE_READ,
        scope=Scope.ALL,
        takes=None,
        gives=Disks,
        audit=UNRECORDED,
        does=show_disks,
    ),
    Endpoint(
        "GET",
        "/engine/log",
        may=Permission.ENGINE_READ,
        scope=Scope.ALL,
        takes=None,
        asks=LogAfter,
        gives=Log,
        audit=UNRECORDED,
        does=show_log,
    ),
    Endpoint(
        "GET",
        "/engine/setup",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.NONE,
        takes=None,
        asks=SetupOf,
        gives=Setup,
        audit=UNRECORDED,
        does=check_setup,
    ),
    Endpoint(
        "POST",
        "/engine/setup/test-call",
        may=Permission.TRY_CALL,
        scope=_context_of_test_call,
        takes=TestCallTo,
        gives=TestCallPlaced,
        audit="engine.test_call",
        does=place_test_call,
        pace=TRY,
    ),
)
