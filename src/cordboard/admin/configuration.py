"""Endpoints of the configuration's file: its text, checks and edits of drafts, publishing,
versions, saved drafts.

A text that leaves here has holes (`«secret:1»`) in place of literal secrets, and a problem with a
value from the environment or another file is reported without the value. A draft may name any; for
an author who may not publish, those that the file does not name there are not even read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Concatenate, ParamSpec, TypeVar

from cordboard.accounts.rights import Permission
from cordboard.admin import config_checks as checks
from cordboard.admin.config_checks import Checked, Configuration, Edited, problem_of
from cordboard.admin.config_process import Desk
from cordboard.admin.configuration_types import (
    ConfigUses,
    ConfigVersion,
    ConfigVersions,
    ContextUses,
    Difference,
    DifferenceTo,
    DraftAgainst,
    DraftOnBase,
    DraftText,
    Edits,
    InsertKey,
    MoveItem,
    OneEdit,
    OnThePhone,
    Published,
    RemoveKey,
    RenameKey,
    SavedDraft,
    SavedDrafts,
    SavedDraftText,
    SetKey,
    ToPublish,
    ToRestore,
    VersionsPage,
    VersionText,
)
from cordboard.admin.endpoint import UNRECORDED, Ask, Content, Done, Endpoint, Scope
from cordboard.admin.pace import CHECK, SAVE
from cordboard.admin.services import Editing
from cordboard.api.administration import iso_time, report_as_json
from cordboard.api.answers import JsonAnswer
from cordboard.config.drafts import Draft
from cordboard.config.edit import edits
from cordboard.config.files import content_of, digest_of
from cordboard.config.form import form_schema
from cordboard.config.publish import PublishConflict
from cordboard.config.schema import chain_of
from cordboard.config.versions import Author, Version
from cordboard.config.workspace import NOT_AS_A_PATCH
from cordboard.errors import (
    ConfigError,
    DraftRefused,
    EditRefused,
    HistoryError,
    RequestRefused,
)
from cordboard.history.series import MOST_LINES, Series, SeriesQuery
from cordboard.tools.known_secrets import KnownSecrets

P = ParamSpec("P")
Result = TypeVar("Result")
MOST_BODY = 2 * 1024 * 1024
_RECENT_MS = 30 * 24 * 3_600_000
_WHOLE_FILE = "this shows the whole file: it needs the scope of all contexts"
_LIMITED = "the scope is limited to some contexts: their values are shown, not the text of the file"


# The text and its drafts.


async def show_config(ask: Ask) -> JsonAnswer:
    """Show the configuration file: text with holes for literal secrets, values, places, problems.

    For a scope of some contexts only the values of those, and no text.
    """
    editing, services = _editing(ask), ask.services
    generation, version = editing.generation()
    reason, lock = await services.run(_surroundings, ask, editing)
    if not ask.who.rights.everywhere:
        reason, lock, version = _LIMITED, "", ""
    around = {
        "writable": not reason,
        "reason": reason,
        "version": version,
        "generation": generation,
        "lock": lock,
    }
    digest, answer = await _check(ask, checks.shown, ask.who.rights, around)
    ask.unchanged(digest)
    return JsonAnswer(answer)


async def check_config(ask: Ask) -> JsonAnswer:
    """Check a configuration, with the place of each problem, and say when each change takes effect.
    Nothing is changed.

    A reference or hole that the file does not have there is checked only with `config.publish`.
    """
    body: DraftText = ask.body
    if body.text is None:
        return JsonAnswer(await _check(ask, checks.checked_file))
    answer = await _check(
        ask, checks.checked_draft, body.text, body.base, may_publish=_may_publish(ask)
    )
    return JsonAnswer(answer)


async def edit_config(ask: Ask) -> JsonAnswer:
    """Apply edits to a text, and check the result. Bytes that no edit names stay as they are.
    Nothing is changed."""
    body: Edits = ask.body
    wanted = [_edit(each) for each in body.edits]
    answer = await _check(
        ask, checks.edited, body.text, body.base, wanted, may_publish=_may_publish(ask)
    )
    return JsonAnswer(answer)


async def diff_config(ask: Ask) -> Difference:
    """Show the differences from the file, or a version, to a draft. Secrets are not shown."""
    _whole_file(ask)
    body: DraftAgainst = ask.body
    draft, may_publish = (body.text, body.base, body.against), _may_publish(ask)
    lines = await _check(ask, checks.difference, *draft, may_publish=may_publish)
    patch = await _patch(ask, body.text, body.base) if may_publish and not body.against else ""
    return Difference(lines=lines, patch=patch, on_the_phone=_on_the_phone(ask))


async def _patch(ask: Ask, text: str, base: str) -> str:
    """Return the patch of a draft that cannot be published from here; empty if it can, or if the
    file is another one than `base` by now."""
    workspace = _editing(ask).workspace
    if not await ask.services.run(workspace.read_only):
        return ""
    now = digest_of(await _run(ask, workspace.content))
    return await _check(ask, checks.patch, text, now) if base in ("", now) else ""


async def config_schema(ask: Ask) -> JsonAnswer:
    """Show the JSON Schema of the file, with words, units, secrets, references and order: a form
    can be rendered by type alone."""
    content = await ask.services.run(lambda: JsonAnswer(form_schema()))
    ask.unchanged(digest_of(bytes(content.body)))
    return content


async def config_uses(ask: Ask) -> ConfigUses:
    """List what each context in force uses, and the numbers that lead to it."""
    config, rights = ask.services.config(), ask.who.rights
    recent = await _recent_calls(ask)
    rows = [
        ContextUses(
            context=name,
            providers=list(chain_of(config, context)),
            tools=list(context.tools),
            numbers=[number for number, to in config.routes.items() if to == name],
            is_default=name == config.default_context,
            recent_calls=recent.get(name, 0) if recent is not None else None,
        )
        for name, context in config.contexts.items()
        if rights.covers(name)
    ]
    takeovers = [name for name, each in config.destinations.items() if each.takeover]
    return ConfigUses(contexts=rows, destinations=list(config.destinations), takeovers=takeovers)


async def _recent_calls(ask: Ask) -> dict[str, int] | None:
    """Return the calls of the last 30 days by context; None if the index cannot be used."""
    keeper = ask.services.history()
    if keeper is None:
        return None
    now = round(time.time() * 1000)
    names = list(ask.services.config().contexts)

    def counted(only: frozenset[str]) -> Series:
        keeper.store.open()
        filters = {"context": only}
        return keeper.store.series(
            SeriesQuery("calls", now - _RECENT_MS, now, "whole", "context", filters)
        )

    found: dict[str, int] = {}
    try:
        for at in range(0, len(names), MOST_LINES):  # an answer leaves out what is above that
            series = await ask.services.run(counted, frozenset(names[at : at + MOST_LINES]))
            found |= {line.key: int(sum(n or 0 for n in line.values)) for line in series.lines}
    except HistoryError:
        return None
    return found


# Publishing and versions.


async def publish_config(ask: Ask) -> Published:
    """Write a draft to the file, if it is in order and the file is still the one it was made from,
    and put it into force.

    409 `conflict` has `theirs`, `digest`, `merged`, `with_ours` and `conflicts`; 409 `read_only`
    has a `patch`.
    """
    body: ToPublish = ask.body
    return await _publish(ask, body.text, body.base, Author(ask.who.name, body.comment, "page"))


async def restore_config(ask: Ask) -> Published:
    """Publish the text of a version again, if an engine could run with it."""
    body: ToRestore = ask.body
    editing, prefix = _editing(ask), ask.params["version"]
    whole = await _run(ask, editing.workspace.versions.find, prefix)
    text = await _run(ask, editing.workspace.version, whole)
    base = body.base or digest_of(await _run(ask, editing.workspace.content))
    why = body.comment or f"back to {whole[:12]}"
    return await _publish(ask, text, base, Author(ask.who.name, why, "restore"))


async def _publish(ask: Ask, text: str, base: str, author: Author) -> Published:
    editing, services = _editing(ask), ask.services
    workspace = editing.workspace
    now = digest_of(await _run(ask, workspace.content))
    if base == now and author.source == "page":  # else `publish` explains the conflict
        text = await _check(ask, checks.filled, text, base)
    after = digest_of(text.encode("utf-8", "surrogatepass"))
    await ask.record(detail={"before": base, "after": after, "why": author.why})
    if reason := await services.run(workspace.read_only):
        if base != now:
            raise RequestRefused(409, "conflict", "the file has been changed meanwhile")
        patch = await _check(ask, checks.patch, text, base)
        message = f"{reason}; {'apply the patch there' if patch else NOT_AS_A_PATCH}"
        raise RequestRefused(409, "read_only", message, more={"patch": patch})
    with _explained(ask):
        report = await services.operations.engine.publish(text, base, author)
    return Published(**report_as_json(report), version=after, on_the_phone=_on_the_phone(ask))


async def list_config_versions(ask: Ask) -> ConfigVersions:
    """List the versions of the file, the newest first: who, when, why, from where, and its last
    load."""
    editing, query = _whole_file(ask), ask.query
    history = (await _run(ask, editing.workspace.versions.history))[::-1]
    in_file = digest_of(await _run(ask, editing.workspace.content))
    _, in_force = editing.generation()
    end = min(int(query.cursor or len(history)), len(history))
    begin = max(0, end - query.limit)
    rows = [_version(each, in_file, in_force) for each in reversed(history[begin:end])]
    return ConfigVersions(versions=rows, next=str(begin) if begin else "")


async def show_config_version(ask: Ask) -> VersionText:
    """Show the text of a version, by its digest or the beginning of one; with holes for literal
    secrets."""
    workspace, prefix = _whole_file(ask).workspace, ask.params["version"]
    digest = await _run(ask, workspace.versions.find, prefix)
    text = await _check(ask, checks.version_text, digest)
    return VersionText(digest=digest, text=text)


async def diff_config_version(ask: Ask) -> Difference:
    """Show the differences from a version to the file, or to another version."""
    _whole_file(ask)
    lines = await _check(ask, checks.between, ask.params["version"], ask.query.to)
    return Difference(lines=lines, on_the_phone=_on_the_phone(ask))


# Saved drafts.


async def list_drafts(ask: Ask) -> SavedDrafts:
    """List the caller's own saved drafts."""
    editing = _editing(ask)
    found = await _run(ask, editing.drafts.list, ask.who.name)
    now = digest_of(await _run(ask, editing.workspace.content))
    return SavedDrafts(drafts=[SavedDraft(**_draft(each, now)) for each in found])


async def show_draft(ask: Ask) -> SavedDraftText:
    """Show one of the caller's own saved drafts."""
    editing = _editing(ask)
    draft = await _run(ask, editing.drafts.get, ask.who.name, ask.params["draft"])
    now = digest_of(await _run(ask, editing.workspace.content))
    return SavedDraftText(**_draft(draft, now), text=draft.text)


async def save_draft(ask: Ask) -> SavedDraft:
    """Save a draft for the caller alone, as it is, for 30 days; it is not checked."""
    editing, body = _editing(ask), ask.body
    name = ask.params["draft"]
    draft = await _run(ask, editing.drafts.put, ask.who.name, name, body.base, body.text)
    now = digest_of(await _run(ask, editing.workspace.content))
    return SavedDraft(**_draft(draft, now))


async def delete_draft(ask: Ask) -> Done:
    """Delete one of the caller's own saved drafts."""
    await _run(ask, _editing(ask).drafts.delete, ask.who.name, ask.params["draft"])
    return Done()


# Inside.


def _editing(ask: Ask) -> Editing:
    editing = ask.services.editing
    if editing is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    return editing


def _whole_file(ask: Ask) -> Editing:
    if not ask.who.rights.everywhere:
        raise RequestRefused(403, "forbidden", _WHOLE_FILE)
    return _editing(ask)


async def _run(ask: Ask, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    with _explained(ask):
        return await ask.services.run(work, *args, **kwargs)


@contextmanager
def _explained(ask: Ask) -> Iterator[None]:
    """Turn the errors of a text into answers with their places."""
    try:
        yield
    except ConfigError as error:
        environment = _environment(ask)
        at = [
            problem_of(each, environment, hides_outside=True).model_dump()
            for each in error.problems
        ]
        fatal = sum(each.fatal for each in error.problems)
        message = f"an engine could not run with this text: {fatal} problems"
        raise RequestRefused(422, "not_usable", message, at=at) from None
    except EditRefused as error:
        raise RequestRefused(422, "edit_refused", str(error)) from None
    except DraftRefused as error:
        raise RequestRefused(422, "draft_refused", str(error)) from None
    except PublishConflict as error:
        conflicts = [asdict(each) for each in error.conflicts]
        more = {
            "theirs": error.theirs,
            "digest": error.digest,
            "merged": error.merged,
            "with_ours": error.with_ours,
            "conflicts": conflicts,
        }
        raise RequestRefused(409, "conflict", str(error), more=more) from None


def _environment(ask: Ask) -> KnownSecrets:
    source = ask.services.source
    return KnownSecrets(source.environ.values() if source is not None else ())


def _may_publish(ask: Ask) -> bool:
    return ask.who.rights.may(Permission.CONFIG_PUBLISH)


async def _check(
    ask: Ask,
    work: Callable[Concatenate[Desk, P], Result],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Result:
    """Have a function of `admin.config_checks` run in the process for checks."""
    _editing(ask)
    with _explained(ask):
        return await ask.services.check_config(work, *args, **kwargs)


def _surroundings(ask: Ask, editing: Editing) -> tuple[str, str]:
    """Return why the file cannot be written, and the digest of the lock file."""
    workspace, mcp = editing.workspace, ask.services.config().mcp
    lock = ""
    if mcp.lock != "off":
        try:
            lock = digest_of(content_of(workspace.path.parent / mcp.lock_file, 16 * 1024))
        except OSError:
            lock = ""
    return workspace.read_only(), lock


def _on_the_phone(ask: Ask) -> list[OnThePhone]:
    counts = Counter(call.context_name for call in ask.services.calls().values())
    return [
        OnThePhone(context=name, calls=calls)
        for name, calls in sorted(counts.items())
        if ask.who.rights.covers(name)
    ]


def _edit(one: OneEdit) -> edits.Edit:
    path = tuple(one.path)
    match one:
        case SetKey():
            return edits.Set(path, one.value)
        case RemoveKey():
            return edits.Remove(path)
        case InsertKey():
            return edits.Insert(path, one.value, one.before)
        case RenameKey():
            return edits.Rename(path, one.key)
        case MoveItem():
            return edits.Move(path, one.index)


def _version(version: Version, in_file: str, in_force: str) -> ConfigVersion:
    return ConfigVersion(
        digest=version.digest,
        at=version.at,
        who=version.author.who,
        why=version.author.why,
        source=version.author.source,
        parent=version.parent,
        generation=version.generation,
        result=version.result,
        in_file=version.digest == in_file,
        in_force=version.digest == in_force,
    )


def _draft(draft: Draft, now: str) -> dict[str, Any]:
    return {
        "id": draft.id,
        "base": draft.base,
        "saved_at": iso_time(draft.saved_at),
        "stale": draft.base != now,
    }


_READ, _DRAFT, _PUBLISH = (
    Permission.CONFIG_READ,
    Permission.CONFIG_DRAFT,
    Permission.CONFIG_PUBLISH,
)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/config",
        may=_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=Configuration,
        audit=UNRECORDED,
        does=show_config,
    ),
    *(
        Endpoint(
            "POST",
            path,
            may=_DRAFT,
            scope=Scope.NONE,
            takes=takes,
            gives=gives,
            audit=UNRECORDED,
            does=does,
            pace=CHECK,
            most_bytes=MOST_BODY,
        )
        for path, takes, gives, does in (
            ("/config/check", DraftText, Checked, check_config),
            ("/config/edit", Edits, Edited, edit_config),
            ("/config/diff", DraftAgainst, Difference, diff_config),
        )
    ),
    Endpoint(
        "PUT",
        "/config",
        may=_PUBLISH,
        scope=Scope.NONE,
        takes=ToPublish,
        gives=Published,
        audit="config.publish",
        records_itself=True,
        does=publish_config,
        most_bytes=MOST_BODY,
    ),
    Endpoint(
        "GET",
        "/config/schema",
        may=_READ,
        scope=Scope.NONE,
        takes=None,
        gives=Content(("application/json",)),
        audit=UNRECORDED,
        does=config_schema,
    ),
    Endpoint(
        "GET",
        "/config/uses",
        may=_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=ConfigUses,
        audit=UNRECORDED,
        does=config_uses,
    ),
    *(
        Endpoint(
            "GET",
            path,
            may=_READ,
            scope=Scope.NONE,
            takes=None,
            asks=asks,
            gives=gives,
            audit=UNRECORDED,
            does=does,
        )
        for path, asks, gives, does in (
            ("/config/versions", VersionsPage, ConfigVersions, list_config_versions),
            ("/config/versions/{version}", None, VersionText, show_config_version),
            ("/config/versions/{version}/diff", DifferenceTo, Difference, diff_config_version),
        )
    ),
    Endpoint(
        "POST",
        "/config/versions/{version}/restore",
        may=_PUBLISH,
        scope=Scope.NONE,
        takes=ToRestore,
        gives=Published,
        audit="config.restore",
        records_itself=True,
        does=restore_config,
    ),
    Endpoint(
        "GET",
        "/drafts",
        may=_DRAFT,
        scope=Scope.NONE,
        takes=None,
        gives=SavedDrafts,
        audit=UNRECORDED,
        does=list_drafts,
    ),
    Endpoint(
        "GET",
        "/drafts/{draft}",
        may=_DRAFT,
        scope=Scope.NONE,
        takes=None,
        gives=SavedDraftText,
        audit=UNRECORDED,
        does=show_draft,
    ),
    Endpoint(
        "PUT",
        "/drafts/{draft}",
        may=_DRAFT,
        scope=Scope.NONE,
        takes=DraftOnBase,
        gives=SavedDraft,
        audit=UNRECORDED,
        does=save_draft,
        pace=SAVE,
        most_bytes=MOST_BODY,
    ),
    Endpoint(
        "DELETE",
        "/drafts/{draft}",
        may=_DRAFT,
        scope=Scope.NONE,
        takes=None,
        gives=Done,
        audit=UNRECORDED,
        does=delete_draft,
    ),
)
