"""The provider and model that answer a conversation in writing.

A pipeline answers by its brain. A realtime agent only hears and speaks: in writing the rules of the
context answer in its place, unless the writer names a model.
"""

from __future__ import annotations

from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config
from cordboard.errors import ChatRefused

RULES = "rules"


def provider_for(config: Config, context: str, model: str | None) -> str:
    """Return the name of the provider that answers: the context's, or the one with that `model`
    (a provider's name, or the model of its brain). Raises `ChatRefused`."""
    own = config.contexts[context].provider or str(config.default_provider)
    if not model:
        return own
    models = {name: model_of(config, name) for name in config.providers}
    able = {name: brain for name, brain in models.items() if name == own or brain != RULES}
    for name in (own, *able):
        if model in (name, able[name]):
            return name
    known = ", ".join(f"{name} ({brain})" for name, brain in able.items())
    raise ChatRefused("unknown_model", f"there is no model {model[:64]!r}; known: {known}")


def model_of(config: Config, provider: str) -> str:
    """Return the name of the language model by which a provider answers in writing, or `rules`."""
    section = config.providers[provider]
    if not isinstance(section, PipelineProvider):
        return RULES
    return str(getattr(section.brain, "model", section.brain.type))


def notice(config: Config, context: str, provider: str) -> str:
    """Return what a writer should know: that the prompt is not used. Empty for a pipeline."""
    section = config.providers[provider]
    if isinstance(section, PipelineProvider):
        return ""
    words = (
        f"{provider} ({section.type}) only hears and speaks: in writing the context's rules answer"
    )
    if config.contexts[context].rules is None:
        words += ", and it has none"
    return f"{words}. Its prompt is not used"
