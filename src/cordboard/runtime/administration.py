"""An operator's actions on a running engine: see and control its MCP servers, reload the file,
publish another text of it.

The HTTP port (`cordboard.api`), SIGHUP and the file watch call it. A bad file is a report, never an
error; simultaneous reloads follow one another, and each reads the file anew. Methods with a server
name raise `KeyError` when the configuration in force has no such server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import structlog

from cordboard.api.administration_view import Deferred, ReloadReport
from cordboard.config.files import digest_of
from cordboard.config.load import ConfigSource, LoadedConfig, ReadConfig
from cordboard.config.publish import publish
from cordboard.config.versions import Author, Versions
from cordboard.config.watch import FileWatch
from cordboard.errors import (
    ConfigError,
    ConfigProblem,
    CordboardError,
    LockChanged,
    McpUnavailable,
    PublishRefused,
    VersionsUnusable,
)
from cordboard.generation.tool_listing import ToolListing, list_tools
from cordboard.mcp.definitions.acceptance import Comparison, accept_listings, compare
from cordboard.mcp.definitions.lock import Lock, load_lock, save_lock
from cordboard.mcp.listed_tools import listed_tools
from cordboard.mcp.message_log import LoggedMessage, Tail
from cordboard.mcp.supervision.pool import Lease
from cordboard.mcp.supervision.status import ServerState, ServerStatus
from cordboard.mcp.trial import TestReport, try_out, try_running
from cordboard.runtime.reload import Reloader

MOST_LOGGED = 40
"""Changed keys listed in one line of the log."""
STOPPING = "the engine is stopping"

log = structlog.get_logger()


class Administration:
    """The administration of one engine."""

    def __init__(
        self,
        succession: Reloader,
        source: ConfigSource | None = None,
        versions: Versions | None = None,
    ) -> None:
        """`source` None: the engine was not started from a file, and cannot reload. `versions`
        None: its texts are not kept."""
        self._succession = succession
        self._source = source
        self._versions = versions
        self._begun = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._reloads: set[asyncio.Task[ReloadReport]] = set()
        self._watch: FileWatch | None = None
        self._digests = source.digests if source is not None else {}

    # Life cycle.

    async def keep_version(self) -> None:
        """Keep the text that the engine starts with, before its first call. A failure is logged,
        and calls then name no version."""
        source, versions = self._source, self._versions
        if source is None or versions is None or not source.content:
            return
        generation = self._succession.generation
        try:
            generation.version = await asyncio.to_thread(versions.begun_with, source.content)
        except VersionsUnusable as error:
            self._not_kept(error)
        await self._note_load(generation.version, "applied")
        if source.shared and generation.version:
            try:
                generation.version = await asyncio.to_thread(versions.keep, source.shared)
            except VersionsUnusable as error:
                self._not_kept(error)

    async def begin(self) -> None:
        """Allow reloads from now on, and run those that are waiting."""
        async with self._one_at_a_time:
            self._begun.set()
            await self._watch_or_not()

    async def close(self) -> None:
        """Cancel the work in progress; its callers get an error. Idempotent."""
        while self._reloads or self._watch is not None:
            for task in self._reloads:
                task.cancel()
            await asyncio.gather(*self._reloads, return_exceptions=True)
            await self._stop_watching()

    # The file.

    async def reload(self, why: str = "asked") -> ReloadReport:
        """Read the file again and put it into force. A bad file changes nothing.

        Continues when the caller gives up. `why` goes to the log: asked, signal, file changed.
        """
        if self._succession.frozen:
            return self._refused(ConfigProblem(STOPPING))
        task = self.reload_soon(why)
        await asyncio.wait({task})
        if task.cancelled():
            return self._refused(ConfigProblem(STOPPING))
        return task.result()

    async def _reload(self, why: str) -> ReloadReport:
        if not self._succession.frozen:
            await self._begun.wait()
        async with self._one_at_a_time:
            if self._succession.frozen:
                return self._refused(ConfigProblem(STOPPING))
            report, version = await self._read_and_succeed(self._source)
            _tell(report, why)
            await self._note_load(version, "applied" if report.applied else "refused")
            if report.applied:
                await self._watch_or_not()
        return report

    async def take(self, read: ReadConfig, keep: Callable[[], None], why: str) -> ReloadReport:
        """Put the configuration that `read` gives into force, in place of what the file alone says.
        `keep` makes it lasting, in a thread, once it is in force."""
        if self._source is None:
            return self._refused(ConfigProblem("this engine was not started from a file"))
        await self._begun.wait()
        async with self._one_at_a_time:
            if self._succession.frozen:
                return self._refused(ConfigProblem(STOPPING))
            report, _ = await self._read_and_succeed(replace(self._source, read=read))
            _tell(report, why)
            if report.applied:
                try:
                    await asyncio.to_thread(keep)
                except OSError as error:
                    log.error("config_copy_not_kept", error=str(error))
                await self._watch_or_not()
        return report

    async def _read_and_succeed(self, source: ConfigSource | None) -> tuple[ReloadReport, str]:
        """Return also the version of the file that was read; empty if there is none."""
        if source is None:
            return self._refused(ConfigProblem("this engine was not started from a file")), ""
        try:
            loaded, version, trouble = await asyncio.to_thread(self._load, source)
        except ConfigError as error:
            return self._refused(*error.problems), ""
        self._digests = loaded.digests
        in_force = digest_of(loaded.shared) if version and loaded.shared else version
        try:
            changed = await self._succession.succeed(loaded.config, in_force)
        except CordboardError as error:
            own = [ConfigProblem(str(error), file=str(loaded.path))]
            found = error.problems if isinstance(error, ConfigError) else own
            return self._refused(*found, *loaded.problems), version
        if self._succession.frozen:
            return self._refused(ConfigProblem(STOPPING)), ""
        report = ReloadReport(
            True,
            self._succession.generation.number,
            changed,
            self._succession.deferred(),
            (*loaded.problems, *trouble),
        )
        return report, version

    def _load(self, source: ConfigSource) -> tuple[LoadedConfig, str, list[ConfigProblem]]:
        """Read the file; return also the version that it is, and the trouble with keeping it.
        Blocks. Raises `ConfigError`."""
        if self._versions is None:
            return source.load(), "", []
        try:
            with self._versions.locked():  # so that the text read last is noted last
                loaded = source.load()
                if loaded.shared:
                    self._versions.keep(loaded.shared)
                return loaded, self._versions.add(loaded.content, Author()), []
        except VersionsUnusable as error:
            return source.load(), "", [self._not_kept(error)]

    def _not_kept(self, error: VersionsUnusable) -> ConfigProblem:
        log.error("config_version_not_kept", error=str(error))
        return ConfigProblem(str(error), "admin.ui.data", fatal=False)

    async def _note_load(self, version: str, result: Literal["applied", "refused"]) -> None:
        if self._versions is None or not version:
            return
        number = self._succession.generation.number
        try:
            await asyncio.to_thread(self._versions.loaded, version, number, result)
        except VersionsUnusable as error:
            log.error("config_load_not_noted", version=version, error=str(error))

    async def publish(self, text: str, base: str, author: Author) -> ReloadReport:
        """Write a text to the file and put it into force. `base`: digest of the text it was made
        from. Raises the errors of `config.publish.publish`; then nothing has changed."""
        if self._source is None or self._versions is None:
            raise PublishRefused("this engine keeps no versions of its configuration")
        source, versions = self._source, self._versions
        await asyncio.to_thread(publish, text, base, author, source.path, versions, source.environ)
        return await self.reload("published")

    def _refused(self, *problems: ConfigProblem) -> ReloadReport:
        deferred: tuple[Deferred, ...] = self._succession.deferred()
        number = self._succession.generation.number
        return ReloadReport(False, number, deferred=deferred, problems=problems)

    # The watch.

    async def _watch_or_not(self) -> None:
        """Start or stop the watch, as the configuration in force requires."""
        wanted = self._files_to_watch()
        if self._watch is not None and self._watch.files != wanted.keys():
            await self._stop_watching()
        if not wanted or self._watch is not None:
            return
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(self.reload_soon, "file changed")

        self._watch = FileWatch(wanted, changed)
        try:
            await asyncio.to_thread(self._watch.start)
        except OSError as error:
            self._watch = None
            log.error("config_not_watched", files=[*map(str, wanted)], error=str(error))

    def _files_to_watch(self) -> dict[Path, str | None]:
        """Return the file, its secret files, and the lock file of the servers' tools."""
        config = self._succession.config
        if self._source is None or not config.reload.watch:
            return {}
        files: dict[Path, str | None] = {self._source.path: None, **self._digests}
        if config.mcp.lock != "off":
            files[self._source.path.parent / config.mcp.lock_file] = None
        return files

    async def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            await asyncio.to_thread(watch.stop)

    def reload_soon(self, why: str) -> asyncio.Task[ReloadReport]:
        """Start a reload without waiting for it; the log also has its result."""
        task = asyncio.create_task(self._reload(why), name="reload")
        self._reloads.add(task)
        task.add_done_callback(self._reload_over)
        return task

    def _reload_over(self, task: asyncio.Task[ReloadReport]) -> None:
        """End a reload's task: its border for errors."""
        self._reloads.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("reload_failed", error=repr(error), exc_info=error)

    # The MCP servers.

    def mcp_status(self) -> list[ServerStatus]:
        """Return a snapshot of every server of the configuration in force."""
        return list(self._succession.generation.fleet.status())

    def mcp_tools(self) -> list[Mapping[str, Any]]:
        """Return every tool that a server has listed: its exposed name, or why it is withheld."""
        generation = self._succession.generation
        return listed_tools(generation.fleet, generation.catalogue)

    def tools(self, context: str | None = None) -> ToolListing:
        """Return every tool of every kind, or those of a context. Raises `NotThere` for an unknown
        context."""
        generation = self._succession.generation
        return list_tools(generation.config, generation.fleet, generation.catalogue, context)

    async def mcp_test(self, server_id: str) -> TestReport:
        """Request a handshake and the tools from a server, within its start timeout.

        If it does not run with its present configuration (it may also be switched off), it is
        started aside for the test, and ended.
        """
        config = self._succession.config.mcp.servers[server_id]
        lease = self._succession.generation.fleet.leases.get(server_id)
        if lease is not None and lease.server.state is ServerState.READY and not lease.outdated:
            return await try_running(lease.server)
        return await try_out(server_id, config)

    async def mcp_start(self, server_id: str) -> ServerStatus:
        """Begin to start a server that is stopped, was given up, or was not needed yet."""
        lease = self._lease(server_id)
        if lease.server.state is ServerState.FAILED:
            await lease.restart()  # ends the wait for its next attempt
        else:
            lease.start_again()
        return lease.status()

    async def mcp_stop(self, server_id: str) -> ServerStatus:
        """Stop a server, with all of its processes, until it is started again."""
        lease = self._lease(server_id)
        await lease.stop()
        return lease.status()

    async def mcp_restart(self, server_id: str) -> ServerStatus:
        """Stop a server and begin to start it again, unchanged; its tools stay offered."""
        lease = self._lease(server_id)
        await lease.restart()
        return lease.status()

    def mcp_stderr(self, server_id: str, after: int) -> Tail[str]:
        """Return the lines of a server's stderr after that number."""
        return self._lease(server_id).server.stderr_after(after)

    async def mcp_protocol(self, server_id: str, after: int) -> Tail[LoggedMessage]:
        """Return the messages to and from a server after that number."""
        tail = self._lease(server_id).server.messages.after(after)
        mask = self._succession.generation.known_secrets.text

        def masked() -> tuple[LoggedMessage, ...]:
            return tuple(replace(item, content=mask(item.content)) for item in tail.items)

        return replace(tail, items=await asyncio.to_thread(masked))

    async def mcp_lock(self) -> Sequence[Comparison]:
        """Compare the listed tools of every server with the accepted ones. Raises `ConfigError` for
        an unreadable file."""
        return await asyncio.to_thread(self._compare, self._listings())

    async def mcp_accept(self, server_id: str, digest: str) -> None:
        """Accept a server's tools as they were compared: `digest` is that comparison's. New calls
        get them at once. Raises `LockChanged` if either side has changed since, and
        `ConfigError`."""
        if self._succession.config.mcp.lock == "off":
            raise CordboardError("mcp.lock is off: tools are not compared with accepted ones")
        self._succession.take_lock(
            await asyncio.to_thread(self._accept, self._listings(), server_id, digest)
        )

    def _listings(self) -> dict[str, tuple[types.Tool, ...] | None]:
        """Return the present listing of each server; None if it has not listed anything."""
        leases = self._succession.generation.fleet.leases
        return {
            name: lease.listing if lease.server.discovered and lease.listing else None
            for name, lease in leases.items()
        }

    def _compare(
        self, listings: Mapping[str, tuple[types.Tool, ...] | None]
    ) -> Sequence[Comparison]:
        lock = load_lock(self._succession.lock_path)
        return compare(lock, listings, self._succession.config.mcp.servers)

    def _accept(
        self, listings: Mapping[str, tuple[types.Tool, ...] | None], server_id: str, digest: str
    ) -> Lock:
        path, known = self._succession.lock_path, self._succession.config.mcp.servers
        seen = load_lock(path)
        found = {each.server: each for each in compare(seen, listings, known)}
        now = found.get(server_id)
        if now is None:
            raise KeyError(server_id)
        if now.state == "unseen":
            raise CordboardError(
                f"{server_id} has not listed its tools: there is nothing to accept"
            )
        if now.digest != digest:
            raise LockChanged(f"the tools of {server_id} are no longer those that you have seen")
        listing = listings.get(server_id)
        new = (
            seen.forgotten(server_id)
            if listing is None
            else accept_listings(seen, {server_id: listing}, None)
        )
        if new.changed:
            save_lock(path, new, seen)
        return load_lock(path)

    def _lease(self, server_id: str) -> Lease:
        """Return the server. Raises `KeyError`, and `McpUnavailable` if it is switched off."""
        section = self._succession.config.mcp
        enabled = section.servers[server_id].enabled and section.enabled
        lease = self._succession.generation.fleet.leases.get(server_id)
        if lease is not None:
            return lease
        why = "the engine is still starting" if enabled else "it is switched off by `enabled`"
        raise McpUnavailable(f"the MCP server {server_id} is not there: {why}")


def _tell(report: ReloadReport, why: str) -> None:
    """Log the result of a reload."""
    problems = [problem.labelled() for problem in report.problems]
    if not report.applied:
        log.error("reload_refused", why=why, problems=problems)
        return
    log.info(
        "reloaded",
        why=why,
        generation=report.generation,
        changed=list(report.changed[:MOST_LOGGED]),
        more=max(0, len(report.changed) - MOST_LOGGED),
        deferred=[f"{item.what} until {item.until}" for item in report.deferred],
        problems=problems,
    )
