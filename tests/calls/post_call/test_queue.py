"""Steps after calls: delivered at least once, whatever happens to receiver, engine and disk."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cordboard.calls import events
from cordboard.calls.post_call.job import PostCallJob
from cordboard.calls.post_call.queue import PER_TOOL, PostCallQueue, PostCallTimes
from cordboard.config.schema import Config
from cordboard.config.tools.http_tool import HttpTool
from cordboard.generation.generation import Generation
from cordboard.observe.metrics import Metrics
from cordboard.tools.http.request import is_signed
from cordboard.tools.tool import ToolReply
from cordboard.tools.toolbox import Toolbox
from cordboard_testkit.call_stage import CallStage, stage_config
from cordboard_testkit.emulators.mail_server import MailServer
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeMedia

from .webhooks import receiver

SECRET = "a shared secret"
QUICK = {"first_retry_ms": 10, "max_retry_ms": 40}


def config(url: str, **retries: int) -> Config:
    tool = {
        "kind": "http",
        "method": "POST",
        "url": url,
        "allow_private": True,
        "sign_with": SECRET,
        "parameters": {"note": {"type": "string"}},
        "body": {"note": "{note}", "call": "{call.call_id}"},
    }
    return Config.model_validate(
        {
            "contexts": {"demo": {}},
            "tools": {"tell_crm": tool},
            "calls": {"post_call": QUICK | retries},
        }
    )


def job(number: int = 1, **more: Any) -> PostCallJob:
    values: dict[str, Any] = {
        "name": f"1000-call-{number}-1",
        "call_id": f"call-{number}",
        "context": "demo",
        "provider": "local",
        "step": 1,
        "tool": "tell_crm",
        "created_at": 1_000.0 + number,
        "next_at": 0.0,
        "arguments": {"note": f"Note {number}."},
        "variables": {"call_id": f"call-{number}"},
    }
    return PostCallJob(**(values | more))


class Stand:
    """A queue and what is around it."""

    def __init__(self, directory: Path, settings: Config, times: PostCallTimes) -> None:
        self.directory = directory
        self.generation = Generation(settings)
        self.metrics = Metrics()
        self.ages = 0.0
        self.queue = PostCallQueue(
            directory,
            lambda: self.generation,
            lambda: self.generation.config.calls.post_call,
            self.metrics,
            clock=lambda: time.time() + self.ages,
            times=times,
        )

    def files(self, folder: str = ".") -> list[str]:
        return sorted(path.name for path in (self.directory / folder).glob("*.json"))

    def counted(self, outcome: str) -> float:
        name = f'ai_agent_post_call_jobs_total{{outcome="{outcome}"}}'
        for line in self.metrics.render().decode().splitlines():
            if line.startswith(name):
                return float(line.split()[-1])
        return 0.0

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not what():  # noqa: ASYNC110 - files and counts have no events
                await asyncio.sleep(0.005)

    async def empty(self) -> None:
        await self.until(lambda: self.queue.health()["waiting"] == 0 and not self.files())


def fresh(**more: Any) -> PostCallJob:
    """One whose call is just over, by the clock of a stand."""
    now = time.time()
    return job(**{"created_at": now, "next_at": now, **more})


@asynccontextmanager
async def stand(directory: Path, settings: Config, **times: float) -> AsyncIterator[Stand]:
    found = Stand(directory / "post_call", settings, PostCallTimes(**times))
    await found.queue.start()
    try:
        yield found
    finally:
        await found.queue.close()
        await found.generation.close()


async def test_a_job_is_delivered_signed_and_with_its_key(tmp_path: Path) -> None:
    async with receiver() as hook, stand(tmp_path, config(hook.url)) as here:
        assert await here.queue.put([fresh()])
        await here.empty()
        (delivery,) = hook.deliveries
        assert delivery.body == {"note": "Note 1.", "call": "call-1"}
        assert delivery.key == f"call-1:{fresh_ask(here, delivery)}"
        headers = delivery.headers
        timestamp = headers["x-cordboard-timestamp"]
        signature = headers["x-cordboard-signature"]
        assert is_signed(SECRET, timestamp, signature, delivery.raw, float(timestamp))
        assert (here.counted("queued"), here.counted("delivered")) == (1, 1)
        assert here.generation.calls == 0


def fresh_ask(here: Stand, delivery: Any) -> str:
    """The part of the key that tells step and time; the call's id goes before."""
    ask = delivery.key.partition(":")[2]
    assert ask.startswith("post.1.")
    return str(ask)


async def test_what_fails_is_tried_again_with_the_same_key(tmp_path: Path) -> None:
    async with receiver(500, 503, 404, 200) as hook, stand(tmp_path, config(hook.url)) as here:
        await here.queue.put([fresh()])
        await here.empty()
        assert len(hook.deliveries) == 4
        assert len({delivery.key for delivery in hook.deliveries}) == 1
        assert (here.counted("retried"), here.counted("delivered")) == (3, 1)


async def test_a_receiver_that_is_not_there_yet(tmp_path: Path) -> None:
    settings = config("http://127.0.0.1:9/hook")
    async with stand(tmp_path, settings) as here:
        await here.queue.put([fresh()])
        await here.until(lambda: here.counted("retried") >= 2)
        async with receiver() as hook:
            await replace_generation(here, config(hook.url))
            await here.empty()
            assert len(hook.deliveries) == 1


async def replace_generation(here: Stand, settings: Config) -> None:
    before, here.generation = here.generation, Generation(settings)
    await before.retire()


async def test_jobs_are_files_that_only_we_can_read(tmp_path: Path) -> None:
    async with receiver(500) as hook, stand(tmp_path, config(hook.url, first_retry_ms=40)) as here:
        await here.queue.put([fresh(), fresh(number=2)])
        assert here.files() == ["1000-call-1-1.json", "1000-call-2-1.json"]
        for path in here.directory.glob("*.json"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(here.directory.stat().st_mode) == 0o700


async def test_after_so_many_tries_it_is_kept_among_the_failed(tmp_path: Path) -> None:
    async with receiver(500) as hook, stand(tmp_path, config(hook.url, max_attempts=3)) as here:
        with capture_logs() as logs:
            await here.queue.put([fresh()])
            await here.until(lambda: here.counted("failed") == 1)
            await here.until(lambda: here.queue.health()["waiting"] == 0)
        assert len(hook.deliveries) == 3
        assert here.files() == []
        (kept,) = here.files("failed")
        found = json.loads((here.directory / "failed" / kept).read_bytes())
        assert (found["attempts"], found["given_up"]) == (3, True)
        assert "not available" in found["last_error"]
        assert here.queue.health()["failed"] == 1
        assert [line["event"] for line in logs].count("post_call_given_up") == 1


@pytest.mark.parametrize("most", [1, 100])
async def test_a_job_that_is_erased_while_it_runs_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    async with receiver(500) as hook, stand(tmp_path, config(hook.url, max_attempts=most)) as here:
        run = here.queue._run

        async def erased(job: PostCallJob, toolbox: Toolbox) -> ToolReply:
            (here.directory / f"{job.name}.json").unlink()
            return await run(job, toolbox)

        monkeypatch.setattr(here.queue, "_run", erased)
        await here.queue.put([fresh()])
        await hook.wait_for(1)
        await here.empty()
        assert here.files("failed") == []
        assert (here.counted("failed"), here.counted("retried")) == (0, 0)


async def test_after_so_long_it_is_given_up(tmp_path: Path) -> None:
    async with receiver(500) as hook, stand(tmp_path, config(hook.url, give_up_ms=5_000)) as here:
        await here.queue.put([fresh()])
        await here.until(lambda: here.counted("retried") >= 1)
        here.ages = 6.0
        await here.until(lambda: here.counted("failed") == 1)


async def test_one_that_is_put_back_is_tried_anew(tmp_path: Path) -> None:
    async with (
        receiver(500, 200) as hook,
        stand(tmp_path, config(hook.url, max_attempts=1), look_again=0.02) as here,
    ):
        await here.queue.put([fresh()])
        await here.until(lambda: here.files("failed") != [] and not here.files())
        (kept,) = here.files("failed")
        (here.directory / "failed" / kept).rename(here.directory / kept)
        await here.until(lambda: here.counted("delivered") == 1)
        assert len(hook.deliveries) == 2


async def test_what_can_never_be_right_is_not_tried_again(tmp_path: Path) -> None:
    async with receiver() as hook, stand(tmp_path, config(hook.url)) as here:
        await here.queue.put([fresh(arguments={"note": 5})])
        await here.until(lambda: here.counted("failed") == 1)
        assert hook.deliveries == []


async def test_a_job_whose_tool_is_gone_is_kept_and_reported(tmp_path: Path) -> None:
    without = Config.model_validate({"contexts": {"demo": {}}, "calls": {"post_call": QUICK}})
    async with receiver() as hook, stand(tmp_path, without, unprovided_pause=0.02) as here:
        with capture_logs() as logs:
            await here.queue.put([fresh()])
            await here.until(lambda: here.queue.health()["tools_missing"] == ["tell_crm"])
            await asyncio.sleep(0.1)
        assert [line["event"] for line in logs].count("post_call_tool_missing") == 1
        assert here.queue.trouble == "not offered now: tell_crm"
        assert here.files() == ["1000-call-1-1.json"]
        assert here.counted("retried") == here.counted("failed") == 0
        await replace_generation(here, config(hook.url))
        await here.empty()
        assert here.queue.health()["tools_missing"] == []
        assert len(hook.deliveries) == 1


async def test_a_receiver_that_is_down_is_not_stormed(tmp_path: Path) -> None:
    async with receiver(0) as hook, stand(tmp_path, config(hook.url), close=0.05) as here:
        await here.queue.put([fresh(number=number, name=f"j{number}") for number in range(20)])
        await hook.wait_for(PER_TOOL)
        await asyncio.sleep(0.05)
        assert len(hook.deliveries) == PER_TOOL
        await here.queue.close()
        assert len(here.files()) == 20


async def test_what_is_left_is_taken_up_by_the_next_engine(tmp_path: Path) -> None:
    async with receiver(500) as hook, stand(tmp_path, config(hook.url, first_retry_ms=40)) as here:
        await here.queue.put([fresh(number=number, name=f"j{number}") for number in range(3)])
        await hook.wait_for(1)
    async with receiver() as hook, stand(tmp_path, config(hook.url)) as here:
        await here.empty()
        assert sorted(delivery.body["note"] for delivery in hook.deliveries) == [
            "Note 0.",
            "Note 1.",
            "Note 2.",
        ]


async def test_of_two_engines_one_does_the_jobs_of_both(tmp_path: Path) -> None:
    quick = partial(stand, tmp_path, look_again=0.02)
    async with receiver() as hook, quick(config(hook.url)) as first:
        await first.queue.put([fresh(name="j0")])
        await first.empty()
        async with quick(config(hook.url)) as second:
            assert not second.queue.health()["delivers"]
            await second.queue.put([fresh(name="j1", number=2)])
            await first.until(lambda: first.counted("delivered") == 2)
            await first.queue.close()
            await second.until(lambda: second.queue.health()["delivers"])
            await second.queue.put([fresh(name="j2", number=3)])
            await hook.wait_for(3)
            await second.until(lambda: second.counted("delivered") == 1)


async def test_files_that_are_no_jobs_are_put_aside(tmp_path: Path) -> None:
    folder = tmp_path / "post_call"
    folder.mkdir()
    (folder / "x.json").write_text("{half of a")
    (folder / "y.json").write_bytes(job().encode())
    (folder / "note.txt").write_text("of the operator's")
    async with receiver() as hook, stand(tmp_path, config(hook.url)) as here:
        await here.queue.put([fresh()])
        await here.empty()
        assert here.files("failed") == ["x.json", "y.json"]
        assert len(hook.deliveries) == 1
        assert (folder / "note.txt").exists()


async def test_without_a_disk_they_are_kept_in_memory_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*jobs: PostCallJob) -> None:
        raise OSError(28, "No space left on device")

    async with receiver() as hook, stand(tmp_path, config(hook.url)) as here:
        monkeypatch.setattr(here.queue._files, "write", full)
        with capture_logs() as logs:
            assert not await here.queue.put([fresh()])
            await hook.wait_for(1)
        assert here.queue.health()["trouble"].endswith("cannot be kept: No space left on device")
        assert any(line["event"] == "post_call_folder_trouble" for line in logs)


async def test_nothing_is_made_on_the_disk_for_nobody(tmp_path: Path) -> None:
    async with stand(tmp_path, config("http://127.0.0.1:9/")):
        pass
    assert list(tmp_path.iterdir()) == []


async def test_a_job_that_is_there_already_is_left_as_it_is(tmp_path: Path) -> None:
    """The next engine makes the jobs of a killed one's calls anew: some may have been kept."""
    async with receiver(500) as hook, stand(tmp_path, config(hook.url, max_attempts=2)) as here:
        one = fresh()
        await here.queue.put([one])
        await here.until(lambda: here.files("failed") != [] and not here.files())
        await here.queue.put([one])
        assert here.files() == [], "it had been given up"
        assert (here.counted("queued"), len(hook.deliveries)) == (1, 2)


# --- killed --------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from pathlib import Path
from cordboard.calls.post_call.job import decode
from cordboard.calls.post_call.queue import PostCallQueue
from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.observe.metrics import Metrics

async def main():
    config = Config.model_validate_json(sys.argv[2])
    generation = Generation(config)
    queue = PostCallQueue(
        Path(sys.argv[1]), lambda: generation, lambda: config.calls.post_call, Metrics()
    )
    await queue.start()
    jobs = [decode(line.encode(), 0) for line in sys.stdin.read().split("\\x00")]
    await queue.put(jobs)
    print("kept", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_kill_9_loses_nothing_and_a_repeated_delivery_can_be_told(tmp_path: Path) -> None:
    async with receiver(0, 0, 200) as hook:
        settings = {
            "contexts": {"demo": {}},
            "tools": {"tell_crm": config(hook.url).model_dump()["tools"]["tell_crm"]},
        }
        settings["tools"]["tell_crm"] |= {"sign_with": SECRET}
        jobs = [job(number, name=f"j{number}") for number in range(6)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            str(tmp_path / "post_call"),
            json.dumps(settings),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\x00".join(one.encode() for one in jobs))
        process.stdin.close()
        line = b""
        while b"kept" not in line:
            line = await process.stdout.readline()
            assert line, "it ended"
        await hook.wait_for(2)  # two deliveries are under way, and never answered
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        begun = {delivery.key for delivery in hook.deliveries}
        async with stand(tmp_path, config(hook.url)) as here:
            await here.empty()
        again = [delivery.key for delivery in hook.deliveries[2:]]
        assert len(again) == len(set(again)) == 6
        assert begun <= set(again)


# --- a whole call --------------------------------------------------------------------------


async def test_a_whole_call_is_told_to_a_web_service(tmp_path: Path) -> None:
    context = {
        "pre_call": [
            {
                "tool": "find",
                "arguments": {"number": "{call.caller_number}"},
                "save_as": "customer",
            }
        ],
        "post_call": [
            {
                "tool": "tell_crm",
                "arguments": {
                    "note": "{call.caller_number}, {results.customer.id}: {call.transcript_text}"
                },
            }
        ],
        "greeting": "Hello {customer.name|there}.",
    }
    async with (
        receiver() as register,
        receiver(500, 200) as hook,
        stand(tmp_path, config(hook.url)) as here,
    ):
        register.body = b'{"name": "Ann", "id": 7}'
        find = {
            "kind": "http",
            "url": register.url + "/{number}",
            "allow_private": True,
            "parameters": {"number": {"type": "string"}},
        }
        tools = {"find": HttpTool.model_validate(find)}
        settings = stage_config(context)
        settings = settings.model_copy(update={"tools": {**settings.tools, **tools}})
        stage = CallStage(tmp_path / "calls", FakeAgent(), settings, post_call=here.queue)
        await stage_talks(stage)
        assert isinstance(stage.line.media, FakeMedia)
        stage.line.media.break_off("caller_hangup")
        await stage.over()
        assert here.counted("queued") == 1
        await hook.wait_for(2)
        await here.empty()
        said = hook.deliveries[1].body["note"]
        assert said == "4791234567, 7: agent: Hello Ann."
        assert hook.deliveries[0].body == hook.deliveries[1].body
        assert hook.deliveries[0].key == hook.deliveries[1].key
        assert hook.deliveries[0].key.startswith(f"{stage.call.call_id}:post.1.")
        await stage.generation.close()
    stage.check()


async def test_a_call_that_the_shutdown_ends_is_told_after_the_next_start(tmp_path: Path) -> None:
    step = {"tool": "tell_crm", "arguments": {"note": "{call.outcome}: {call.reason}"}}
    async with receiver(200) as hook:
        async with stand(tmp_path, config(hook.url)) as here:
            settings = stage_config({"post_call": [step]})
            stage = CallStage(tmp_path / "calls", FakeAgent(), settings, post_call=here.queue)
            await stage_talks(stage)
            await here.queue.close()  # it is too late for a delivery
            stage.call.end("shutdown", "engine_stopped")
            await stage.over()
            assert len(here.files()) == 1
            assert hook.deliveries == []
        async with stand(tmp_path, config(hook.url)) as here:
            await here.empty()
    assert hook.deliveries[-1].body["note"] == "shutdown: engine_stopped"


async def stage_talks(stage: CallStage) -> None:
    async with asyncio.timeout(20):
        while not stage.of(events.AudioEnded):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_e_mail_is_tried_again_until_the_server_takes_it(tmp_path: Path) -> None:
    async with MailServer(fault="rejects_one") as server:
        email = {
            "server": "127.0.0.1",
            "port": server.port,
            "security": "none",
            "sender": "cordboard@example.org",
            "to": ["desk@example.org"],
        }
        settings = Config.model_validate(
            {
                "contexts": {"demo": {}},
                "tools": {"send_email": {"email": email}},
                "calls": {"post_call": QUICK},
            }
        )
        async with stand(tmp_path, settings) as here:
            letter = {"subject": "A message\r\nBcc: all@example.org", "text": "It is ready."}
            await here.queue.put([fresh(tool="send_email", arguments=letter)])
            await here.until(lambda: here.counted("retried") >= 1)
            assert not server.mails
            server.fault = ""
            await here.empty()
    (mail,) = server.mails
    assert (mail.sender, mail.to) == ("cordboard@example.org", ("desk@example.org",))
    assert mail.message["Subject"] == "A message Bcc: all@example.org"
    assert mail.message.get_content().strip() == "It is ready."
    assert here.counted("delivered") == 1
