"""Reading `ai-agent.yaml`: from a path to a checked `Config`, or to a list of all that is wrong.

The steps, each a file or a folder: `document` (YAML with line numbers), `expansion` (`${VAR}`),
`schema` (what may be said; `explain` puts its findings in words), `checks` (what must fit
together). Problems of all steps are reported together, in the order of the file.

Reading is quick (a few ms) but reads the disk: do it before calls, or in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from cordboard.config.checks.semantics import check, with_defaults
from cordboard.config.document import Document, KeyPath, parse
from cordboard.config.expansion import expand
from cordboard.config.explain import explain
from cordboard.config.providers.services import paid_parts
from cordboard.config.remote_url import path_secrets
from cordboard.config.schema import Config
from cordboard.config.secrets import is_ordinary, names_a_secret
from cordboard.config.shape import Shape
from cordboard.errors import ConfigError, ConfigProblem


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration that can be used."""

    config: Config
    """`default_context` is always filled in."""
    path: Path
    problems: tuple[ConfigProblem, ...] = ()
    """What is wrong without being fatal; the engine runs without those parts."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that must never be printed: secret fields, keys of services, what `mcp` servers get as
    `env` from the environment, and variables whose names say so. For `observe.logging`."""
    digest: str = field(default="", repr=False)
    """Of the file's bytes (`digest_of`), to tell whether it has changed since."""


def digest_of(content: bytes) -> str:
    """What tells one content of a file from another."""
    return hashlib.sha256(content).hexdigest()


def load(path: Path, environ: Mapping[str, str]) -> LoadedConfig:
    """Read, expand and check the file. Raises `ConfigError` with every problem at once."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise ConfigError([ConfigProblem(message, file=str(path))]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = ConfigProblem("not UTF-8 text", file=str(path), line=line)
        raise ConfigError([problem]) from None
    return replace(read(text, path, environ), digest=digest_of(content))


def read(text: str, path: Path, environ: Mapping[str, str]) -> LoadedConfig:
    """The same for a text that is not (yet) in the file; `path` only names it."""
    document = parse(text, str(path))
    expansion = _Expander(document, environ)
    problems = [*document.problems, *expansion.problems]
    known = {problem.key for problem in problems}
    config: Config | None
    try:
        config = Config.model_validate(document.tree)
    except ValidationError as error:
        found = explain(error, document, expansion.places)
        problems += [problem for problem in found.values() if problem.key not in known]
        config = _without(found, document)
    if config is not None:
        config = with_defaults(config)
        found_later = check(config, document, environ)
        problems += [problem for problem in found_later if problem.key not in known]
    problems.sort(key=lambda problem: problem.line or 0)
    if config is None or any(problem.fatal for problem in problems):
        raise ConfigError(problems)
    urls = [server.url or "" for server in config.mcp.servers.values()]
    in_addresses: frozenset[str] = frozenset().union(*map(path_secrets, urls))
    parts = [part for provider in config.providers.values() for part in paid_parts(provider)]
    elsewhere = in_addresses.union(part.key(environ) for part in parts)
    config.keep_secret(expansion.secrets_of_results | elsewhere)
    secrets = expansion.secrets | _secret_values(config) | elsewhere
    return LoadedConfig(config, path, tuple(problems), frozenset(secrets - {""}))


def _without(places: Iterable[KeyPath], document: Document) -> Config | None:
    """The configuration with the default in each of these places, so that what is right can be
    checked further; None when one has no default, as then anything may seem to be missing."""
    tree, shape = deepcopy(document.tree), Shape.of_file()
    for path in places:
        section = shape.at(path[:-1]) if path else None
        if section is None or path[-1] in section.required() or section.entry() is not None:
            return None
        holder: Any = tree
        for part in path[:-1]:
            holder = holder[part]
        if not isinstance(holder, dict) or path[-1] not in holder:
            return None
        del holder[path[-1]]
    try:
        return Config.model_validate(tree)
    except ValidationError:
        return None


class _Expander:
    """Expands every text of a document in place."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self.problems: list[ConfigProblem] = []
        self.places: set[KeyPath] = set()
        """Where a value came from the environment."""
        self.secrets: set[str] = set()
        self.secrets_of_results: set[str] = set()
        """Those of them that are masked in what tools answer too (`cordboard.config.secrets`)."""
        document.tree = self._expanded(document.tree, ())

    def _expanded(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: self._expanded(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expanded(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: KeyPath) -> str:
        result = expand(text, self._environ)
        for name in result.missing:
            message = (
                f"the environment variable {name} is not set; "
                f"set it, or give a default: ${{{name}:-default}}"
            )
            self.problems.append(self._document.problem(path, message))
        if result.malformed:
            message = "${ without a name; write ${NAME}, or $${ when it is meant as such"
            self.problems.append(self._document.problem(path, message))
        if result.values:
            self.places.add(path)
        for name, value in result.values:
            by_name = names_a_secret(name)
            if by_name or "env" in path:
                self.secrets.add(value)
            if by_name or ("env" in path and not is_ordinary(value)):
                self.secrets_of_results.add(value)
        return result.text


def _secret_values(value: Any) -> set[str]:
    """The content of every `SecretStr` inside a value."""
    if isinstance(value, SecretStr):
        return {value.get_secret_value()}
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return {secret for item in value for secret in _secret_values(item)}
    return set()
