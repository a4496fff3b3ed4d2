"""The providers of one generation: make the agent of a call from a binding's names.

A part is made by the descriptor of its type (`agents.making`). Heavy resources (models) are loaded
once per process and passed in; those of a configuration (a context's dialogue) are made here, once,
when the generation is built.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.dialogue import Brain
from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.provider import Parts
from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.agent_api.stt import CallRecogniser, Recogniser
from cordboard.agent_api.tts import Voice
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.making import (
    SpeechParts,
    key_of,
    make,
    model_brain,
    plugin_problems,
    speech_parts,
)
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.realtime.greetings import GreetingCache
from cordboard.agents.realtime.warm import WarmConnection
from cordboard.agents.rules import RulesBrain
from cordboard.audio.echo import EchoGuard
from cordboard.audio.tones import is_dtmf
from cordboard.config.plugins import Plugins, installed
from cordboard.config.providers import PipelineProvider, paid_parts
from cordboard.config.schema import Config, Context
from cordboard.config.sections.language_model import RulesBrain as RulesSettings
from cordboard.config.sections.parts import PartSection
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import AgentError
from cordboard.net.tls import trusted
from cordboard.observe.degradation import Degradation
from cordboard.speech.turns.echo_watch import EchoWatch
from cordboard.speech.turns.profiles import profile_of
from cordboard.speech.user_turns import HearingParts, TurnOdds
from cordboard.tools.tool import ToolSpec

TURN_ODDS_WITHIN = 0.3
"""Seconds within which the end-of-turn model's result is needed: about the shortest silence that it
can end a turn with, less the silence that makes the pause."""


class Providers:
    """Opens agents for one configuration."""

    def __init__(
        self,
        config: Config,
        models: OfflineModels | None,
        degradation: Degradation | None = None,
        environ: Mapping[str, str] = os.environ,
        health: ProviderHealth | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        """Takes up to 100 ms where services are configured: make it in a thread. `models` may be
        None when no provider of the configuration needs them. `degradation`: the work that an
        overloaded engine gives up; None = none. `environ`: source of keys. `health`: records the
        failures of providers. `plugins`: the descriptors; default: the installed ones."""
        self._plugins = plugins or installed()
        self.unmade = dict(plugin_problems(config, environ, self._plugins))
        """Provider → the reason why its plug-in cannot make it, for `/ready`."""
        self._environ = environ
        self._health = health
        self._models = models
        realtime = [p for p in config.providers.values() if isinstance(p, RealtimeProvider)]
        self._tls = trusted() if realtime else None
        if realtime:
            self._import_realtime(realtime)
        self._greetings = GreetingCache()
        self._warm: dict[str, WarmConnection] = {}
        self._degradation = degradation or Degradation()
        self._speech_parts: dict[str, SpeechParts] = {}
        """Parts of the pipelines, by the provider's name."""
        self._default = config.default_provider
        self._providers: Mapping[str, PartSection] = config.providers
        self._contexts: Mapping[str, Context] = config.contexts
        self._brains: Mapping[str, RulesBrain] = {
            name: RulesBrain(context.rules, today=datetime.date.today)
            for name, context in config.contexts.items()
        }
        """Brains by the context's name."""
        self._model_brains: dict[str, LlmBrain] = {
            name: model_brain(provider.brain, environ, models, self._plugins)
            for name, provider in config.providers.items()
            if isinstance(provider, PipelineProvider)
            and not isinstance(provider.brain, RulesSettings)
        }
        """Brains by the provider's name."""
        self._taken: list[tuple[dict[str, SpeechParts] | dict[str, LlmBrain], str]] = []
        """Parts that the previous providers own until `begin`, by their table there."""
        self._lent: list[SpeechParts | LlmBrain] = []
        """The same parts; providers that are never put into force leave them open."""

    def open(self, context: str, provider: str) -> Agent:
        """Open a new agent, and behind it those of the context's `fallback`. When none of them can
        serve now, it raises `AgentError`, or its `start` does."""
        settings = self._contexts[context]
        chain = tuple(dict.fromkeys((provider, *settings.fallback)))
        if len(chain) == 1 and not any(paid_parts(self._providers[provider])):
            return self._open(context, provider)
        voice = self._models.voice if self._models is not None else None
        phrase = settings.fallback_phrase
        return FallbackAgent(partial(self._open, context), chain, phrase, voice, self._health)

    def _open(self, context: str, provider: str) -> Agent:
        chosen, settings = self._providers[provider], self._contexts[context]
        if not isinstance(chosen, PipelineProvider):
            return self._made(provider, chosen, settings)
        if self._models is None:
            raise AgentError(f"provider {provider!r} has no models loaded")
        speech = self._speech(provider, chosen, self._models)
        hearing = self._hearing(self._models, settings, speech.recogniser)
        return PipelineAgent(
            PipelineParts(hearing, self.brain(context, provider), speech.voice, settings.barge_in)
        )

    def _speech(
        self, provider: str, chosen: PipelineProvider, models: OfflineModels
    ) -> SpeechParts:
        """Return the parts that the first call made, or those taken from the providers before a
        reload."""
        if provider not in self._speech_parts:
            made = speech_parts(chosen, models, self._environ, self._plugins)
            self._speech_parts[provider] = made
        return self._speech_parts[provider]

    def voice_of(self, provider: str) -> Voice:
        """Return the voice of a pipeline. Raises `AgentError`."""
        chosen = self._providers.get(provider)
        if self._models is None or not isinstance(chosen, PipelineProvider):
            raise AgentError(f"provider {provider!r} has no voice here")
        return self._speech(provider, chosen, self._models).voice

    async def prepare(self, greetings: Mapping[str, tuple[str, ...]]) -> None:
        """Have all voices but the bundled one render the contexts' greetings ahead."""
        for context, texts in greetings.items():
            provider = self._contexts[context].provider or self._default
            chosen = self._providers.get(provider)
            if self._models is None or not isinstance(chosen, PipelineProvider):
                continue
            try:
                voice = self._speech(provider, chosen, self._models).voice
            except AgentError:
                continue  # `/ready` reports it
            if voice is not self._models.voice:
                await voice.prepare(texts)

    def _hearing(
        self,
        models: OfflineModels,
        settings: Context,
        recogniser: Recogniser | CallRecogniser,
    ) -> HearingParts:
        return HearingParts(
            bank=models.voice_activity,
            recogniser=recogniser,
            profile=profile_of(settings.turn_taking),
            turn_odds=_turn_odds(models) if settings.turn_taking.turn_model else None,
            echo=partial(_echo_watch, models.echo_thread),
            is_key_tone=is_dtmf,
            degradation=self._degradation,
            promote=models.workers.promote,
        )

    def _made(self, name: str, chosen: PartSection, settings: Context) -> Agent:
        """Return the agent of a descriptor: its own, or the realtime shell around its protocol."""
        made = self._make(chosen, key_of(chosen, self._environ, chosen.type))
        if isinstance(made, ServiceProtocol) and isinstance(chosen, RealtimeProvider):
            return self._realtime(name, chosen, made, settings)
        agent: Agent = made
        return agent

    def _make(self, chosen: PartSection, key: str) -> Any:
        return make("agent", chosen, Parts(key, self._models), self._plugins)

    def _realtime(
        self, name: str, chosen: RealtimeProvider, protocol: ServiceProtocol, settings: Context
    ) -> Agent:
        from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts

        kind, models = chosen.type, self._models
        if self._tls is None:
            raise AgentError("there are no trusted certificates", "connect")
        parts = RealtimeParts(
            self._tls,
            models.voice if models is not None else None,
            self._aside_ears(settings),
            self._greetings,
            self._warm[name].take if name in self._warm else lambda: None,
        )
        return RealtimeAgent(protocol, chosen, kind, parts, settings.barge_in)

    def _aside_ears(self, settings: Context) -> HearingParts | None:
        models = self._models
        if models is None or models.recogniser is None:
            return None
        return self._hearing(models, settings, models.recogniser)

    def begin(self) -> None:
        """Put these providers into force: keep connections ready where that is configured."""
        for table, name in self._taken:
            table.pop(name, None)
        self._taken.clear()
        self._lent.clear()
        for brain in self._model_brains.values():
            brain.begin()
        for name, chosen in self._providers.items():
            if name in self.unmade:
                continue
            if isinstance(chosen, RealtimeProvider) and chosen.warm_connection and self._tls:
                kind = chosen.type
                try:
                    key = key_of(chosen, self._environ, kind)
                except AgentError:
                    continue  # `/ready` reports it
                warm = self._warm[name] = WarmConnection(
                    partial(self._make, chosen, key),
                    self._tls,
                    kind,
                    chosen.connect_timeout_ms / 1000,
                )
                warm.begin()

    async def close(self) -> None:
        """Take these providers out of force. Open agents stay open."""
        warm, self._warm = tuple(self._warm.values()), {}
        speech, self._speech_parts = tuple(self._speech_parts.values()), {}
        parts: list[SpeechParts | LlmBrain] = [*speech, *self._model_brains.values()]
        own = [part for part in parts if not self._is_lent(part)]
        closing = [each.close() for each in warm] + [each.close() for each in own]
        ended = await asyncio.gather(*closing, return_exceptions=True)
        for failure in ended:  # only when all are closed
            if failure is not None:
                raise failure

    def brain(self, context: str, provider: str) -> Brain:
        """Return the brain of a context, also for conversations without speech: the provider's
        model, where that is a pipeline with one, otherwise the context's rules."""
        return self._model_brains.get(provider) or self._brains[context]

    def warm(
        self, context: str, toolbox: tuple[ToolSpec, ...], earlier: Providers | None = None
    ) -> None:
        """Build now (10-20 ms) the tables that the first call of a context would have to build.
        Blocks.

        `earlier` are the providers before a reload: unchanged tables are taken from them.
        """
        if earlier is not None:
            self._greetings = earlier._greetings
            self._take_parts(earlier)
        before = earlier._brains.get(context) if earlier is not None else None
        self._brains[context].warm(toolbox, before)
        for brain in self._model_brains.values():  # of the dialplan, a fallback or a writer
            brain.declare(toolbox)
        model = self._model_brains.get(self._contexts[context].provider or self._default)
        if model is not None:
            model.warm(toolbox, self._contexts[context].prompt)

    def warm_aside(
        self, context: str, toolbox: tuple[ToolSpec, ...], earlier: Providers | None = None
    ) -> None:
        """Like `warm`, for providers that are never put into force: `earlier` keeps the parts that
        they share. No shared model reads the context's prompt: calls may be using it. Blocks."""
        if earlier is not None:
            self._take_parts(earlier)
        before = earlier._brains.get(context) if earlier is not None else None
        self._brains[context].warm(toolbox, before)
        for brain in self._model_brains.values():
            brain.declare(toolbox)
        model = self._model_brains.get(self._contexts[context].provider or self._default)
        if model is not None and not self._is_lent(model):
            model.warm(toolbox, self._contexts[context].prompt)

    def _is_lent(self, part: SpeechParts | LlmBrain) -> bool:
        return any(part is each for each in self._lent)

    def _import_realtime(self, providers: Iterable[RealtimeProvider]) -> None:
        """Import the modules of their calls now: it takes 70 ms, in which running calls would have
        no sound. A protocol that cannot be made fails later, when a call opens it."""
        import cordboard.agents.realtime.agent  # noqa: F401 - imported for its side effect

        for provider in providers:
            with contextlib.suppress(AgentError):
                self._make(provider, "")

    def _take_parts(self, earlier: Providers) -> None:
        """Take unchanged parts from the earlier providers, with their connections and caches."""
        for name, parts in tuple(earlier._speech_parts.items()):
            if self._providers.get(name) == earlier._providers.get(name):
                self._speech_parts[name] = parts
                self._taken.append((earlier._speech_parts, name))
                self._lent.append(parts)
        for name, brain in tuple(earlier._model_brains.items()):
            if self._providers.get(name) == earlier._providers.get(name):
                self._model_brains[name] = brain
                self._taken.append((earlier._model_brains, name))
                self._lent.append(brain)


def _echo_watch(thread: Executor, call_id: str) -> EchoWatch:
    return EchoWatch(EchoGuard(), thread, call_id)


def _turn_odds(models: OfflineModels) -> TurnOdds | None:
    """Return the end-of-turn model, run in the workers; None when it is not installed.

    Its result counts until silence alone ends the turn.
    """
    model = models.turn_end
    if model is None:
        return None
    finished = model.finished

    async def odds(pcm: bytes) -> float:
        return await models.workers.run_within(TURN_ODDS_WITHIN, finished, pcm)

    return odds
