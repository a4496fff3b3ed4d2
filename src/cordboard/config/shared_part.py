"""The part of the configuration that all engines of a cluster share, and its merge with the own
file of an engine.

    own file of an engine      everything; its keys outside of `SHARED` are always those in force
    published version          only keys of `SHARED`, and all of them: what it leaves out has its
                               default, so that all engines have the same

Until an engine has seen a published version, its own file is in force as a whole. The newest
version that it had is kept beside its data, as a file (mode 0600), and read again at the next
start: the bus may be away then.

Texts are kept and sent as they are written: references (`${NAME}`, `${file:PATH}`) are filled in by
each engine from its own environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.config.edit.holes import hide
from cordboard.config.files import digest_of
from cordboard.config.load import MOST_KIB, LoadedConfig, load, read_document, text_of
from cordboard.config.plugins import Plugins
from cordboard.config.yaml_document import Document, KeyPath, dotted, parse
from cordboard.errors import ConfigError, ConfigProblem

SHARED: tuple[KeyPath, ...] = (
    ("default_context",),
    ("default_provider",),
    ("providers",),
    ("prices",),
    ("contexts",),
    ("routes",),
    ("tools",),
    ("mcp",),
    ("privacy", "redact"),
    ("chat",),
    ("firewall",),
    ("alarms",),
)
"""Keys of a published version. All others belong to one engine (`cluster`, `calls`, `outbound`,
`reload`), or need its restart (`asterisk`, `health`, `rtp`, `audiosocket`, `tracing`, `admin`,
`privacy.encryption`)."""
_MOST_COPY = 4 * MOST_KIB * 1024
"""Bytes of a copy: JSON escapes make a text longer."""


@dataclass(frozen=True, slots=True)
class SharedText:
    """The text of a published version."""

    number: int
    """Number of the version in its cluster; 0: not published yet."""
    text: str = field(repr=False)
    name: str = ""
    """Name in problems; empty: that of the version."""

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return digest_of(self.content)

    @property
    def content(self) -> bytes:
        return self.text.encode("utf-8")

    @property
    def file(self) -> str:
        return self.name or f"version {self.number} of the cluster"


@dataclass(slots=True)
class MergedDocument(Document):
    """The own file of an engine with the shared keys of a version."""

    shared_file: str = ""
    """Name of the version in problems."""

    def problem(self, path: KeyPath, message: str, *, fatal: bool = True) -> ConfigProblem:
        found = Document.problem(self, path, message, fatal=fatal)
        return replace(found, file=self.shared_file) if is_shared(path) else found


def is_shared(path: KeyPath) -> bool:
    """Return True for a key that a version has, and for all keys inside of it."""
    return any(path[: len(each)] == each for each in SHARED)


def merged(own: Document, shared: Document) -> MergedDocument:
    """Return the own file with the shared keys of a version in place of its own."""
    tree: dict[str, Any] = dict(own.tree)
    for path in SHARED:
        _take(tree, path, shared)
    return MergedDocument(
        own.file,
        tree,
        {path: place for path, place in own.places.items() if not is_shared(path)}
        | {path: place for path, place in shared.places.items() if is_shared(path)},
        [*own.problems, *shared.problems],
        shared_file=shared.file,
    )


def _take(tree: dict[str, Any], path: KeyPath, shared: Document) -> None:
    """Put a shared key into a tree, or remove it there. Holders on the way are copied."""
    holder = tree
    for part in path[:-1]:
        found = holder.get(str(part))
        if found is not None and not isinstance(found, dict):
            return  # of another type: the check of the own file says so
        if found is None and not shared.has(path):
            return
        holder[str(part)] = holder = dict(found or {})
    if shared.has(path):
        holder[str(path[-1])] = shared.get(path)
    else:
        holder.pop(str(path[-1]), None)


def load_merged(
    path: Path, environ: Mapping[str, str], shared: SharedText, plugins: Plugins | None = None
) -> LoadedConfig:
    """Read an engine's own file with a version in place of the shared keys. Raises `ConfigError`;
    its problems name the file or the version, with line and key."""
    own = load(path, environ, plugins)
    document = merged(parse(text_of(path), str(path)), parse_shared(shared))
    loaded = read_document(document, path, environ, plugins)
    return replace(
        loaded,
        digests={**own.digests, **loaded.digests},
        content=own.content,
        secrets=own.secrets | loaded.secrets,
        shared=shared.content,
    )


def parse_shared(shared: SharedText) -> Document:
    """Read the text of a version. Raises `ConfigError` for one that is not YAML, and for keys that
    engines do not share."""
    document = parse(shared.text.removeprefix("\ufeff"), shared.file)
    if problems := [*_not_shared(document)]:
        raise ConfigError(problems)
    return document


def _not_shared(document: Document) -> list[ConfigProblem]:
    tops = {str(path[0]): path for path in SHARED}
    known = ", ".join(dotted(path) for path in SHARED)
    message = f"belongs to the own file of each engine; a published version may have {known}"
    found = []
    for key, value in document.tree.items():
        if is_shared((key,)):
            continue
        if key not in tops or not isinstance(value, dict):
            found.append(document.problem((key,), message))
            continue
        wrong = [(key, each) for each in value if not is_shared((key, each))]
        found += [document.problem(path, message) for path in wrong]
    return found


def check_to_publish(path: Path, environ: Mapping[str, str], shared: SharedText) -> LoadedConfig:
    """Check a text before it is published, with the own file `path` of some engine. Raises
    `ConfigError`, also for a literal secret: what is published leaves this machine."""
    loaded = load_merged(path, environ, shared)
    hidden = hide(shared.text, loaded.secrets | loaded.config.secrets)
    if not hidden.spans:
        return loaded
    message = "a literal secret, which must not leave this machine; write ${NAME} or ${file:PATH}"
    lines = (shared.text.count("\n", 0, start) + 1 for start, _ in hidden.spans)
    raise ConfigError([ConfigProblem(message, file=shared.file, line=line) for line in lines])


class SharedConfig:
    """The version that one engine has in force, and its copy on the disk. Everything but `current`
    blocks: call it in threads."""

    def __init__(self, copy: Path) -> None:
        """`copy`: path of the file that outlives the engine."""
        self._copy = copy
        self.current: SharedText | None = None
        """None: the own file is in force as a whole."""

    def begin(self) -> None:
        """Take the version of the copy; none if there is no copy, or it is damaged. Raises
        `ConfigError` for a copy that cannot be read."""
        try:
            found = orjson.loads(private_files.read(self._copy, _MOST_COPY))
            shared = SharedText(int(found["number"]), str(found["text"]))
            if shared.digest != found["digest"]:
                raise ValueError("another digest")
        except FileNotFoundError:
            return
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            raise ConfigError([ConfigProblem(message, file=str(self._copy))]) from None
        except (ValueError, KeyError, TypeError) as error:
            message = f"is damaged ({error}); remove it, and the engine gets a new one"
            raise ConfigError([ConfigProblem(message, file=str(self._copy))]) from None
        self.current = shared

    def read(self, path: Path, environ: Mapping[str, str]) -> LoadedConfig:
        """Read an engine's file, with the version in force. Raises `ConfigError`."""
        shared = self.current
        return load(path, environ) if shared is None else load_merged(path, environ, shared)

    def keep(self, shared: SharedText) -> None:
        """Make a version the one in force here, also for the next start. Raises `OSError`."""
        self.current = shared
        private_files.make_folder(self._copy.parent)
        line = {**asdict(shared), "digest": shared.digest}
        private_files.replace(self._copy, orjson.dumps(line), sync=True)


def shared_config_of(loaded: LoadedConfig) -> SharedConfig:
    """Return the place of an engine's version. `loaded` has a section `cluster`."""
    cluster = loaded.config.cluster
    if cluster is None:
        raise ValueError("this engine is alone")
    return SharedConfig(copy_of(loaded.config.admin.ui.data, cluster.name, cluster.node))


def copy_of(folder: Path, cluster: str, node: str) -> Path:
    """Return the path of a node's copy in its folder `admin.ui.data`."""
    return folder / f"cluster-config-{cluster}-{node}.json"
