"""The engine: everything that runs while calls are taken, started in order and stopped in order.

    start   HTTP port → models and MCP servers side by side → AudioSocket port → ARI
    stop    no new calls → live calls end within the grace period → ARI, ports, servers, models

No call is offered before an agent could answer it; a slow or broken MCP server delays nothing.
`start` raises one `CordboardError` that says what is wrong; whatever was started is stopped again.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import structlog

from cordboard.agents.base import Agent
from cordboard.agents.pipeline.offline import OfflineModels, load_offline_models
from cordboard.agents.pipeline.tts.base import Voice
from cordboard.agents.providers import Providers, needs_models
from cordboard.agents.workers import Priority, Workers
from cordboard.api.app import ComponentState, create_app, is_loopback
from cordboard.api.server import HttpServer
from cordboard.audio.pacer import Pacer
from cordboard.calls.binding import Binding
from cordboard.calls.call import FAREWELLS
from cordboard.calls.events import LedgerEvent
from cordboard.calls.exchange import Exchange
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.services import CallServices
from cordboard.config.schema import Asterisk, Config
from cordboard.errors import AgentError
from cordboard.generation import Generation
from cordboard.mcp.server import ServerState
from cordboard.observe.loop_lag import LoopLagMonitor
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.rtp_path import RtpPath
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard.telephony.asterisk.websocket_path import WebsocketPath
from cordboard.version import __version__

log = structlog.get_logger()


Listener = Callable[[str, int, LedgerEvent], None]


class Engine:
    """One engine in one event loop. Use once: `start`, then `stop`."""

    def __init__(self, config: Config, listener: Listener | None = None) -> None:
        """`listener(call_id, at_ms, event)` gets every ledger event of every call."""
        self._config = config
        self._started_at = time.time()
        self._metrics = Metrics()
        self._metrics.version(__version__)
        self._stack = AsyncExitStack()
        self._generation = Generation(config, self._metrics)
        self._writer = LedgerWriter()
        self._workers: Workers | None = None
        self._models: OfflineModels | None = None
        self._providers: Providers | None = None
        self._source: AsteriskSource | None = None
        self._media_path: MediaPath | None = None
        loop = asyncio.get_running_loop()
        self._pacer = Pacer(loop)
        self._lag = LoopLagMonitor(self._measure)
        self.exchange = Exchange(
            lambda: self._generation,
            self._open_agent,
            CallServices(self._writer, self._metrics, config.calls.directory, listener),
        )
        self._audiosocket = AudioSocketServer(config.audiosocket, self._pacer, self.exchange.offer)
        app = create_app(self, loopback_only=is_loopback(config.health.host))
        self._http = HttpServer(config.health, app)

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
        log.info("engine_ready", seconds=round(time.time() - self._started_at, 2))

    async def stop(self, grace: float | None = None) -> None:
        """Stop everything; live calls get `grace` seconds (default: `calls.shutdown_grace_ms`)."""
        seconds = self._config.calls.shutdown_grace_ms / 1000 if grace is None else grace
        log.info("engine_stopping", calls=len(self.exchange.calls), grace=seconds)
        await self.exchange.drain(seconds)
        await self._stack.aclose()
        log.info("engine_stopped")

    async def tools_settled(self, timeout: float) -> bool:
        """Wait until every MCP server has started or failed for the first time."""
        return await self._generation.fleet.wait_settled(timeout)

    async def calls_recorded(self) -> None:
        """Wait until no call is live and every ledger is on disk."""
        await self.exchange.idle()
        await asyncio.to_thread(self._writer.flush)

    async def line_ready(self, timeout: float) -> bool:
        """Wait until calls can come in; at once true when there is no Asterisk to wait for."""
        return self._source is None or await self._source.wait_ready(timeout)

    # What the HTTP port shows (cordboard.api.app.EngineView).

    def readiness(self) -> Mapping[str, ComponentState]:
        """The components, each ready or why not."""
        accepting = self.exchange.accepting
        components = {
            "agents": ComponentState(
                self._providers is not None, "" if self._providers else "models are being loaded"
            ),
            "media": ComponentState(
                self._audiosocket.listening,
                "" if self._audiosocket.listening else "the AudioSocket port is not open",
            ),
            "calls": ComponentState(accepting, "" if accepting else "the engine is stopping"),
            "mcp": self._mcp_state(),
            "ledger": ComponentState(
                not self._writer.trouble, self._writer.trouble, required=False
            ),
        }
        if self._config.asterisk is not None:
            components["ari"] = self._ari_state()
        return components

    def health(self) -> Mapping[str, Any]:
        """Everything worth knowing at a glance."""
        return {
            "version": __version__,
            "uptime_seconds": round(time.time() - self._started_at, 1),
            "generation": self._generation.number,
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
                for status in self._generation.fleet.status()
            },
            "event_loop_lag_ms": {
                "latest": round(self._lag.latest * 1000, 2),
                "worst": round(self._lag.worst * 1000, 2),
            },
            "audio": {
                "late_ticks": self._pacer.late_ticks,
                "skipped_ticks": self._pacer.skipped_ticks,
                "connections": self._audiosocket.connections,
                "turned_away": dict(self._audiosocket.turned_away),
            },
            "ledger_write_failures": self._writer.failures,
        }

    def metrics(self) -> bytes:
        """The Prometheus page."""
        return self._metrics.render()

    # Inside.

    async def _start(self) -> None:
        stack = self._stack
        stack.callback(self._writer.close)
        await asyncio.to_thread(self._writer.prepare, self._config.calls.directory)
        self._lag.start()
        stack.callback(self._lag.stop)
        await self._http.start()
        stack.push_async_callback(self._http.close)
        stack.push_async_callback(self._generation.close)
        self._generation.start()
        if needs_models(self._config):
            self._workers = Workers()
            stack.push_async_callback(self._workers.close)
            self._models = await load_offline_models(self._workers)
            stack.callback(self._models.close)
        self._providers = Providers(self._config, self._models)
        for context in self._config.contexts:
            self._providers.warm(context, self._generation.toolbox(context).specs)
        if self._models is not None:
            await self._models.voice.prepare(
                [*self._fixed_greetings(), *FAREWELLS, *self._silence_sentences()]
            )
        _spare_the_collector()
        stack.callback(gc.unfreeze)
        await self._audiosocket.start()
        stack.push_async_callback(self._audiosocket.stop)
        if self._config.asterisk is not None:
            self._media_path = self._choose_media_path(self._config.asterisk)
            await self._media_path.start()
            stack.push_async_callback(self._media_path.stop)
            self._source = AsteriskSource(
                self._config.asterisk,
                self._media_path,
                self.exchange.offer,
                variables=self._channel_variables(),
            )
            await self._source.start()
            stack.push_async_callback(self._source.stop)

    def _choose_media_path(self, asterisk: Asterisk) -> MediaPath:
        if asterisk.media == "rtp":
            return RtpPath(self._config.rtp, self._pacer, asterisk.codec)
        if asterisk.media == "websocket":
            return WebsocketPath(asterisk, self._pacer)
        return AudioSocketPath(self._audiosocket)

    def _silence_sentences(self) -> list[str]:
        """What is said when one side is silent; a filler that has to be made first is late."""
        silences = [context.silence for context in self._config.contexts.values()]
        return [
            text
            for silence in silences
            for text in (*silence.fillers, *silence.reprompts, silence.goodbye)
            if text
        ]

    def _fixed_greetings(self) -> list[str]:
        """Greetings without call variables: they are rendered before anybody calls."""
        return [
            c.greeting
            for c in self._config.contexts.values()
            if c.greeting and "{" not in c.greeting
        ]

    def _channel_variables(self) -> frozenset[str]:
        return frozenset(
            name for context in self._config.contexts.values() for name in context.variables
        )

    def _open_agent(self, binding: Binding) -> Agent:
        if self._providers is None:
            raise AgentError("the models are not loaded yet")
        return self._providers.open(binding.context_name, binding.provider_name)

    def _mcp_state(self) -> ComponentState:
        """Not required: without a server the other tools and contexts still work."""
        waiting = [
            f"{status.server} is {status.state}"
            + (f": {status.last_error}" if status.last_error else "")
            for status in self._generation.fleet.status()
            if status.state is not ServerState.READY
        ]
        return ComponentState(not waiting, "; ".join(waiting), required=False)

    def _ari_state(self) -> ComponentState:
        if self._source is None:
            return ComponentState(False, "not connected yet")
        state = self._source.state
        return ComponentState(state.ready, state.last_error)

    def _measure(self, lag: float) -> None:
        self._metrics.loop_lag(lag)
        late = self._pacer.late_ticks + self._pacer.skipped_ticks
        self._metrics.ticks_late(late - self._late_ticks_told)
        self._late_ticks_told = late
        if self._workers is not None:
            for priority in Priority:
                self._metrics.worker_queue(priority.value, self._workers.queued(priority))

    _late_ticks_told = 0


def _spare_the_collector() -> None:
    """Have the garbage collector pass over what lives as long as the engine.

    A full collection among the 125,000 objects of the imported libraries holds the event loop, and
    with it the sound of every call, for 80-140 ms (measured; one comes after some 300 calls). It is
    done here once, before anybody calls; later ones take 1-4 ms.
    """
    gc.collect()
    gc.freeze()
