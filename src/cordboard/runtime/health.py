"""The state of an engine for HTTP (implements `cordboard.api.app.EngineView`)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.readiness import agents_readiness
from cordboard.api.app import ComponentState
from cordboard.calls.call_registry import CallRegistry
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.post_call.queue import PostCallQueue
from cordboard.calls.recording.writer import RecordingWriter
from cordboard.chat.sessions import ChatSessions
from cordboard.config.checks.tools import running_servers
from cordboard.config.plugins import installed
from cordboard.mcp.supervision.status import ServerState
from cordboard.mcp.troubles import troubles
from cordboard.observe.metrics import Metrics
from cordboard.runtime.doors import Doors
from cordboard.runtime.models import EngineModels
from cordboard.runtime.overload_monitor import OverloadMonitor
from cordboard.runtime.reload import Reloader
from cordboard.version import __version__

log = structlog.get_logger()


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
                accepting, "" if accepting else "the engine is stopping", public=True
            ),
            "mcp": self._mcp_state(),
            "ledger": self._ledger_state(),
        }
        if any(context.recording.enabled for context in self.reloader.config.contexts.values()):
            trouble = self.recordings.trouble
            components["recordings"] = ComponentState(not trouble, trouble, required=False)
        if broken := installed().broken:
            told = "; ".join(map(str, broken))
            components["plugins"] = ComponentState(False, told, required=False)
        if self.doors.has_ari:
            components["ari"] = self.doors.ari_state()
        return components

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
        }

    def health(self) -> Mapping[str, Any]:
        """Return an overview of the engine."""
        return {
            **self.counts(),
            "generation": self.reloader.generation.number,
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
        }

    def metrics(self) -> bytes:
        """Return the Prometheus page."""
        return self.series.render()

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
        """State of the MCP servers; required only while a server with `required` is not ready:
        without the others, other tools and contexts still work."""
        generation = self.reloader.generation
        detail = troubles(generation.fleet, generation.catalogue)
        servers = running_servers(generation.config)
        up = {s.server for s in generation.fleet.status() if s.state is ServerState.READY}
        waits = any(server.required and name not in up for name, server in servers.items())
        return ComponentState(not detail and not waits, detail, required=waits)
