"""Every sentence of the engine that is known in advance: rendered ahead, so that none comes late.

Each speaker lists its own (`sentences(config)`); a new one is added to `SPEAKERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cordboard.agents.fallback import agent as fallback
from cordboard.calls import (
    call_costs,
    call_firewall,
    confirmation,
    failure_apology,
    key_menu,
    messages,
    silence,
)
from cordboard.calls.first_words import opening, spoken_opening
from cordboard.calls.transfer import transfers
from cordboard.config.schema import Config
from cordboard.tools import operator_rules

SPEAKERS: tuple[Callable[[Config], Iterator[str]], ...] = (
    failure_apology.sentences,
    silence.sentences,
    fallback.sentences,
    call_costs.sentences,
    call_firewall.sentences,
    operator_rules.sentences,
    confirmation.sentences,
    transfers.sentences,
    key_menu.sentences,
    messages.sentences,
)


def greetings(config: Config) -> dict[str, tuple[str, ...]]:
    """Return the first words of calls by context, in the pieces in which they are spoken
    (`spoken_opening`), without those that contain variables."""
    texts = {
        name: spoken_opening(context, [*opening(context, context.greeting)])
        for name, context in config.contexts.items()
    }
    known = {name: tuple(t for t in parts if "{" not in t) for name, parts in texts.items()}
    return {name: parts for name, parts in known.items() if parts}


def known_sentences(config: Config) -> list[str]:
    """Return the sentences of all speakers, except greetings, each once."""
    told = (text for sentences in SPEAKERS for text in sentences(config))
    return list(dict.fromkeys(text for text in told if text))
