"""The verdict on a configuration's text before it is put into force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cordboard.config.changes import Change, changes_with_effect
from cordboard.config.draft_limits import new_references, replaced_references
from cordboard.config.edit.holes import VISIBLE, Hidden, fill
from cordboard.config.load import LoadedConfig, read_document
from cordboard.config.plugins import Plugins
from cordboard.config.schema import Config
from cordboard.config.yaml_document import KeyPath, Place, parse
from cordboard.errors import ConfigError, ConfigProblem


@dataclass(frozen=True, slots=True)
class Review:
    """The verdict on one text."""

    problems: tuple[ConfigProblem, ...]
    """Each with line, column and end, as far as its place is known; in the order of the text."""
    changes: tuple[Change, ...] = ()
    """Differences from the running configuration; empty if the text cannot be used."""
    usable: bool = False
    """True if an engine could run with it."""
    tree: Mapping[str, Any] = field(default_factory=dict)
    """The values as they are written, with references and holes; empty for a text that is not
    YAML."""
    places: Mapping[KeyPath, Place] = field(default_factory=dict)
    """Place of each entry and list item."""
    loaded: LoadedConfig | None = field(default=None, repr=False)
    """None if the text cannot be used."""


def review(
    text: str,
    running: Config,
    path: Path,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
    *,
    original: Hidden | None = None,
    file: Mapping[str, Any] | None = None,
) -> Review:
    """Check a text as the engine would when it loads it, and compare it with the configuration in
    force. Changes nothing; never raises for a text.

    `path` is the file that the text is for: its relative `${file:...}` are read. The holes of the
    text stand for the secrets of `original`. A text
    with references or holes that `file`, the values
    of the file as written, does not have: its author may not learn about them. Takes as long as
    loading (`config.load`): call it in a thread.
    """
    try:
        document = parse(text.removeprefix("\ufeff"), str(path))
    except ConfigError as error:
        return Review(tuple(error.problems))
    tree, places = document.tree, dict(document.places)
    if file is not None and (unread := new_references(document, file)):
        return Review(tuple(unread), tree=tree, places=places)
    holes = fill(document, original) if original is not None else {}
    try:
        loaded = read_document(document, path, environ, plugins, draft=text)
    except ConfigError as error:
        return Review(tuple(error.problems), tree=tree, places=places)
    known = loaded.secrets | loaded.config.secrets if holes else frozenset()
    shown = [
        replace(document.problem(place, f"a secret {VISIBLE}"), from_outside=False)
        for place, secret in holes.items()
        if not any(value and value in secret for value in known)
    ]
    hidden = replaced_references(tree, file) if file is not None else ()
    changes = changes_with_effect(running, loaded.config, hidden)
    return Review(
        (*shown, *loaded.problems), changes, not shown, tree=tree, places=places, loaded=loaded
    )
