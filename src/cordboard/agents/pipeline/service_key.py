"""Where a paid service's key comes from: its section of the configuration, or the environment."""

from __future__ import annotations

from collections.abc import Mapping

from cordboard.config.providers.service import Service
from cordboard.errors import AgentError


def key_of(settings: Service, environ: Mapping[str, str], what: str) -> str:
    """The key for `settings`; empty where there is none and none is needed. Raises `AgentError`
    (kind `auth`) where there is none.

    `what`: whose key it is, as messages name it.
    """
    if settings.api_key is not None and settings.api_key.get_secret_value():
        return settings.api_key.get_secret_value()
    for name in settings.key_variables:
        if environ.get(name):
            return environ[name]
    if not settings.needs_key:
        return ""
    wanted = " or ".join(settings.key_variables)
    raise AgentError(f"{what} has no key: set {wanted} in the environment, or api_key", "auth")
