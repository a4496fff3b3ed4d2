"""`cordboard run`: the engine, until a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cordboard.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    LogLevelOption,
    load_config,
    run_async,
    set_up_log,
)

if TYPE_CHECKING:
    from cordboard.config.load import ConfigSource, LoadedConfig
    from cordboard.config.schema import Config
    from cordboard.config.shared_part import SharedConfig
    from cordboard.observe.logging import KeptLog, SecretFilter
    from cordboard.vendors.local.models import OfflineLoading

REPLACED = 75
"""Exit status: EX_TEMPFAIL of sysexits.h, so that a service manager starts the engine again."""


def command(
    config: ConfigOption = DEFAULT_CONFIG,
    log_level: LogLevelOption = "info",
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object a line.")
    ] = False,
) -> None:
    """Run the engine until SIGTERM or Ctrl-C.

    On either no new calls are taken, and live ones have calls.shutdown_grace_ms to end; a second
    signal ends them at once. SIGHUP reloads the file: new calls get the changes. Exit status 75:
    other engines of the cluster have taken this one for dead, and have its calls; start it again.
    """
    from cordboard.config.load import ConfigSource
    from cordboard.observe.logging import KeptLog

    gc.disable()  # imported and loaded objects stay; collections would take a tenth longer
    loaded, shared = _with_version(load_config(config))
    kept = KeptLog(begin=time.time_ns() // 1_000_000) if loaded.config.admin.ui.enabled else None
    secrets = set_up_log(log_level, loaded, json=log_json, kept=kept)
    source = ConfigSource(loaded.path, os.environ, loaded.digests, loaded.content, secrets.register)
    if shared is not None:
        source = replace(source, read=shared.read, shared=loaded.shared)
    run_async(_serve(loaded.config, source, begin_loading(loaded.config), kept, secrets, shared))


def _with_version(loaded: LoadedConfig) -> tuple[LoadedConfig, SharedConfig | None]:
    """Return the configuration with the cluster's version that this engine had last, where it has
    one (`cluster.config: bus`). A version that cannot be used any more is told; the engine then
    starts with its own file and gets the newest one."""
    if loaded.config.cluster is None or loaded.config.cluster.config == "file":
        return loaded, None
    from cordboard.config.shared_part import shared_config_of
    from cordboard.errors import ConfigError

    shared = shared_config_of(loaded)
    try:
        shared.begin()
        return shared.read(loaded.path, os.environ), shared
    except ConfigError as error:
        print(f"cordboard: warning: the kept version is not used: {error}", file=sys.stderr)
        shared.current = None
        return loaded, shared


def begin_loading(config: Config) -> OfflineLoading | None:
    """Start to load the configuration's models in threads, while this thread imports the engine,
    which takes as long."""
    from cordboard.agent_api.workers import Workers
    from cordboard.vendors.local.models import Need, OfflineLoading, needs_of

    needs = needs_of(config)
    return OfflineLoading(Workers(), needs) if needs.ears is not Need.NO else None


async def _serve(
    config: Config,
    source: ConfigSource,
    loading: OfflineLoading | None,
    kept: KeptLog | None,
    secrets: SecretFilter,
    shared: SharedConfig | None,
) -> None:
    try:
        await _run_engine(config, source, loading, kept, secrets, shared)
    finally:
        if loading is not None:  # also without an engine: no thread may outlive the interpreter
            await loading.workers.close()


async def _run_engine(
    config: Config,
    source: ConfigSource,
    loading: OfflineLoading | None,
    kept: KeptLog | None,
    secrets: SecretFilter,
    shared: SharedConfig | None,
) -> None:
    from cordboard.runtime.engine import Engine

    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    engine = Engine(config, source=source, loading=loading, kept_log=kept, shared_config=shared)
    secrets.redact = engine.redact
    loop.add_signal_handler(signal.SIGHUP, engine.administration.reload_soon, "SIGHUP")
    await _unless(stop, engine.start())
    gc.enable()
    replaced = loop.create_task(engine.replaced())
    stopped = loop.create_task(stop.wait())
    await asyncio.wait({replaced, stopped}, return_when=asyncio.FIRST_COMPLETED)
    is_replaced = replaced.done()
    for task in (replaced, stopped):
        task.cancel()
    stopping = loop.create_task(engine.stop())
    hurried = loop.create_task(hurry.wait())
    await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not stopping.done():
        for call in tuple(engine.registry.calls.values()):
            call.end("shutdown", "engine_stopped")
    await stopping
    if is_replaced:
        raise typer.Exit(REPLACED)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Await the start, or cancel it when the signal comes first."""
    starting = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not starting.done():
        starting.cancel()
    await asyncio.gather(starting, return_exceptions=stop.is_set())
