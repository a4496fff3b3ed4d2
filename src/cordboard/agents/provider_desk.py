"""The providers of a running engine for its operator: state, check, and samples of their voices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.tts import PaidVoice, Voice
from cordboard.agents.online_check import Finding, check_online
from cordboard.agents.provider_health import ProviderFailure, ProviderHealth
from cordboard.agents.providers import Providers
from cordboard.config.providers import PipelineProvider, parts_of
from cordboard.config.schema import Config, chain_of
from cordboard.config.sections.parts import PartSection
from cordboard.config.sections.service import Service
from cordboard.errors import AgentError, NotThere, ProviderBusy, VoiceError
from cordboard.observe.degradation import Degradation

CHECK_SECONDS = 30.0
"""Timeout of a check of one provider, with all of its parts."""
SAMPLE_SECONDS = 20.0
SAMPLE_RATE = 16_000
MOST_SAMPLE_BYTES = 60 * SAMPLE_RATE * 2
"""A minute: no text of a sample takes as long."""

KeyState = Literal["present", "missing", "not needed"]
ProviderCondition = Literal["ok", "no key", "unusable", "failing"]
"""`unusable`: its plug-in cannot make it; `failing`: it failed the last call that wanted it."""


@dataclass(frozen=True, slots=True)
class PartState:
    """One part of a provider."""

    part: str
    """`stt`, `brain` or `tts` of a pipeline; empty for a provider that is one service."""
    type: str
    model: str
    voice: str
    key: KeyState
    key_source: str
    """`api_key`, `headers` or the name of a variable; for a missing key the places it may be in."""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """One provider."""

    name: str
    type: str
    condition: ProviderCondition
    reason: str
    """In the service's own words, without secrets; empty when it is in order."""
    failure: ProviderFailure | None
    """The last failure, if no call has been served since."""
    chains: Mapping[str, tuple[str, ...]]
    """Context that may use it → all providers of that context, in the order of their use."""
    parts: tuple[PartState, ...]


class ProviderDesk:
    """The providers of the configuration in force."""

    def __init__(
        self,
        config: Callable[[], Config],
        providers: Callable[[], Providers | None],
        health: ProviderHealth,
        environ: Mapping[str, str],
        degradation: Degradation,
        mask: Callable[[str], str] = str,
        used: Callable[[Usage], None] = lambda _: None,
    ) -> None:
        """`environ` is the source of keys, `mask` removes secrets from the words of services,
        `used` takes what samples have used."""
        self._config = config
        self._providers = providers
        self._health = health
        self._environ = environ
        self._degradation = degradation
        self._mask = mask
        self._used = used
        self._checking: set[str] = set()
        self._speaking = False

    def states(self) -> list[ProviderState]:
        """Return every provider, in the order of the file."""
        config, made = self._config(), self._providers()
        unmade = made.unmade if made is not None else {}
        chains = {name: chain_of(config, each) for name, each in config.contexts.items()}
        return [
            self._state(name, section, unmade.get(name, ""), chains)
            for name, section in config.providers.items()
        ]

    def _state(
        self,
        name: str,
        section: PartSection,
        unmade: str,
        chains: Mapping[str, tuple[str, ...]],
    ) -> ProviderState:
        parts = tuple(self._part(part.key, part.section) for part in parts_of(section))
        failure = self._health.failures.get(name)
        keyless = [part for part in parts if part.key == "missing"]
        condition: ProviderCondition = "ok"
        reason = ""
        if unmade:
            condition, reason = "unusable", unmade
        elif keyless:
            told = (f"{each.part or each.type}: set {each.key_source}" for each in keyless)
            condition, reason = "no key", "; ".join(told)
        elif failure is not None:
            condition, reason = "failing", str(failure)
        users = {context: chain for context, chain in chains.items() if name in chain}
        return ProviderState(
            name, section.type, condition, self._mask(reason), failure, users, parts
        )

    def _part(self, key: str, section: PartSection) -> PartState:
        model, voice = (
            str(getattr(section, each, "") or getattr(section, f"{each}_id", "") or "")
            for each in ("model", "voice")
        )
        if not isinstance(section, Service) or not section.needs_key:
            return PartState(key, section.type, model, voice, "not needed", "")
        source = section.key(self._environ)[1]
        state: KeyState = "present" if source else "missing"
        return PartState(key, section.type, model, voice, state, source or section.key_places)

    async def check(self, name: str) -> tuple[Finding, ...]:
        """Ask the services of a provider, as `cordboard check --online` does. Raises `NotThere`,
        and `ProviderBusy` during another check of it."""
        config = self._config()
        if name not in config.providers:
            raise NotThere(f"there is no provider {name[:64]!r}")
        if name in self._checking:
            raise ProviderBusy(f"{name} is being checked already")
        self._checking.add(name)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                found = await check_online(config, self._environ, only=name)
        except TimeoutError:
            advice = f"the check was not over after {CHECK_SECONDS:g} s"
            found = (Finding(name, config.providers[name].type, "unreachable", advice),)
        finally:
            self._checking.discard(name)
        return tuple(
            Finding(each.provider, each.what, each.state, self._mask(each.advice)) for each in found
        )

    async def sample(self, name: str, text: str) -> bytes:
        """Speak a text in the voice of a pipeline; s16 samples at `SAMPLE_RATE`. Behind all work
        for calls, and one at a time.

        Raises `NotThere` for a provider without a voice of its own, `ProviderBusy` also while the
        engine is overloaded, `AgentError` and `VoiceError`."""
        if not isinstance(self._config().providers.get(name), PipelineProvider):
            raise NotThere(f"no pipeline has the name {name[:64]!r}")
        providers = self._providers()
        if providers is None:
            raise AgentError("the models are not loaded yet")
        if self._speaking or self._degradation.level:
            busy = "another sample is being made" if self._speaking else "calls need the engine"
            raise ProviderBusy(busy)
        self._speaking = True
        try:
            async with asyncio.timeout(SAMPLE_SECONDS):
                return await self._spoken(providers.voice_of(name), text)
        except TimeoutError:
            raise VoiceError(f"no whole sample within {SAMPLE_SECONDS:g} s", "stalled") from None
        except VoiceError as error:
            raise VoiceError(self._mask(str(error)), error.kind) from error
        finally:
            self._speaking = False

    async def _spoken(self, voice: Voice, text: str) -> bytes:
        if isinstance(voice, PaidVoice):
            voice = voice.for_call(self._used)
        else:  # rendered behind the work of calls, and then taken from the voice's cache
            await voice.prepare([text], rate=SAMPLE_RATE)
        sound = bytearray()
        pieces = voice.speak(text, rate=SAMPLE_RATE)
        try:
            async for piece in pieces:
                sound += piece
                if len(sound) > MOST_SAMPLE_BYTES:
                    break
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        return bytes(sound[:MOST_SAMPLE_BYTES])
