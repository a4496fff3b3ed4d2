"""Endpoints of the providers: state, online check, voices and their samples, prices."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import Field
from starlette.responses import Response

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Content, Endpoint, Gives, Scope, Takes
from cordboard.admin.pace import CHECK_PROVIDER, SAMPLE
from cordboard.agents.online_check import State
from cordboard.agents.provider_desk import SAMPLE_RATE, KeyState, ProviderCondition
from cordboard.api.administration import iso_time
from cordboard.audio.wav import mono_wav
from cordboard.errors import ProviderBusy, RequestRefused


class ProviderPart(Gives):
    part: str
    """`stt`, `brain` or `tts` of a pipeline; empty for a provider that is one service."""
    type: str
    model: str
    voice: str
    key: KeyState
    key_source: str
    """`api_key`, `headers` or the name of a variable; for a missing key the places it may be in."""


class LastFailure(Gives):
    at: str
    kind: str
    reason: str
    count: int
    """Failures in a row."""


class Provider(Gives):
    name: str
    type: str
    condition: ProviderCondition
    """`unusable`: its plug-in cannot make it; `failing`: it failed the last call that wanted it."""
    reason: str
    """Empty when it is in order."""
    failure: LastFailure | None
    used_by: dict[str, list[str]]
    """Context within the caller's scope → the providers of its calls, in the order of their use."""
    parts: list[ProviderPart]


class Providers(Gives):
    providers: list[Provider]
    """For a limited scope those that its contexts use."""


class Finding(Gives):
    provider: str
    """With the part of a pipeline: `mixed.tts`."""
    what: str
    state: State
    good: bool
    """True if calls can be expected to work."""
    advice: str


class ProviderCheck(Gives):
    findings: list[Finding]
    """Empty for a provider that runs on this machine."""


class VoicesOf(Takes):
    provider: str | None = Field(None, max_length=100)


class Voice(Gives):
    id: str
    """The provider's name: for `POST /voices/{id}/sample`."""
    type: str
    model: str
    voice: str
    """The service's name of it; empty for the part's own."""
    paid: bool
    used_by: list[str]
    """Contexts."""


class Voices(Gives):
    voices: list[Voice]


class Sample(Takes):
    text: str = Field(min_length=1, max_length=300)

    def facts(self) -> dict[str, Any]:
        """Return the length of the text."""
        return {"characters": len(self.text)}


class ModelPrice(Gives):
    model: str
    """`type/model`, or the beginning of a model's name."""
    prices: dict[str, float]
    """Per million tokens, per minute or per thousand characters."""


class ContextBudget(Gives):
    context: str
    max_cost_per_call: float | None
    max_minutes: float | None


class PriceTable(Gives):
    currency: str
    """Empty: no prices are configured, and costs are unknown."""
    models: list[ModelPrice]
    budgets: list[ContextBudget]
    """Of the contexts within the caller's scope that have one."""


async def list_providers(ask: Ask) -> Providers:
    """List the providers: users, keys by name only, fallbacks, and the last failure."""
    rights, rows = ask.who.rights, []
    for state in ask.services.providers.states():
        used = {name: list(chain) for name, chain in state.chains.items() if rights.covers(name)}
        if not used and not rights.everywhere:
            continue
        failure = state.failure
        rows.append(
            Provider(
                name=state.name,
                type=state.type,
                condition=state.condition,
                reason=state.reason,
                failure=None
                if failure is None
                else LastFailure(
                    at=iso_time(failure.at),
                    kind=failure.kind,
                    reason=failure.reason,
                    count=failure.count,
                ),
                used_by=used,
                parts=[ProviderPart(**asdict(part)) for part in state.parts],
            )
        )
    return Providers(providers=rows)


async def check_provider(ask: Ask) -> ProviderCheck:
    """Ask a provider's services whether they know key, model and voice. At most 30 s."""
    try:
        found = await ask.services.providers.check(ask.params["provider"])
    except ProviderBusy as error:
        raise _busy(error) from None
    return ProviderCheck(
        findings=[Finding(**asdict(each), good=each.good) for each in found],
    )


async def list_voices(ask: Ask) -> Voices:
    """List the voices of the configured pipelines."""
    query: VoicesOf = ask.query
    rights, rows = ask.who.rights, []
    for state in ask.services.providers.states():
        used = [name for name in state.chains if rights.covers(name)]
        wanted = query.provider in (None, state.name) and (used or rights.everywhere)
        rows += [
            Voice(
                id=state.name,
                type=part.type,
                model=part.model,
                voice=part.voice,
                paid=part.key != "not needed",
                used_by=used,
            )
            for part in state.parts
            if part.part == "tts" and wanted
        ]
    return Voices(voices=rows)


async def sample_voice(ask: Ask) -> Response:
    """Speak a text in a pipeline's voice: WAV, 16 kHz, mono.

    It waits behind the work for calls, and is refused while the engine is overloaded.
    """
    body: Sample = ask.body
    try:
        sound = await ask.services.providers.sample(ask.params["voice"], body.text)
    except ProviderBusy as error:
        raise _busy(error) from None
    content = await ask.services.run(mono_wav, sound, SAMPLE_RATE)
    return Response(content, media_type="audio/wav")


def _busy(error: ProviderBusy) -> RequestRefused:
    return RequestRefused(503, "busy", str(error), headers={"Retry-After": "5"})


async def list_prices(ask: Ask) -> PriceTable:
    """Show the configured prices and budgets; they are changed in the configuration."""
    config = ask.services.config()
    return PriceTable(
        currency=config.prices.currency,
        models=[
            ModelPrice(model=name, prices=each.model_dump(exclude_none=True))
            for name, each in config.prices.models.items()
        ],
        budgets=[
            ContextBudget(
                context=name,
                max_cost_per_call=each.budget.max_cost_per_call,
                max_minutes=each.budget.max_minutes,
            )
            for name, each in config.contexts.items()
            if each.budget.limits and ask.who.rights.covers(name)
        ],
    )


_READ = Permission.PROVIDERS_READ

ENDPOINTS = (
    Endpoint(
        "GET",
        "/providers",
        may=_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=Providers,
        audit=UNRECORDED,
        does=list_providers,
    ),
    Endpoint(
        "POST",
        "/providers/{provider}/check",
        may=Permission.PROVIDERS_CHECK,
        scope=Scope.NONE,
        takes=None,
        gives=ProviderCheck,
        audit="provider.check",
        does=check_provider,
        pace=CHECK_PROVIDER,
    ),
    Endpoint(
        "GET",
        "/voices",
        may=_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=VoicesOf,
        gives=Voices,
        audit=UNRECORDED,
        does=list_voices,
    ),
    Endpoint(
        "POST",
        "/voices/{voice}/sample",
        may=Permission.PROVIDERS_CHECK,
        scope=Scope.NONE,
        takes=Sample,
        gives=Content(("audio/wav",)),
        audit="voice.sample",
        does=sample_voice,
        pace=SAMPLE,
    ),
    Endpoint(
        "GET",
        "/prices",
        may=_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=PriceTable,
        audit=UNRECORDED,
        does=list_prices,
    ),
)
