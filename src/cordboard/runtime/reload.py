"""Succession of generations: the configuration in force, and its replacement by the next one.

The next generation is made aside, while calls come and go: models that are newly needed are loaded,
dialogues compiled and greetings rendered in threads. Only then, in one step of the event loop, it
replaces the old one: new calls get it, live calls keep theirs. If any step before fails, nothing
changes.

`reload.mcp` decides about servers that have changed: `live` starts the new ones at once, beside the
old ones; `idle` keeps the old ones until no call is active. This module waits for that moment, by
the events of ending calls. A server that was given up serves no calls and is replaced at once in
either case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import TypeAlias

import structlog

from cordboard.agent_api.dialogue import Brain
from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.providers import Providers
from cordboard.api.administration_view import Deferred
from cordboard.calls.known_sentences import greetings, known_sentences
from cordboard.config.changes import changes, needs_restart
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config
from cordboard.errors import AgentError, ModelError
from cordboard.generation.generation import Generation
from cordboard.mcp.definitions.lock import Lock, load_lock, try_load_lock
from cordboard.mcp.supervision.pool import Replacement, ServerPool
from cordboard.observe.degradation import Degradation
from cordboard.tools.tool import ToolSpec

log = structlog.get_logger()

Models: TypeAlias = Callable[[Config], Awaitable[OfflineModels | None]]
"""Returns the models that a configuration needs, loaded once; None when it needs none."""
Toolboxes: TypeAlias = dict[str, tuple[ToolSpec, ...]]
"""Tool specs for the agents of each context."""
_LOCK = "mcp.lock_file"
"""Represents the accepted tools of that file among the changed keys."""
UNTIL_RESTART = "the engine is restarted"
UNTIL_IDLE = "no call is active"
UNTIL_CALLS_END = "the calls that use it have ended"


class Reloader:
    """The generation in force, and those that still have calls."""

    def __init__(
        self,
        config: Config,
        pool: ServerPool,
        models: Models,
        degradation: Degradation,
        folder: Path = Path(),
        on_change: Callable[[Config], None] = lambda _: None,
        health: ProviderHealth | None = None,
    ) -> None:
        """`folder`: base of relative paths in the configuration. `on_change` is called with each
        new configuration, in the step in which it takes over; `health` records which
        providers work."""
        self.generation = Generation(config, pool)
        """The generation of new calls."""
        self.providers: Providers | None = None
        """Opens the agents of new calls; None until `begin` is done."""
        self._begun_with = config
        self._pool = pool
        self._models = models
        self._degradation = degradation
        self._folder = folder
        self._lock: Lock | None = None
        self._fixed: tuple[Deferred, ...] = ()
        """Changes that wait for the next start of the engine."""
        self._on_change = on_change
        self._health = health
        self._retiring: dict[asyncio.Task[None], Generation] = {}
        self._waiting: asyncio.Task[None] | None = None
        """Task that waits for the moment without calls."""
        self._warming: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        """Tasks that close the resources of former providers."""
        self._preparing: set[asyncio.Task[None]] = set()
        """Tasks that render sentences spoken later in a call."""
        self._tools_changed = asyncio.Event()
        self.frozen = False
        """True once the engine stops, after which nothing changes."""

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.generation.config

    def brain(self, context: str, provider: str) -> Brain:
        """Return the brain of a context with a provider, of the configuration in force. Raises
        `AgentError` before `begin` is done."""
        if self.providers is None:
            raise AgentError("the models are not loaded yet")
        return self.providers.brain(context, provider)

    async def begin(self) -> None:
        """Get ready for the first call; claims the servers, which the pool starts. Raises a
        `CordboardError` when that fails."""
        mcp = self.config.mcp
        if mcp.lock != "off":
            self._lock = await asyncio.to_thread(try_load_lock, self.lock_path)
        self.generation.fleet.use_lock(self._lock)
        self.generation.on_tools_changed(self._tools_changed.set)
        await self.generation.prepare()
        self.generation.start()
        self.providers = await self._providers_for(self.config, _specs(self.generation))
        self.providers.begin()
        self._warming = self._task(self._keep_warm(), "warm dialogues")

    async def succeed(self, config: Config, version: str = "") -> tuple[str, ...]:
        """Put a checked configuration into force; returns the keys that have changed. `version`
        is that of its file, for the ledgers of its calls.

        Raises a `CordboardError` when that fails; then nothing has changed. One at a time.
        """
        old = self.generation
        changed, fixed, lock = await asyncio.to_thread(self._compare, config)
        accepted = () if lock is self._lock or _LOCK in changed else (_LOCK,)
        self._refuse_to_load(config, "reload again then")
        if not changed:
            self._take_lock(lock)
            old.version = version or old.version
            return accepted
        # In a thread: it compiles the schemas of all tools.
        new = await asyncio.to_thread(Generation, config, self._pool, old.number + 1, old, lock)
        new.version = version
        await new.prepare()
        providers = await self._providers_for(config, _specs(new, old))
        if self.frozen:  # meanwhile
            return ()
        # From here to the end there is no await: no call can come between.
        if self._waiting is not None:
            self._waiting.cancel()
        new.on_tools_changed(self._tools_changed.set)
        new.start(self._replacement(config))
        self._close_providers()
        self.generation, self.providers = new, providers
        providers.begin()
        self._lock, self._fixed = lock, fixed
        self._retire(old)
        self._on_change(config)
        if new.fleet.outdated:
            self._waiting = self._task(self._take_over_when_idle(new), "wait for no calls")
        return changed + accepted

    async def aside(
        self, config: Config, context: str, version: str
    ) -> tuple[Generation, Providers]:
        """Make a generation for a trial of one context, as `beside` does: no caller gets it."""
        return await self.beside(config, (context,), version)

    async def beside(
        self, config: Config, contexts: tuple[str, ...], version: str
    ) -> tuple[Generation, Providers]:
        """Make a generation for some contexts beside the one in force. Unchanged servers,
        connections and models are shared with the one in force. `version`: of its text.

        The caller closes both, the generation first. Raises a `CordboardError` when it fails; then
        nothing is left.
        """
        self._refuse_to_load(config, "try it again then")
        lock = await asyncio.to_thread(self._lock_of, config)
        new = await asyncio.to_thread(Generation, config, self._pool, 0, self.generation, lock)
        new.version = version
        try:
            await new.prepare()
            providers = await self._providers_aside(config, contexts, _specs(new, self.generation))
            if self.frozen:
                await providers.close()
                raise AgentError("the engine is stopping")
        except BaseException:
            await new.close()
            raise
        one_at_a_time = asyncio.Lock()

        async def warm() -> None:  # so that no message has to compile the dialogue
            async with one_at_a_time:
                for context in contexts:
                    tools = new.toolbox(context).specs
                    await asyncio.to_thread(providers.warm_aside, context, tools)

        new.on_tools_changed(lambda: self._prepare(warm()))
        new.start(Replacement.ASIDE)
        return new, providers

    async def _providers_aside(
        self, config: Config, contexts: tuple[str, ...], toolboxes: Toolboxes
    ) -> Providers:
        models, earlier = await self._models(config), self.providers
        if earlier is None:
            raise AgentError("the models are not loaded yet")

        def made() -> Providers:
            # A failure of a draft is no failure of the provider in force: it has no health.
            providers = Providers(config, models, self._degradation)
            for context in contexts:
                providers.warm_aside(context, toolboxes[context], earlier)
            return providers

        return await asyncio.to_thread(made)

    def _refuse_to_load(self, config: Config, advice: str) -> None:
        """Raise `ModelError` if a model would be loaded into this process while calls are
        active."""
        calls = sum(generation.calls for generation in self._generations_with_calls())
        if calls and (loaded := _models_to_load(self.config, config)):
            raise ModelError(
                f"{loaded[0]}: its model is loaded only while no call is active ({calls} now), "
                f"because loading stops the sound of all calls for seconds: {advice}"
            )

    def _compare(self, config: Config) -> tuple[tuple[str, ...], tuple[Deferred, ...], Lock | None]:
        """Return the changed keys, the changes that wait for the next start, and the accepted tools
        (the same object as before if unchanged). Blocks. Raises `ConfigError`."""
        changed = changes(self.config, config)
        begun_with = changes(self._begun_with, config)
        fixed = tuple(Deferred(key, UNTIL_RESTART) for key in begun_with if needs_restart(key))
        lock = self._lock_of(config)
        return changed, fixed, self._lock if lock == self._lock else lock

    @property
    def lock_path(self) -> Path:
        """The file of the accepted tools."""
        return self._folder / self.config.mcp.lock_file

    def take_lock(self, lock: Lock) -> None:
        """Judge the tools of new calls by another content of the lock file from now on."""
        if self.config.mcp.lock != "off":
            self._take_lock(lock)

    def _lock_of(self, config: Config) -> Lock | None:
        """Return the accepted tools of a configuration. Blocks. Raises `ConfigError`."""
        if config.mcp.lock == "off":
            return None
        return load_lock(self._folder / config.mcp.lock_file)

    def _take_lock(self, lock: Lock | None) -> None:
        if lock is not self._lock and not self.frozen:
            self._lock = lock
            self.generation.fleet.use_lock(lock)

    def deferred(self) -> tuple[Deferred, ...]:
        """Changes of the configuration in force that have no effect yet."""
        fleet = self.generation.fleet
        found = [*self._fixed]
        found += [Deferred(f"mcp.servers.{name}", UNTIL_IDLE) for name in fleet.outdated]
        leaving = {
            name
            for generation in self._retiring.values()
            if generation.calls
            for name in generation.fleet.servers
            if name not in fleet.servers
        }
        found += [Deferred(f"mcp.servers.{name}", UNTIL_CALLS_END) for name in sorted(leaving)]
        return tuple(found)

    def _task(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_tell_failure)
        return task

    def freeze(self) -> None:
        """Allow no further changes: the engine stops."""
        self.frozen = True
        for task in (self._waiting, self._warming, *self._preparing):
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        """Close every generation, even with live calls, and all of their servers."""
        self.freeze()
        own = (self._waiting, self._warming, *self._preparing)
        tasks = [*self._retiring, *(task for task in own if task is not None)]
        self._close_providers()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.generation.close()
        await self._pool.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # The servers.

    def _replacement(self, config: Config) -> Replacement:
        if config.reload.mcp == "live":
            return Replacement.BESIDE
        return Replacement.LATER if any(self._generations_with_calls()) else Replacement.AFTER

    def generations(self) -> Iterator[Generation]:
        """Yield the generation of new calls, and those before it that still have some."""
        yield self.generation
        yield from (each for each in self._retiring.values() if each.calls)

    def _generations_with_calls(self) -> Iterator[Generation]:
        yield from (each for each in self.generations() if each.calls)

    async def _take_over_when_idle(self, generation: Generation) -> None:
        while (busy := next(self._generations_with_calls(), None)) is not None:
            await busy.idle()
        servers = generation.fleet.take_over()
        log.info("mcp_servers_replaced", generation=generation.number, servers=list(servers))

    def _retire(self, generation: Generation) -> None:
        task = self._task(generation.retire(), f"generation {generation.number}")
        self._retiring[task] = generation
        task.add_done_callback(self._retired)

    def _retired(self, task: asyncio.Task[None]) -> None:
        generation = self._retiring.pop(task)
        if not (self.frozen or task.cancelled() or task.exception()):
            log.info("generation_closed", number=generation.number)

    # The agents.

    async def _providers_for(self, config: Config, toolboxes: Toolboxes) -> Providers:
        models = await self._models(config)
        earlier = self.providers

        def made() -> Providers:
            providers = Providers(config, models, self._degradation, health=self._health)
            return _warm(providers, toolboxes, earlier)

        making = asyncio.to_thread(made)
        voice = models.voice if models is not None else None
        if voice is None:
            providers = await making
        else:
            providers, _ = await asyncio.gather(
                making,
                voice.prepare([text for texts in greetings(config).values() for text in texts]),
            )
            # Callers hear them seconds after the greeting at the earliest.
            self._prepare(voice.prepare(known_sentences(config)))
        self._prepare(providers.prepare(greetings(config)))  # slow with services
        return providers

    def _prepare(self, work: Coroutine[None, None, None]) -> None:
        later = self._task(work, "prepare sentences")
        self._preparing.add(later)
        later.add_done_callback(self._preparing.discard)

    def _close_providers(self) -> None:
        """Begin to close the providers in force. A failure must not keep servers from ending."""
        if self.providers is not None:
            self._closing.add(closing := self._task(self.providers.close(), "close providers"))
            closing.add_done_callback(self._closing.discard)

    async def _keep_warm(self) -> None:
        """Compile dialogues again when their tools change, so that no call has to."""
        while True:
            await self._tools_changed.wait()
            self._tools_changed.clear()
            if self.providers is not None:
                await asyncio.to_thread(_warm, self.providers, _specs(self.generation))


def _tell_failure(task: asyncio.Task[None]) -> None:
    """Task border."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("succession_failed", task=task.get_name(), error=repr(error), exc_info=error)


def _specs(generation: Generation, lender: Generation | None = None) -> Toolboxes:
    """Return the tool specs per context. Tools of servers that are not claimed yet are taken from
    `lender`, if it has them."""
    found: Toolboxes = {}
    for name, context in generation.config.contexts.items():
        specs: dict[str, ToolSpec] = {}
        for listed in context.tools:
            known = generation.catalogue.toolbox((listed,)).specs
            if not known and lender is not None:
                known = lender.catalogue.toolbox((listed,)).specs
            specs |= {spec.name: spec for spec in known if spec.name not in specs}
        found[name] = tuple(specs.values())
    return found


def _models_to_load(before: Config, after: Config) -> list[str]:
    """Return the keys of brains whose model would be loaded from a file into this process."""
    return [
        f"providers.{name}.brain"
        for name, provider in after.providers.items()
        if isinstance(provider, PipelineProvider)
        and provider.brain.model_file
        and provider != before.providers.get(name)
    ]


def _warm(
    providers: Providers, toolboxes: Toolboxes, earlier: Providers | None = None
) -> Providers:
    for context, toolbox in toolboxes.items():
        providers.warm(context, toolbox, earlier)
    return providers
