"""Every sentence of the engine that is known in advance: rendered ahead, so that none comes late.

Each speaker lists its own (`sentences(config)`); a new one is added to `SPEAKERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cordboard.agents.fallback import agent as fallback
from cordboard.calls import call_costs, confirmation, failure_apology, silence
from cordboard.calls.recording.call_recording import opening
from cordboard.config.schema import Config
from cordboard.tools import operator_rules

SPEAKERS: tuple[Callable[[Config], Iterator[str]], ...] = (
    failure_apology.sentences,
    silence.sentences,
    fallback.sentences,
    call_costs.sentences,
    operator_rules.sentences,
    confirmation.sentences,
)


def greetings(config: Config) -> dict[str, str]:
    """Return the first sentence of calls by context, where it contains no variables."""
    texts = {
        name: opening(context.recording, context.listening, context.greeting)
        for name, context in config.contexts.items()
    }
    return {name: text for name, text in texts.items() if text and "{" not in text}


def known_sentences(config: Config) -> list[str]:
    """Return the sentences of all speakers, except greetings, each once."""
    told = (text for sentences in SPEAKERS for text in sentences(config))
    return list(dict.fromkeys(text for text in told if text))
