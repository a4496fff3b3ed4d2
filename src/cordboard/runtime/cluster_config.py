"""The configuration of a cluster in one engine: versions from the bus, and canaries beside them.

Imported only with `cluster.config: bus`; `docs/cluster-config.md` describes the whole.

    a version in its turn   ──> `Administration.take`: a reload, and a copy on the disk
    a canary begins         ──> a generation beside the one in force (`Reloader.beside`)
    a new call              ──> by its id, one of both; its outcome is counted
    a canary ends           ──> its generation closes when its last call has ended
    a draft listens         ──> its decisions are compared (`runtime.cluster_shadow`)
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from cordboard.agent_api.agent import Agent
from cordboard.agents.providers import Providers
from cordboard.api.app import ComponentState
from cordboard.calls.binding import Binding, bind
from cordboard.calls.call_registry import Aside
from cordboard.calls.events import LedgerEvent
from cordboard.calls.offer import Offer
from cordboard.cluster.bus import Bucket
from cordboard.cluster.canary_statistic import Outcomes
from cordboard.cluster.config_follower import ConfigFollower
from cordboard.cluster.config_versions import ConfigVersions
from cordboard.cluster.config_wire import FULL_SHARE, CanaryOrder, ShadowOrder, ShadowReport
from cordboard.config.load import ConfigSource, LoadedConfig
from cordboard.config.schema import Config
from cordboard.config.shared_part import SharedConfig, SharedText, load_merged
from cordboard.config.versions import Versions
from cordboard.errors import (
    AgentError,
    BusAway,
    CordboardError,
    RevisionLost,
    VersionsUnusable,
)
from cordboard.generation.generation import Generation
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard.runtime.administration import Administration
from cordboard.runtime.canary_outcomes import OutcomeCounter
from cordboard.runtime.cluster_shadow import Shadow
from cordboard.runtime.reload import Reloader

log = structlog.get_logger()

AGAIN_SECONDS = 1.0
"""Pause before the follower begins again after it has failed unexpectedly."""
LEAVE_SECONDS = 1.0
_JUDGED = ("agents", "mcp")
"""Components that a version can break. Others say nothing about it: Asterisk may be away, and an
engine that drains takes the version, too."""


@dataclass(slots=True, eq=False)
class Canary:
    """A version that a share of the calls gets."""

    order: CanaryOrder
    generation: Generation
    providers: Providers

    def takes(self, call_id: str) -> bool:
        return lot(self.order.number, call_id) < self.order.share

    def has(self, context: str) -> bool:
        """Return True if calls of a context are given to it, or compared with its own."""
        if context not in self.generation.config.contexts:
            return False
        return not self.order.contexts or context in self.order.contexts


def lot(draw: int | str, call_id: str) -> int:
    """Return the lot of a call, from 0 to `FULL_SHARE` - 1: the same in every engine, and another
    one for each canary or draft (`draw`)."""
    digest = hashlib.blake2b(f"{draw}:{call_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % FULL_SHARE


class ClusterConfig:
    """One per engine (implements `cluster.config_follower.ConfigDoors`). Use once: `start`,
    `close`."""

    def __init__(
        self,
        shared: SharedConfig,
        source: ConfigSource,
        versions: Versions,
        instance: str,
        buckets: tuple[Bucket, Bucket],
        reloader: Reloader,
        administration: Administration,
        readiness: Callable[[], Mapping[str, ComponentState]],
        metrics: Metrics,
        degradation: Degradation,
        open_agent: Callable[[Binding], Agent],
    ) -> None:
        """`buckets`: of the state and of the texts. `readiness` returns the components of the
        engine. `open_agent` opens an agent of the version in force; it raises `AgentError`."""
        self._shared = shared
        self._source = source
        self._kept = versions
        self._reloader = reloader
        self._administration = administration
        self._readiness = readiness
        self._metrics = metrics
        self._degradation = degradation
        self._open_agent = open_agent
        state, texts = buckets
        kept = shared.current
        self.follower = ConfigFollower(
            instance,
            state,
            ConfigVersions(state, texts),
            self,
            kept.number if kept is not None else 0,
            kept.digest if kept is not None else "",
        )
        self.counter = OutcomeCounter()
        self._canary: Canary | None = None
        self._shadow: Shadow | None = None
        self._shadow_task: asyncio.Task[None] | None = None
        self._shadow_problem: ShadowReport | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow the bus, without waiting for it."""
        self._task = asyncio.get_running_loop().create_task(self._guarded(), name="cluster config")

    async def close(self) -> None:
        """Stop, after the last call. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.follower.leave()
        except (BusAway, RevisionLost, TimeoutError) as error:
            log.debug("config_report_left", error=str(error))
        self.end_canary()
        self.end_shadow()
        if self._closing:  # one that is cancelled before its first step would close nothing
            _, late = await asyncio.wait(self._closing, timeout=LEAVE_SECONDS)
            for closing in late:
                closing.cancel()
            if late:
                await asyncio.wait(late)

    # For the calls

    def choose(self, offer: Offer) -> Aside | None:
        """Return the canary's generation for a new call that it gets, or the one in force if the
        call is counted; None: the one in force, and nothing is counted."""
        canary, shadow = self._canary, self._shadow
        if (canary is None and shadow is None) or offer.test is not None or offer.resumed:
            return None
        try:
            return self._chosen(offer, canary, shadow)
        except Exception as error:  # task border: the caller gets the version in force
            log.exception("canary_not_chosen", call_id=offer.call_id, error=repr(error))
            self.counter.failed(offer.call_id)
            self._metrics.internal_error("canary")
            return None

    def _chosen(self, offer: Offer, canary: Canary | None, shadow: Shadow | None) -> Aside | None:
        context = bind(offer, self._reloader.config).context_name
        follows = shadow is not None and shadow.offer(offer, context)
        if canary is not None and canary.has(context):
            if not canary.takes(offer.call_id):
                self.counter.begin(offer.call_id, "before")
            else:
                self.counter.begin(offer.call_id, "after")
                aside = self._opened(canary, offer)
                if aside is not None:
                    return aside
        elif not follows:
            return None
        return Aside(self._reloader.generation, partial(self._open_in_force, offer.call_id))

    def _open_in_force(self, call_id: str, binding: Binding) -> Agent:
        """Open an agent of the version in force. A call without one is no call, so that its ledger
        has no end: it is counted here. Raises `AgentError`."""
        try:
            return self._open_agent(binding)
        except CordboardError:
            self.counter.failed(call_id)
            if self._shadow is not None:
                self._shadow.leave(call_id)
            raise

    def _opened(self, canary: Canary, offer: Offer) -> Aside | None:
        """Return the canary with an agent for a call; None, and count a failure, if it has none:
        the caller then gets the version in force."""
        try:
            bound = bind(offer, canary.generation.config)
            agent = canary.providers.open(bound.context_name, bound.provider_name)
        except CordboardError as error:
            log.error("canary_has_no_agent", call_id=offer.call_id, error=str(error))
            self.counter.failed(offer.call_id)
            return None

        def open_agent(binding: Binding) -> Agent:
            return agent

        return Aside(canary.generation, open_agent)

    def listen(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        """Take an event of a ledger. Never raises: the call would lose its other listeners."""
        try:
            self.counter.listen(call_id, at_ms, event)
            if self._shadow is not None:
                self._shadow.listen(call_id, event)
        except Exception as error:  # task border: the call goes on
            log.exception("canary_listens_no_more", call_id=call_id, error=repr(error))
            self._metrics.internal_error("canary")
            self.counter.leave(call_id)
            if self._shadow is not None:
                self._shadow.leave(call_id)

    # For the follower

    async def apply(self, number: int, text: str) -> str:
        """See `ConfigDoors`."""
        shared = SharedText(number, text)
        report = await self._administration.take(
            lambda path, environ: load_merged(path, environ, shared),
            lambda: self._shared.keep(shared),
            f"version {number} of the cluster",
        )
        if report.applied:
            return ""
        return "; ".join(str(problem) for problem in report.problems if problem.fatal)

    def not_ready(self) -> str:
        """See `ConfigDoors`."""
        return "; ".join(
            f"{name}: {state.detail}"
            for name, state in self._readiness().items()
            if state.required and not state.ready and name in _JUDGED
        )

    async def begin_canary(self, order: CanaryOrder, text: str) -> str:
        """See `ConfigDoors`."""
        self.end_canary()
        try:
            loaded = await asyncio.to_thread(self._load, SharedText(order.number, text))
            config, digest = loaded.config, SharedText(order.number, text).digest
            generation, providers = await self._reloader.beside(
                config, _contexts_of(order, config), digest
            )
        except CordboardError as error:
            return str(error)
        self.counter.clear()
        self._canary = Canary(order, generation, providers)
        return ""

    def _load(self, shared: SharedText) -> LoadedConfig:
        """Read a canary, and keep its text for the ledgers of its calls. Blocks."""
        source = self._source
        loaded = replace(
            source, read=lambda path, environ: load_merged(path, environ, shared)
        ).load()
        try:
            self._kept.keep(shared.content)
        except VersionsUnusable as error:
            log.error("config_version_not_kept", error=str(error))
        return loaded

    def end_canary(self) -> None:
        """See `ConfigDoors`."""
        canary, self._canary = self._canary, None
        if canary is None:
            return
        self.counter.clear()
        self._close_soon(self._retire(canary))

    def outcomes(self) -> tuple[Outcomes, Outcomes]:
        """See `ConfigDoors`."""
        return self.counter.sums

    async def begin_shadow(self, order: ShadowOrder, text: str) -> None:
        """See `ConfigDoors`."""
        self.end_shadow()
        try:
            loaded = await asyncio.to_thread(self._load, SharedText(0, text, "the draft"))
            digest = SharedText(0, text).digest
            made = await self._reloader.beside(loaded.config, (order.context,), digest)
            try:
                self._shadow = Shadow(
                    order,
                    *made,
                    self._degradation,
                    self._metrics,
                    partial(lot, order.at),
                    lambda: self._reloader.config.privacy.redact.redactor,
                )
            except AgentError:
                await made[0].close()
                await made[1].close()
                raise
        except (CordboardError, KeyError) as error:
            log.error("shadow_not_begun", problem=str(error))
            self._shadow_problem = ShadowReport("", order.at, problem=str(error))
            return
        self._shadow_task = asyncio.get_running_loop().create_task(self._shadow.run())
        log.info("shadow_begins", context_name=order.context, share=order.share)

    def end_shadow(self) -> None:
        """See `ConfigDoors`."""
        shadow, self._shadow, self._shadow_problem = self._shadow, None, None
        task, self._shadow_task = self._shadow_task, None
        if task is not None:
            task.cancel()
        if shadow is not None:
            self._close_soon(self._end_shadow(shadow, task))

    async def _end_shadow(self, shadow: Shadow, task: asyncio.Task[None] | None) -> None:
        """Task border of a draft's end."""
        try:
            if task is not None:
                await asyncio.wait([task])
            await shadow.close()
        except Exception as error:  # task border: the engine goes on
            log.exception("shadow_end_failed", error=repr(error))
            self._metrics.internal_error("shadow")

    def shadow_report(self) -> ShadowReport | None:
        """See `ConfigDoors`."""
        return self._shadow.report if self._shadow is not None else self._shadow_problem

    def _close_soon(self, work: Coroutine[Any, Any, None]) -> None:
        closing = asyncio.get_running_loop().create_task(work)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def returned(self, order: CanaryOrder, why: str) -> None:
        """See `ConfigDoors`."""
        self._metrics.canary_withdrawn()

    async def _retire(self, canary: Canary) -> None:
        """Task border of a canary's end: its calls end on it."""
        try:
            try:
                await canary.generation.retire()
            finally:
                await canary.generation.close()
                await canary.providers.close()
        except Exception as error:  # task border: the engine goes on
            log.exception("canary_end_failed", error=repr(error))
            self._metrics.internal_error("canary")
        log.info("canary_closed", number=canary.order.number)

    # For `/ready` and `/health`

    def state(self) -> ComponentState:
        """Return the state: not ready if this engine does not have the version that it should have,
        or a canary was withdrawn. Not required: calls go on with the version before."""
        problem = self.follower.problem
        return ComponentState(not problem, problem, required=False)

    def health(self) -> Mapping[str, Any]:
        """Return the versions in force here."""
        report = self.follower.report
        return {
            "version": report.number,
            "wanted": report.wanted,
            "state": report.state,
            "canary": report.canary,
            "canary_calls": self._canary.generation.calls if self._canary is not None else 0,
            "problem": self.follower.problem,
        }

    async def _guarded(self) -> None:
        while True:
            try:
                await self.follower.run()
            except Exception as error:  # task border: it begins again
                log.exception("cluster_config_failed", error=repr(error))
                self._metrics.internal_error("cluster_config")
                await asyncio.sleep(AGAIN_SECONDS)


def _contexts_of(order: CanaryOrder, config: Config) -> tuple[str, ...]:
    """Return the contexts of a canary. Raises `ConfigError` for one that it does not have."""
    for name in order.contexts:
        if name not in config.contexts:
            raise AgentError(f"the version has no context {name}")
    return order.contexts or tuple(config.contexts)
