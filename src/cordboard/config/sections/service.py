"""Keys common to all paid services: a key, an address, a timeout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field, SecretStr

from cordboard.config.patterns import URL
from cordboard.config.sections.parts import PartSection

Keyterms: TypeAlias = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], Field(max_length=100)
]
"""Names and words of the trade."""


class Service(PartSection):
    """A service on the network that requires a key."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold the key; the first one set is used."""

    api_key: SecretStr | None = Field(
        None,
        description="The key; usually left out: then it is taken from the service's usual "
        "environment variable.",
    )
    base_url: str | None = Field(
        None,
        pattern=URL,
        description="Address of the service. Left out: the vendor's own address.",
    )
    connect_timeout_ms: int = Field(
        5_000, ge=100, le=60_000, description="Timeout of one attempt to reach it."
    )
    extra: dict[str, Any] = Field(
        default_factory=dict,
        description="Further settings by the vendor's own names, sent as they are. Unchecked.",
    )

    @property
    def needs_key(self) -> bool:
        """True if the service refuses requests without a key."""
        return True

    @property
    def paid_models(self) -> tuple[str, ...]:
        """Models that are paid for; none when the service does not distinguish them."""
        model = getattr(self, "model", "")
        return (model,) if isinstance(model, str) and model else ()

    def key(self, environ: Mapping[str, str]) -> tuple[str, str]:
        """Return the key and its origin (`api_key`, or a variable's name); both empty without."""
        if self.api_key is not None and (own := self.api_key.get_secret_value()):
            return own, "api_key"
        for name in self.key_variables:
            if environ.get(name):
                return environ[name], name
        return "", ""

    def missing_key(self, environ: Mapping[str, str]) -> str:
        """Return advice about a needed and missing key; empty when all is well."""
        if not self.needs_key or self.key(environ)[0]:
            return ""
        variables = " or ".join(self.key_variables)
        return f"no key: set {variables}, or api_key" if variables else "no key: set api_key"
