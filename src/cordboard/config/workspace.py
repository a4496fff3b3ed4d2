"""The configuration's file as people edit it: its text with holes for secrets, the verdict on
drafts of it, edits, differences, patches and versions.

Nothing here returns a literal secret of the file. Everything blocks on the disk and the processor:
call it in threads. `config.publish` writes the file.
"""

from __future__ import annotations

import difflib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cordboard.config.edit.apply import apply
from cordboard.config.edit.edits import Edit
from cordboard.config.edit.holes import HOLE, Hidden, hide, hide_both, put_back, secret_values
from cordboard.config.edit.tree import parse_tree
from cordboard.config.files import content_of, digest_of
from cordboard.config.load import MOST_KIB, decoded
from cordboard.config.plugins import Plugins
from cordboard.config.review import Review, review
from cordboard.config.schema import Config
from cordboard.config.versions import Versions
from cordboard.errors import ConfigError, PublishRefused

MOST_HIDDEN = 8
"""Texts whose holes are remembered, so that each keystroke in a draft scans the draft alone."""
NOT_AS_A_PATCH = "the changed lines stand beside literal secrets: make the change by hand"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A text with holes, and the verdict on it."""

    text: str
    digest: str
    """SHA-256 of the text that its holes belong to: the `base` of drafts."""
    review: Review


class Workspace:
    """The file of one engine. For several threads."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        versions: Versions,
        *,
        writes: bool = True,
        plugins: Plugins | None = None,
    ) -> None:
        """Without `writes` the file is changed elsewhere (`admin.ui.edit: off`)."""
        self.path = path
        self.versions = versions
        self.environ = environ
        """Fills the file's `${NAME}`."""
        self._writes = writes
        self._plugins = plugins
        self._hidden: OrderedDict[str, Hidden] = OrderedDict()
        self._current: tuple[Config, dict[str, str], Mapping[Path, str], Sheet] | None = None
        self._lock = threading.Lock()

    # The file.

    def content(self) -> bytes:
        """Return the bytes of the file. Raises `PublishRefused`."""
        try:
            return content_of(self.path, MOST_KIB)
        except OSError as error:
            raise PublishRefused(f"{self.path} cannot be read: {error.strerror or error}") from None

    def read_only(self) -> str:
        """Return the reason why the file cannot be published from here; empty if it can."""
        if not self._writes:
            return "admin.ui.edit is off: the file is changed elsewhere"
        target = self.path.resolve()
        try:
            mode = stat.S_IMODE(target.stat().st_mode)
        except OSError as error:
            return f"{self.path} cannot be read: {error.strerror or error}"
        if not mode & 0o222:
            return f"{self.path} is read-only (mode {mode:o})"
        if not (os.access(target.parent, os.W_OK) or os.access(target, os.W_OK)):
            return f"the engine's user may not write {self.path}"
        return ""

    def sheet(self, running: Config) -> Sheet:
        """Return the file. Reads it only if it, or a file that it names, has changed since the last
        time. Raises `PublishRefused`, and `ConfigError` for a file that is not text."""
        content, environ = self.content(), dict(self.environ)
        digest = digest_of(content)
        with self._lock:
            current = self._current
        if current is not None:
            config, known, digests, sheet = current
            if (config is running and environ == known and sheet.digest == digest) and all(
                _digest(path) == old for path, old in digests.items()
            ):
                return sheet
        text = self._text(content)
        try:
            hidden = self._holes(digest, text)
        except ConfigError as error:  # no secrets can be found in it
            return Sheet("", digest, Review(tuple(error.problems)))
        found = self.review(hidden.text, digest, running)
        sheet = Sheet(hidden.text, digest, found)
        if found.loaded is not None:
            with self._lock:
                self._current = running, environ, found.loaded.digests, sheet
        return sheet

    # Drafts.

    def review(
        self,
        text: str,
        base: str,
        running: Config,
        *,
        may_publish: bool = True,
    ) -> Review:
        """Return the verdict on a draft of the version `base` (`config.review`). Without
        `may_publish` no values from outside are read but those that the file itself reads. Raises
        `NotThere` if it has holes and there is no such version, and `PublishRefused` and
        `ConfigError` if the file cannot be read."""
        original = self._original(base) if HOLE.search(text) else None
        file = None if may_publish else self.sheet(running).review.tree
        return review(
            text,
            running,
            self.path,
            self.environ,
            self._plugins,
            original=original,
            file=file,
        )

    def edited(self, text: str, edits: Sequence[Edit]) -> tuple[str, list[tuple[int, int]]]:
        """Return the text with the edits (`config.edit.apply`), and the first and last line of each
        part of it that is new. Raises `EditRefused`, and `ConfigError` for a text that is not
        YAML."""
        after = apply(text, edits, str(self.path))
        return after, touched(text, after)

    def filled(self, text: str, base: str) -> str:
        """Return the draft of the version `base` with its secrets. Raises `EditRefused`,
        `ConfigError`, and `NotThere` if there is no such version."""
        if not HOLE.search(text):
            return text
        return put_back(text, self._original(base), self._secrets)

    def difference(
        self, text: str, base: str, against: str = "", *, may_publish: bool = True
    ) -> list[str]:
        """Return the lines of a unified diff from the version `against` (empty: the file) to a
        draft of the version `base`. Without `may_publish` nothing is read for the draft: it is
        compared as it was sent, with its holes. Raises as `filled` does."""
        names = (against[:12] or self.path.name, "draft")
        if not may_publish:
            parse_tree(text.removeprefix("\ufeff"), str(self.path))
            if against:
                return _lines(self.shown_version(against), text, names)
            content = self.content()
            return _lines(self._holes(digest_of(content), self._text(content)).text, text, names)
        old = self.version(against) if against else self._text(self.content())
        new = self.filled(text, base)
        return difference(old, new, names, self.path, self.environ, self._plugins)

    def patch(self, text: str, base: str) -> str:
        """Return the change from the file to a draft of the version `base`, for `git apply` in the
        file's folder; empty if it would show a secret. Raises as `filled` does."""
        old, new = self._text(self.content()), self.filled(text, base)
        shown = _patch(self.path.name, *hide_both(old, new, self.path, self.environ))
        whole = _patch(self.path.name, old, new)
        return whole if whole == shown else ""

    # Versions.

    def version(self, digest: str) -> str:
        """Return the text of a version, with its secrets. Raises `NotThere` and `ConfigError`."""
        return self._text(self.versions.content(digest))

    def shown_version(self, digest: str) -> str:
        """Return the text of a version with holes. Raises `NotThere` and `ConfigError`."""
        whole = self.versions.find(digest)
        return self._holes(whole, self.version(whole)).text

    def between(self, old: str, new: str) -> list[str]:
        """Return the lines of a unified diff of two versions; empty `new`: the file. Raises
        `NotThere`, `ConfigError` and `PublishRefused`."""
        return difference(
            self.version(old),
            self.version(new) if new else self._text(self.content()),
            (old[:12], new[:12] or self.path.name),
            self.path,
            self.environ,
            self._plugins,
        )

    # Inside.

    def _text(self, content: bytes) -> str:
        return "\ufeff" * content.startswith(b"\xef\xbb\xbf") + decoded(content, self.path)

    def _secrets(self, text: str) -> frozenset[str] | None:
        return secret_values(text, self.path, self.environ, self._plugins)

    def _original(self, base: str) -> Hidden:
        with self._lock:
            if base in self._hidden:
                self._hidden.move_to_end(base)
                return self._hidden[base]
        content = self.content()
        if digest_of(content) != base:
            content = self.versions.content(base)
        return self._holes(base, self._text(content))

    def _holes(self, digest: str, text: str) -> Hidden:
        """Return the text with holes. Their numbers stay while the version is remembered: drafts
        with them are open, and a file that the text names may have changed."""
        with self._lock:
            known = self._hidden.get(digest)
        if known is None or known.by_names:
            known = hide(text, self._secrets(text), earlier=known.spans if known else ())
            with self._lock:
                known = self._hidden[digest] = known
                while len(self._hidden) > MOST_HIDDEN:
                    self._hidden.popitem(last=False)
        return known


def _digest(path: Path) -> str:
    try:
        return digest_of(content_of(path, MOST_KIB))
    except OSError:
        return ""


def difference(
    before: str,
    after: str,
    names: tuple[str, str],
    path: Path,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
) -> list[str]:
    """Return the lines of a unified diff of two texts of a file, with holes for the secrets of
    both; none if only secrets or line breaks differ. Raises `ConfigError` for a text that is not
    YAML."""
    return _lines(*hide_both(before, after, path, environ, plugins), names)


def _lines(old: str, new: str, names: tuple[str, str]) -> list[str]:
    return [*difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")]


def touched(before: str, after: str) -> list[tuple[int, int]]:
    """Return the first and last line, from 1, of each part of `after` that differs from `before`;
    for lines that are gone, the line that took their place."""
    old, new = before.splitlines(), after.splitlines()
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    match = difflib.SequenceMatcher(
        None, old[start : len(old) - end], new[start : len(new) - end], autojunk=False
    )
    return [
        (start + first + 1, start + max(last, first + 1))
        for kind, _, _, first, last in match.get_opcodes()
        if kind != "equal"
    ]


def _patch(name: str, before: str, after: str) -> str:
    """Return a patch. Lines end as they do in the file."""
    lines = (text.split("\n") for text in (before, after))
    old, new = ([f"{line}\n" for line in text[:-1]] + [text[-1]] * bool(text[-1]) for text in lines)
    found = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in found
    )
