"""The parts that the endpoints work with, and their threads.

Slow work goes to threads of this port alone: four for databases, files and large answers, one for
passwords. The event loop, which carries the audio of the calls, only moves ready bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from cordboard.accounts import passwords
from cordboard.accounts.audit import AuditEntry, AuditLog
from cordboard.accounts.store import Accounts
from cordboard.admin.first_answers import FirstAnswers
from cordboard.admin.live_feed import Feed
from cordboard.admin.other_engines import OtherEngines
from cordboard.admin.pace import Paces
from cordboard.admin.sockets import OpenSockets
from cordboard.admin.tickets import Tickets
from cordboard.agents.provider_desk import ProviderDesk
from cordboard.alarms.watch import AlarmWatch
from cordboard.api.administration import ServerOperations
from cordboard.api.administration_view import Admission, Step
from cordboard.api.app import EngineView
from cordboard.calls.call import Call
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_examples import ToolExamples
from cordboard.chat.tool_trial import ToolTrials
from cordboard.chat.trial_runs import TrialRuns
from cordboard.config.drafts import Drafts
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Config
from cordboard.config.stored_secrets import StoredSecrets
from cordboard.config.versions import Versions
from cordboard.config.workspace import Workspace
from cordboard.errors import RequestRefused
from cordboard.firewall.usage import CapUsage
from cordboard.history.keeper import IndexKeeper
from cordboard.history.views import Views
from cordboard.observe.logging import KeptLog
from cordboard.observe.tool_usage_files import ToolUsageFiles
from cordboard.outbound.placing import OutboundCalls
from cordboard.telephony.browser.source import BrowserCalls

MOST_KNOWN = 1_000
"""Pairs of a user and an address that are remembered."""
MOST_PASSWORDS = 8
"""Sign-ins that wait for the one thread that checks passwords; further ones get 503."""
MOST_CHECKS = 8
"""Requests to the process that checks configurations, the one at hand included; further ones get
503. Each holds a place of the port's requests."""


if TYPE_CHECKING:
    from cordboard.admin.config_process import Desk
    from cordboard.admin.oidc import OpenIdConnect


P = ParamSpec("P")
Result = TypeVar("Result")


class ConfigChecker(Protocol):
    """Runs the functions of `admin.config_checks`: `ConfigProcess`."""

    def run(
        self,
        running: Config,
        environ: Mapping[str, str],
        work: Callable[Concatenate[Desk, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Editing:
    """The parts for editing the configuration's file."""

    workspace: Workspace
    """For what takes no parsing; the rest is for the checker."""
    checker: ConfigChecker
    drafts: Drafts
    secrets: StoredSecrets
    generation: Callable[[], tuple[int, str]]
    """Returns the number of the generation in force, and the digest of its file."""


@dataclass(slots=True, eq=False, kw_only=True)
class AdminServices:
    """The parts of one engine."""

    accounts: Accounts
    audit: AuditLog
    view: EngineView
    operations: ServerOperations
    calls: Callable[[], Mapping[str, Call]]
    """The live calls by id."""
    admission: Admission
    trials: ToolTrials
    usage: ToolUsageFiles
    examples: ToolExamples
    providers: ProviderDesk
    browser: BrowserCalls
    outbound: OutboundCalls
    caps: Callable[[], Sequence[CapUsage]]
    """Returns the firewall's caps, and their usage now."""
    runs: TrialRuns | None
    """Drafts that run aside; None if the engine was not started from a file."""
    chats: ChatSessions
    config: Callable[[], Config]
    """The configuration in force."""
    source: ConfigSource | None
    """Its file; None if the engine was not started from one."""
    versions: Versions | None
    """The versions of that file."""
    history: Callable[[], IndexKeeper | None]
    """The index of calls; None while the engine starts, or if it is off."""
    views: Views
    scenarios: Path
    """Folder of the tests that are made of calls."""
    setup: Callable[[ConfigSource, bool], Awaitable[Sequence[Step]]]
    """Checks the set-up by a file (`runtime.setup_check`), with the dialplan for FreePBX or not."""
    place_test_call: Callable[[str], Awaitable[tuple[str, str]]]
    """Has a caller of the engine's own call a context; returns the call's id and
    what the caller says."""
    alarms: AlarmWatch
    internal_error: Callable[[str], None]
    """Counts an error of ours, by place."""
    paces: Paces
    port: Callable[[], int]
    """The TCP port in use."""
    public_address: str
    """The address for people, without a slash at its end."""
    editing: Editing | None
    """None if the engine was not started from a file."""
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One picture of a call at a time, so that the event loop competes with one thread for the
    interpreter: it takes a second for an hour."""
    played: dict[tuple[str, str], tuple[int, AuditEntry]] = field(default_factory=dict)
    """Lines of the audit about recordings that were played, by session or key, and call."""
    load_level: Callable[[], int] = lambda: 0
    """0 unless the engine gives up features because of its load."""
    flush_ledgers: Callable[[], None] = lambda: None
    """Waits until all lines of ledgers so far are in their files. Blocks."""
    log: KeptLog | None = None
    """The end of the log; None if the program that runs the engine does not keep it."""
    feed: Feed = field(init=False)
    others: OtherEngines | None = None
    """The other engines; None if this one is alone."""
    takes_passwords: bool = True
    oidc: OpenIdConnect | None = None
    tickets: Tickets = field(default_factory=Tickets)
    sockets: OpenSockets = field(init=False)
    first_answers: FirstAnswers = field(default_factory=FirstAnswers)
    listeners: int = 0
    """People who listen to calls now."""
    checking_setup: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading_list: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One list of a campaign at a time, for the same reason as `drawing`."""
    transferring: set[str] = field(default_factory=set)
    """Calls that are being transferred from here."""
    _signed_in_from: dict[tuple[str, str], None] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, "cordboard-admin")
    )
    _passwords: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "cordboard-passwords")
    )
    _waiting: int = 0
    _checks: int = 0
    _checking_config: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.feed = Feed(self.calls, self.load_level, self.internal_error)
        self.sockets = OpenSockets(self.accounts, self.run, self.internal_error)
        self.accounts.changed = self.sockets.accounts_changed

    def remember(self, name: str, neighbourhood: str) -> None:
        """Note that a user has signed in from there; the oldest notes are dropped."""
        self._signed_in_from[(name, neighbourhood)] = None
        if len(self._signed_in_from) > MOST_KNOWN:
            del self._signed_in_from[next(iter(self._signed_in_from))]

    def has_signed_in(self, name: str, neighbourhood: str) -> bool:
        """Return True if the user has signed in from there since the engine was started."""
        return (name, neighbourhood) in self._signed_in_from

    async def run(self, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Do blocking work in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*args, **kwargs))

    async def check_config(
        self, work: Callable[Concatenate[Desk, P], Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        """Do work on the configuration's text in the process for it, one at a time. Only for an
        engine with a file. Raises `RequestRefused` 503, and what the work raises."""
        editing, source = self.editing, self.source
        if editing is None or source is None:
            raise RequestRefused(409, "no_file", "this engine was not started from a file")
        if self._checks >= MOST_CHECKS:
            message = "too many checks of the configuration at once"
            raise RequestRefused(503, "busy", message, headers={"Retry-After": "2"})
        self._checks += 1
        try:
            async with self._checking_config:  # the others wait here, and not in threads
                running, environ = self.config(), source.environ
                return await self.run(
                    lambda: editing.checker.run(running, environ, work, *args, **kwargs)
                )
        finally:
            self._checks -= 1

    async def hashed(self, password: str) -> str:
        """Return the hash of a password. Raises `RequestRefused` 503."""
        return await self._one_at_a_time(passwords.hashed, password)

    async def is_right(self, password: str, stored: str | None) -> bool:
        """Check a password; without a hash it takes as long, and is wrong. Raises `RequestRefused`
        503."""
        right = await self._one_at_a_time(
            passwords.is_right, password, stored or passwords.NOT_A_HASH
        )
        return right and stored is not None

    async def _one_at_a_time(
        self, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        if self._waiting >= MOST_PASSWORDS:
            headers = {"Retry-After": "2"}
            raise RequestRefused(503, "busy", "too many sign-ins at once", headers=headers)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._passwords, lambda: work(*args, **kwargs))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the threads and close the database. Blocks until the work at hand is done."""
        if self.editing is not None:
            self.editing.checker.close()
        self._pool.shutdown(cancel_futures=True)
        self._passwords.shutdown(cancel_futures=True)
        self.accounts.close()
