"""Which paid services a provider consists of: itself, or the parts of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cordboard.config.providers.brains import OpenAIChatBrain
from cordboard.config.providers.deepgram_agent import DeepgramAgentProvider
from cordboard.config.providers.elevenlabs_agent import ElevenLabsAgentProvider
from cordboard.config.providers.openai_realtime import OpenAIRealtimeProvider
from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.providers.provider import Provider
from cordboard.config.providers.service import Service
from cordboard.config.providers.tts import ElevenLabsTts


@dataclass(frozen=True, slots=True)
class PaidPart:
    """One service of a provider."""

    part: str
    """`stt`, `brain` or `tts` of a pipeline; empty for a provider that is one service."""
    service: Service

    @property
    def kind(self) -> str:
        """Its type, as in the configuration."""
        return str(getattr(self.service, "type", ""))

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are paid for; none when the service does not tell them apart."""
        match self.service:
            case DeepgramAgentProvider():
                return (self.service.think.provider.model,)
            case ElevenLabsTts():
                return (self.service.model_id,)
            case OpenAIRealtimeProvider():
                return (self.service.model, self.service.transcription.model)
            case ElevenLabsAgentProvider():
                return ("agent",)  # one price for all its agents
        model = getattr(self.service, "model", "")
        return (model,) if isinstance(model, str) and model else ()

    @property
    def model(self) -> str:
        """The first of them; empty when there is none."""
        return next(iter(self.models), "")

    @property
    def wants_key(self) -> bool:
        """Whether it cannot be used without a key."""
        compatible = isinstance(self.service, OpenAIChatBrain)
        return self.service.needs_key and not (compatible and self.service.base_url is not None)

    def key(self, environ: Mapping[str, str]) -> str:
        """Its key; empty when there is none."""
        key = self.service.api_key
        if key is not None and key.get_secret_value():
            return key.get_secret_value()
        names = self.service.key_variables
        return next((value for name in names if (value := environ.get(name))), "")

    def key_source(self, environ: Mapping[str, str]) -> str:
        """Where its key comes from: `api_key` or the name of a variable."""
        key = self.service.api_key
        if key is not None and key.get_secret_value():
            return "api_key"
        return next((name for name in self.service.key_variables if environ.get(name)), "api_key")

    def missing_key(self, environ: Mapping[str, str]) -> str:
        """What to do about a key that is wanted and not there; empty when all is well."""
        if not self.wants_key or self.key(environ):
            return ""
        return f"no key: set {' or '.join(self.service.key_variables)}, or api_key"


def paid_parts(provider: Provider) -> Iterator[PaidPart]:
    """The services that a provider consists of; none for one that runs on this machine."""
    if isinstance(provider, PipelineProvider):
        for part, section in (
            ("stt", provider.stt),
            ("brain", provider.brain),
            ("tts", provider.tts),
        ):
            if isinstance(section, Service):
                yield PaidPart(part, section)
    elif isinstance(provider, Service):
        yield PaidPart("", provider)
