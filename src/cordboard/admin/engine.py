"""Endpoints of the engine: state, reload, check of the configuration and of the set-up."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.pace import CHECK
from cordboard.api.administration import report_as_json
from cordboard.api.administration_view import Step
from cordboard.config.changes import changes, needs_restart
from cordboard.config.load import MOST_KIB, ConfigSource, read
from cordboard.config.schema import Config
from cordboard.errors import ConfigError, ConfigProblem, RequestRefused
from cordboard.tools.known_secrets import KnownSecrets

_OUTSIDE = (
    "the value that this takes from outside of the file is not in order; `cordboard check` on the "
    "engine's machine says why"
)


class Component(Gives):
    ready: bool
    required: bool
    detail: str


class EngineState(Gives):
    version: str
    uptime_seconds: float
    active_calls: int
    """Within the caller's scope."""
    max_calls: int
    ready: bool
    components: dict[str, Component]
    details: dict[str, Any]
    """The same facts as in `/health` on the port of the probes, without the calls; empty for a
    scope of some contexts, as they count the calls of all."""


class Problem(Gives):
    file: str
    line: int | None
    key: str
    message: str
    fatal: bool


class Deferred(Gives):
    what: str
    until: str


class Reloaded(Gives):
    applied: bool
    generation: int
    changed: list[str]
    deferred: list[Deferred]
    problems: list[Problem]


class Change(Gives):
    key: str
    takes_effect: Literal["reload", "restart"]
    """`reload`: for the next call after it is published; `restart`: of the engine."""


class Draft(Takes):
    text: str | None = Field(None, max_length=MOST_KIB * 1024)
    """YAML in place of the file's, as long as a file may be; left out: the file as it is now."""


class Checked(Gives):
    in_order: bool
    """False: a reload would refuse it."""
    problems: list[Problem]
    changed: list[Change]
    """Differences from the configuration in force; empty unless it is in order."""


class SetupOf(Takes):
    freepbx: bool = False
    """Give the dialplan for FreePBX's file."""


class Setup(Gives):
    steps: list[Step]


async def state(ask: Ask) -> EngineState:
    """Show whether calls can be answered, and why not."""
    view, rights = ask.services.view, ask.who.rights
    components = view.readiness()
    counts, details = view.counts(), dict(view.health()) if rights.everywhere else {}
    calls = ask.services.calls().values()
    for name in ("active_calls", "components", *counts):
        details.pop(name, None)
    return EngineState(
        version=counts["version"],
        uptime_seconds=counts["uptime_seconds"],
        active_calls=sum(rights.covers(call.context_name) for call in calls),
        max_calls=counts["max_calls"],
        ready=all(each.ready for each in components.values() if each.required),
        components={
            name: Component(ready=each.ready, required=each.required, detail=each.detail)
            for name, each in components.items()
        },
        details=details,
    )


async def reload(ask: Ask) -> Reloaded:
    """Read the configuration file again and put it into force; a bad file changes nothing."""
    return Reloaded(**report_as_json(await ask.services.operations.engine.reload()))


async def check(ask: Ask) -> Checked:
    """Check a configuration, with file, line and key of each problem. Nothing is changed."""
    body: Draft = ask.body
    source = ask.services.source
    if source is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    return await ask.services.run(_checked, source, body.text, ask.services.config())


def _checked(source: ConfigSource, text: str | None, in_force: Config) -> Checked:
    """Check a text, or the file. A draft may name any variable and file of the engine's, so no
    problem quotes a value of theirs, or a part of it."""
    is_draft, environment = text is not None, KnownSecrets(source.environ.values())
    try:
        loaded = source.load() if text is None else read(text, source.path, source.environ)
    except ConfigError as error:
        problems = [_problem(each, environment, is_draft) for each in error.problems]
        return Checked(in_order=False, problems=problems, changed=[])
    keys = changes(in_force, loaded.config)
    return Checked(
        in_order=True,
        problems=[_problem(each, environment, is_draft) for each in loaded.problems],
        changed=[
            Change(key=key, takes_effect="restart" if needs_restart(key) else "reload")
            for key in keys
        ],
    )


def _problem(problem: ConfigProblem, environment: KnownSecrets, is_draft: bool) -> Problem:
    hidden = is_draft and problem.from_outside
    return Problem(
        file=problem.file,
        line=problem.line,
        key=problem.key,
        message=_OUTSIDE if hidden else environment.text(problem.message),
        fatal=problem.fatal,
    )


async def check_setup(ask: Ask) -> Setup:
    """Check the set-up: Asterisk, ports, voices, disk; with the lines that mend it.

    Nothing is changed. One check at a time.
    """
    services, query = ask.services, ask.query
    if services.source is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    if services.checking_setup.locked():
        headers = {"Retry-After": "2"}
        raise RequestRefused(503, "busy", "the set-up is being checked", headers=headers)
    async with services.checking_setup:
        steps = await services.setup(services.source, query.freepbx)
    return Setup(steps=list(steps))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/engine",
        may=Permission.ENGINE_READ,
        scope=Scope.NONE,
        takes=None,
        gives=EngineState,
        audit=UNRECORDED,
        does=state,
    ),
    Endpoint(
        "POST",
        "/engine/reload",
        may=Permission.ENGINE_CONTROL,
        scope=Scope.NONE,
        takes=None,
        gives=Reloaded,
        audit="engine.reload",
        does=reload,
    ),
    Endpoint(
        "POST",
        "/config/check",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.NONE,
        takes=Draft,
        gives=Checked,
        audit=UNRECORDED,
        does=check,
        pace=CHECK,
        most_bytes=2 * 1024 * 1024,
    ),
    Endpoint(
        "GET",
        "/engine/setup",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.NONE,
        takes=None,
        asks=SetupOf,
        gives=Setup,
        audit=UNRECORDED,
        does=check_setup,
    ),
)
