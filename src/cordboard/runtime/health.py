"""The state of an engine for HTTP (implements `cordboard.api.app.EngineView`)."""

from __future__ import annotations

import asyncio
import datetime
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.tts import Voice
from cordboard.agent_api.workers import Workers
from cordboard.agents.provider_health import ProviderHealth, agents_readiness
from cordboard.agents.realtime.engine_speech import spoken
from cordboard.alarms.readings import Live
from cordboard.api.app import ComponentState
from cordboard.audio.format import AudioFormat
from cordboard.calls.call_registry import CallRegistry
from cordboard.calls.failure_apology import TROUBLE
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.post_call.queue import PostCallQueue
from cordboard.calls.recording.writer import RecordingWriter
from cordboard.chat.sessions import ChatSessions
from cordboard.config.checks.tools import running_servers
from cordboard.config.plugins import installed
from cordboard.config.schema import Config
from cordboard.history.keeper import IndexKeeper
from cordboard.mcp.fleet import troubles
from cordboard.mcp.supervision.status import ServerState
from cordboard.observe.metrics import Metrics
from cordboard.runtime.doors import Doors
from cordboard.runtime.overload_monitor import OverloadMonitor
from cordboard.runtime.reload import Reloader
from cordboard.vendors.local.models import (
    Need,
    OfflineLoading,
    completed,
    load_needed_models,
    needs_of,
)
from cordboard.version import __version__

if TYPE_CHECKING:
    from cordboard.runtime.cluster_config import ClusterConfig
    from cordboard.runtime.membership import Membership

log = structlog.get_logger()


class EngineModels:
    """The models of one engine, and its workers."""

    def __init__(self, loading: OfflineLoading | None = None) -> None:
        """`loading`: models whose loading has begun already; the engine owns them from now on."""
        self._loading = loading
        self._models: OfflineModels | None = None
        self.workers = loading.workers if loading is not None else None
        """The threads for model work; None while no model is needed."""
        self._one_at_a_time = asyncio.Lock()

    async def load(self, config: Config) -> OfflineModels | None:
        """Load the models that a configuration needs, unless they are loaded already: a reload and
        a trial that come together load them once."""
        async with self._one_at_a_time:
            return await self._load(config)

    async def _load(self, config: Config) -> OfflineModels | None:
        if self._models is not None:
            self._models = await completed(self._models, needs_of(config))
        elif (needs := needs_of(config)).ears is not Need.NO:
            if self.workers is None:
                self.workers = Workers()
            begun, load = self._loading, load_needed_models
            self._models = await (begun.finished() if begun else load(self.workers, needs))
        return self._models

    async def close(self) -> None:
        """Free the models and end the threads."""
        if self._models is not None:
            self._models.close()
        if self.workers is not None:
            await self.workers.close()

    @property
    def voice(self) -> Voice | None:
        """The offline voice, once loaded."""
        return self._models.voice if self._models is not None else None

    @property
    def turn_end_model(self) -> str:
        """`loaded`, `not needed`, or why there is none: turns then end by silence and words."""
        if self._models is None:
            return "not needed"
        return self._models.turn_end_missing or "loaded"

    async def words(self, pcm_8k: bytes) -> str:
        """Return the words in s16 at 8 kHz; empty without the offline recogniser. Raises
        `RecogniserError`."""
        recogniser = self._models.recogniser if self._models is not None else None
        return (await recogniser.transcribe(pcm_8k)).text if recogniser is not None else ""

    async def apology(self, audio_format: AudioFormat) -> bytes:
        """Return the audio for a caller without an agent; empty without the offline voice."""
        if self.voice is None:
            return b""
        chunks = [sound async for sound in spoken(self.voice, TROUBLE, audio_format)]
        return b"".join(chunks)


@dataclass(slots=True, eq=False, kw_only=True)
class EngineHealth:
    """The parts of one engine, read at each request: no state is kept here."""

    calls: CallRegistry
    chat: ChatSessions
    doors: Doors
    load: OverloadMonitor
    ledgers: LedgerWriter
    series: Metrics
    models: EngineModels
    post_call: PostCallQueue
    provider_health: ProviderHealth
    recordings: RecordingWriter
    reloader: Reloader
    membership: Membership | None = None
    """None if the engine is alone."""
    cluster_config: ClusterConfig | None = None
    """None if the file is the whole configuration."""
    history: IndexKeeper | None = None
    """Keeps the index of calls; None if the configuration leaves that out."""
    folder_warning: str = ""
    """Problem of the ledgers' folder that does not prevent writing."""
    _started_at: float = field(default_factory=time.monotonic)
    _said_ready: bool = False

    def readiness(self) -> Mapping[str, ComponentState]:
        """Return the components, each ready or with the reason."""
        accepting = self.calls.accepting
        components = {
            "agents": self._agents_state(),
            "media": self.doors.media_state(),
            "calls": ComponentState(
                accepting, "" if accepting else self._why_no_calls(), public=True
            ),
            "mcp": self._mcp_state(),
            "ledger": self._ledger_state(),
        }
        if any(context.recording.enabled for context in self.reloader.config.contexts.values()):
            trouble = self.recordings.trouble
            components["recordings"] = ComponentState(not trouble, trouble, required=False)
        if self.history is not None:
            trouble = self.history.problem
            components["history"] = ComponentState(not trouble, trouble, required=False)
        if broken := installed().broken:
            told = "; ".join(map(str, broken))
            components["plugins"] = ComponentState(False, told, required=False)
        if self.doors.has_ari:
            components["ari"] = self.doors.ari_state()
        if self.membership is not None:
            components["cluster"] = self.membership.state()
        if self.cluster_config is not None:
            components["cluster_config"] = self.cluster_config.state()
        return components

    def live_states(self) -> Live:
        """Return the state of components and MCP servers, as alarms judge it."""
        up = (ServerState.READY, ServerState.IDLE)
        return Live(
            {
                name: "" if state.ready else state.detail or "not ready"
                for name, state in self.readiness().items()
            },
            {
                each.server: "" if each.state in up else f"{each.state.value} {each.last_error}"
                for each in self.reloader.generation.fleet.status()
            },
        )

    def missing(self) -> dict[str, str]:
        """Return the required components that are not ready, with the reasons."""
        return {
            name: state.detail
            for name, state in self.readiness().items()
            if state.required and not state.ready
        }

    def log_when_ready(self) -> None:
        """Log once that calls can come in, when that is so."""
        if not self._said_ready and not self.missing():
            self._said_ready = True
            log.info("engine_ready", seconds=round(time.monotonic() - self._started_at, 2))

    def log_started(self) -> None:
        """Log the end of the start: the engine is ready, or the parts it waits for."""
        self.log_when_ready()
        if not self._said_ready:
            log.info("engine_started", waiting_for=self.missing())

    def counts(self) -> Mapping[str, Any]:
        """Return version, uptime and numbers, without names of calls, contexts or providers."""
        return {
            "version": __version__,
            "uptime_seconds": round(time.monotonic() - self._started_at, 1),
            "active_calls": len(self.calls.calls),
            "max_calls": self.reloader.config.calls.max_calls,
            "chat_sessions": len(self.chat),
            "draining_since": iso_or_none(self.calls.draining_since),
        }

    def health(self) -> Mapping[str, Any]:
        """Return an overview of the engine."""
        return {
            **self.counts(),
            "generation": self.reloader.generation.number,
            "generations": [
                {"number": each.number, "version": each.version, "calls": each.calls}
                for each in self.reloader.generations()
            ],
            "deferred": [
                {"what": item.what, "until": item.until} for item in self.reloader.deferred()
            ],
            "active_calls": [
                {
                    "call_id": call.call_id,
                    "context": call.context_name,
                    "provider": call.provider_name,
                    "state": call.state,
                }
                for call in self.calls.calls.values()
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
                for status in self.reloader.generation.fleet.status()
            },
            **self.load.health(),
            "bare_calls": self.calls.bare.health(),
            "audio": self.doors.health(),
            "turn_end_model": self.models.turn_end_model,
            "ledger_write_failures": self.ledgers.failures,
            "post_call": self.post_call.health(),
            **({} if self.membership is None else {"cluster": self.membership.health()}),
            **(
                {}
                if self.cluster_config is None
                else {"cluster_config": self.cluster_config.health()}
            ),
        }

    async def metrics(self) -> bytes:
        """Return the Prometheus page, rendered in a thread: that takes up to 100 ms."""
        ready = {name: state.ready for name, state in self.readiness().items()}
        self.series.components_ready(ready)
        return await asyncio.to_thread(self.series.render)

    def _why_no_calls(self) -> str:
        since = self.calls.draining_since
        if since is None:
            return "the engine is stopping"
        left = len(self.calls.calls)
        when = since.isoformat(timespec="seconds")
        return f"draining since {when}: no new calls; {left} left (`cordboard undrain` ends it)"

    def _agents_state(self) -> ComponentState:
        providers = self.reloader.providers
        if providers is None:
            return ComponentState(False, "models are being loaded")
        unmade, health = providers.unmade, self.provider_health
        return ComponentState(*agents_readiness(self.reloader.config, os.environ, health, unmade))

    def _ledger_state(self) -> ComponentState:
        """State of the ledgers; not required: calls continue without a record."""
        trouble = self.ledgers.trouble
        return ComponentState(not trouble, trouble or self.folder_warning, required=False)

    def _mcp_state(self) -> ComponentState:
        """State of the MCP servers. Where the configuration requires some, the component is
        required, and ready when those are up; otherwise it is not, and ready when nothing is amiss:
        other tools and contexts still work."""
        generation = self.reloader.generation
        detail = troubles(generation.fleet, generation.catalogue)
        servers = running_servers(generation.config)
        needed = {name for name, server in servers.items() if server.required}
        up = {s.server for s in generation.fleet.status() if s.state is ServerState.READY}
        ready = needed <= up if needed else not detail
        return ComponentState(ready, detail, required=bool(needed))


def iso_or_none(moment: datetime.datetime | None) -> str | None:
    """Return a time in ISO 8601, to the second."""
    return moment.isoformat(timespec="seconds") if moment is not None else None
