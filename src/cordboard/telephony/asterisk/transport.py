"""The descriptor of a transport: a further way for the audio of Asterisk's calls.

    TRANSPORTS = (Transport("parrot", make_path),)

`asterisk.media: parrot` chooses it. The line requests each call's media from the transport's path
(`media_path.MediaPath`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from cordboard.audio.format import AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.config.plugins import Plugins, Source, failure_of, installed
from cordboard.config.schema import Asterisk
from cordboard.errors import ListenError, MediaError
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.media_path import MediaArrival, MediaPath


@dataclass(frozen=True, slots=True)
class Transport:
    """One transport."""

    type: str
    """As in `asterisk.media`: the name of the entry point, or that name, `_` and more."""
    make: Callable[[Asterisk, Pacer], MediaPath]
    """Makes the path of all calls, without waiting; `MediaPath.start` opens it. May raise
    `MediaError`."""
    role: Literal["transport"] = "transport"


class GuardedPath:
    """Implements `MediaPath` over that of a plug-in: its failures are reported with the plug-in's
    name and version, and do not stop the engine."""

    def __init__(self, path: MediaPath, source: Source) -> None:
        self._path = path
        self._source = source
        self.connect_seconds = float(path.connect_seconds)
        self._reports = True
        """False once its `report`, which is called many times a second, has failed."""

    @property
    def trouble(self) -> str:
        try:
            with self._guarded("trouble"):
                return str(self._path.trouble)
        except _PluginFailed as failed:
            return str(failed)

    def health(self) -> Mapping[str, Any]:
        try:
            with self._guarded("health"):
                found = dict(self._path.health())
                json.dumps(found, allow_nan=False)  # otherwise nothing of `/health` could be shown
                return found
        except _PluginFailed as failed:
            return {"trouble": str(failed)}

    def report(self, metrics: Metrics) -> None:
        if not self._reports:
            return
        try:
            with self._guarded("report"):
                self._path.report(metrics)
        except _PluginFailed:
            self._reports = False
            metrics.internal_error("media_path")

    async def prepare(self, formats: Sequence[AudioFormat]) -> MediaArrival:
        with self._guarded("prepare", MediaError):
            return await self._path.prepare(formats)

    async def start(self) -> None:
        """Start the path. A failure that `MediaPath.start` does not allow leaves a path without
        media."""
        try:
            with self._guarded("start", ListenError, MediaError):
                await self._path.start()
        except _PluginFailed as failed:
            await self.stop()
            self._path = NoMediaPath(str(failed))

    async def stop(self) -> None:
        with suppress(_PluginFailed), self._guarded("stop"):
            await self._path.stop()

    @contextmanager
    def _guarded(self, doing: str, *allowed: type[Exception]) -> Iterator[None]:
        """Border of the plug-in, whose code may raise anything: what is not `allowed` is logged,
        and raised as `_PluginFailed`."""
        try:
            yield
        except allowed:
            raise
        except Exception as error:  # noqa: BLE001 - logged by `failure_of`
            raise _PluginFailed(failure_of(self._source, doing, error)) from None


class _PluginFailed(MediaError):
    """A plug-in's transport raised something that `MediaPath` does not allow."""


class NoMediaPath:
    """Implements `MediaPath` for an unusable transport: no call has media, and `/ready` gives the
    reason."""

    connect_seconds = 0.0

    def __init__(self, trouble: str) -> None:
        self.trouble = trouble

    def health(self) -> Mapping[str, Any]:
        return {}

    def report(self, metrics: Metrics) -> None:
        """Do nothing: there is nothing to count."""

    async def prepare(self, formats: Sequence[AudioFormat]) -> MediaArrival:
        raise MediaError(self.trouble)

    async def start(self) -> None:
        """Do nothing: there is nothing to open."""

    async def stop(self) -> None:
        """Do nothing: there is nothing to close."""


def plugin_path(asterisk: Asterisk, pacer: Pacer, plugins: Plugins | None = None) -> MediaPath:
    """Return the path of a transport from a plug-in. Never raises: see `NoMediaPath`."""
    plugins = plugins or installed()
    media = asterisk.media
    transport: Any = plugins.descriptors.get(("transport", media))
    if transport is None:
        return NoMediaPath(str(plugins.blamed("transport", media) or f"no transport {media}"))
    source = plugins.sources["transport", media]
    try:
        path = transport.make(asterisk, pacer)
        if isinstance(path, MediaPath):  # before Python 3.12 this reads its properties
            return GuardedPath(path, source)
    except MediaError as error:
        return NoMediaPath(f"{source}: {error}")
    except Exception as error:  # noqa: BLE001 - border of a plug-in: its code may raise anything
        return NoMediaPath(failure_of(source, f"make of {media}", error))
    return NoMediaPath(f"{source}: make of {media} gives a {type(path).__name__}, not a MediaPath")
