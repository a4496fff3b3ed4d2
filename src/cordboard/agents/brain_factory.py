"""From a pipeline's `brain:` to what thinks: one branch for each kind.

Called when a generation is built, in a thread if need be: nothing is connected here. A model
without a key is made all the same, so that one missing key does not keep the engine from running;
it says so when a call wants it, and `problem` tells it beforehand.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from cordboard.agent_api.dialogue import Brain
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.llm.http_model import HttpModel
from cordboard.agents.llm.wire import Wire
from cordboard.agents.pipeline.service_key import key_of
from cordboard.agents.rules import RulesBrain
from cordboard.config.providers.brains import (
    AnthropicBrain,
    GeminiBrain,
    GgufBrain,
    LanguageModelBrain,
    ModelBrain,
    OpenAIChatBrain,
    OpenAIResponsesBrain,
)
from cordboard.config.providers.brains import Brain as BrainSettings
from cordboard.config.providers.brains import RulesBrain as RulesSettings
from cordboard.config.schema import Context
from cordboard.errors import AgentError, BrainError
from cordboard.vendors.anthropic.messages import AnthropicWire
from cordboard.vendors.gemini.llm import GeminiWire
from cordboard.vendors.local.gguf import GgufModel, gguf_problem
from cordboard.vendors.openai.chat_completions import OpenAIChatWire
from cordboard.vendors.openai.responses import OpenAIResponsesWire


def brain_for(settings: BrainSettings, context: Context, environ: Mapping[str, str]) -> Brain:
    """The brain that a provider's section describes, for one context."""
    if isinstance(settings, RulesSettings):
        return RulesBrain(context.rules, today=datetime.date.today)
    return model_brain(settings, environ)


def model_brain(settings: LanguageModelBrain, environ: Mapping[str, str]) -> LlmBrain:
    """A model's brain: one for all contexts of a provider."""
    if isinstance(settings, GgufBrain):
        return LlmBrain(GgufModel(settings), settings, gguf_problem(settings))
    if not isinstance(settings, ModelBrain):
        raise BrainError(f"no model is known for {type(settings).__name__}")
    model, problem = model_for(settings, environ)
    return LlmBrain(model, settings, problem)


def model_for(
    settings: ModelBrain, environ: Mapping[str, str]
) -> tuple[HttpModel, BrainError | None]:
    """The model itself, and why it cannot be used, if it cannot."""
    wire = _wire(settings)
    key, problem = _key(settings, environ, wire.provider)
    return HttpModel(wire, settings, key), problem


def _wire(settings: ModelBrain) -> Wire:
    match settings:
        case OpenAIChatBrain():
            return OpenAIChatWire(settings)
        case OpenAIResponsesBrain():
            return OpenAIResponsesWire(settings)
        case AnthropicBrain():
            return AnthropicWire(settings)
        case GeminiBrain():
            return GeminiWire(settings)
        case _:
            raise BrainError(f"no model is known for {type(settings).__name__}")


def _key(
    settings: ModelBrain, environ: Mapping[str, str], what: str
) -> tuple[str, BrainError | None]:
    """A service of one's own that speaks like OpenAI's needs none."""
    own_service = settings.base_url is not None and isinstance(settings, OpenAIChatBrain)
    try:
        key = key_of(settings, environ, what).strip()
    except AgentError as error:
        return "", None if own_service else BrainError(str(error), error.kind)
    if not (key.isascii() and key.isprintable()) or " " in key:
        return "", BrainError(f"{what}: the key has characters that no key has", "auth")
    return key, None
