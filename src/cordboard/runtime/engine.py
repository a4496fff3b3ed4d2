"""The engine: everything that runs while calls are taken, started in order and stopped in order.

    start   HTTP port → models → AudioSocket port → ARI → MCP servers
    stop    no new calls → live calls end within the grace period → ARI, ports, servers, models

No call is offered before an agent could answer it. No MCP server is waited for, and none begins to
start before calls can come in: twenty interpreters that start would take the processors from the
models. `start` raises one `CordboardError` that says what is wrong; whatever was started is stopped
again. What a reload changes, it changes in `cordboard.runtime.reload`; the ports and connections
made here stay as they are.
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog
from starlette.types import ASGIApp

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.tts import Voice
from cordboard.agent_api.workers import Workers
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.readiness import agents_readiness
from cordboard.agents.realtime.engine_voice import spoken
from cordboard.api.app import ComponentState, create_app
from cordboard.api.server import HttpServer
from cordboard.audio.format import AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.binding import Binding
from cordboard.calls.call_registry import CallRegistry
from cordboard.calls.events import LedgerEvent
from cordboard.calls.failure_apology import TROUBLE
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
from cordboard.config.plugins import installed
from cordboard.config.remote_url import is_loopback
from cordboard.config.schema import Asterisk, Config
from cordboard.config.source import ConfigSource
from cordboard.errors import AgentError, ListenError
from cordboard.mcp.sdk import load_sdk
from cordboard.mcp.stdio.orphans import sweep_orphans
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.troubles import troubles
from cordboard.observe.metrics import Metrics
from cordboard.observe.open_tracing import open_tracing
from cordboard.observe.tool_usage_files import ToolUsageFiles
from cordboard.observe.tracing import Tracing
from cordboard.runtime.administration import Administration
from cordboard.runtime.overload_monitor import OverloadMonitor
from cordboard.runtime.reload import Reloader
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_peers import AllowedPeers
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.rtp_path import RtpPath
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard.telephony.asterisk.transport import plugin_path
from cordboard.telephony.asterisk.websocket_path import WebsocketPath
from cordboard.vendors.local.models import (
    Need,
    OfflineLoading,
    completed,
    load_needed_models,
    needs_of,
)
from cordboard.version import __version__

log = structlog.get_logger()

NO_WAY_IN = "no calls can come: the file has neither `asterisk` nor `audiosocket.context`"
LINE_FIRST = 1.0
"""Seconds for which MCP servers wait with their start until Asterisk is reached."""

Listener = Callable[[str, int, LedgerEvent], None]


class Engine:
    """One engine in one event loop. Use once: `start`, then `stop`."""

    def __init__(
        self,
        config: Config,
        listener: Listener | None = None,
        source: ConfigSource | None = None,
        loading: OfflineLoading | None = None,
        *,
        sheds_load: bool = True,
    ) -> None:
        """`listener(call_id, at_ms, event)` gets every ledger event of every call. `source` is the
        file that `config` is from; without it, nothing can be reloaded. `loading`: the offline
        models, when their loading has begun already; they are the engine's from now on. Without
        `sheds_load` the engine takes calls however busy it is
        (`cordboard.runtime.overload_monitor`)."""
        self._begun_with = config
        """For what stays as it is until the engine is started again."""
        self._started_at = time.monotonic()
        self._metrics = Metrics()
        self._metrics.version(__version__)
        self._tracing = self._open_tracing()
        self._stack = AsyncExitStack()
        self._pool = ServerPool(self._metrics, is_open=False)
        self._writer = LedgerWriter(OpenCalls(config.calls.directory))
        self._folder_warning = ""
        self._recordings = RecordingWriter(self._metrics.recording_dropped)
        self._stopping: asyncio.Task[None] | None = None
        self._said_ready = False
        self._load = OverloadMonitor(
            self._metrics,
            lambda: self._workers,
            self._count_late,
            self._tell_ready,
            sheds=sheds_load,
        )
        self._loading = loading
        self._workers: Workers | None = None
        self._models: OfflineModels | None = None
        self._source: AsteriskSource | None = None
        self._media_path: MediaPath | None = None
        loop = asyncio.get_running_loop()
        self._pacer = Pacer(loop, on_internal_error=self._metrics.internal_error)
        self._late_ticks_told = 0
        self._rtp_told: Counter[str] = Counter()
        self._provider_health = ProviderHealth()
        self._succession = self._make_succession(source)
        self.administration = Administration(self._succession, source)
        self._post_call = self._make_post_call_queue()
        services = self._call_services(listener)
        self.exchange = CallRegistry(
            lambda: self._succession.generation, self._open_agent, services, self._load.degradation
        )
        self.chat = ChatSessions(
            lambda: self._succession.generation, self._succession.brain, services
        )
        self._trials = ToolTrials(lambda: self._succession.generation, services)
        self._usage = ToolUsageFiles(self._metrics.usage, services.directory)
        self._audiosocket = self._make_audiosocket()
        self._following: set[asyncio.Task[None]] = set()
        """Open or close the AudioSocket port as a reload wants it."""
        self._http = HttpServer(config.health, self._http_app())

    def _make_succession(self, source: ConfigSource | None) -> Reloader:
        return Reloader(
            self._begun_with,
            self._pool,
            self._load_models,
            self._load.degradation,
            source.path.parent if source is not None else Path(),
            self._changed,
            self._provider_health,
        )

    def _make_audiosocket(self) -> AudioSocketServer:
        config = self._begun_with
        return AudioSocketServer(
            config.audiosocket,
            self._pacer,
            self.exchange.offer,
            peers=AllowedPeers(config.audiosocket.peers(config.asterisk)),
            on_turned_away=self._metrics.audiosocket_turned_away,
        )

    def _open_tracing(self) -> Tracing:
        tracing = self._begun_with.tracing
        dropped = self._metrics.spans_dropped
        return open_tracing(tracing.otlp_endpoint, tracing.service_name, __version__, dropped)

    def _make_post_call_queue(self) -> PostCallQueue:
        return PostCallQueue(
            self._begun_with.calls.directory / "post_call",
            lambda: self._succession.generation,
            lambda: self._config.calls.post_call,
            self._metrics,
            self._tracing,
        )

    def _http_app(self) -> ASGIApp:
        health = self._begun_with.health
        return create_app(
            self,
            loopback_only=is_loopback(health.host),
            allowed_hosts=(health.host, *health.allowed_hosts),
            administration=self.administration,
            token=lambda: self._config.admin.token,
            chat=self.chat,
            trials=self._trials,
            usage=self._usage,
        )

    def _call_services(self, listener: Listener | None) -> CallServices:
        return CallServices(
            self._writer,
            self._metrics,
            self._begun_with.calls.directory,
            listener,
            self._recordings,
            self._apology,
            self._tracing,
            self._post_call,
        )

    @property
    def _config(self) -> Config:
        """The configuration in force."""
        return self._succession.config

    @property
    def http_port(self) -> int:
        """The HTTP port that is really open."""
        return self._http.port

    @property
    def audiosocket_port(self) -> int:
        """The AudioSocket port that is really open."""
        return self._audiosocket.port

    @property
    def voice(self) -> Voice | None:
        """The offline voice, once loaded; the simulated callers of the demo speak with it too."""
        return self._models.voice if self._models is not None else None

    async def start(self) -> None:
        """Start everything. Raises a `CordboardError` that names what cannot be had."""
        try:
            await self._start()
        except BaseException:
            await self.stop(grace=0)
            raise
        self._load.started()
        self._tell_ready()
        if not self._said_ready:
            log.info("engine_started", waiting_for=self._missing())

    async def stop(self, grace: float | None = None) -> None:
        """Stop everything; live calls get `grace` seconds (default: `calls.shutdown_grace_ms`).

        Who calls it again waits for the same end.
        """
        if self._stopping is None:
            seconds = self._config.calls.shutdown_grace_ms / 1000 if grace is None else grace
            self._stopping = asyncio.create_task(self._stop(seconds), name="engine-stop")
        await asyncio.shield(self._stopping)

    async def _stop(self, seconds: float) -> None:
        log.info("engine_stopping", calls=len(self.exchange.calls), grace=seconds)
        self._succession.freeze()
        await self.administration.close()
        await asyncio.gather(self.exchange.drain(seconds), self.chat.close(seconds))
        await self._stack.aclose()
        log.info("engine_stopped")

    async def tools_settled(self, timeout: float) -> bool:
        """Wait until every MCP server has started or failed for the first time."""
        return await self._succession.generation.fleet.wait_settled(timeout)

    async def calls_recorded(self) -> None:
        """Wait until no call is live and every ledger and recording is on disk."""
        await self.exchange.idle()
        await asyncio.to_thread(self._writer.flush)
        await asyncio.to_thread(self._recordings.flush)

    async def line_ready(self, timeout: float) -> bool:
        """Wait until calls can come in; at once true when there is no Asterisk to wait for."""
        return self._source is None or await self._source.wait_ready(timeout)

    # What the HTTP port shows (cordboard.api.app.EngineView).

    def readiness(self) -> Mapping[str, ComponentState]:
        """The components, each ready or why not."""
        accepting = self.exchange.accepting
        components = {
            "agents": self._agents_state(),
            "media": self._media_state(),
            "calls": ComponentState(
                accepting, "" if accepting else "the engine is stopping", public=True
            ),
            "mcp": self._mcp_state(),
            "ledger": self._ledger_state(),
        }
        if any(context.recording.enabled for context in self._config.contexts.values()):
            trouble = self._recordings.trouble
            components["recordings"] = ComponentState(not trouble, trouble, required=False)
        if broken := installed().broken:
            told = "; ".join(map(str, broken))
            components["plugins"] = ComponentState(False, told, required=False)
        if self._begun_with.asterisk is not None:
            components["ari"] = self._ari_state()
        return components

    def _missing(self) -> dict[str, str]:
        """The components without which no call is taken, and what is the matter with them."""
        return {
            name: state.detail
            for name, state in self.readiness().items()
            if state.required and not state.ready
        }

    def _tell_ready(self) -> None:
        """Say once that calls can come in, when it is so."""
        if not self._said_ready and not self._missing():
            self._said_ready = True
            log.info("engine_ready", seconds=round(time.monotonic() - self._started_at, 2))

    def counts(self) -> Mapping[str, Any]:
        """Version, uptime and numbers: nothing that names a call, a context or a provider."""
        return {
            "version": __version__,
            "uptime_seconds": round(time.monotonic() - self._started_at, 1),
            "active_calls": len(self.exchange.calls),
            "max_calls": self._config.calls.max_calls,
            "chat_sessions": len(self.chat),
        }

    def health(self) -> Mapping[str, Any]:
        """Everything worth knowing at a glance."""
        return {
            **self.counts(),
            "generation": self._succession.generation.number,
            "deferred": [
                {"what": item.what, "until": item.until} for item in self._succession.deferred()
            ],
            "active_calls": [
                {
                    "call_id": call.call_id,
                    "context": call.context_name,
                    "provider": call.provider_name,
                    "state": call.state,
                }
                for call in self.exchange.calls.values()
            ],
            "components": {
                name: {"ready": state.ready, "detail": state.detail}
                for name, state in self.readiness().items()
            },
            "mcp_servers": {
                status.server: {
                    "state": status.state,
                    "tools": list(status.tools),
                    "restarts": status.restarts,
                    "last_error": status.last_error,
                }
                for status in self._succession.generation.fleet.status()
            },
            **self._load.health(),
            "bare_calls": self.exchange.bare.health(),
            "audio": {
                "late_ticks": self._pacer.late_ticks,
                "skipped_ticks": self._pacer.skipped_ticks,
                "connections": self._audiosocket.connections,
                "turned_away": dict(self._audiosocket.turned_away),
                "faults": dict(self._audiosocket.faults),
                **self._media_health(),
            },
            "turn_end_model": self._turn_end_model(),
            "ledger_write_failures": self._writer.failures,
            "post_call": self._post_call.health(),
        }

    def _turn_end_model(self) -> str:
        """`loaded`, `not needed`, or why there is none: calls then go by silence and words."""
        if self._models is None:
            return "not needed"
        return self._models.turn_end_missing or "loaded"

    def metrics(self) -> bytes:
        """The Prometheus page."""
        return self._metrics.render()

    # Inside.

    async def _start(self) -> None:
        stack = self._stack
        if self._loading is not None:
            self._workers = self._loading.workers
            stack.push_async_callback(self._workers.close)
        self._tracing.start()
        stack.push_async_callback(asyncio.to_thread, self._tracing.close)
        stack.callback(self._writer.close)
        stack.callback(self._recordings.close)
        fixed = self._begun_with
        await asyncio.to_thread(self._prepare_folder, fixed.calls.directory)
        await self._usage.start()
        stack.push_async_callback(self._usage.close)
        self._load.start()
        stack.callback(self._load.stop)
        sweeping = asyncio.create_task(self._sweep_recordings(), name="retention")
        stack.callback(sweeping.cancel)
        await self._http.start()
        stack.push_async_callback(self._http.close)
        stack.push_async_callback(self._succession.close)
        await self._succession.begin()
        await self._post_call.start()
        stack.push_async_callback(self._post_call.close)
        # A full collection among the 125,000 objects of the imported libraries holds the event
        # loop, and with it the sound of every call, for 80-140 ms (measured; one comes after some
        # 300 calls). They live as long as the engine: passed over, later ones take 1-4 ms. What is
        # garbage by now (1,400 objects) stays: to collect it would lengthen the start by 0.1 s.
        gc.freeze()
        stack.callback(gc.unfreeze)
        self._load.watchdog.start()
        stack.callback(self._load.watchdog.stop)
        stack.push_async_callback(self._audiosocket.stop)
        await self._audiosocket.listen(self._needs_audiosocket)
        if fixed.asterisk is not None:
            self._media_path = self._choose_media_path(fixed.asterisk)
            await self._media_path.start()
            stack.push_async_callback(self._media_path.stop)
            self._source = AsteriskSource(
                fixed.asterisk,
                self._media_path,
                self.exchange.offer,
                variables=channel_variables(self._config),
                on_reached=self._audiosocket.asterisk_reached,
                on_internal_error=self._metrics.internal_error,
            )
            await self._source.start()
            stack.push_async_callback(self._source.stop)
        opening_servers = asyncio.create_task(self._open_servers(), name="open mcp servers")
        stack.callback(opening_servers.cancel)
        ending_calls = asyncio.create_task(self._end_killed_calls(), name="killed calls")
        stack.callback(ending_calls.cancel)
        await self.administration.begin()

    async def _load_models(self, config: Config) -> OfflineModels | None:
        """What a configuration needs, loaded once and kept to the end."""
        if self._models is not None:
            self._models = await completed(self._models, needs_of(config))
        elif (needs := needs_of(config)).ears is not Need.NO:
            if self._workers is None:
                self._workers = Workers()
                self._stack.push_async_callback(self._workers.close)
            begun, load = self._loading, load_needed_models
            self._models = await (begun.finished() if begun else load(self._workers, needs))
            if self._models is not None:
                self._stack.callback(self._models.close)
        return self._models

    def _prepare_folder(self, directory: Path) -> None:
        """Look at the folder for ledgers before the first call. Blocks."""
        try:
            self._folder_warning = shut(directory)
        except OSError as error:
            log.warning("calls_directory_not_shut", path=str(directory), error=str(error))
        self._writer.prepare(directory)

    async def _end_killed_calls(self) -> None:
        """Task border: end what an engine that was killed has left."""
        directory, contexts = self._begun_with.calls.directory, self._config.contexts
        try:
            await end_killed_calls(directory, contexts, self._post_call, self._metrics)
        except Exception as error:  # task border: this engine's calls go on
            log.exception("killed_calls_failed", error=repr(error))
            self._metrics.internal_error("killed_calls")

    async def _open_servers(self) -> None:
        """Let MCP servers start: when calls can come in, and when what an engine that was killed
        has left behind is gone."""
        await self.line_ready(LINE_FIRST)
        await asyncio.to_thread(load_sdk)
        gc.freeze()
        try:
            await asyncio.to_thread(sweep_orphans)
        except OSError as error:
            log.error("mcp_orphans_not_swept", error=str(error))
        self._pool.open()

    def _changed(self, config: Config) -> None:
        """A new configuration has come into force: pass on what is not read from it."""
        peers = config.audiosocket.peers(self._begun_with.asterisk)
        self._audiosocket.use(config.audiosocket, peers)
        following = asyncio.create_task(self._follow(), name="audiosocket port")
        self._following.add(following)
        following.add_done_callback(self._following.discard)
        if self._source is not None:
            self._source.read_variables(channel_variables(config))

    @property
    def _needs_audiosocket(self) -> bool:
        """Whether calls can come by the AudioSocket port; else it is shut."""
        asterisk = self._begun_with.asterisk
        by_ari = asterisk is not None and asterisk.media == "audiosocket"
        return by_ari or self._config.audiosocket.context is not None

    async def _follow(self) -> None:
        """Task border: open or close the port as the configuration in force wants it."""
        try:
            await self._audiosocket.listen(self._needs_audiosocket)
        except ListenError as error:
            log.error("audiosocket_not_opened", error=str(error))

    def _choose_media_path(self, asterisk: Asterisk) -> MediaPath:
        if asterisk.media == "rtp":
            return RtpPath(self._begun_with.rtp, self._pacer, asterisk.codec)
        if asterisk.media == "websocket":
            return WebsocketPath(asterisk, self._pacer)
        if asterisk.media == "audiosocket":
            return AudioSocketPath(self._audiosocket, asterisk.codec)
        return plugin_path(asterisk, self._pacer)

    async def _apology(self, audio_format: AudioFormat) -> bytes:
        """What a caller hears who has no agent left; empty without the offline voice."""
        if self.voice is None:
            return b""
        chunks = [sound async for sound in spoken(self.voice, TROUBLE, audio_format)]
        return b"".join(chunks)

    async def _sweep_recordings(self) -> None:
        """Delete old recordings now and once a day."""
        while True:
            contexts = self._config.contexts
            keep = {name: context.recording.keep_days for name, context in contexts.items()}
            today = datetime.datetime.now().astimezone().date()
            await asyncio.to_thread(sweep, self._begun_with.calls.directory, keep, today)
            await asyncio.sleep(INTERVAL)

    def _open_agent(self, binding: Binding) -> Agent:
        providers = self._succession.providers
        if providers is None:
            raise AgentError("the models are not loaded yet")
        return providers.open(binding.context_name, binding.provider_name)

    def _agents_state(self) -> ComponentState:
        providers = self._succession.providers
        if providers is None:
            return ComponentState(False, "models are being loaded")
        unmade, health = providers.unmade, self._provider_health
        return ComponentState(*agents_readiness(self._config, os.environ, health, unmade))

    def _ledger_state(self) -> ComponentState:
        """Not required: calls go on without a record."""
        trouble = self._writer.trouble
        return ComponentState(not trouble, trouble or self._folder_warning, required=False)

    def _mcp_state(self) -> ComponentState:
        """Not required: without a server or a tool the other ones and contexts still work."""
        generation = self._succession.generation
        detail = troubles(generation.fleet, generation.catalogue)
        return ComponentState(not detail, detail, required=False)

    def _media_health(self) -> dict[str, Any]:
        path = self._media_path
        if isinstance(path, RtpPath):
            return {"rtp_ports": path.ports_open, "rtp_events": dict(path.counts)}
        if isinstance(path, WebsocketPath):
            return {"websocket_events": dict(path.counts)}
        return {}

    def _media_state(self) -> ComponentState:
        asterisk, path = self._begun_with.asterisk, self._media_path
        shut = self._needs_audiosocket and not self._audiosocket.listening
        by_port = asterisk is None or asterisk.media == "audiosocket"
        if path is not None and path.trouble and not (shut and by_port):
            return ComponentState(False, path.trouble, public=True)
        if shut:  # callers by ARI whose sound comes another way can be answered all the same
            return ComponentState(False, self._audiosocket.trouble, by_port, public=True)
        no_way_in = NO_WAY_IN if asterisk is None and not self._needs_audiosocket else ""
        return ComponentState(True, no_way_in, public=True)

    def _ari_state(self) -> ComponentState:
        if self._source is None:
            return ComponentState(False, "not connected yet", public=True)
        state = self._source.state
        return ComponentState(state.ready, state.last_error, public=True)

    def _count_late(self) -> None:
        """Tell the metrics what has come since the last time."""
        late = self._pacer.late_ticks + self._pacer.skipped_ticks
        self._metrics.ticks_late(late - self._late_ticks_told)
        self._late_ticks_told = late
        if isinstance(self._media_path, RtpPath):
            for word, count in self._media_path.counts.items():
                self._metrics.rtp_events(word, count - self._rtp_told[word])
                self._rtp_told[word] = count


def channel_variables(config: Config) -> frozenset[str]:
    """The channel variables that any context may use."""
    return frozenset(name for context in config.contexts.values() for name in context.variables)
