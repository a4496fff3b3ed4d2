"""What holds for all tests, and which of them share a process when there are two.

`make test` runs two processes side by side, as most of the time of a call is waiting. One has all
that keeps a clock, or must not run beside its like; the other one has the rest and gives way:

- calls and echoes on a line in real time: two of them at once, and sound comes late;
- whoever starts engines, or looks for what killed engines have left behind: a starting engine ends
  the MCP servers of dead ones on this machine, whoever's they are.

A file's tests stay together and in order. Which is done first takes files from the other one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import HealthCheck, settings

from cordboard.testing import free_ports

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from cordboard.agents.pipeline.offline import OfflineModels
    from cordboard.agents.workers import Workers

# A busy machine is no failure: examples are bounded by number, not by time.
settings.register_profile(
    "cordboard", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("cordboard")

FIRST = (
    "tests/mcp/stdio/test_orphans.py",
    "tests/api/test_administered_engine.py",
    "tests/calls/post_call/test_queue.py",
    "tests/cli/test_mcp_of_a_running_engine.py",
    "tests/cli/test_run.py",
    "tests/observe/test_traced_call.py",
    "tests/telephony/asterisk/test_breaks.py",
    "tests/telephony/asterisk/test_rtp_calls.py",
    "tests/telephony/asterisk/test_source.py",
    "tests/telephony/asterisk/test_websocket_calls.py",
    "tests/test_engine.py",
    "tests/testing/sip/test_phone_to_phone.py",
    "tests/testing/test_audiosocket_caller.py",
    "tests/testing/test_calls_through_asterisk.py",
    "tests/testing/test_scenario.py",
    "tests/whole_calls/",
)
NICENESS = 19
"""Of the others."""


def group_of(test: str) -> str:
    """What is run by one process and in order."""
    return "first" if test.startswith(FIRST) else test.partition("::")[0]


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Processes look for free ports in different places: a port is free until it is used."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        number, count = int(worker[2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        lowest, room = free_ports._LOWEST, (free_ports._HIGHEST - free_ports._LOWEST) // count
        free_ports._LOWEST = lowest + number * room
        free_ports._HIGHEST = free_ports._LOWEST + room


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: group_of(item.nodeid) != "first")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and group_of(item.nodeid) != "first":
        os.nice(max(0, NICENESS - os.nice(0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class InGroups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # keep the order above
    return InGroups(config, log)


Lend: TypeAlias = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="session")
def lend_models() -> Iterator[Lend]:
    """The models of all engines in this process, loaded once instead of twenty times: engines that
    are started `with lend_models():` get them, each with streams and threads of its own. Engines
    that are programs of their own load everything."""
    from cordboard.agents.pipeline.offline import load_offline_models
    from cordboard.agents.workers import Workers
    from cordboard.audio.vad import VoiceActivityBank

    class KeptWorkers(Workers):
        """Outlive the engines that use them."""

        async def close(self) -> None:
            """Not yet: `Workers.close`, at the end of the session."""

    workers = KeptWorkers()
    with asyncio.Runner() as runner:
        models = runner.run(load_offline_models(workers))

    async def lent(_: Workers, needs: object = None) -> OfflineModels:
        thread = ThreadPoolExecutor(1, thread_name_prefix="cordboard-vad")
        return replace(
            models,
            voice_activity=VoiceActivityBank(models.voice_activity._model, thread),
            voice_activity_thread=thread,
            echo_thread=ThreadPoolExecutor(1, thread_name_prefix="cordboard-echo"),
        )

    @contextmanager
    def lend() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cordboard.engine.Workers", lambda: workers)
            patch.setattr("cordboard.engine.load_needed_models", lent)
            yield

    yield lend
    models.close()
    with asyncio.Runner() as runner:
        runner.run(Workers.close(workers))


@pytest.fixture
def lent_models(lend_models: Lend) -> Iterator[None]:
    """For a test whose engine may have them."""
    with lend_models():
        yield
