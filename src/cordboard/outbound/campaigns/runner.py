"""Works the campaigns' queue off beside the calls of the engine.

One engine at a time: a lock beside the file keeps a second one away. All of the disk's work is done
in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

import structlog

from cordboard import private_files
from cordboard.calls.outbound_order import OutboundResult, PersonTaken
from cordboard.errors import CampaignRefused, OutboundRefused, StoreUnavailable
from cordboard.outbound.campaigns.store import CALLBACKS, RETRIED, CampaignStore, Claimed
from cordboard.outbound.placing import CallWanted, OutboundCalls

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""Pause between two looks at the queue."""
WRITE_SECONDS = 3.0
"""Time at the stop for writing the ends of calls."""
PUT_OFF_SECONDS = 30.0
"""Seconds until another try of a campaign for whose call there was no line or no room, or which the
hours or caps of the firewall refused: the next people would be refused, too."""
EXPIRE_SECONDS = 86_400.0
"""Pause between two looks for people and numbers that are kept no longer."""
EXPIRE_AGAIN_SECONDS = 3_600.0
"""Pause after which they are looked for again, if the file still had them in its log."""
FOR_NOW = frozenset(
    ("busy", "no_line", "no_list", "not_now", "off", "unknown_context", "bad_request")
)
"""Refusals that say nothing against calling this person: a campaign is checked when it is made, so
an unknown context or variable is a mistake in a newer configuration."""

P = ParamSpec("P")
Result = TypeVar("Result")


class PersonClaims(Protocol):
    """People of campaigns whom several engines may call (`cordboard.cluster.claims`)."""

    async def take(self, campaign: str, number: str) -> PersonTaken:
        """Claim a person for an attempt that begins now. Raises `CampaignRefused`."""

    async def finish(
        self, campaign: str, number: str, outcome: str, again_at: float | None
    ) -> None:
        """Note how the attempt ended, and the Unix time of the next one, if there is one."""

    async def give_back(self, campaign: str, number: str) -> None:
        """Note that nothing was dialled."""


class CampaignRunner:
    """Places the calls of all running campaigns, from `start` to `close`."""

    def __init__(
        self,
        path: Callable[[], Path | None],
        calls: OutboundCalls,
        internal_error: Callable[[str], None],
        *,
        keep_days: Callable[[], int] = lambda: 0,
        look_seconds: float = LOOK_SECONDS,
        claims: PersonClaims | None = None,
    ) -> None:
        """`path` returns the campaigns' file; None while outbound calls are off. The file is that
        of the start, and is read only if it exists: `cordboard campaign add` makes it. `keep_days`
        returns the days for which the people of a campaign that is over are kept, also while
        outbound calls are off; 0: until they are deleted. `claims`: those of the cluster; None:
        this engine is alone."""
        self._path = path
        self._file = path() or calls.campaigns
        self._calls = calls
        self._internal_error = internal_error
        self._keep_days = keep_days
        self._expire_at = -math.inf
        self._put_off = ""
        """The reason that the log has of calls that are put off."""
        self._waiting: dict[str, float] = {}
        """Campaign → loop time until which none of its people is called: a call was refused for
        now."""
        self._look_seconds = look_seconds
        self._claims = claims
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-campaigns")
        self._store: CampaignStore | None = None
        self._opened = 0
        """Inode of the file that is open."""
        self._lock = -1
        self._running: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()
        self._unwritten: dict[str, Callable[[], None]] = {}
        """Call id → function that writes the end of the call. The disk has refused it before; it is
        called again at the next look."""
        self._trouble = ""
        self._stopping = asyncio.Event()
        self._closed = False

    def start(self) -> None:
        """Begin to work. Returns at once."""
        self._running = asyncio.create_task(self._run(), name="campaigns")

    async def pause(self) -> None:
        """Place no more calls; the ends of live ones are still written. Idempotent."""
        self._stopping.set()
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def close(self) -> None:
        """Stop, after the ends of the calls that have ended are written. Idempotent."""
        await self.pause()
        if self._following:
            await asyncio.wait(self._following, timeout=WRITE_SECONDS)
        for each in self._following:
            each.cancel()  # a call that outlives the engine counts as interrupted
        await asyncio.gather(*self._following, return_exceptions=True)
        if not self._closed:
            self._closed = True
            try:
                await self._write_rest()
            except sqlite3.Error as error:  # they count as interrupted
                calls = len(self._unwritten)
                log.error("campaign_results_lost", calls=calls, error=str(error))
            await self._work(self._let_go)
            self._thread.shutdown()

    async def _run(self) -> None:
        """A task border: a mistake stops no calls, and the queue is looked at again."""
        while not self._stopping.is_set():
            try:
                await self._look()
                if self._trouble and not self._unwritten:
                    log.info("campaigns_go_on")
                    self._trouble = ""
            except (CampaignRefused, sqlite3.Error) as error:
                self._say(error)
            except Exception as error:  # task border
                log.exception("campaigns_failed", error=repr(error))
                self._internal_error("campaigns")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._stopping.wait()

    def _say(self, error: Exception) -> None:
        """Log a trouble once, as long as it is the same."""
        if str(error) != self._trouble:
            log.error("campaigns_stopped", error=str(error))
        self._trouble = str(error)

    async def _look(self) -> None:
        await self._write_rest()
        await self._expire()
        room = self._calls.room
        if self._path() is None or not room:
            return
        claims = deque(await self._work(self._claim, room, self._put_off_now()))
        store = self._store
        if store is None:
            return
        try:
            while claims and not self._stopping.is_set():
                claimed = claims.popleft()
                if claimed.campaign in self._waiting:  # since a moment ago
                    put_off = self._back(store, claimed.call_id, PUT_OFF_SECONDS)
                    await self._write(claimed.call_id, put_off)
                else:
                    await self._call(store, claimed)
        finally:  # else they would wait for the next start
            for left in claims:
                self._unwritten[left.call_id] = self._back(store, left.call_id)

    async def _expire(self) -> None:
        """Delete what is kept no longer, once a day."""
        now = time.monotonic()
        if now < self._expire_at:
            return
        days = self._keep_days()
        before = time.time() - 86_400 * days if days else None
        try:
            expired = await self._work(self._expired, before)
        except StoreUnavailable as error:
            log.warning("campaigns_not_deleted", error=str(error))
            self._expire_at = now + EXPIRE_AGAIN_SECONDS
            return
        self._expire_at = now + EXPIRE_SECONDS
        if expired:
            log.info("campaigns_deleted", campaigns=expired, keep_days=days)

    def _put_off_now(self) -> frozenset[str]:
        """Return the campaigns that are put off."""
        now = asyncio.get_running_loop().time()
        self._waiting = {name: until for name, until in self._waiting.items() if until > now}
        return frozenset(self._waiting)

    async def _call(self, store: CampaignStore, claimed: Claimed) -> None:
        """Write the attempt, then place the call. Raises `sqlite3.Error`: nothing was placed."""
        try:
            made = await self._agree(store, claimed)
            if made is None:
                return
            if not await self._work(store.begin, claimed.call_id, made):
                await self._not_dialled(claimed)
                return
        except sqlite3.Error:
            self._unwritten[claimed.call_id] = self._back(store, claimed.call_id)
            await self._not_dialled(claimed)
            raise
        settings = claimed.settings
        wanted = CallWanted(
            claimed.number,
            settings.context,
            settings.message,
            settings.keys,
            claimed.variables,
            claimed.call_id,
            settings.consent,
        )
        try:
            await self._calls.place(wanted, written=True)
        except OutboundRefused as error:
            if error.reason in FOR_NOW:
                why = f"{error.reason}: {error}"
                await self._put(store, claimed, why, alone=error.of_number)
            else:
                refused = OutboundResult(claimed.call_id, "refused", str(error))
                await self._write(refused.call_id, partial(store.finish, refused, time.time()))
            await self._not_dialled(claimed)
            return
        self._put_off = ""
        following = asyncio.create_task(self._follow(store, claimed, made))
        self._following.add(following)
        following.add_done_callback(self._followed)

    async def _follow(self, store: CampaignStore, claimed: Claimed, made: int) -> None:
        """`made`: attempts before this one, by any engine."""
        call_id = claimed.call_id
        result = await self._calls.ended(call_id)
        if result.outcome == "refused":  # by the engine: it is busy, or stops
            await self._put(store, claimed, f"refused: {result.reason}")
            await self._not_dialled(claimed)
            return
        now, settings = time.time(), claimed.settings
        await self._write(call_id, partial(store.finish, result, now))
        claims = self._claims_of(claimed)
        if claims is not None:
            again = result.outcome in RETRIED and made + 1 < settings.attempts
            again_at = now + 60 * settings.retry_minutes if again else None
            await claims.finish(claimed.campaign, claimed.number, result.outcome, again_at)

    async def _agree(self, store: CampaignStore, claimed: Claimed) -> int | None:
        """Agree with the other engines about a person; return the number of attempts so far, None
        if they are not called now."""
        claims = self._claims_of(claimed)
        if claims is None:
            return 0
        try:
            taken = await claims.take(claimed.campaign, claimed.number)
        except CampaignRefused as error:
            await self._put(store, claimed, str(error))
            return None
        if taken.state == "later":
            put_off = self._back(store, claimed.call_id, taken.seconds)
            await self._write(claimed.call_id, put_off)
            return None
        if taken.state == "ours" and taken.attempts < claimed.settings.attempts:
            return taken.attempts
        settle = partial(store.settle, claimed.call_id, taken.attempts, taken.outcome)
        await self._write(claimed.call_id, settle)
        await self._not_dialled(claimed)
        return None

    async def _not_dialled(self, claimed: Claimed) -> None:
        claims = self._claims_of(claimed)
        if claims is not None:
            await claims.give_back(claimed.campaign, claimed.number)

    def _claims_of(self, claimed: Claimed) -> PersonClaims | None:
        """Return the claims of the other engines; None for a promised call-back, which is this
        engine's."""
        return None if claimed.campaign.startswith(CALLBACKS) else self._claims

    async def _put(
        self, store: CampaignStore, claimed: Claimed, why: str, *, alone: bool = False
    ) -> None:
        """Put a campaign off, or this call `alone`, and log a new reason once."""
        if why != self._put_off:
            log.warning("campaign_waits", reason=why)
        self._put_off = why
        if not alone:
            until = asyncio.get_running_loop().time() + PUT_OFF_SECONDS
            self._waiting[claimed.campaign] = until
        back = self._back(store, claimed.call_id, PUT_OFF_SECONDS, why)
        await self._write(claimed.call_id, back)

    @staticmethod
    def _back(
        store: CampaignStore, call_id: str, seconds: float = 0.0, why: str = ""
    ) -> Callable[[], None]:
        """Return a function that gives a claim back: the person is due again after `seconds`."""
        return partial(store.give_back, call_id, seconds, time.time(), why)

    async def _write(self, call_id: str, write: Callable[[], None]) -> None:
        """Write how a call ended; if the disk refuses, keep it for the next look."""
        try:
            await self._work(write)
        except sqlite3.Error as error:
            self._unwritten[call_id] = write
            self._say(error)

    async def _write_rest(self) -> None:
        """Write what the disk has refused before. Raises `sqlite3.Error`."""
        for call_id, write in list(self._unwritten.items()):
            await self._work(write)
            del self._unwritten[call_id]

    def _followed(self, following: asyncio.Task[None]) -> None:
        self._following.discard(following)
        if not following.cancelled() and (error := following.exception()) is not None:
            log.error("campaign_result_lost", exc_info=error)
            self._internal_error("campaigns")

    # In the thread.

    async def _work(self, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        loop = asyncio.get_running_loop()
        return await asyncio.shield(
            loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))
        )

    def _expired(self, before: float | None) -> int:
        """Delete what is kept no longer, also where the file is not open, because outbound calls
        are off. Raises `CampaignRefused` and `StoreUnavailable`."""
        if self._store is not None:
            return self._store.expire(before)
        if not self._file.exists():
            return 0
        with contextlib.closing(CampaignStore(self._file)) as store:
            return store.expire(before)

    def _claim(self, room: int, put_off: frozenset[str]) -> list[Claimed]:
        """Open the file if it is there and free. Raises `CampaignRefused`."""
        if self._store is None:
            if not self._file.exists():
                return []
            self._take(self._file)
        elif _inode(self._file) != self._opened:  # what we would write stands nowhere
            raise CampaignRefused(f"{self._file} was replaced or deleted; restart the engine")
        return self._store.claim(room, time.time(), put_off) if self._store is not None else []

    def _take(self, path: Path) -> None:
        try:
            lock = private_files.open_lock(_lock_of(path))
        except OSError as error:
            raise CampaignRefused(f"the campaigns' lock cannot be made: {error}") from error
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CampaignRefused(f"another engine works off {path}") from None
            store, opened = CampaignStore(path), _inode(path)
            undo.callback(store.close)
            interrupted = store.recover()
            undo.pop_all()
        self._lock, self._store, self._opened = lock, store, opened
        if interrupted:
            log.warning("campaign_calls_interrupted", calls=interrupted)

    def _let_go(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def is_worked_off(path: Path) -> bool:
    """True if an engine of this machine works the campaigns' file off."""
    try:
        lock = os.open(_lock_of(path), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # not there, or of another user
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _inode(path: Path) -> int:
    """Return the inode of a file; 0 if it is not there."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")
