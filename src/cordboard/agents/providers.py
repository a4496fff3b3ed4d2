"""The providers of one generation: from a binding's names to the agent of a call.

A provider type is one branch here and one file (or folder) beside this one. What is heavy (models)
is loaded once per process and handed in; what belongs to a configuration (a context's dialogue) is
made here, once, when the generation is built.
"""

from __future__ import annotations

import asyncio
import datetime
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from functools import partial

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.dialogue import Brain
from cordboard.agent_api.stt import CallRecogniser, Recogniser
from cordboard.agents.brain_factory import model_brain
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.agents.pipeline.parts_factory import SpeechParts, speech_parts
from cordboard.agents.pipeline.service_key import key_of
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.realtime.greetings import GreetingCache
from cordboard.agents.realtime.warm import WarmConnection
from cordboard.agents.rules import RulesBrain
from cordboard.audio.echo import EchoGuard
from cordboard.audio.tones import is_dtmf
from cordboard.config.providers.brains import LanguageModelBrain
from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.providers.provider import Provider
from cordboard.config.providers.realtime import RealtimeProvider
from cordboard.config.providers.services import paid_parts
from cordboard.config.schema import Config, Context
from cordboard.errors import AgentError
from cordboard.net.tls import trusted
from cordboard.observe.degradation import Degradation
from cordboard.speech.turns.echo_watch import EchoWatch
from cordboard.speech.turns.profiles import profile_of
from cordboard.speech.turns.turn_detector import TurnOdds
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.tool import ToolSpec
from cordboard.vendors.local.models import OfflineModels


class Providers:
    """Opens agents for one configuration."""

    def __init__(
        self,
        config: Config,
        models: OfflineModels | None,
        degradation: Degradation | None = None,
        environ: Mapping[str, str] = os.environ,
        health: ProviderHealth | None = None,
    ) -> None:
        """Takes up to 100 ms where services are configured: make it in a thread. `models` may be
        None when no provider of the configuration needs them. `degradation`: what an overloaded
        engine gives up; None = nothing ever. `environ`: where keys come from. `health`: is told
        which providers work."""
        self._environ = environ
        self._health = health
        realtime = [p for p in config.providers.values() if isinstance(p, RealtimeProvider)]
        self._tls = trusted() if realtime else None
        if realtime:
            _import_realtime(realtime)
        self._greetings = GreetingCache()
        self._warm: dict[str, WarmConnection] = {}
        self._degradation = degradation or Degradation()
        self._speech_parts: dict[str, SpeechParts] = {}
        """Of the pipelines, by the provider's name."""
        self._default = config.default_provider
        self._providers: Mapping[str, Provider] = config.providers
        self._contexts: Mapping[str, Context] = config.contexts
        self._models = models
        self._brains: Mapping[str, RulesBrain] = {
            name: RulesBrain(context.rules, today=datetime.date.today)
            for name, context in config.contexts.items()
        }
        """By the context's name."""
        self._model_brains: dict[str, LlmBrain] = {
            name: model_brain(provider.brain, environ)
            for name, provider in config.providers.items()
            if isinstance(provider, PipelineProvider)
            and isinstance(provider.brain, LanguageModelBrain)
        }
        """By the provider's name."""
        self._taken: list[tuple[Providers, str]] = []
        """Those that are the providers' before still, until `begin`."""

    def open(self, context: str, provider: str) -> Agent:
        """A new agent, and behind it those of the context's `fallback`. When none of them can
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
        if isinstance(chosen, RealtimeProvider):
            return self._realtime(provider, chosen, settings)
        if self._models is None:
            raise AgentError(f"provider {provider!r} has no models loaded")
        speech = self._speech(provider, chosen, self._models)
        hearing = self._hearing(self._models, settings, speech.recogniser)
        return PipelineAgent(
            PipelineParts(hearing, self._brain(context, provider), speech.voice, settings.barge_in)
        )

    def _speech(
        self, provider: str, chosen: PipelineProvider, models: OfflineModels
    ) -> SpeechParts:
        """Made by the first call, or taken from the providers before a reload."""
        if provider not in self._speech_parts:
            self._speech_parts[provider] = speech_parts(chosen, models, self._environ)
        return self._speech_parts[provider]

    async def prepare(self, greetings: Mapping[str, str]) -> None:
        """Have all voices but the bundled one make the contexts' greetings ahead."""
        for context, greeting in greetings.items():
            provider = self._contexts[context].provider or self._default
            chosen = self._providers.get(provider)
            if self._models is None or not isinstance(chosen, PipelineProvider):
                continue
            try:
                voice = self._speech(provider, chosen, self._models).voice
            except AgentError:
                continue  # `/ready` tells
            if voice is not self._models.voice:
                await voice.prepare([greeting])

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

    def _realtime(self, name: str, chosen: RealtimeProvider, settings: Context) -> Agent:
        from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
        from cordboard.agents.realtime.protocols import protocol_for

        kind, models = str(chosen.type), self._models
        if self._tls is None:
            raise AgentError("there are no trusted certificates", "connect")
        parts = RealtimeParts(
            self._tls,
            models.voice if models is not None else None,
            self._aside_ears(settings),
            self._greetings,
            self._warm[name].take if name in self._warm else lambda: None,
        )
        protocol = protocol_for(chosen, key_of(chosen, self._environ, kind))
        return RealtimeAgent(protocol, chosen, kind, parts, settings.barge_in)

    def _aside_ears(self, settings: Context) -> HearingParts | None:
        models = self._models
        if models is None or models.recogniser is None:
            return None
        return self._hearing(models, settings, models.recogniser)

    def begin(self) -> None:
        """They are in force from now on: keep connections ready where that is wanted."""
        from cordboard.agents.realtime.protocols import protocol_for

        for earlier, name in self._taken:
            earlier._model_brains.pop(name, None)
        self._taken.clear()
        for name, chosen in self._providers.items():
            if isinstance(chosen, RealtimeProvider) and chosen.warm_connection and self._tls:
                kind = str(chosen.type)
                try:
                    key = key_of(chosen, self._environ, kind)
                except AgentError:
                    continue  # `/ready` tells
                warm = self._warm[name] = WarmConnection(
                    partial(protocol_for, chosen, key),
                    self._tls,
                    kind,
                    chosen.connect_timeout_ms / 1000,
                )
                warm.begin()

    async def close(self) -> None:
        """They are in force no more. Agents that are open stay so."""
        warm, self._warm = tuple(self._warm.values()), {}
        speech, self._speech_parts = tuple(self._speech_parts.values()), {}
        brains = tuple(self._model_brains.values())
        closing = [each.close() for each in warm] + [each.close() for each in speech]
        closing += [each.close() for each in brains]
        await asyncio.gather(*closing)

    def brain(self, context: str) -> Brain:
        """What thinks for a context, for conversations that need no ears and no mouth: its
        provider's model, where that is a pipeline with one, else its rules."""
        return self._brain(context, self._contexts[context].provider or self._default)

    def _brain(self, context: str, provider: str) -> Brain:
        return self._model_brains.get(provider) or self._brains[context]

    def warm(
        self, context: str, toolbox: tuple[ToolSpec, ...], earlier: Providers | None = None
    ) -> None:
        """Build now (10-20 ms) what the first call of a context would have to build. Blocks.

        `earlier` are the providers before a reload: what has not changed is taken from them.
        """
        if earlier is not None:
            self._greetings = earlier._greetings
            self._take_parts(earlier)
        before = earlier._brains.get(context) if earlier is not None else None
        self._brains[context].warm(toolbox, before)
        model = self._model_brains.get(self._contexts[context].provider or self._default)
        if model is not None:
            model.warm(toolbox)

    def _take_parts(self, earlier: Providers) -> None:
        """Where nothing has changed, what is connected and kept stays."""
        for name in tuple(earlier._speech_parts):
            if self._providers.get(name) == earlier._providers.get(name):
                self._speech_parts.setdefault(name, earlier._speech_parts.pop(name))
        for name in tuple(earlier._model_brains):
            if self._providers.get(name) == earlier._providers.get(name):
                self._model_brains[name] = earlier._model_brains[name]
                self._taken.append((earlier, name))


def _import_realtime(providers: Iterable[RealtimeProvider]) -> None:
    """Import now what their calls need: 70 ms, in which no call that goes on would have sound."""
    import cordboard.agents.realtime.agent  # noqa: F401 - for its being there
    from cordboard.agents.realtime.protocols import protocol_for

    for provider in providers:
        protocol_for(provider, "")


def _echo_watch(thread: Executor, call_id: str) -> EchoWatch:
    return EchoWatch(EchoGuard(), thread, call_id)


def _turn_odds(models: OfflineModels) -> TurnOdds | None:
    """The end-of-turn model in the workers; None when it is not installed.

    It is final work: short, and somebody waits for it to be answered sooner.
    """
    model = models.turn_end
    if model is None:
        return None
    finished = model.finished

    async def odds(pcm: bytes) -> float:
        return await models.workers.run(finished, pcm)

    return odds
