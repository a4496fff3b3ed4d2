"""The files of an AVA installation (AVA-AI-Voice-Agent-for-Asterisk, v6 to v7.5), read and merged.

AVA's own order of precedence, from its source at v7.5.4: `config/ai-agent.yaml`, over it
`config/ai-agent.local.yaml` (null removes a key), contexts of `config/contexts/*.yaml` under
other names. `data/operator/agents.db` (SQLite, v7) replaces all contexts of these files.

Nothing is written and the values of `.env` are not kept. `${VAR}` of AVA's files becomes ours;
texts of the database, which AVA does not expand, stay literal.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cordboard.config.load import text_of
from cordboard.config.yaml_document import parse
from cordboard.errors import CordboardError

MAIN = "ai-agent.yaml"
DATABASES = ("data/operator/agents.db", "data/agents.db", "agents.db")
MOST_AGENTS = 500
MOST_VALUE = 1_000_000
"""Bytes of a value of the database, and of a row."""
MOST_SECONDS = 5.0
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::[-=]([^}]{0,1000}))?\}|\$(?=[${])")
_VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=")


class NotAva(CordboardError):
    """The folder or a file in it cannot be read as an AVA installation."""


@dataclass(slots=True)
class Installation:
    """All that an AVA installation configures."""

    tree: dict[str, Any]
    """The merged YAML."""
    sources: list[Path]
    """Files that were read."""
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Active rows of the database by slug, with the keys of contexts; empty without a database."""
    default_agent: str = ""
    inactive: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    """Lesser problems of the YAML files, such as duplicate keys."""
    variables: frozenset[str] = frozenset()
    """Names in `.env`."""


def read_installation(place: Path) -> Installation:
    """Read an installation's folder, its `config` folder, or one YAML file alone. Raises `NotAva`,
    `ConfigError`."""
    if place.is_file():
        main, root = place, None
    elif place.is_dir():
        main, root = _main(place), place
    else:
        raise NotAva(f"{place}: there is no such folder or file")
    found = Installation({}, [])
    found.tree = _yaml(main, found)
    if root is None:
        return found
    local = main.with_name("ai-agent.local.yaml")
    if local.is_file():
        found.tree = _merged(found.tree, _yaml(local, found))
    _add_contexts(main.parent / "contexts", found)
    folders = (root, root.parent) if main.parent == root else (root,)
    for name in DATABASES:
        paths = [folder / name for folder in folders if (folder / name).is_file()]
        if paths:
            _read_agents(paths[0], found)
            break
    found.variables = frozenset(n for folder in folders for n in _names(folder / ".env"))
    return found


def _main(folder: Path) -> Path:
    for path in (folder / "config" / MAIN, folder / MAIN):
        if path.is_file():
            return path
    golden = "ai-agent.golden-*.yaml"
    found = (*folder.glob(golden), *folder.glob(f"config/{golden}"))
    others = sorted(map(str, found))[:20]
    hint = f"; name one of these files: {', '.join(others)}" if others else ""
    raise NotAva(f"{folder}: there is no config/{MAIN}, so it is not a folder of AVA{hint}")


def _yaml(path: Path, found: Installation) -> dict[str, Any]:
    text = text_of(path)
    found.sources.append(path)
    if all(line.lstrip().startswith("#") or not line.strip() for line in text.splitlines()):
        return {}
    document = parse(text, str(path))
    found.duplicates += [str(problem) for problem in document.problems]
    tree: dict[str, Any] = _texts(document.tree, _expanded)
    return tree


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of YAML or JSON with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {str(key): _texts(inner, change) for key, inner in value.items()}
    return [_texts(inner, change) for inner in value] if isinstance(value, list) else value


def _expanded(text: str) -> str:
    """`${VAR:=x}` → `${VAR:-x}`; other `${` and `$$` stay as they are, by our rule for them."""

    def ours(found: re.Match[str]) -> str:
        name, default = found.groups()
        if name is None:
            return "$$"
        return f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"

    return _REFERENCE.sub(ours, text)


def _literal(text: str) -> str:
    return re.sub(r"\$(?=[${])", "$$", text)


def _merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged


def _add_contexts(folder: Path, found: Installation) -> None:
    contexts = found.tree.get("contexts")
    known = contexts if isinstance(contexts, dict) else {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        context = _yaml(path, found)
        name = context.pop("name", None)
        if isinstance(name, str) and name.strip():
            known.setdefault(name.strip(), context)
    found.tree["contexts"] = known


def _read_agents(path: Path, found: Installation) -> None:
    # AVA's database is in WAL mode: a mere reader would write beside it, except as immutable.
    waiting = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.resolve().as_uri()}?mode=ro{'' if waiting else '&immutable=1'}"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.row_factory = sqlite3.Row
            _limit(database)
            found_rows = database.execute("SELECT * FROM agents").fetchmany(MOST_AGENTS + 1)
        if len(found_rows) > MOST_AGENTS:
            raise NotAva(f"{path}: more than {MOST_AGENTS} agents")
        rows = list(map(dict, found_rows))
        for row in rows:
            slug, agent = str(row["slug"]), _agent(row)
            if not row.get("is_active", 1):
                found.inactive.append(slug)
                continue
            found.agents[slug] = agent
            if row.get("is_default"):
                found.default_agent = slug
    except sqlite3.Error as error:
        raise NotAva(f"{path}: cannot be read as AVA's agents database: {error}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise NotAva(f"{path}: a row of `agents` cannot be read: {error}") from None
    found.sources.append(path)


def _limit(database: sqlite3.Connection) -> None:
    """Bound the size of a value and the time: `agents` may be a view that never ends."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE)
    ends = time.monotonic() + MOST_SECONDS
    database.set_progress_handler(lambda: time.monotonic() > ends, 10_000)


def _agent(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the keys that contexts of the YAML files have."""
    extra = json.loads(row.get("extra_json") or "{}")
    agent: dict[str, Any] = dict(extra) if isinstance(extra, dict) else {"extra_json": extra}
    for key in ("tools", "tool_configs"):
        if row.get(f"{key}_json"):
            agent[key] = json.loads(row[f"{key}_json"])
    agent["profile"] = row.get("audio_profile")
    for key in (
        "prompt greeting provider voice display_name extension role_label notes "
        "email_recipient email_from email_enabled"
    ).split():
        agent[key] = row.get(key)
    kept: dict[str, Any] = _texts(agent, _literal)
    return {key: value for key, value in kept.items() if value not in (None, "")}


def _names(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return [found[1] for line in text_of(path).splitlines() if (found := _VARIABLE.match(line))]
