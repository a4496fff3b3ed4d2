"""Chooses the context and the provider of a call.

context:  AI_CONTEXT > AI_AGENT (alias) > route of the dialled number > default_context > the first
provider: AI_PROVIDER > the context's > default_provider

A call that began in another engine keeps its context and provider, if both engines have them.

An unknown name never refuses a caller: the next candidate answers, and the problem is logged,
counted and spoken to the caller in one sentence.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cordboard.calls.offer import Offer
from cordboard.config.call_variables import call_variables
from cordboard.config.schema import Config, Context
from cordboard.config.sections.parts import PartSection

APOLOGY = "Sorry, the service you asked for is not available. "
"""Spoken before the greeting of the context that answers instead."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The context and provider that answer a call."""

    context_name: str
    context: Context
    provider_name: str
    provider: PartSection
    problems: tuple[str, ...] = ()
    """Requested names that do not exist."""


def bind(offer: Offer, config: Config) -> Binding:
    """Choose a binding. All names in `config` exist (checked when it was loaded)."""
    wanted, resumed = offer.variables, offer.resumed
    problems: list[str] = []
    context_name = _first_known(
        "context",
        (
            ("the call so far", resumed.context if resumed is not None else ""),
            ("AI_CONTEXT", wanted.get("AI_CONTEXT")),
            ("AI_AGENT", wanted.get("AI_AGENT")),
            ("routes", config.routes.get(offer.called_number)),
            ("default_context", config.default_context),
            ("the first context", next(iter(config.contexts))),
        ),
        config.contexts,
        problems,
    )
    context = config.contexts[context_name]
    provider_name = _first_known(
        "provider",
        (
            ("the call so far", resumed.provider if resumed is not None else ""),
            ("AI_PROVIDER", wanted.get("AI_PROVIDER")),
            (f"contexts.{context_name}.provider", context.provider),
            ("default_provider", config.default_provider),
            ("the first provider", next(iter(config.providers))),
        ),
        config.providers,
        problems,
    )
    return Binding(
        context_name, context, provider_name, config.providers[provider_name], tuple(problems)
    )


def variables_of(offer: Offer, binding: Binding, now: datetime.datetime) -> dict[str, str]:
    """Return the variables of a call that begins now, as its context declares them."""
    return call_variables(
        caller_number=offer.caller_number,
        caller_name=offer.caller_name,
        called_number=offer.called_number,
        call_id=offer.call_id,
        context_name=binding.context_name,
        provider_name=binding.provider_name,
        now=now,
        declared=binding.context.variables,
        channel=offer.variables,
    )


def _first_known(
    kind: str,
    candidates: Iterable[tuple[str, str | None]],
    known: Mapping[str, object],
    problems: list[str],
) -> str:
    for origin, name in candidates:
        if not name:
            continue
        if name in known:
            return name
        problems.append(f"{origin} names the unknown {kind} {name!r}")
    raise LookupError(f"no {kind} is configured")
