"""The interface of language models: a conversation in, a stream of pieces out.

A model is shared by all calls of a provider. Requests are neutral; each vendor's file translates
them into its own API, and the vendor's stream into these pieces:

    (TextPiece | Kept | ToolWish)* → Finished

No tool runs here: a `ToolWish` is only the model's request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from cordboard.errors import BrainError
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.schema_profiles import PLAIN, SchemaProfile
from cordboard.tools.tool import JsonObject


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolWish:
    """The model wants a tool run."""

    wish_id: str
    """The service's id; empty where it gives none."""
    name: str
    arguments: str
    """JSON as the model wrote it, not yet validated."""
    signature: str = ""
    """A signature of the service, to be sent back with the wish."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Opaque data of the service that it needs back with the message."""

    block: JsonObject
    lasting: bool = False
    """False for sealed thoughts, which it needs only until words have followed the tools."""


Reason: TypeAlias = Literal["stop", "tools", "length", "refused", "paused", "other"]
"""`paused`: the service wants the message back as it is, and then goes on."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete. Exactly once, and last."""

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
    """The model's text, and its tool calls."""

    text: str
    wishes: tuple[ToolWish, ...] = ()
    kept: tuple[JsonObject, ...] = ()
    lasting: tuple[JsonObject, ...] = ()
    """Kept data that belongs to the words for good."""


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """The result of a tool call; each has exactly one, right after the message with the calls."""

    wish_id: str
    name: str
    payload: JsonObject
    failed: bool = False


Message: TypeAlias = CallerSaid | AgentSaid | ToolAnswered


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ProviderTool, ...] = ()
    may_ask: bool = True
    """False: the tools only explain earlier tool calls."""


@runtime_checkable
class LanguageModel(Protocol):
    """A language model of some service."""

    @property
    def provider(self) -> str:
        """The type of the brain, as in the configuration."""

    @property
    def model(self) -> str: ...

    @property
    def schemas(self) -> SchemaProfile:
        """The JSON Schema profile in which the model takes tools."""

    @property
    def payload(self) -> PayloadLimits:
        """The largest tool result that the model can take."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the answer. Closing the generator cancels the request.

        Raises `BrainError` with its kind; before the first piece only after some retries.
        """

    def load(self) -> None:
        """Do slow preparation now, before there are calls. Blocks. Raises `BrainError`."""

    def warm(self) -> None:
        """Open a connection if there is none, because a call has begun. Returns at once."""

    async def close(self) -> None:
        """Close all connections. Idempotent."""


@runtime_checkable
class SendsCalls(Protocol):
    """A model that may send its tool calls apart from its text, as `ToolWish`."""

    @property
    def sends_calls(self) -> bool:
        """True if its text has words only, which are spoken as they are. Otherwise calls are looked
        for in the text, too."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """A model that keeps the text it has read: it can read the beginning of a conversation before
    the answer to it is needed."""

    def read_ahead(self, beginning: ModelRequest) -> Future[None]:
        """Begin to read, and return at once. From any thread. The future is done when nothing
        waits for the reading any more; cancelling it, at any time, gives the reading up."""
        ...


class AbsentModel:
    """Stands for a model that cannot be made. Implements `LanguageModel`."""

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
