"""Keys common to all paid services: a key, an address, a timeout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from cordboard.config.patterns import HEADER_NAME, HEADER_VALUE, URL
from cordboard.config.remote_url import is_loopback
from cordboard.config.sections.model_ends import end_in
from cordboard.config.sections.parts import PartSection

Keyterms: TypeAlias = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], Field(max_length=100)
]
"""Names and words of the trade."""


_CONNECTION_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "host"),
        *("te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
        *("sec-websocket-extensions", "sec-websocket-key", "sec-websocket-protocol"),
        "sec-websocket-version",
    )
)
"""Headers of HTTP and of websockets that the engine sets itself."""
_KEY_HEADERS = frozenset(("authorization", "api-key", "x-api-key", "xi-api-key", "x-goog-api-key"))
"""Headers that carry a service's key."""


def _sendable(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or name.lower() in _CONNECTION_HEADERS:
            raise ValueError(f"{name!r} is not a header, or the engine's own")
        if not HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise ValueError(f"the value of {name} has characters that HTTP does not allow")
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("a header stands there twice: its case does not count")
    return headers


class Service(PartSection):
    """A service on the network that requires a key."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold the key; the first one set is used."""
    domain: ClassVar[str] = ""
    """The vendor's domain. A key of the environment is sent nowhere else, but to this machine.
    Empty (a plug-in that does not state it): it is sent to any `base_url`."""
    key_header: ClassVar[tuple[str, str]] = ("Authorization", "Bearer ")
    """The header that carries the key, and the text before the key in it."""
    model_ends: ClassVar[Mapping[str, str]] = {}
    """Model → the day (YYYY-MM-DD) on which the vendor ends it and its dated snapshots."""

    api_key: SecretStr | None = Field(
        None,
        description="The key; usually left out: then it is taken from the service's usual "
        "environment variable, unless `base_url` leads to another host.",
    )
    base_url: str | None = Field(
        None,
        pattern=URL,
        description="Address of the service. Left out: the vendor's own address.",
    )
    headers: Annotated[dict[str, SecretStr], AfterValidator(_sendable)] = Field(
        default_factory=dict,
        description="Further headers of each request, for gateways and Azure; never logged. One "
        "that carries a key, such as `api-key` or `Authorization`, replaces the key of the "
        "environment.",
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

    def end_of(self, model: str) -> str:
        """Return the announced day (YYYY-MM-DD) of a model's end at the vendor itself; empty: none
        is known."""
        if self.base_url is not None:
            return ""
        return end_in(self.model_ends, model)

    @property
    def ending_models(self) -> Mapping[str, str]:
        """The models in use whose vendors have announced their end → the day (YYYY-MM-DD)."""
        return {model: day for model in self.paid_models if (day := self.end_of(model))}

    def key(self, environ: Mapping[str, str]) -> tuple[str, str]:
        """Return the key and its origin (`api_key`, `headers` or a variable's name); both empty
        without. A key in `headers` is not returned: `request_headers` has it."""
        if self.api_key is not None and (own := self.api_key.get_secret_value()):
            return own, "api_key"
        if any(name.lower() in _KEY_HEADERS for name in self.headers):
            return "", "headers"
        for name in self.key_variables if self.is_the_vendors else ():
            if environ.get(name):
                return environ[name], name
        return "", ""

    @property
    def is_the_vendors(self) -> bool:
        """True if requests go to the vendor, or stay on this machine."""
        host = urlsplit(self.base_url or "").hostname or ""
        at_home = self.base_url is None or not self.domain or is_loopback(host)
        return at_home or f".{host}".endswith(f".{self.domain}")

    def request_headers(self, key: str) -> dict[str, str]:
        """Return the headers of each request: the key's, and those of `headers`, which come first
        by name."""
        own = {name: value.get_secret_value() for name, value in self.headers.items()}
        name, before = self.key_header
        replaced = name.lower() in map(str.lower, own)
        return {name: before + key, **own} if key and not replaced else own

    def missing_key(self, environ: Mapping[str, str]) -> str:
        """Return advice about a needed and missing key; empty when all is well."""
        if not self.needs_key or self.key(environ)[1]:
            return ""
        return f"no key: set {self.key_places}"

    @property
    def key_places(self) -> str:
        """The places that a key may stand in, for messages."""
        variables = " or ".join(self.key_variables)
        if not variables:
            return "api_key"
        if self.is_the_vendors:
            return f"{variables}, or api_key"
        return f"api_key ({variables} of the environment is sent to {self.domain} only)"
