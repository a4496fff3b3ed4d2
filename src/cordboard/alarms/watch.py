"""Watches the rules of an engine: judges them, keeps their states, and hands out notices.

Every ten seconds the event loop takes the live state, a thread reads calls and disk and judges, and
the loop moves the states: microseconds. States and pending notices are in a file, so that a restart
neither tells again nor forgets. They are kept over a reload as long as a rule has its name. Each
look also drops calls that were erased since the last one, by whichever process.
"""

from __future__ import annotations

import asyncio
import datetime
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import structlog

from cordboard import private_files
from cordboard.alarms.notices import KEEP_SECONDS, WAYS, Notice, Notifier
from cordboard.alarms.readings import Calls, Live, Moment, Reading, begin_of, read
from cordboard.alarms.states import Stage, State, step
from cordboard.config.alarms import DISK, AlarmRule
from cordboard.config.schema import Config
from cordboard.errors import NotThere
from cordboard.history.erased import ErasedCalls

log = structlog.get_logger()

INTERVAL = 10.0
"""Seconds between two looks."""
READ_SECONDS = 5.0
"""Longest wait for the calls; then they count as not known."""
CLOCK_SET = 30.0
"""Seconds by which the time of day and the monotonic clock may differ between two looks."""
MOST_PENDING = 500
_LARGEST = 16_000_000
"""Bytes of the file."""
_QUIET, _UNREAD = State(), Reading(None)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The words of a person who has seen a firing alarm; it ends with the alarm."""

    who: str
    note: str
    at: str
    """ISO 8601."""
    until: str = ""
    """No reminder before this time, in ISO 8601; empty: none at all."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One rule and its state."""

    name: str
    rule: AlarmRule
    state: State = _QUIET
    reading: Reading = _UNREAD
    """The last one; while it is red and unknown, the last known one."""
    since: str = ""
    """Time when it turned red, in ISO 8601; empty if it is not red."""
    told_at: float = 0.0
    """Time of the last notice, in monotonic seconds."""
    acknowledged: Acknowledgement | None = None


class AlarmWatch:
    """The alarms of one engine. `start` it, `close` it."""

    def __init__(
        self,
        config: Callable[[], Config],
        live: Callable[[], Live],
        recent: Callable[[int], Calls | None],
        notifier: Notifier,
        file: Path,
        erased: ErasedCalls,
        on_internal_error: Callable[[str], None] = lambda _: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`live` is called on the loop, `recent(since_ms)` in a thread (`IndexKeeper.recent`).
        `erased` is for this watch alone."""
        self._config = config
        self._live = live
        self._recent = recent
        self._notifier = notifier
        self._file = file
        self._erased = erased
        self._on_internal_error = on_internal_error
        self._clock = clock
        self._wall = wall
        self._alarms: dict[str, Alarm] = {}
        self._stored: dict[str, dict[str, Any]] = {}
        """Alarms of the engine before, until their rule is seen."""
        self._pending: list[Notice] = []
        self._begun = clock()
        self._offset = wall() - clock()
        self._steady_since = float("-inf")
        self._reading: asyncio.Task[Calls | None] | None = None
        self._due = asyncio.Event()
        self._saving = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._save_failed = False
        self.listeners: set[Callable[[], None]] = set()
        """Called on the loop after a change of `alarms`."""

    async def start(self) -> None:
        """Read the file and begin."""
        await asyncio.to_thread(self._load)
        for work in (self._keep_looking(), self._keep_telling()):
            self._tasks.append(asyncio.create_task(work, name="alarms"))

    async def close(self) -> None:
        """Stop. Idempotent; notices that are pending are in the file."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._reading is not None:
            self._reading.cancel()

    def alarms(self) -> tuple[Alarm, ...]:
        """Return all alarms, in the order of the file."""
        return tuple(
            self._alarms.get(name) or Alarm(name, rule)
            for name, rule in self._config().alarms.rules.items()
        )

    def alarm(self, name: str) -> Alarm:
        """Return one alarm. Raises `NotThere`."""
        found = {alarm.name: alarm for alarm in self.alarms()}
        if name not in found:
            raise NotThere(f"there is no alarm {name[:64]!r}")
        return found[name]

    async def acknowledge(self, name: str, who: str, note: str, until: str = "") -> bool:
        """Note that a person has seen an alarm. Return False if it is not firing. Raises
        `NotThere`."""
        alarm = self.alarm(name)
        if not alarm.state.is_red:
            return False
        at = self._now().isoformat(timespec="seconds")
        self._alarms[name] = replace(alarm, acknowledged=Acknowledgement(who, note, at, until))
        await self._changed()
        return True

    async def forget(self, calls: Collection[str]) -> None:
        """Remove erased calls from the alarms and from the notices that are still to be told, in
        the file too."""

        def without(ids: Iterable[str]) -> list[str]:
            return [each for each in ids if each not in calls]

        for name, alarm in self._alarms.items():
            reading = replace(alarm.reading, calls=tuple(without(alarm.reading.calls)))
            self._alarms[name] = replace(alarm, reading=reading)
        for notice in self._pending:  # in place: one of them may be on its way now
            notice.facts["calls"][:] = without(notice.facts["calls"])
        self._stored = {
            name: {**each, "calls": without(each.get("calls") or ())}
            for name, each in self._stored.items()
        }
        await self._changed()

    async def test(self) -> dict[str, str]:
        """Tell everybody that this is a test. Return the error by way, empty for success."""
        now = self._now().isoformat(timespec="seconds")
        text = "This is a test of the alarms of Cordboard."
        facts = {"name": "test", "state": "test", "text": text, "since": now, "calls": []}
        return await self._notifier.test({**facts, "value": None, "context": "", "note": ""})

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._wall()).astimezone()

    # Looking.

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:  # task border: the next look follows
                log.exception("alarms_not_judged", error=repr(error))
                self._on_internal_error("alarms")
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Judge all rules now, without the calls that were erased."""
        rules = self._config().alarms.rules
        calls = await self._calls(rules, self._now())
        if erased := await asyncio.to_thread(self._newly_erased, self._named()):  # after the calls
            await self.forget(erased)
        if not rules and not self._alarms:
            return
        clock, wall = self._clock(), self._wall()
        if abs(wall - clock - self._offset) > CLOCK_SET:
            log.warning("clock_set", seconds=round(wall - clock - self._offset))
            self._steady_since = clock
        self._offset = wall - clock
        now = self._now()
        moment = Moment(
            now,
            self._live(),
            calls,
            await asyncio.to_thread(self._disk_free, rules),
            clock - self._steady_since,
            clock - self._begun,
        )
        readings = await asyncio.to_thread(
            lambda: {name: self._without_erased(read(rule, moment)) for name, rule in rules.items()}
        )
        before = self._alarms
        self._alarms = {
            name: self._moved(name, rule, readings[name], now) for name, rule in rules.items()
        }
        if _visible(before) != _visible(self._alarms):
            await self._changed()

    def _named(self) -> set[str]:
        """Return the ids of all calls in alarms and pending notices."""
        return {
            call
            for calls in (
                *(alarm.reading.calls for alarm in self._alarms.values()),
                *(each.get("calls") or () for each in self._stored.values()),
                *(notice.facts.get("calls") or () for notice in self._pending),
            )
            for call in calls
        }

    def _newly_erased(self, calls: Collection[str]) -> set[str]:
        """Return those of the calls that were erased, if the list has changed. Blocks."""
        try:
            is_new = self._erased.refresh()
        except OSError:  # the index says so: it reads the same list
            return set()
        return {call for call in calls if self._erased.has_id(call)} if is_new else set()

    def _without_erased(self, reading: Reading) -> Reading:
        """Return a reading without erased calls, which the index may still have."""
        calls = tuple(call for call in reading.calls if not self._erased.has_id(call))
        return replace(reading, calls=calls)

    async def _calls(self, rules: Mapping[str, AlarmRule], now: datetime.datetime) -> Calls | None:
        """Return the calls that the rules count; None if that takes too long."""
        begins = [begin_of(rule, now) for rule in rules.values() if rule.is_of_calls]
        if not begins:
            return ()
        if self._reading is None:
            since = round(min(begins).timestamp() * 1000)
            self._reading = asyncio.create_task(asyncio.to_thread(self._recent, since))
        done, _ = await asyncio.wait({self._reading}, timeout=READ_SECONDS)
        if not done:
            return None
        reading, self._reading = self._reading, None
        return reading.result()

    def _disk_free(self, rules: Mapping[str, AlarmRule]) -> float | None:
        if all(rule.measure != DISK for rule in rules.values()):
            return None
        try:
            usage = shutil.disk_usage(self._config().calls.directory)
        except OSError:
            return None
        return 100 * usage.free / usage.total

    def _moved(self, name: str, rule: AlarmRule, reading: Reading, now: datetime.datetime) -> Alarm:
        """Return the next state of an alarm; make the notices of a change."""
        clock, alarm = self._clock(), self._alarms.get(name)
        if alarm is None:
            alarm = _restored(name, rule, self._stored.pop(name, {}), clock)
        pauses = rule.after_minutes * 60, rule.clear_minutes * 60
        state = step(alarm.state, reading.holds, clock, *pauses)
        if reading.holds is None and alarm.state.is_red:
            reading = alarm.reading
        found = replace(alarm, rule=rule, state=state, reading=reading)
        if state.is_red and not alarm.state.is_red:
            since = now.isoformat(timespec="seconds")
            found = replace(found, since=since, told_at=clock)
            self._tell(found, "firing")
        elif alarm.state.is_red and not state.is_red:
            self._tell(found, "over")
            found = replace(found, since="", acknowledged=None)
        elif self._must_remind(found, clock, now):
            found = replace(found, told_at=clock)
            self._tell(found, "firing")
        return found

    def _must_remind(self, alarm: Alarm, clock: float, now: datetime.datetime) -> bool:
        minutes, seen = self._config().alarms.remind_minutes, alarm.acknowledged
        if minutes is None or alarm.state.stage is not Stage.FIRING:
            return False
        if seen is not None and (
            not seen.until or datetime.datetime.fromisoformat(seen.until) > now
        ):
            return False
        return clock - alarm.told_at >= minutes * 60

    # Telling.

    def _tell(self, alarm: Alarm, state: str) -> None:
        rule, reading = alarm.rule, alarm.reading
        log.warning("alarm", alarm=alarm.name, state=state, text=reading.text)
        facts = {
            "name": alarm.name,
            "state": state,
            "text": reading.text,
            "value": reading.value,
            "limit": rule.above if rule.above is not None else rule.below,
            "context": rule.context or "",
            "since": alarm.since,
            "calls": list(reading.calls),
            "note": rule.note,
        }
        self._pending.append(Notice(facts, self._wall()))
        if len(self._pending) > MOST_PENDING:
            dropped = self._pending.pop(0)
            log.error("alarm_not_told", alarm=dropped.facts["name"], ways=list(dropped.ways))

    async def _keep_telling(self) -> None:
        while True:
            self._due.clear()
            try:
                await self.tell()
            except Exception as error:  # task border: notices stay pending
                log.exception("alarms_not_told", error=repr(error))
                self._on_internal_error("alarms")
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def tell(self) -> None:
        """Deliver the pending notices that are due, in their order; e-mail last, because its server
        may take long to fail."""
        for way in WAYS:
            for notice in tuple(self._pending):
                try:
                    left = await self._notifier.deliver(notice, way)
                except Exception as error:  # border: one notice must not keep back the others
                    log.exception("alarm_not_told", alarm=notice.facts["name"], error=repr(error))
                    self._on_internal_error("alarms")
                    left = notice if self._wall() - notice.made_at <= KEEP_SECONDS else None
                at = next((at for at, each in enumerate(self._pending) if each is notice), None)
                if at is None or left is notice or left == notice:
                    continue  # dropped meanwhile, or not taken
                self._pending[at : at + 1] = [left] if left is not None else []
                await self._save()

    # The file.

    async def _changed(self) -> None:
        await self._save()
        self._due.set()
        for listener in tuple(self.listeners):
            try:
                listener()
            except Exception as error:  # border: a listener must not stop the alarms
                log.exception("alarm_listener_failed", error=repr(error))
                self._on_internal_error("alarms")

    async def _save(self) -> None:
        """Write the file. A failure is logged, and costs nothing but a repeated notice."""
        async with self._saving:
            content = orjson.dumps(
                {
                    "alarms": {name: _stored(alarm) for name, alarm in self._alarms.items()},
                    "pending": [asdict(notice) for notice in self._pending],
                }
            )
            try:
                await asyncio.to_thread(self._write, content)
                self._save_failed = False
            except OSError as error:
                if not self._save_failed:
                    log.error("alarms_not_saved", file=str(self._file), error=str(error))
                self._save_failed = True

    def _write(self, content: bytes) -> None:
        private_files.make_folder(self._file.parent)
        private_files.replace(self._file, content)

    def _load(self) -> None:
        try:
            found = orjson.loads(private_files.read(self._file, _LARGEST))
            pending = [Notice(**each) for each in found["pending"]]
            self._stored = {str(name): dict(each) for name, each in found["alarms"].items()}
            self._pending = [replace(each, ways=tuple(each.ways)) for each in pending]
        except FileNotFoundError:
            return
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            log.error("alarms_not_read", file=str(self._file), error=str(error))


def _visible(alarms: Mapping[str, Alarm]) -> dict[str, object]:
    """Return what a change of is worth telling listeners, and keeping."""
    return {
        name: (alarm.state.stage, alarm.since, alarm.told_at, alarm.acknowledged)
        for name, alarm in alarms.items()
    }


def _stored(alarm: Alarm) -> dict[str, Any]:
    seen = alarm.acknowledged
    return {
        "stage": alarm.state.stage.value,
        "since": alarm.since,
        "text": alarm.reading.text,
        "value": alarm.reading.value,
        "calls": alarm.reading.calls,
        "acknowledged": asdict(seen) if seen is not None else None,
    }


def _restored(name: str, rule: AlarmRule, stored: Mapping[str, Any], now: float) -> Alarm:
    """Return an alarm as the engine before has left it. Its pause begins anew."""
    try:
        seen = stored["acknowledged"]
        reading = Reading(None, stored["text"], stored["value"], tuple(stored["calls"]))
        return Alarm(
            name,
            rule,
            State(Stage(stored["stage"]), now),
            reading,
            str(stored["since"]),
            now,
            Acknowledgement(**seen) if seen is not None else None,
        )
    except (KeyError, TypeError, ValueError):
        return Alarm(name, rule, State(since=now))
