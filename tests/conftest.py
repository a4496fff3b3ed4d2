"""Settings of all tests: their order, which ones share a process, and which ones are fast.

**Order.** Tests run in random order, drawn anew for each run: the files, and the tests within each
file. Files stay whole, so that an engine that serves a file starts once. The number of the order is
printed at the head and at the end of a run that failed; `--order=NUMBER` repeats it, and
`--order=listed` takes the files and tests as they are written.

**Processes.** `make test` runs two processes side by side: more keep two processors so busy that
calls are understood too late. Each takes whole files: first those that take long because they run
in real time (`REAL_TIME`), then the rest.

**Time zone.** UTC, here and in the processes that tests start: the engine counts days in the zone
of its machine.

**Language model.** Tests in tests/llm need a real language model, and are collected only where
`CORDBOARD_LANGUAGE_MODEL` names its file (`make test-llm`). Other runs of all tests say at their
end that these were left out.

**Fast tests.** `--fast` (`make test-fast`) leaves out what needs Asterisk, models or real time, and
what takes long.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import HealthCheck, settings

from cordboard_testkit import free_ports

os.environ["TZ"] = "UTC"
time.tzset()

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

    from cordboard.agent_api.offline_models import OfflineModels
    from cordboard.agent_api.workers import Workers

# A busy machine is no failure: examples are bounded by number, not by time.
settings.register_profile(
    "cordboard",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    print_blob=True,  # a failure prints the line that repeats it
)
settings.load_profile("cordboard")

REAL_TIME = (
    "tests/mcp/stdio/test_orphans.py",
    "tests/admin/test_listener.py",
    "tests/alarms/test_engine.py",
    "tests/benchmarks/test_privacy_bench.py",
    "tests/benchmarks/test_transfers_bench.py",
    "tests/admin/test_page.py",
    "tests/admin/test_trials.py",
    "tests/admin/test_typescript.py",
    "tests/admin_ui/",
    "tests/api/test_administered_engine.py",
    "tests/calls/post_call/test_queue.py",
    "tests/cli/test_cluster_config_command.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_mcp_of_a_running_engine.py",
    "tests/cli/test_run.py",
    "tests/cluster/test_config_versions.py",
    "tests/cluster/test_events.py",
    "tests/cluster/test_killed_members.py",
    "tests/cluster/test_mcp_servers.py",
    "tests/cluster/test_member.py",
    "tests/cluster/test_nats_bus.py",
    "tests/cluster/test_real_leases.py",
    "tests/cluster/test_real_limits.py",
    "tests/deployment/test_kamailio.py",
    "tests/examples/test_tutorial.py",
    "tests/history/test_database_away.py",
    "tests/mcp_servers/test_engine_server.py",
    "tests/observe/test_traced_call.py",
    "tests/runtime/test_shared_asterisk.py",
    "tests/telephony/asterisk/test_adoption.py",
    "tests/telephony/asterisk/test_breaks.py",
    "tests/telephony/asterisk/test_consultations.py",
    "tests/telephony/asterisk/test_dialplan.py",
    "tests/telephony/asterisk/test_instance.py",
    "tests/telephony/asterisk/test_ownership.py",
    "tests/telephony/asterisk/test_placement.py",
    "tests/telephony/asterisk/test_rtp_calls.py",
    "tests/telephony/asterisk/test_source.py",
    "tests/telephony/asterisk/test_strangers.py",
    "tests/telephony/asterisk/test_waiting_music.py",
    "tests/telephony/asterisk/test_websocket_calls.py",
    "tests/outbound/test_campaign_store.py",
    "tests/outbound/test_placed.py",
    "tests/runtime/test_engine.py",
    "tests/runtime/test_mcp_membership.py",
    "tests/runtime/test_setup_check.py",
    "tests/testkit/asterisk/test_instance.py",
    "tests/testkit/sip/test_phone_to_phone.py",
    "tests/testkit/test_audiosocket_caller.py",
    "tests/testkit/test_calls_through_asterisk.py",
    "tests/testkit/test_scenario.py",
    "tests/whole_calls/",
)
SLOW = (
    "tests/accounts/",
    "tests/admin/",
    "tests/agents/llm/test_services.py",
    "tests/agents/pipeline/test_parts_factory.py",
    "tests/agents/pipeline/test_service_voice.py",
    "tests/agents/realtime/",
    "tests/agents/rules/",
    "tests/api/",
    "tests/audio/",
    "tests/benchmarks/",
    "tests/calls/test_killed_calls.py",
    "tests/calls/test_picture.py",
    "tests/chat/test_session.py",
    "tests/cli/",
    "tests/config/test_limits.py",
    "tests/config/test_watch.py",
    "tests/deployment/",
    "tests/examples/",
    "tests/llm/",
    "tests/mcp/definitions/test_hostile_listing.py",
    "tests/mcp/remote/",
    "tests/mcp/supervision/",
    "tests/mcp/test_faults.py",
    "tests/mcp/test_fleet.py",
    "tests/mcp/test_sdk.py",
    "tests/mcp_real/",
    "tests/mcp_servers/test_atis_server.py",
    "tests/observe/test_loop_watchdog.py",
    "tests/observe/test_span_sender.py",
    "tests/oracle/",
    "tests/repository/test_language_model_parts.py",
    "tests/repository/test_plain_english.py",
    "tests/runtime/reload/",
    "tests/speech/answer/",
    "tests/telephony/",
    "tests/testkit/emulators/",
    "tests/tools/test_large_json.py",
    "tests/tools/test_masking.py",
    "tests/tools/test_provider_schema.py",
    "tests/tools/test_provider_schema_properties.py",
    "tests/vendors/",
)
"""Left out by `--fast`, besides `REAL_TIME`: processes, sockets, databases, SDKs, sound, large
inputs."""
LANGUAGE_MODEL = "CORDBOARD_LANGUAGE_MODEL"
LLM_TESTS = "tests/llm"
NOT_FAST = {"lend_models", "lent_models", "promtool"}
"""Fixtures that load the models of the offline agent, or need a program of others."""


def file_of(test: str) -> str:
    """Name the file of a test: all tests of a file run in one process."""
    return test.partition("::")[0]


def is_fast(item: pytest.Item) -> bool:
    """True if the test needs no Asterisk, models or promtool. Its file has been collected."""
    marked = any(item.iter_markers("asterisk")) or any(item.iter_markers("voices"))
    return not marked and not NOT_FAST & set(getattr(item, "fixturenames", ()))


def shuffled(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Return the tests in random order: the files, and within each file its tests."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(file_of(item.nodeid), []).append(item)
    dice = random.Random(seed)
    order = list(files.values())
    dice.shuffle(order)
    for tests in order:
        dice.shuffle(tests)
    return [item for tests in order for item in tests]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--order",
        default="random",
        metavar="random|listed|NUMBER",
        help="order of the tests: random (the default), listed, or a number drawn before",
    )
    parser.addoption(
        "--fast", action="store_true", help="leave out what is slow or needs Asterisk or models"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Slow files are not even imported with `--fast`; those of a language model only where there is
    one."""
    if collection_path == config.rootpath / LLM_TESTS and not os.environ.get(LANGUAGE_MODEL):
        return True
    if not config.option.fast:
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return f"{path}/".startswith(REAL_TIME + SLOW) or None


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the order, and give each process its own range of ports to look for free ones in: a
    port is free until it is used."""
    order = getattr(config, "workerinput", {}).get("order", config.option.order)
    if order == "random":
        order = str(random.SystemRandom().randrange(10**6))
    elif order != "listed" and not order.isdecimal():
        raise pytest.UsageError(f"--order={order}: expected random, listed or a number")
    config.option.order = order
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        number, count = int(worker[2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        lowest, room = free_ports._LOWEST, (free_ports._HIGHEST - free_ports._LOWEST) // count
        free_ports._LOWEST = lowest + number * room
        free_ports._HIGHEST = free_ports._LOWEST + room


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """All processes take the same order."""
    node.workerinput["order"] = node.config.option.order


def pytest_report_header(config: pytest.Config) -> str:
    return f"order of the tests: {config.option.order}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    places = [config.invocation_params.dir / file_of(argument) for argument in config.args]
    among = any((config.rootpath / LLM_TESTS).is_relative_to(place.resolve()) for place in places)
    if among and not os.environ.get(LANGUAGE_MODEL):
        terminalreporter.write_line(
            "left out: tests/llm, which need a language model of 1.1 GB (make test-llm)"
        )
    if exitstatus:
        terminalreporter.write_line(f"this order again: --order={config.option.order}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.order != "listed":
        items[:] = shuffled(items, int(config.option.order))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: not item.nodeid.startswith(REAL_TIME))
    if config.option.fast:
        config.hook.pytest_deselected(items=[item for item in items if not is_fast(item)])
        items[:] = filter(is_fast, items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return file_of(nodeid)

    config.option.loadscopereorder = False  # keep the order above
    return ByFile(config, log)


@pytest.fixture(scope="session")
def promtool(pytestconfig: pytest.Config) -> str:
    """Prometheus' checker of rules. Missing, it is an error that says how to get it."""
    command = [str(pytestconfig.rootpath / "scripts/install-promtool"), "--print"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)
    return found.stdout.strip()


Lend: TypeAlias = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="session")
def lend_models() -> Iterator[Lend]:
    """The models of all engines in this process, loaded once instead of twenty times: engines that
    are started `with lend_models():` get them, each with streams and threads of its own. Engines
    that are programs of their own load everything."""
    from cordboard.agent_api.workers import Workers
    from cordboard.audio.vad import VoiceActivityBank
    from cordboard.vendors.local.models import load_offline_models

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
            patch.setattr("cordboard.runtime.health.Workers", lambda: workers)
            patch.setattr("cordboard.runtime.health.load_needed_models", lent)
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
