"""Trials: drafts of the configuration that run as generations aside, to be tried by their authors.

A trial is one context of a checked text, with tools, servers and agents of its own where the text
differs from the configuration in force. It is no source of generations: calls by telephone get the
one in force, and nothing here can put a trial into force. Only its author finds it, by its id.

A trial lives for `LIFE` seconds, until its author ends it, or until the engine stops. Its
conversations end with it, and so do the processes that were started for it.
"""

from __future__ import annotations

import asyncio
import datetime
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from cordboard.agents.providers import Providers
from cordboard.config.draft_limits import beyond_a_draft
from cordboard.config.edit.holes import HOLE, hide, put_back, secret_values
from cordboard.config.load import ConfigSource, LoadedConfig, read
from cordboard.config.schema import Config
from cordboard.config.versions import Versions
from cordboard.config.yaml_document import parse
from cordboard.errors import (
    ChatRefused,
    ConfigError,
    ConfigProblem,
    NeedsPublish,
    NotThere,
    VersionsUnusable,
)
from cordboard.generation.generation import Generation
from cordboard.observe.degradation import Degradation

MOST = 2
LIFE = 30 * 60.0
END_SECONDS = 5.0
"""Time for the conversations of a trial to end, before their servers are stopped."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A text to try. Either `text` or `version` is given."""

    text: str = ""
    """YAML, with holes in place of literal secrets (`config.edit.holes`)."""
    version: str = ""
    """Digest of a version that is kept."""
    base: str = ""
    """The version from which the holes of `text` are filled; empty: the one in force."""
    context: str
    """The context to try."""
    may_publish: bool
    """True if its author may publish, and so try programs, addresses and keys that are not in
    force."""


@dataclass(slots=True, eq=False, kw_only=True)
class Trial:
    """One trial that runs."""

    id: str
    owner: str
    context: str
    generation: Generation
    """Its `version` is that of the text; empty if it could not be kept (`problems` say why)."""
    providers: Providers
    """Opens agents and brains for `generation`."""
    problems: tuple[ConfigProblem, ...]
    expires_at: datetime.datetime
    _uses: set[Callable[[], object]] = field(default_factory=set)

    def used_by(self, end: Callable[[], object]) -> Callable[[], None]:
        """Note a use: `end()` is called when the trial ends, and must return at once. Return what
        takes the note back. A call also acquires the generation, until it is over."""
        use = partial(end)
        self._uses.add(use)
        return partial(self._uses.discard, use)

    def end_uses(self) -> None:
        """End all calls and conversations on it."""
        for end in tuple(self._uses):
            end()


class Build(Protocol):
    """Makes the generation of a trial (`runtime.reload.Reloader.aside`)."""

    def __call__(
        self, config: Config, context: str, version: str
    ) -> Awaitable[tuple[Generation, Providers]]: ...


class TrialRuns:
    """The trials of one engine."""

    def __init__(
        self,
        in_force: Callable[[], Generation],
        build: Build,
        source: ConfigSource,
        versions: Versions,
        degradation: Degradation,
        internal_error: Callable[[str], None],
    ) -> None:
        self._in_force = in_force
        self._build = build
        self._source = source
        self._versions = versions
        self._degradation = degradation
        self._internal_error = internal_error
        self._trials: dict[str, Trial] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._making = 0
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def begin(self, draft: Draft, who: str) -> Trial:
        """Run a draft. Returns when its context can be used; its servers may still be starting.

        Raises `NeedsPublish` for what its author may not try, `ConfigError` for a text that no
        engine could run with, `EditRefused` for holes that do not fit, `NotThere` for an unknown
        version, `ChatRefused` (unknown_context, full, stopping, not_ready), and any other
        `CordboardError` if it cannot be built. Then nothing is left.
        """
        if self._closed:
            raise ChatRefused("stopping", "the engine is stopping")
        if self._degradation.level:
            raise ChatRefused("not_ready", "the engine is busy with calls; try again later")
        if len(self) >= MOST:
            raise ChatRefused("full", f"{MOST} trials run already; end one, or wait for its end")
        self._making += 1
        try:
            return await self._begin(draft, who)
        finally:
            self._making -= 1

    def __len__(self) -> int:
        """The number of trials that run, begin or are ending."""
        return len(self._trials) + self._making + len(self._ending)

    def find(self, trial_id: str, who: str) -> Trial:
        """Return a trial of that person or key. Raises `NotThere`, also for one of others."""
        trial = self._trials.get(trial_id)
        if trial is None or trial.owner != who:
            raise NotThere(f"there is no trial {trial_id[:64]!r} of yours, or it is over")
        return trial

    def generation(self, trial_id: str, who: str) -> Generation:
        """Return the generation of a trial of that person or key. Raises `NotThere`."""
        return self.find(trial_id, who).generation

    def of(self, who: str) -> list[Trial]:
        """Return the trials of that person or key, the oldest first."""
        return [trial for trial in self._trials.values() if trial.owner == who]

    async def end(self, trial_id: str, who: str) -> None:
        """End a trial, and wait until nothing of it is left. Raises `NotThere`."""
        await asyncio.shield(self._end_soon(self.find(trial_id, who), "ended"))

    async def close(self) -> None:
        """End all trials, and begin no more. Idempotent."""
        self._closed = True
        for trial in tuple(self._trials.values()):
            self._end_soon(trial, "engine_stopped")
        while self._ending:
            await asyncio.wait(tuple(self._ending))

    # Beginning.

    async def _begin(self, draft: Draft, who: str) -> Trial:
        in_force = self._in_force().version
        loaded, text = await asyncio.to_thread(self._read, draft, in_force)
        if draft.context not in loaded.config.contexts:
            words = f"there is no context {draft.context[:64]!r} in the draft"
            raise ChatRefused("unknown_context", words)  # names of others may not be for its author
        version, problems = await asyncio.to_thread(self._keep, text, who)
        generation, providers = await self._build(loaded.config, draft.context, version)
        trial = Trial(
            id=f"trial-{secrets.token_hex(8)}",
            owner=who,
            context=draft.context,
            generation=generation,
            providers=providers,
            problems=(*loaded.problems, *problems),
            expires_at=datetime.datetime.now().astimezone() + datetime.timedelta(seconds=LIFE),
        )
        if self._closed:
            await self._close_parts(trial)
            raise ChatRefused("stopping", "the engine is stopping")
        self._trials[trial.id] = trial
        loop = asyncio.get_running_loop()
        self._timers[trial.id] = loop.call_later(LIFE, self._end_soon, trial, "expired")
        log.info("trial_started", trial=trial.id, context_name=trial.context, version=version)
        return trial

    def _read(self, draft: Draft, in_force: str) -> tuple[LoadedConfig, bytes]:
        """Check a draft. Nothing from outside of the text is read before its author's limits are
        checked. Blocks."""
        source = self._source
        text = draft.text
        if draft.version:
            text = self._text_of(draft.version)
        known = self._secrets_of
        if not draft.may_publish:
            original = self._original(draft, text, in_force)
            hidden = hide(text, known(text)).text if draft.version else text
            self._check_limits(hidden, hide(original, known(original)).text)
        if HOLE.search(text):
            base = self._text_of(draft.base or in_force)
            text = put_back(text, hide(base, known(base)), known)
        if not draft.may_publish:
            self._check_limits(text, original)  # in case a secret has the form of YAML
        loaded = read(text.removeprefix("\ufeff"), source.path, source.environ)
        source.register_secrets(loaded.secrets)
        return loaded, text.encode("utf-8")

    def _original(self, draft: Draft, text: str, in_force: str) -> str:
        """Return the text to compare a draft with. Raises `NeedsPublish` if there is none."""
        if not in_force:
            message = "the text in force is not kept, so nothing can be compared with it"
            raise NeedsPublish([ConfigProblem(f"{message}; this needs config.publish")])
        if draft.base not in ("", in_force) and HOLE.search(text):
            message = "the draft was made from another version than the one in force"
            raise NeedsPublish([ConfigProblem(f"{message}; make it again, or publish")])
        return self._text_of(in_force)

    def _check_limits(self, text: str, original: str) -> None:
        """Raise `NeedsPublish` for a text that its author may not try."""
        in_force = parse(original.removeprefix("\ufeff"), "").tree
        draft = parse(text.removeprefix("\ufeff"), str(self._source.path))
        if found := beyond_a_draft(draft, in_force):
            raise NeedsPublish(found)

    def _text_of(self, version: str) -> str:
        try:
            return self._versions.content(version).decode("utf-8")
        except UnicodeDecodeError:
            raise ConfigError([ConfigProblem(f"version {version} is not UTF-8 text")]) from None

    def _secrets_of(self, text: str) -> frozenset[str] | None:
        return secret_values(text, self._source.path, self._source.environ)

    def _keep(self, text: bytes, who: str) -> tuple[str, list[ConfigProblem]]:
        """Keep the text of a trial, so that its ledgers can name it. Blocks."""
        try:
            return self._versions.tried(text, who), []
        except VersionsUnusable as error:
            log.error("trial_version_not_kept", error=str(error))
            return "", [ConfigProblem(str(error), "admin.ui.data", fatal=False)]

    # Ending.

    def _end_soon(self, trial: Trial, why: str) -> asyncio.Task[None]:
        """Begin to end a trial: from now on it cannot be found."""
        self._trials.pop(trial.id, None)
        if (timer := self._timers.pop(trial.id, None)) is not None:
            timer.cancel()
        task = asyncio.create_task(self._end(trial, why), name=f"{trial.id} ends")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _end(self, trial: Trial, why: str) -> None:
        """Task border of an end."""
        try:
            trial.end_uses()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await trial.generation.idle()
            await self._close_parts(trial)
        except Exception as error:  # task border: the engine goes on
            log.exception("trial_end_failed", trial=trial.id, error=repr(error))
            self._internal_error("trial")
        log.info("trial_ended", trial=trial.id, why=why)

    @staticmethod
    async def _close_parts(trial: Trial) -> None:
        try:
            await trial.generation.close()
        finally:
            await trial.providers.close()
