"""The door of the language models: a conversation in, a stream of pieces out.

A model is shared by all calls of a provider. What is asked is neutral; each vendor's file turns it
into its own language, and the vendor's stream into these pieces:

    (TextPiece | Kept | ToolWish)* → Finished

Nothing is asked of tools here: a `ToolWish` is only what the model wants.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from cordboard.errors import BrainError
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.schema_profiles import PLAIN, SchemaProfile
from cordboard.tools.tool import JsonObject


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Some more of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolWish:
    """The model wants a tool run."""

    wish_id: str
    """The service's; empty where it gives none."""
    name: str
    arguments: str
    """JSON, as the model wrote it: not yet checked."""
    signature: str = ""
    """A seal of the service's, to be sent back with the wish."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Something of the service's own (thoughts, sealed) that it wants back with the message."""

    block: JsonObject


Reason: TypeAlias = Literal["stop", "tools", "length", "refused", "other"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is whole. Exactly once, and last."""

    reason: Reason
    amounts: Mapping[str, float] = field(default_factory=dict)
    """Tokens, in the units of `cordboard.agent_api.agent.Usage`."""


ModelEvent: TypeAlias = TextPiece | ToolWish | Kept | Finished


@dataclass(frozen=True, slots=True)
class CallerSaid:
    """A turn of the caller's."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentSaid:
    """What the model said, and what it asked for."""

    text: str
    wishes: tuple[ToolWish, ...] = ()
    kept: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """What came of a wish; each has exactly one, right after the message with the wishes."""

    wish_id: str
    name: str
    payload: JsonObject
    failed: bool = False


Message: TypeAlias = CallerSaid | AgentSaid | ToolAnswered


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ProviderTool, ...] = ()
    may_ask: bool = True
    """False: the tools are only there to explain what was asked before."""


@runtime_checkable
class LanguageModel(Protocol):
    """A model of some service."""

    @property
    def provider(self) -> str:
        """The type of the brain, as in the configuration."""
        ...

    @property
    def model(self) -> str: ...

    @property
    def schemas(self) -> SchemaProfile:
        """How it wants tools declared."""
        ...

    @property
    def payload(self) -> PayloadLimits:
        """How much of a tool's result it can take."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer. Closing the generator gives the request up.

        Raises `BrainError` with its kind; before the first piece only after some tries.
        """
        ...

    def load(self) -> None:
        """Do now, before there are calls, what takes long. Blocks. Raises `BrainError`."""
        ...

    def warm(self) -> None:
        """Open a connection now, if there is none, because a call has begun. Returns at once."""
        ...

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        ...


class AbsentModel:
    """Implements `LanguageModel`: stands for a model that cannot be made."""

    model = ""
    schemas = PLAIN
    payload = DEFAULT_LIMITS

    def __init__(self, provider: str) -> None:
        self.provider = provider

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise BrainError(f"there is no model {self.provider}")

    def load(self) -> None:
        """There is nothing to load."""

    def warm(self) -> None:
        """There is nothing to connect."""

    async def close(self) -> None:
        """There is nothing to close."""
