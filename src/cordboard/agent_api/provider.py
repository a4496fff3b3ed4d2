"""The descriptor of a provider: the one value that adds an agent, recogniser, voice or model.

    PROVIDERS = (
        Provider("parrot", "agent", ParrotSection, make_parrot),
        Provider("parrot_voice", "tts", ParrotVoiceSection, make_voice),
    )

The configuration, `cordboard check --online`, `/tools`, `/tools/{name}/try` and the factories are
derived from it. A descriptor is imported by every process that reads a configuration: keep its
module light, and import heavy code inside `make` and `probes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from cordboard.agent_api.probe import Probe
from cordboard.config.plugins import Plugins
from cordboard.config.sections.parts import PartSection, Role
from cordboard.errors import NotThere
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.schema_profiles import PLAIN, SchemaProfile

if TYPE_CHECKING:
    from cordboard.agent_api.agent import Agent
    from cordboard.agent_api.language_model import LanguageModel
    from cordboard.agent_api.offline_models import OfflineModels
    from cordboard.agent_api.service_protocol import ServiceProtocol
    from cordboard.agent_api.stt import CallRecogniser, Recogniser
    from cordboard.agent_api.tts import Voice
    from cordboard.agent_api.workers import Workers

AnySection = TypeVar("AnySection", bound=PartSection)
SectionClass: TypeAlias = type[AnySection]
Made: TypeAlias = "Agent | ServiceProtocol | Recogniser | CallRecogniser | Voice | LanguageModel"


@dataclass(frozen=True, slots=True)
class Parts:
    """The engine's resources that a part may be made with."""

    key: str = ""
    """The service's key; empty where none is needed."""
    models: OfflineModels | None = None
    """The models on this machine; None where none are loaded, as in `cordboard check`."""

    @property
    def workers(self) -> Workers | None:
        """Threads for heavy work, shared by all calls; None where no models are loaded."""
        return self.models.workers if self.models is not None else None


def no_probes(section: Any, key: str) -> tuple[Probe, ...]:
    """Return no probes: the service offers nothing to verify."""
    return ()


@dataclass(frozen=True, slots=True)
class Provider(Generic[AnySection]):
    """One type of agent, recogniser, language model or voice."""

    type: str
    """The type as in the configuration: `type: parrot`. A plug-in's types are the name of its entry
    point, or begin with it and `_`."""
    role: Role
    section: SectionClass[AnySection]
    """The settings, with `type: Literal[...]`. Paid services subclass `Service`, realtime agents
    `RealtimeProvider`, language models `LanguageModelBrain` or `ModelBrain`."""
    make: Callable[[AnySection, Parts], Made]
    """Makes the part, at once and without connecting. Called in any thread.

    agent: an `Agent` or, for a `RealtimeProvider`, a `ServiceProtocol`; new for each call.
    stt: a `Recogniser` or `CallRecogniser`, tts: a `Voice`, llm: a `LanguageModel`; each shared by
    the calls of one configuration. May raise `AgentError` with the reason.
    """
    schemas: SchemaProfile = PLAIN
    """The JSON Schema that the service accepts in tools."""
    payload: PayloadLimits = DEFAULT_LIMITS
    """The largest tool result that the service takes."""
    probes: Callable[[AnySection, str], tuple[Probe, ...]] = no_probes
    """The requests of `check --online` for a section and its key."""
    tries_session: bool = True
    """True if `check --online` opens a realtime session too; False where that costs money."""


def provider_of(plugins: Plugins, role: Role, part_type: str) -> Provider[Any] | None:
    """Return the descriptor of a type; None for an unknown one and for `pipeline` and `rules`."""
    found = plugins.descriptors.get((role, part_type))
    return found if isinstance(found, Provider) else None


def tool_users(plugins: Plugins) -> dict[str, Provider[Any]]:
    """Return the agents and language models, which use tools, by type."""
    every = [each for each in plugins.descriptors.values() if isinstance(each, Provider)]
    return {each.type: each for each in every if each.role in ("agent", "llm")}


def tool_user(plugins: Plugins, name: str) -> Provider[Any]:
    """Return the agent or language model of a type, or the first whose schema profile has that name
    (`deepgram`, `elevenlabs`). Raises `NotThere`."""
    users = tool_users(plugins)
    named = {each.schemas.name: each for each in reversed(users.values()) if each.schemas != PLAIN}
    found = users.get(name) or named.get(name)
    if found is None:
        known = ", ".join(sorted(users))
        raise NotThere(f"there is no provider type {name[:64]!r}; known: {known}")
    return found
