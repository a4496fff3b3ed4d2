"""The secrets that fill the configuration from outside: which are set, where, and what uses them.

Values never leave this module, only fingerprints of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cordboard.config.environment import variables_in
from cordboard.config.providers import paid_parts
from cordboard.config.schema import Config
from cordboard.config.stored_secrets import Note, StoredSecrets
from cordboard.config.yaml_document import KeyPath, dotted


@dataclass(frozen=True, slots=True)
class SecretState:
    """A variable that the file names, a stored secret, or the key of a service."""

    name: str
    state: Literal["set", "missing", "default"]
    """`default`: it is not set, and the file has a default wherever it names it."""
    source: Literal["environment", "stored", ""]
    shadowed: bool
    """True if a stored secret has no effect, because the environment has one of that name."""
    used_by: tuple[str, ...]
    """Dotted keys of the file."""
    fingerprint: str
    """The same for the same value (`StoredSecrets.fingerprint`); empty if it is not set."""
    note: Note
    """Of the stored secret."""


@dataclass(slots=True)
class _Use:
    keys: list[str] = field(default_factory=list)
    needed: bool = False
    """True if some place has no default."""


def secret_list(
    tree: Mapping[str, Any], config: Config, environ: Mapping[str, str], store: StoredSecrets
) -> list[SecretState]:
    """Return all of them, by name. `tree` has the values of the file as they are written, `config`
    is the one in force. Raises `StoredSecretsUnusable`. Blocks on the disk."""
    stored, uses = store.checked(), _uses(tree)
    for name, key, is_set in _keys_of_services(config, environ):
        uses.setdefault(name, _Use()).keys.append(key)
        uses[name].needed |= not is_set
    found = []
    for name in sorted({*uses, *stored.values}):
        use = uses.get(name, _Use())
        in_environment, is_stored = name in environ, name in stored.values
        value = environ[name] if in_environment else stored.values.get(name)
        found.append(
            SecretState(
                name,
                "set" if value is not None else "missing" if use.needed else "default",
                "environment" if in_environment else "stored" if is_stored else "",
                in_environment and is_stored,
                tuple(dict.fromkeys(use.keys)),
                store.fingerprint(value) if value else "",
                stored.notes.get(name, Note()) if is_stored else Note(),
            )
        )
    return found


def _uses(tree: Mapping[str, Any]) -> dict[str, _Use]:
    uses: dict[str, _Use] = {}
    for path, text in _texts(tree, ()):
        for name, has_default in variables_in(text):
            use = uses.setdefault(name, _Use())
            use.keys.append(dotted(path))
            use.needed |= not has_default
    return uses


def _texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    entries = value.items() if isinstance(value, Mapping) else ()
    for part, item in [*entries, *(enumerate(value) if isinstance(value, list) else ())]:
        yield from _texts(item, (*path, part))


def _keys_of_services(
    config: Config, environ: Mapping[str, str]
) -> Iterator[tuple[str, str, bool]]:
    """Yield the variable that services take their key from without the file naming it, the key of
    the service in the file, and whether the variable is set."""
    for name, provider in config.providers.items():
        for part in paid_parts(provider):
            service, (_, origin) = part.section, part.section.key(environ)
            key = ".".join(("providers", name, *filter(None, [part.key])))
            if origin in service.key_variables:
                yield origin, key, True
            elif not origin and service.is_the_vendors and service.key_variables:
                yield service.key_variables[0], key, False
