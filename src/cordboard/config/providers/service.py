"""What all paid services have in common in the configuration: a key, an address, patience."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, SecretStr

from cordboard.config.patterns import URL
from cordboard.config.section import Section


class Service(Section):
    """A service on the network that wants a key."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold the key, the first one set counts."""

    api_key: SecretStr | None = Field(
        None,
        description="The key; usually left out: then it is taken from the service's usual "
        "environment variable.",
    )
    base_url: str | None = Field(
        None,
        pattern=URL,
        description="Where the service is. Left out: the vendor's own address.",
    )
    connect_timeout_ms: int = Field(
        5_000, ge=100, le=60_000, description="How long one attempt to reach it may take."
    )
    extra: dict[str, Any] = Field(
        default_factory=dict,
        description="Further settings by the vendor's own names, sent as they are. Unchecked.",
    )

    @property
    def needs_key(self) -> bool:
        """Whether nothing can be asked of it without a key."""
        return True
