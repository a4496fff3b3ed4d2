"""The support bundle: the state of an engine as a ZIP file, for a person who helps from afar.

It has no secrets, no numbers and no words of calls: the configuration has holes for its literal
secrets; of the log only the events, numbers, names of parts and places in the code stay.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib.metadata import distributions
from typing import Any, NamedTuple

import orjson
from starlette.responses import Response

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Content, Endpoint, Gives, Scope
from cordboard.admin.engine import checked_setup, disks_of, state_for
from cordboard.admin.history import attachment, streamed
from cordboard.admin.insights import alarms_for
from cordboard.api.administration import server_as_json
from cordboard.config.edit.holes import hidden_texts
from cordboard.config.files import content_of
from cordboard.config.load import MOST_KIB
from cordboard.errors import ConfigError, RequestRefused, VersionsUnusable
from cordboard.history.bundle import zipped
from cordboard.observe.log_words import without_words
from cordboard.observe.logging import MOST_KEPT
from cordboard.version import __version__

_MOST_VERSIONS = 50


class BundlePart(Gives):
    name: str
    about: str


class BundleContents(Gives):
    parts: list[BundlePart]


class _Part(NamedTuple):
    name: str
    about: str
    make: Callable[[Ask], Awaitable[bytes]]


async def show_contents(ask: Ask) -> BundleContents:
    """List the files of the support bundle, before it is made."""
    return BundleContents(parts=[BundlePart(name=each.name, about=each.about) for each in _PARTS])


async def give_bundle(ask: Ask) -> Response:
    """Give the state of the engine as a ZIP file, without secrets, numbers and words of calls.

    It checks the set-up, which takes up to half a minute.
    """
    contents = "".join(f"{each.name}: {each.about}\n" for each in _PARTS)
    parts = [("contents.txt", [contents.encode()])]
    parts += [(each.name, [await each.make(ask)]) for each in _PARTS]
    name = attachment(f"cordboard-support-{__version__}.zip")
    return await streamed(ask, zipped(parts), "application/zip", content_disposition=name)


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str)


async def _engine(ask: Ask) -> bytes:
    services = ask.services
    state = state_for(services, ask.who.rights).model_dump(mode="json")
    for each in state["details"].get("mcp_servers", {}).values():
        each.pop("last_error", None)  # mcp.json has it
    disks = await services.run(disks_of, services.config())
    return _json({"state": state, "disks": [each.model_dump() for each in disks]})


async def _versions(ask: Ask) -> bytes:
    def found() -> bytes:
        packages = {each.name: each.version for each in distributions()}
        facts = {
            "cordboard": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "processors": os.cpu_count(),
            "packages": dict(sorted(packages.items())),
        }
        return _json(facts)

    return await ask.services.run(found)


async def _configuration(ask: Ask) -> bytes:
    source = ask.services.source
    if source is None:
        return b"This engine was not started from a file.\n"

    def shown() -> bytes:
        try:
            content = content_of(source.path, MOST_KIB)
            return hidden_texts([content], source.path, source.environ)[0].encode()
        except ConfigError as error:
            return f"The configuration cannot be shown: {error}\n".encode()
        except OSError as error:
            return f"{source.path} cannot be read: {error.strerror or error}\n".encode()

    return await ask.services.run(shown)


async def _history_of_configuration(ask: Ask) -> bytes:
    versions = ask.services.versions
    if versions is None:
        return b"[]"
    try:
        known = await ask.services.run(versions.history)
    except VersionsUnusable as error:
        return _json({"error": str(error)})
    return _json([asdict(each) for each in known[-_MOST_VERSIONS:]])


async def _setup(ask: Ask) -> bytes:
    try:
        return _json([asdict(step) for step in await checked_setup(ask.services, freepbx=False)])
    except RequestRefused as refused:
        return _json({"not checked": str(refused)})


async def _servers(ask: Ask) -> bytes:
    rows = [server_as_json(each) for each in ask.services.operations.engine.mcp_status()]
    return _json([{**row, "stderr": len(row["stderr"])} for row in rows])


async def _alarms(ask: Ask) -> bytes:
    return _json(alarms_for(ask.services, ask.who.rights).model_dump(mode="json"))


async def _log(ask: Ask) -> bytes:
    log = ask.services.log
    if log is None:
        return b""

    def shown() -> bytes:
        lines = log.end(MOST_KEPT).lines
        return b"".join(without_words(each.content) + b"\n" for each in lines)

    return await ask.services.run(shown)


async def _metrics(ask: Ask) -> bytes:
    return await ask.services.view.metrics()


_PARTS = (
    _Part("engine.json", "state, components, load, live calls by id, disks", _engine),
    _Part("versions.json", "Cordboard, Python, system, installed packages", _versions),
    _Part("config.yaml", "the configuration, with holes for literal secrets", _configuration),
    _Part(
        "config-versions.json", "its last 50 versions: who, when, why", _history_of_configuration
    ),
    _Part("setup.json", "the check of the set-up, as by `cordboard doctor`", _setup),
    _Part("mcp.json", "the MCP servers: state, tools, last error", _servers),
    _Part("alarms.json", "the alarms and their states", _alarms),
    _Part(
        "log.jsonl",
        "the last 5,000 lines of the log: events, names, codes and numbers; no texts",
        _log,
    ),
    _Part("metrics.txt", "the page for Prometheus", _metrics),
)
"""The files after `contents.txt`, in their order."""


def _endpoint(path: str, **more: Any) -> Endpoint:
    return Endpoint("GET", path, may=Permission.ENGINE_CONTROL, scope=Scope.ALL, takes=None, **more)


ENDPOINTS = (
    _endpoint(
        "/engine/bundle/contents", gives=BundleContents, audit=UNRECORDED, does=show_contents
    ),
    _endpoint(
        "/engine/bundle",
        gives=Content(("application/zip",)),
        audit="engine.bundle",
        does=give_bundle,
    ),
)
