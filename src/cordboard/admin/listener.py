"""The admin port of one engine: its files, threads and server, from `start` to `close`.

Imported only when `admin.ui.enabled` is on.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from cordboard.accounts.audit import AuditLog
from cordboard.accounts.store import Accounts
from cordboard.admin.application import BASE, AdminApplication
from cordboard.admin.cluster_door import ClusterDoor
from cordboard.admin.config_process import ConfigFile, ConfigProcess
from cordboard.admin.forwarded import ForwardedRequests
from cordboard.admin.guard import Guard
from cordboard.admin.oidc_session import CALLBACK
from cordboard.admin.other_engines import OtherEngines
from cordboard.admin.pace import Paces
from cordboard.admin.page import Page
from cordboard.admin.services import AdminServices, Editing
from cordboard.admin.table import ENDPOINTS
from cordboard.agents.provider_desk import ProviderDesk
from cordboard.alarms.watch import AlarmWatch
from cordboard.api.administration import ServerOperations
from cordboard.api.administration_view import Admission, Step
from cordboard.api.app import EngineView
from cordboard.api.server import HttpServer
from cordboard.api.server_websocket import ServerWebSocket
from cordboard.calls.call import Call
from cordboard.calls.events import LedgerEvent
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_examples import ToolExamples
from cordboard.chat.tool_trial import ToolTrials
from cordboard.chat.trial_runs import TrialRuns
from cordboard.config.drafts import Drafts
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Config
from cordboard.config.sections.admin import AdminTls, AdminUi
from cordboard.config.stored_secrets import StoredSecrets
from cordboard.config.versions import Versions
from cordboard.config.workspace import Workspace
from cordboard.errors import ListenError
from cordboard.firewall.usage import CapUsage
from cordboard.history.keeper import IndexKeeper
from cordboard.history.views import Views
from cordboard.observe.logging import KeptLog
from cordboard.observe.tool_usage_files import ToolUsageFiles
from cordboard.outbound.placing import OutboundCalls
from cordboard.telephony.browser.source import BrowserCalls

if TYPE_CHECKING:
    from cordboard.admin.oidc import OpenIdConnect

HEADER_SECONDS = 5.0
"""Timeout of a connection without a whole request, or with an unread answer."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """The parts of the engine that the endpoints show and control."""

    view: EngineView
    operations: ServerOperations
    calls: Callable[[], Mapping[str, Call]]
    admission: Admission
    trials: ToolTrials
    usage: ToolUsageFiles
    providers: ProviderDesk
    browser: BrowserCalls
    outbound: OutboundCalls
    caps: Callable[[], Sequence[CapUsage]]
    """Returns the firewall's caps, and their usage now."""
    runs: TrialRuns | None
    chats: ChatSessions
    config: Callable[[], Config]
    generation: Callable[[], tuple[int, str]]
    """Returns the number of the generation in force, and the digest of its file."""
    source: ConfigSource | None
    versions: Versions | None
    history: Callable[[], IndexKeeper | None]
    setup: Callable[[ConfigSource, bool], Awaitable[Sequence[Step]]]
    place_test_call: Callable[[str], Awaitable[tuple[str, str]]]
    alarms: AlarmWatch
    internal_error: Callable[[str], None]
    listeners: list[Callable[[str, int, LedgerEvent], None]]
    """Get each ledger event of each call; the admin port adds itself while it is open."""
    load_level: Callable[[], int]
    flush_ledgers: Callable[[], None]
    log: KeptLog | None
    cluster: ClusterDoor | None
    """None: the engine is alone."""


class AdminListener:
    """Use once: `start`, then `close`."""

    def __init__(self, settings: AdminUi, parts: EngineParts) -> None:
        self._settings = settings
        self._parts = parts
        self._services: AdminServices | None = None
        self._server: HttpServer | None = None

    @property
    def port(self) -> int:
        """The TCP port in use."""
        return self._server.port if self._server is not None else self._settings.port

    async def start(self) -> None:
        """Open the files and the port. Raises `ListenError` or `StoreUnavailable`."""
        settings, parts = self._settings, self._parts
        tls = await asyncio.to_thread(_tls, settings.tls) if settings.tls is not None else None
        self._services = services = AdminServices(
            accounts=await asyncio.to_thread(self._open_accounts),
            audit=AuditLog(
                settings.data / "audit.jsonl",
                time.time,
                _log_head,
                keep_months=settings.audit_months,
            ),
            view=parts.view,
            operations=parts.operations,
            calls=parts.calls,
            admission=parts.admission,
            trials=parts.trials,
            usage=parts.usage,
            providers=parts.providers,
            examples=await asyncio.to_thread(self._open_examples),
            browser=parts.browser,
            outbound=parts.outbound,
            caps=parts.caps,
            runs=parts.runs,
            chats=parts.chats,
            config=parts.config,
            source=parts.source,
            editing=_editing(settings, parts),
            versions=parts.versions,
            history=parts.history,
            views=Views(settings.data / "views.json"),
            scenarios=settings.data / "evaluations",
            setup=parts.setup,
            place_test_call=parts.place_test_call,
            alarms=parts.alarms,
            internal_error=parts.internal_error,
            paces=Paces(time.monotonic),
            port=lambda: self.port,
            public_address=settings.address,
            load_level=parts.load_level,
            flush_ledgers=parts.flush_ledgers,
            log=parts.log,
            takes_passwords=settings.sign_in.password,
            oidc=_identity_provider(settings),
        )
        parts.listeners.append(services.feed.take)
        parts.alarms.listeners.add(services.feed.wake)
        page = await asyncio.to_thread(Page.read)
        application = AdminApplication(ENDPOINTS, services, Guard(settings), page)
        if (door := parts.cluster) is not None:
            services.others = OtherEngines(door, services.feed.live, parts.internal_error)
            door.take_requests(ForwardedRequests(application))
        self._server = HttpServer(
            settings,
            application,
            key="admin.ui.port",
            tls=tls,
            idle_seconds=HEADER_SECONDS,
            websockets=ServerWebSocket,
        )
        await self._server.start()

    async def close(self) -> None:
        """Stop serving, end the threads, close the files. Idempotent."""
        server, services = self._server, self._services
        self._services = None
        if services is not None:
            if services.others is not None:
                services.others.door.take_requests(None)
                services.others.close()
            self._parts.listeners.remove(services.feed.take)
            self._parts.alarms.listeners.discard(services.feed.wake)
            await services.sockets.close()
        if server is not None:
            await server.close()
        if services is not None:
            await asyncio.to_thread(services.close)

    def _open_accounts(self) -> Accounts:
        sessions = self._settings.sessions
        return Accounts(
            self._settings.data,
            idle_seconds=sessions.idle_minutes * 60,
            whole_seconds=sessions.hours * 3_600,
        )

    def _open_examples(self) -> ToolExamples:
        examples = ToolExamples(self._settings.data)
        examples.open()
        return examples


def _editing(settings: AdminUi, parts: EngineParts) -> Editing | None:
    source, versions, folder = parts.source, parts.versions, settings.data
    if source is None or versions is None:
        return None
    writes = settings.edit == "file"
    return Editing(
        Workspace(source.path, source.environ, versions, writes=writes),
        ConfigProcess(ConfigFile(source.path, versions.folder)),
        Drafts(folder / "drafts", time.time),
        StoredSecrets(folder),
        parts.generation,
    )


def _identity_provider(settings: AdminUi) -> OpenIdConnect | None:
    if settings.sign_in.oidc is None:
        return None
    from cordboard.admin.oidc import OpenIdConnect  # brings a library of tokens

    return OpenIdConnect(settings.sign_in.oidc, f"{settings.address}{BASE}{CALLBACK}")


def _tls(files: AdminTls) -> ssl.SSLContext:
    """Return the context of the port's certificate. Raises `ListenError`. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "strerror", None) or error
        raise ListenError(
            f"the certificate {files.certificate} with the key {files.key} cannot be used: {reason}"
            " (admin.ui.tls)"
        ) from error
    return context


def _no_password() -> str:
    """Refuse an encrypted key; OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted")


def _log_head(seq: int, head: str) -> None:
    """Log the last line of the past: an audit that was cut since then shows by it."""
    log.info("audit_head", lines=seq, hash=head)
