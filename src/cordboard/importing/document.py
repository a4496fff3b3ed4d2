"""An imported configuration as the text of a file, mended until it can be loaded."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import LiteralScalarString

from cordboard.config.load import read
from cordboard.config.providers import paid_parts
from cordboard.config.schema import Config
from cordboard.config.yaml_document import KeyPath, dotted
from cordboard.errors import ConfigError, ConfigProblem
from cordboard.importing.result import Imported, needed_variables

_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_STAND_INS = ("https://example.com/1", "500", "1", "x")
"""Stand for the value of a variable, one after the other until the schema takes one."""
_ROUNDS = 50
_WITH_DEFAULT = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]{0,1000})\}")
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufffe\uffff\u2028\u2029\ud800-\udfff]")
"""Characters that a YAML file does not hold, or not as they are."""


def yaml_text(result: Imported, heading: str) -> str:
    """Return the YAML with its comments."""
    stream = io.StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.allow_unicode = True
    tree = _with_comments(result.tree, (), result.comments)
    tree.yaml_set_start_comment(_clean(heading) + "\n\n")
    yaml.dump(tree, stream)
    return stream.getvalue()


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a file."""

    text: str
    problems: list[ConfigProblem]
    """Problems that are left for a human."""
    variables: list[str]
    """Variables that it needs: those without a default, and those of keys that it does not have."""
    defaults: dict[str, str]
    """Other variables → their defaults."""


def mend(result: Imported, path: Path, heading: str) -> Written:
    """Take out what our schema refuses, and report it in `left`, until the text loads. Variables
    count as set."""
    tried: dict[str, int] = {}
    for _ in range(_ROUNDS):
        text = yaml_text(result, heading)
        names = needed_variables(text)
        try:
            environment = {name: _STAND_INS[tried.get(name, 0)] for name in names}
            config: Config | None = read(text, path, environment).config
            fatal = []
            break
        except ConfigError as error:
            fatal = [problem for problem in error.problems if problem.fatal]
            config = None
            if not _amended(result, fatal, tried):
                break
    keys = [*names, *(_keys(config) if config is not None else ())]
    return Written(text, fatal, list(dict.fromkeys(keys)), dict(_WITH_DEFAULT.findall(text)))


def _keys(config: Config) -> Iterator[str]:
    """Yield the variables of the keys that services take from the environment."""
    for provider in config.providers.values():
        for paid in paid_parts(provider):
            if paid.section.missing_key({}):
                yield " or ".join(paid.section.key_variables) or f"{paid.key}.api_key"


def _amended(result: Imported, fatal: list[ConfigProblem], tried: dict[str, int]) -> bool:
    """Let the variables of refused values stand for something else, and take out other refused
    values. Return False if there is nothing more to do."""
    found = [(*_found(result.tree, problem.key), problem.message) for problem in fatal]
    names = {name for _, value, _ in found for name in _variables_in(value)}
    again = {name for name in names if tried.get(name, 0) < len(_STAND_INS) - 1}
    tried.update({name: tried.get(name, 0) + 1 for name in again})
    removed: list[KeyPath] = []
    # The last entry of a list first: the indexes before it stay valid.
    for place, value, message in sorted(found, key=lambda one: str(one[0]), reverse=True):
        is_context = place[:1] == ("contexts",) and len(place) < 3
        covered = any(place[: len(other)] == other for other in removed)
        if place and not (is_context or covered or _variables_in(value)):
            removed.append(place)
            _take_out(result, place, message)
    return bool(again or removed)


def _variables_in(value: Any) -> list[str]:
    return needed_variables(value) if isinstance(value, str) else []


def _found(tree: Any, key: str) -> tuple[KeyPath, Any]:
    """Return the part of a problem's key that is in the tree, and its value."""
    value, path = tree, []
    for index, name in _PART.findall(key):
        step: Any = int(index) if index else name
        if isinstance(value, dict):
            inside = step in value
        else:
            inside = isinstance(value, list) and bool(index) and step < len(value)
        if not inside:
            break
        value = value[step]
        path.append(step)
    return tuple(path), value


def _take_out(result: Imported, place: KeyPath, message: str) -> None:
    above: Any = result.tree
    for step in place[:-1]:
        above = above[step]
    last = place[-1]
    if place[0] == "contexts" and last in ("prompt", "greeting"):
        above[last] = above[last].replace("{", "{{").replace("}", "}}")
        result.changed.append((dotted(place), f"its braces are literal now: {message}"))
        return
    del above[last]
    result.left.append((dotted(place), f"refused here: {message}"))
    if not above and len(place) > 2 and place[:1] != ("contexts",):
        _take_out(result, place[:-1], "nothing is left in it")


def _with_comments(value: Any, path: KeyPath, comments: Mapping[KeyPath, str]) -> Any:
    if isinstance(value, dict):
        mapping = CommentedMap()
        for key, inner in value.items():
            here = (*path, key)
            mapping[_clean(key)] = _with_comments(inner, here, comments)
            if here in comments:
                mapping.yaml_set_comment_before_after_key(
                    _clean(key), before=_clean(comments[here]), indent=2 * len(path)
                )
        return mapping
    if isinstance(value, list):
        return CommentedSeq([_with_comments(inner, path, {}) for inner in value])
    if not isinstance(value, str):
        return value
    text = _clean(value)
    lines = text.split("\n")
    # A block of YAML cannot hold other texts unchanged.
    if len(lines) > 1 and text[:1].strip() and all(line == line.rstrip() for line in lines):
        return LiteralScalarString(text) if lines[-2] and "\t" not in text else text
    return text


def _clean(text: str) -> str:
    return _NO_TEXT.sub(" ", text)
