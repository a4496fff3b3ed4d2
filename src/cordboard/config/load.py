"""Reading `ai-agent.yaml`: from a path to a checked `Config`, or to a list of all problems.

The steps, each a file or a folder: `files` (bytes), `document` (YAML with line numbers),
`expansion` (`${VAR}`, `${file:PATH}`), `schema` (allowed values; `explain` words its errors),
`checks` (consistency). Problems of all steps are reported together, in the order of the file.

Reading takes a few ms, for the largest files a few seconds, and reads the disk: do it before calls,
or in a thread. Each step has limits, so that no file takes longer, and raises only `ConfigError`.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, SecretStr, ValidationError

from cordboard.config.checks.semantics import check, with_defaults
from cordboard.config.environment import MOST_TEXT, expand
from cordboard.config.explain import MOST_EXPLAINED, explain
from cordboard.config.files import SecretFiles, content_of, digest_of
from cordboard.config.plugins import Plugins, Reading, installed
from cordboard.config.providers import paid_parts
from cordboard.config.remote_url import path_secrets
from cordboard.config.schema import Config
from cordboard.config.secrets import SHORTEST_SECRET, is_ordinary, names_a_secret
from cordboard.config.sections.admin import AdminUi
from cordboard.config.sentences import Effort
from cordboard.config.shape import Shape
from cordboard.config.stored_secrets import Stored, StoredSecrets
from cordboard.config.yaml_document import Document, KeyPath, parse
from cordboard.errors import ConfigError, ConfigProblem

MOST_KIB = 1024
"""Size limit of the file, far above any real configuration: it keeps the YAML reader, which is the
slowest step, within seconds."""
MOST_PROBLEMS = 200
MOST_MESSAGE = 2_000
"""Characters of a message, which may quote a text of the file."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A usable configuration, with what was learned while reading it."""

    config: Config
    """`default_context` is always filled in."""
    path: Path
    problems: tuple[ConfigProblem, ...] = ()
    """Problems that are not fatal; the engine runs without those parts."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that must never be printed: secret fields, keys of services, values from files, the
    `env` of `mcp` servers from the environment, and variables whose names mark them as secret. For
    `observe.logging`."""
    digests: Mapping[Path, str] = field(default_factory=dict, repr=False)
    """Digest of the file and of each `${file:...}` (`files.digest_of`), to detect later
    changes."""
    document: Document = field(default_factory=lambda: Document(""), repr=False)
    """The file as it was read, for further checks: keys with their lines."""
    secret_files: Mapping[Path, KeyPath] = field(default_factory=dict, repr=False)
    """The files of `${file:...}` → the place that names them first."""
    content: bytes = field(default=b"", repr=False)
    """Bytes of the file."""
    shared: bytes = field(default=b"", repr=False)
    """Text of the cluster's version that the shared keys are from (`config.shared_part`); empty:
    all are from the file."""


def load(path: Path, environ: Mapping[str, str], plugins: Plugins | None = None) -> LoadedConfig:
    """Read, expand and check the file. Raises `ConfigError` with every problem at once. `plugins`
    are the parts that it may name; default: the installed ones."""
    content = _content(path)
    loaded = read(decoded(content, path), path, environ, plugins)
    digests = {path: digest_of(content), **loaded.digests}
    return replace(loaded, digests=digests, content=content)


def text_of(path: Path) -> str:
    """Return the text of a configuration file. Raises `ConfigError`."""
    return decoded(_content(path), path)


def _content(path: Path) -> bytes:
    try:
        return content_of(path, MOST_KIB)
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        if error.errno == errno.EFBIG:
            message += ", the most that a configuration may have"
        raise ConfigError([ConfigProblem(message, file=str(path))]) from None


def decoded(content: bytes, path: Path) -> str:
    """Return the text of a file's bytes, without a byte order mark. Raises `ConfigError`."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = ConfigProblem("not UTF-8 text", file=str(path), line=line)
        raise ConfigError([problem]) from None


def read(
    text: str, path: Path, environ: Mapping[str, str], plugins: Plugins | None = None
) -> LoadedConfig:
    """Like `load`, for a text that is not (yet) in the file. `path` names the file; relative
    `${file:...}` start at its folder."""
    return read_document(parse(text, str(path)), path, environ, plugins)


def read_document(
    document: Document,
    path: Path,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
    *,
    draft: str = "",
) -> LoadedConfig:
    """Like `read`, for a text that has been parsed: scanning it is the slowest step. The document's
    values become the expanded ones. Messages may have the secrets that the author of a `draft` has
    written in it: to mask them would tell that a guess was right."""
    plugins = plugins or installed()
    files = SecretFiles(path.parent)
    stored = _stored(document, environ, files)
    expansion = _Expander(document, environ, files, stored)
    problems = [*document.problems, *expansion.problems]
    known = {problem.key for problem in problems}
    config: Config | None
    more, cut = 0, False
    try:
        config = Config.model_validate(document.tree, context=Reading(plugins, Effort(), environ))
    except ValidationError as error:
        found = explain(error, document, document.from_outside, plugins)
        problems += [problem for problem in found.values() if problem.key not in known]
        more = max(0, error.error_count() - MOST_EXPLAINED)
        config = _without(found, document, plugins, environ) if not more else None
    if config is not None:
        config = with_defaults(config)
        for problem in check(config, document, environ):
            if len(problems) > MOST_PROBLEMS and any(found.fatal for found in problems):
                cut = True  # explaining each takes time
                break
            if problem.key not in known:
                problems.append(problem)
    problems.sort(key=lambda problem: problem.line or 0)
    masked = {secret for secret in expansion.secrets if secret not in draft}
    if config is None or any(problem.fatal for problem in problems):
        shown = _readable(problems, masked, more, cut=cut)
        raise ConfigError(shown, checked=config is not None)
    urls = [server.url or "" for server in config.mcp.servers.values()]
    in_addresses: frozenset[str] = frozenset().union(*map(path_secrets, urls))
    parts = [part for provider in config.providers.values() for part in paid_parts(provider)]
    elsewhere = in_addresses.union(part.section.key(environ)[0] for part in parts)
    config.keep_secret(expansion.secrets_of_results | elsewhere)
    secrets = expansion.secrets.union(_secret_values(config), elsewhere)
    return LoadedConfig(
        config,
        path,
        tuple(_readable(problems, masked)),
        frozenset(secrets - {""}),
        expansion.files.digests | stored.digests,
        document,
        expansion.secret_files,
    )


def _stored(document: Document, environ: Mapping[str, str], files: SecretFiles) -> Stored:
    """Return the secrets that are stored in `admin.ui.data`."""
    named = document.get(("admin", "ui", "data"))
    folder = AdminUi().data
    if isinstance(named, str):
        found = expand(named, environ, files)
        folder = Path(found.text)
        if found.missing or found.problems or not found.text or "\0" in found.text:
            return Stored()  # reported as a problem of this key
    return StoredSecrets(folder).read()


def _readable(
    problems: list[ConfigProblem], secrets: Iterable[str], more: int = 0, *, cut: bool = False
) -> list[ConfigProblem]:
    """Return the problems, limited in number and length for a person. `more` were found but not
    explained. `cut`: the rest was not searched.

    A message may quote a text of the file; a secret that was put into that text is masked. So no
    step before may cut a message: a part of a secret would not be found.
    """
    more += max(0, len(problems) - MOST_PROBLEMS)
    forms = {form for secret in secrets for form in _quoted(secret)}
    masks = sorted((form for form in forms if len(form) >= SHORTEST_SECRET), key=len, reverse=True)
    shown = [
        replace(problem, message=_cut(_masked(problem.message, masks)))
        for problem in problems[:MOST_PROBLEMS]
    ]
    if more:
        last = shown[-1]
        least = "at least " if cut else ""
        message = f"{least}{more:,} more problems, which are not shown"
        shown.append(ConfigProblem(message, file=last.file, line=last.line))
    return shown


def _quoted(secret: str) -> tuple[str, ...]:
    """Return the forms of a secret in messages: as it is, and as Python and JSON quote it."""
    forms = repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)
    return (secret, *(form[1:-1] for form in forms))


def _masked(message: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        message = message.replace(secret, "***")
    return message


def _cut(message: str) -> str:
    return message if len(message) <= MOST_MESSAGE else message[:MOST_MESSAGE] + "..."


def _without(
    places: Iterable[KeyPath], document: Document, plugins: Plugins, environ: Mapping[str, str]
) -> Config | None:
    """Return the configuration with the default at each of these places, so that the correct parts
    can be checked further; None when one has no default, since too much would seem missing."""
    tree, shape = deepcopy(document.tree), Shape.of_file(plugins)
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
        return Config.model_validate(tree, context=Reading(plugins, Effort(), environ))
    except ValidationError:
        return None


class _Expander:
    """Expands every text of a document in place."""

    def __init__(
        self, document: Document, environ: Mapping[str, str], files: SecretFiles, stored: Stored
    ) -> None:
        self._document = document
        self._stored = stored.values.keys() - environ.keys()
        self._environ = {**stored.values, **environ} if self._stored else environ
        self.files = files
        self.problems: list[ConfigProblem] = []
        if stored.problem:
            problem = document.problem(("admin", "ui", "data"), stored.problem, fatal=False)
            self.problems.append(problem)
        self.secrets: set[str] = set()
        self.secrets_of_results: set[str] = set()
        """Secrets that are masked in tools' answers too (`cordboard.config.secrets`)."""
        self.secret_files: dict[Path, KeyPath] = {}
        self._room = MOST_TEXT
        document.tree = self._expanded(document.tree, ())

    def _expanded(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: self._expanded(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expanded(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: KeyPath) -> str:
        result = expand(text, self._environ, self.files)
        for name in result.missing:
            message = (
                f"the environment variable {name} is not set; "
                f"set it, or give a default: ${{{name}:-default}}"
            )
            self.problems.append(self._document.problem(path, message))
        self.problems += [self._document.problem(path, message) for message in result.problems]
        if not (result.values or result.secrets):
            return result.text
        self._document.from_outside.add(path)
        self.secrets.update(result.secrets)
        self.secrets_of_results.update(result.secrets)
        for name, value in result.values:
            by_name = names_a_secret(name) or name in self._stored
            if by_name or "env" in path:
                self.secrets.add(value)
            if by_name or (not is_ordinary(value) and {"env", "headers"}.intersection(path)):
                self.secrets_of_results.add(value)
        for file in result.files:
            self.secret_files.setdefault(file, path)
        self._room -= len(result.text)
        if self._room < 0:
            message = f"the values from outside the file make more than {MOST_TEXT:,} characters"
            raise ConfigError([*self.problems, self._document.problem(path, message)])
        return result.text


def _secret_values(value: Any) -> Iterator[str]:
    """Yield the content of every `SecretStr` inside a value."""
    pending = [value]
    while pending:
        value = pending.pop()
        if value is None or isinstance(value, (str, int, float)):
            continue  # nearly all of them
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, BaseModel):
            pending.extend(vars(value).values())
            pending.extend((value.model_extra or {}).values())  # of a broken plug-in
        elif isinstance(value, (tuple, list)):
            pending.extend(value)
        elif isinstance(value, Mapping):
            pending.extend(value.values())


ReadConfig: TypeAlias = Callable[[Path, Mapping[str, str]], LoadedConfig]
"""Reads a file and fills its `${VARIABLES}` from an environment. Raises `ConfigError`."""


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A file and the environment that fills its `${VARIABLES}`; its `${file:...}` are read again
    with it."""

    path: Path
    environ: Mapping[str, str]
    digests: Mapping[Path, str] = field(default_factory=dict)
    """Digests of the files in force (`LoadedConfig.digests`); they reveal a file that has changed
    since it was read."""
    content: bytes = field(default=b"", repr=False)
    """Bytes of the file in force (`LoadedConfig.content`)."""
    register_secrets: Callable[[frozenset[str]], None] = lambda _: None
    """Receives values that must never be printed, before anything is done with them."""
    read: ReadConfig = load
    """Reads the file; in a cluster with one configuration, with the version in force."""
    shared: bytes = field(default=b"", repr=False)
    """Text of that version at the start (`LoadedConfig.shared`)."""

    def load(self) -> LoadedConfig:
        """Read the file. Blocks on the disk: call it in a thread. Raises `ConfigError`."""
        loaded = self.read(self.path, self.environ)
        self.register_secrets(loaded.secrets)
        return loaded
