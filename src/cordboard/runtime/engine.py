"""The engine: all parts that take calls, with the order of their start and stop.

    start   HTTP port → models → AudioSocket port → ARI → MCP servers
    stop    no new calls → live calls end within the grace period → ARI, ports, servers, models

No call is offered before an agent could answer it. The start does not wait for MCP servers, and
none begins to start before calls can come in: twenty starting interpreters would take the
processors from the models. `start` raises one `CordboardError` with the reason, after stopping the
parts already started. `cordboard.runtime.reload` applies a reload; the ports and connections made
here stay as they are.
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from starlette.types import ASGIApp

from cordboard.agent_api.agent import Agent, Usage
from cordboard.agent_api.tts import Voice
from cordboard.agents.provider_health import ProviderHealth
from cordboard.alarms.notices import Notifier
from cordboard.alarms.watch import AlarmWatch
from cordboard.api.administration import ServerOperations
from cordboard.api.administration_view import Step
from cordboard.api.app import create_app
from cordboard.api.server import HttpServer
from cordboard.calls.binding import Binding
from cordboard.calls.call_registry import CallRegistry, farewell_of
from cordboard.calls.events import LedgerEvent
from cordboard.calls.folder import shut
from cordboard.calls.killed_calls import end_killed_calls
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.open_calls import OpenCalls
from cordboard.calls.post_call.queue import PostCallQueue
from cordboard.calls.recording.retention import INTERVAL, sweep
from cordboard.calls.recording.writer import RecordingWriter
from cordboard.calls.services import CallServices
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_trial import ToolTrials
from cordboard.chat.trial_runs import TrialRuns
from cordboard.config.load import ConfigSource
from cordboard.config.remote_url import is_loopback
from cordboard.config.schema import Config
from cordboard.config.versions import Versions
from cordboard.errors import AgentError
from cordboard.firewall.numbers import warm
from cordboard.firewall.store import CountStore
from cordboard.firewall.usage import CapUsage, cap_usage
from cordboard.history.erased import ErasedCalls
from cordboard.history.keeper import IndexKeeper
from cordboard.history.retention import sweep_ledgers
from cordboard.mcp.sdk import load_sdk
from cordboard.mcp.stdio.orphans import sweep_orphans
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.observe.metrics import Metrics
from cordboard.observe.open_tracing import open_tracing
from cordboard.observe.tool_usage_files import ToolUsageFiles
from cordboard.observe.tracing import Tracing
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import OutboundCalls
from cordboard.runtime.administration import Administration
from cordboard.runtime.doors import Doors
from cordboard.runtime.health import EngineHealth, EngineModels
from cordboard.runtime.overload_monitor import OverloadMonitor
from cordboard.runtime.reload import Reloader
from cordboard.runtime.setup_check import TEST_WORDS, check_setup
from cordboard.vendors.local.models import OfflineLoading
from cordboard.version import __version__

if TYPE_CHECKING:
    from cordboard.admin.cluster_door import ClusterDoor
    from cordboard.admin.listener import AdminListener
    from cordboard.agents.provider_desk import ProviderDesk
    from cordboard.cluster.member import Standing
    from cordboard.cluster.orders import Order
    from cordboard.config.shared_part import SharedConfig
    from cordboard.observe.logging import KeptLog
    from cordboard.runtime.cluster_config import ClusterConfig
    from cordboard.runtime.membership import Membership

log = structlog.get_logger()

LINE_FIRST = 1.0
"""Seconds for which the start of MCP servers waits for the connection to Asterisk."""

Listener = Callable[[str, int, LedgerEvent], None]


def _versions_of(config: Config, source: ConfigSource | None) -> Versions | None:
    return Versions(config.admin.ui.data / "versions", source.path) if source is not None else None


class Engine:
    """One engine in one event loop. Use once: `start`, then `stop`.

    Its parts: `doors` (sources of calls), `models`, `reloader` (the configuration in force),
    `registry` (of the calls), `chat`, `trial_runs` (drafts that run aside; None without a file),
    `load`, `alarms`, `view` (its state over HTTP), `administration`.
    """

    def __init__(
        self,
        config: Config,
        listener: Listener | None = None,
        source: ConfigSource | None = None,
        loading: OfflineLoading | None = None,
        *,
        sheds_load: bool = True,
        kept_log: KeptLog | None = None,
        shared_config: SharedConfig | None = None,
    ) -> None:
        """`listener(call_id, at_ms, event)` receives every ledger event of every call. `source` is
        the file of `config`; without it, reloads are impossible. `loading`: the offline models, if
        their loading has begun already; the engine owns them from now on. Without `sheds_load` the
        engine takes calls however busy it is
        (`cordboard.runtime.overload_monitor`). `kept_log`: the end of the log in memory, which the
        admin port shows. `shared_config`: place of the cluster's version of the configuration;
        None: the file is all."""
        self._begun_with = config
        """Configuration of the parts that stay unchanged until a restart of the engine."""
        self._kept_log = kept_log
        self._metrics = Metrics()
        self._metrics.version(__version__)
        self._tracing = self._open_tracing()
        self._stack = AsyncExitStack()
        self._stopping: asyncio.Task[None] | None = None
        self._pool = ServerPool(self._metrics.servers, is_open=False)
        vault = self._vault = config.privacy.encryption.vault
        self._writer = LedgerWriter(OpenCalls(config.calls.directory), vault=vault)
        self._recordings = RecordingWriter(self._metrics.media.recording_dropped, vault)
        self.models = EngineModels(loading)
        self.load = OverloadMonitor(
            self._metrics,
            lambda: self.models.workers,
            lambda: self.doors.report(),
            lambda: self.view.log_when_ready(),
            sheds=sheds_load,
        )
        provider_health = self._provider_health()
        self.reloader = self._make_reloader(source, provider_health)
        versions = self._versions = _versions_of(config, source)
        self.administration = Administration(self.reloader, source, versions)
        self._operations = ServerOperations(self.administration)
        self._post_call = self._make_post_call_queue()
        self._listeners = [] if listener is None else [listener]
        self.membership = self._join_cluster()
        self.cluster_config = self._follow_cluster(source, shared_config)
        self._callbacks = CallbackQueue(self._begun_with.outbound.campaigns)
        services = self._call_services()
        self._counts = self._make_count_store(services)
        self._share_limits(services)
        self.registry = self._make_registry(services)
        self.chat = ChatSessions(lambda: self.reloader.generation, self.reloader.brain, services)
        self._trials = ToolTrials(lambda: self.reloader.generation, services)
        self.trial_runs = self._make_trial_runs(source, versions)
        self._usage = ToolUsageFiles(self._metrics.usage, services.directory)
        offer = self.registry.offer
        sharing = self.membership.sharing if self.membership is not None else None
        self.doors = Doors(config, offer, offer, self._metrics, sharing)
        self.outbound = self._make_outbound(services)
        limits = self.membership.limits if self.membership is not None else None
        self._campaigns = CampaignRunner(
            self._campaigns_file,
            self.outbound,
            self._metrics.internal_error,
            claims=limits.claims if limits is not None else None,
            keep_days=lambda: self._config.outbound.keep_days,
        )
        self.view = self._make_view(provider_health)
        self.alarms = self._make_alarms()
        self._http = HttpServer(config.health, self._http_app())
        self._admin = self._admin_listener(source) if config.admin.ui.enabled else None

    def _provider_health(self) -> ProviderHealth:
        return ProviderHealth(mask=lambda text: self.reloader.generation.known_secrets.text(text))

    def _make_reloader(
        self, source: ConfigSource | None, provider_health: ProviderHealth
    ) -> Reloader:
        return Reloader(
            self._begun_with,
            self._pool,
            self.models.load,
            self.load.degradation,
            source.path.parent if source is not None else Path(),
            lambda config: self.doors.use(config),
            provider_health,
        )

    def _open_tracing(self) -> Tracing:
        tracing = self._begun_with.tracing
        dropped = self._metrics.spans_dropped
        return open_tracing(tracing.otlp_endpoint, tracing.service_name, __version__, dropped)

    def _make_trial_runs(
        self, source: ConfigSource | None, versions: Versions | None
    ) -> TrialRuns | None:
        if source is None or versions is None:
            return None
        return TrialRuns(
            lambda: self.reloader.generation,
            self.reloader.aside,
            source,
            versions,
            self.load.degradation,
            self._metrics.internal_error,
        )

    def _make_post_call_queue(self) -> PostCallQueue:
        return PostCallQueue(
            self._begun_with.calls.directory / "post_call",
            lambda: self.reloader.generation,
            lambda: self._config.calls.post_call,
            self._metrics,
            self._tracing,
            vault=self._vault,
        )

    def _make_count_store(self, services: CallServices) -> CountStore:
        folder = self._begun_with.admin.ui.data
        return CountStore(services.counts, folder, lambda: self._config.firewall.has_caps)

    def _share_limits(self, services: CallServices) -> None:
        if self.membership is not None:
            self.membership.share_limits(
                services.counts,
                lambda: self._config.firewall.has_caps,
                self._begun_with.outbound.campaigns,
            )

    def _call_services(self) -> CallServices:
        return CallServices(
            self._writer,
            self._metrics,
            self._begun_with.calls.directory,
            self._tell,
            self._recordings,
            self.models.apology,
            self._tracing,
            self._post_call,
            callbacks=self._callbacks,
            redactor=lambda: self._config.privacy.redact.redactor,
            transcribe=self.models.words,
            copy_line=self.membership.copy_line if self.membership is not None else None,
            on_refused=self.membership.refused if self.membership is not None else None,
            in_doubt=self._is_in_doubt,
        )

    def _is_in_doubt(self) -> bool:
        return self.membership is not None and self.membership.member.lease.state != "held"

    def _join_cluster(self) -> Membership | None:
        """Return the membership in the cluster, which begins with the start; None if the engine is
        alone. Raises `ExtraMissing`."""
        if self._begun_with.cluster is None:
            return None
        # Imported here: an engine that is alone needs none of it.
        from cordboard.runtime.membership import Membership

        membership = Membership(
            self._begun_with,
            lambda: self.registry.calls,
            self._standing,
            self._obey,
            self._metrics.internal_error,
            self._pool,
            self._metrics.servers.mcp_breaker_reports,
        )
        self._listeners.append(membership.listen)
        return membership

    def _follow_cluster(
        self, source: ConfigSource | None, shared: SharedConfig | None
    ) -> ClusterConfig | None:
        """Return the follower of the cluster's configuration; None if the file is all."""
        membership, versions = self.membership, self._versions
        if membership is None or source is None or versions is None or shared is None:
            return None
        from cordboard.cluster.config_follower import buckets_of
        from cordboard.runtime.cluster_config import ClusterConfig

        member = membership.member
        found = ClusterConfig(
            shared,
            source,
            versions,
            member.instance,
            buckets_of(member.bus, self._begun_with.privacy.encryption),
            self.reloader,
            self.administration,
            lambda: self.view.readiness(),
            self._metrics,
            self.load.degradation,
            self._open_agent,
        )
        self._listeners.append(found.listen)
        return found

    def _obey(self, order: Order) -> None:
        if order == "undrain":
            self.registry.end_drain()
        else:
            self.registry.begin_drain()

    def _standing(self) -> Standing:
        """Return the state of this engine for the others of its cluster."""
        from cordboard.cluster.member import Standing

        calls = len(self.registry.calls)
        takes = self.load.degradation.admits_calls
        free = max(0, self._config.calls.max_calls - calls) if takes else 0
        return Standing(free, calls, not self.registry.accepting)

    def _make_registry(self, services: CallServices) -> CallRegistry:
        return CallRegistry(
            lambda: self.reloader.generation,
            self._open_agent,
            services,
            self.load.degradation,
            has_ari=self._begun_with.asterisk is not None,
            cluster_is_full=lambda: self.membership is not None and self.membership.is_full(),
            **({} if self.cluster_config is None else {"canary": self.cluster_config.choose}),
        )

    def _make_outbound(self, services: CallServices) -> OutboundCalls:
        return OutboundCalls(
            lambda: self._config,
            self.doors.place,
            lambda: self.reloader.generation.policy,
            services.counts,
            self._callbacks.is_blocked,
            PlacedCalls(self._begun_with.outbound.campaigns),
        )

    def _make_view(self, provider_health: ProviderHealth) -> EngineHealth:
        return EngineHealth(
            calls=self.registry,
            chat=self.chat,
            doors=self.doors,
            load=self.load,
            ledgers=self._writer,
            series=self._metrics,
            models=self.models,
            post_call=self._post_call,
            provider_health=provider_health,
            recordings=self._recordings,
            reloader=self.reloader,
            membership=self.membership,
            cluster_config=self.cluster_config,
        )

    def _make_alarms(self) -> AlarmWatch:
        return AlarmWatch(
            lambda: self._config,
            self.view.live_states,
            lambda since_ms: self.view.history.recent(since_ms) if self.view.history else None,
            Notifier(lambda: self._config, self._post_call),
            self._begun_with.admin.ui.data / "alarms.json",
            ErasedCalls(self._directory),
            self._metrics.internal_error,
        )

    def _http_app(self) -> ASGIApp:
        health = self._begun_with.health
        return create_app(
            self.view,
            loopback_only=is_loopback(health.host),
            allowed_hosts=(health.host, *health.allowed_hosts),
            administration=self._operations,
            admission=self.registry,
            token=lambda: self._config.admin.token,
            chat=self.chat,
            trials=self._trials,
            usage=self._usage,
            outbound=self.outbound,
        )

    def _cap_usage(self) -> list[CapUsage]:
        contexts = self._config.contexts
        return cap_usage(self.reloader.generation.policy, self._counts.counts, contexts)

    def _admin_listener(self, source: ConfigSource | None) -> AdminListener:
        # Imported here: it costs nothing when it is off.
        from cordboard.admin.listener import AdminListener, EngineParts

        parts = EngineParts(
            view=self.view,
            operations=self._operations,
            calls=lambda: self.registry.calls,
            admission=self.registry,
            trials=self._trials,
            usage=self._usage,
            providers=self._provider_desk(source),
            browser=self.doors.browser,
            outbound=self.outbound,
            caps=self._cap_usage,
            runs=self.trial_runs,
            chats=self.chat,
            config=lambda: self._config,
            generation=lambda: (
                self.reloader.generation.number,
                self.reloader.generation.version,
            ),
            source=source,
            versions=self._versions,
            history=lambda: self.view.history,
            setup=self._check_setup,
            place_test_call=self._place_test_call,
            alarms=self.alarms,
            internal_error=self._metrics.internal_error,
            listeners=self._listeners,
            load_level=lambda: self.load.degradation.level,
            flush_ledgers=self._writer.flush,
            log=self._kept_log,
            cluster=self._cluster_door(),
        )
        return AdminListener(self._begun_with.admin.ui, parts)

    def _cluster_door(self) -> ClusterDoor | None:
        settings = self._begun_with.cluster
        if self.membership is None or settings is None:
            return None
        from cordboard.runtime.cluster_administration import ClusterAdministration

        return ClusterAdministration(self.membership.member, settings)

    def _provider_desk(self, source: ConfigSource | None) -> ProviderDesk:
        from cordboard.agents.provider_desk import ProviderDesk

        def used(usage: Usage) -> None:
            for unit, amount in usage.amounts.items():
                self._metrics.costs.used(usage.provider, usage.model, unit, amount)

        return ProviderDesk(
            lambda: self._config,
            lambda: self.reloader.providers,
            self.view.provider_health,
            source.environ if source is not None else os.environ,
            self.load.degradation,
            lambda text: self.reloader.generation.known_secrets.text(text),
            used,
        )

    def _tell(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        for listener in self._listeners:
            listener(call_id, at_ms, event)

    async def _check_setup(self, source: ConfigSource, freepbx: bool) -> list[Step]:
        """Check the set-up, as `cordboard doctor` does beside a running engine."""
        components = {
            name: {"ready": state.ready, "detail": state.detail}
            for name, state in self.view.readiness().items()
        }
        return await check_setup(source, {"components": components}, freepbx=freepbx)

    async def _place_test_call(self, context: str) -> tuple[str, str]:
        """Have a caller of our own call a context, who speaks in the offline voice, or only hears
        the greeting if there is none. Return the call's id, and what the caller says. Raises
        `VoiceError`."""
        if (voice := self.models.voice) is None:
            return self.doors.call_from_inside(context, b""), ""
        await voice.prepare([TEST_WORDS])
        words = b"".join([piece async for piece in voice.speak(TEST_WORDS)])
        return self.doors.call_from_inside(context, words), TEST_WORDS

    @property
    def _config(self) -> Config:
        """The configuration in force."""
        return self.reloader.config

    def _campaigns_file(self) -> Path | None:
        outbound = self._config.outbound
        return outbound.campaigns if outbound.enabled else None

    @property
    def _directory(self) -> Path:
        return self._begun_with.calls.directory

    def redact(self, text: str) -> str:
        """Return a text without what no record may have (`privacy.redact`), for the log."""
        return self._config.privacy.redact.redactor.text(text)

    @property
    def http_port(self) -> int:
        """The HTTP port in use."""
        return self._http.port

    @property
    def admin_port(self) -> int | None:
        """The admin port in use; None when it is off."""
        return self._admin.port if self._admin is not None else None

    @property
    def audiosocket_port(self) -> int:
        """The AudioSocket port in use."""
        return self.doors.audiosocket.port

    @property
    def voice(self) -> Voice | None:
        """The offline voice, once loaded; the simulated callers of the demo use it too."""
        return self.models.voice

    async def start(self) -> None:
        """Start everything. Raises a `CordboardError` that names the missing part."""
        try:
            await self._start()
        except BaseException:
            await self.stop(grace=0)
            raise
        self.load.started()
        self.view.log_started()

    async def stop(self, grace: float | None = None) -> None:
        """Stop everything; live calls get `grace` seconds (default: `calls.shutdown_grace_ms`).

        A second call waits for the same end.
        """
        if self._stopping is None:
            seconds = self._config.calls.shutdown_grace_ms / 1000 if grace is None else grace
            self._stopping = asyncio.create_task(self._stop(seconds), name="engine-stop")
        await asyncio.shield(self._stopping)

    async def _stop(self, seconds: float) -> None:
        log.info("engine_stopping", calls=len(self.registry.calls), grace=seconds)
        self.reloader.freeze()
        await self.administration.close()
        await self._campaigns.pause()
        if self.membership is not None and seconds > 0:
            self.membership.hand_over_before_end(seconds - farewell_of(seconds))
        try:
            await asyncio.gather(self.registry.drain(seconds), self.chat.close(seconds))
            if self.trial_runs is not None:
                await self.trial_runs.close()
        finally:
            await self._stack.aclose()
        log.info("engine_stopped")

    async def tools_settled(self, timeout: float) -> bool:
        """Wait until every MCP server has started or failed for the first time."""
        return await self.reloader.generation.fleet.wait_settled(timeout)

    async def calls_recorded(self) -> None:
        """Wait until no call is live and every ledger and recording is on disk."""
        await self.registry.idle()
        await asyncio.to_thread(self._writer.flush)
        await asyncio.to_thread(self._recordings.flush)

    async def replaced(self) -> None:
        """Wait until other engines have taken over the calls of this one, so that it must end;
        without end if it is alone."""
        if self.membership is None:
            await asyncio.Future()
        else:
            await self.membership.replaced.wait()

    async def line_ready(self, timeout: float) -> bool:
        """Wait until calls can come in; return True at once without an Asterisk to wait for."""
        return await self.doors.line_ready(timeout)

    # Inside.

    async def _start(self) -> None:
        stack = self._stack
        stack.push_async_callback(self.models.close)
        self._tracing.start()
        stack.push_async_callback(asyncio.to_thread, self._tracing.close)
        stack.callback(self._writer.close)
        stack.callback(self._recordings.close)
        await asyncio.to_thread(self._prepare_folder, self._begun_with.calls.directory)
        await self._usage.start()
        stack.push_async_callback(self._usage.close)
        await asyncio.to_thread(warm, self._config.firewall.country)
        await self._counts.start()
        stack.push_async_callback(self._counts.close)
        self.load.start()
        stack.callback(self.load.stop)
        sweeping = asyncio.create_task(self._sweep_calls(), name="retention")
        stack.callback(sweeping.cancel)
        await self._http.start()
        stack.push_async_callback(self._http.close)
        if self._admin is not None:
            stack.push_async_callback(self._admin.close)
            await self._admin.start()
        stack.push_async_callback(self.reloader.close)
        await self.reloader.begin()
        await self.administration.keep_version()
        await self._post_call.start()
        stack.push_async_callback(self._post_call.close)
        # A full collection among the 125,000 objects of the imported libraries blocks the event
        # loop, and with it the audio of every call, for 80-140 ms (measured; one comes after some
        # 300 calls). They live as long as the engine: without them, later collections take 1-4 ms.
        # Present garbage (1,400 objects) stays: collecting it would lengthen the start by 0.1 s.
        gc.freeze()
        stack.callback(gc.unfreeze)
        self.load.watchdog.start()
        stack.callback(self.load.watchdog.stop)
        if self.membership is not None:
            stack.push_async_callback(self.membership.close)
            await self.membership.start()
        if self.cluster_config is not None:
            stack.push_async_callback(self.cluster_config.close)
            self.cluster_config.start()
        stack.push_async_callback(self.doors.close)
        stack.push_async_callback(self._campaigns.close)
        stack.push_async_callback(self.outbound.close)
        await self.doors.open()
        if self.membership is not None and self.doors.has_ari:
            self.membership.attach(self.doors.asterisk)
        self._campaigns.start()
        opening_servers = asyncio.create_task(self._open_servers(), name="open mcp servers")
        stack.callback(opening_servers.cancel)
        ending_calls = asyncio.create_task(self._end_killed_calls(), name="killed calls")
        stack.callback(ending_calls.cancel)
        await self.administration.begin()
        if self._begun_with.keeps_index:
            keeper = self.view.history = await asyncio.to_thread(self._make_index_keeper)
            stack.push_async_callback(asyncio.to_thread, keeper.close)
            keeper.start()
        await self.alarms.start()
        stack.push_async_callback(self.alarms.close)

    def _make_index_keeper(self) -> IndexKeeper:
        """Return what keeps the index of calls. Blocks: SQLAlchemy is imported only now."""
        from cordboard.history.sql_store import SqlHistoryStore

        url = self._begun_with.calls.index.database.get_secret_value()
        cluster = self._begun_with.cluster
        node = "" if cluster is None else cluster.node
        store = SqlHistoryStore(self._directory, url, self._vault, node)
        return IndexKeeper(self._directory, store, self._metrics.internal_error, vault=self._vault)

    def _prepare_folder(self, directory: Path) -> None:
        """Check the folder for ledgers before the first call. Blocks."""
        try:
            self.view.folder_warning = shut(directory)
        except OSError as error:
            log.warning("calls_directory_not_shut", path=str(directory), error=str(error))
        self._writer.prepare(directory)

    async def _aside(self, place: str, work: Awaitable[object]) -> None:
        """Do work beside the calls. A task border."""
        try:
            await work
        except Exception as error:  # task border: this engine's calls continue
            log.exception("engine_work_failed", place=place, error=repr(error))
            self._metrics.internal_error(place)

    async def _end_killed_calls(self) -> None:
        """End calls that a killed engine left behind."""
        directory, contexts = self._begun_with.calls.directory, self._config.contexts
        others = {} if self.membership is None else {"is_adopted": self.membership.is_adopted}
        ending = end_killed_calls(
            directory, contexts, self._post_call, self._metrics, self._vault, **others
        )
        await self._aside("killed_calls", ending)

    async def _open_servers(self) -> None:
        """Let MCP servers start once calls can come in and the remains of a killed engine are
        gone."""
        await self.line_ready(LINE_FIRST)
        await self._aside("mcp_sdk", asyncio.to_thread(load_sdk))
        gc.freeze()
        await self._aside("mcp_orphans", asyncio.to_thread(sweep_orphans))
        self._pool.open()

    async def _sweep_calls(self) -> None:
        """Delete old recordings and ledgers now and once a day."""
        while True:
            contexts = self._config.contexts
            keep = {name: context.recording.keep_days for name, context in contexts.items()}
            today, days = datetime.datetime.now().astimezone().date(), self._config.calls.keep_days
            recordings = asyncio.to_thread(sweep, self._directory, keep, today)
            await self._aside("retention", recordings)
            ledgers = asyncio.to_thread(sweep_ledgers, self._directory, days, today, self._vault)
            await self._aside("retention", ledgers)
            await asyncio.sleep(INTERVAL)

    def _open_agent(self, binding: Binding) -> Agent:
        providers = self.reloader.providers
        if providers is None:
            raise AgentError("the models are not loaded yet")
        return providers.open(binding.context_name, binding.provider_name)
