"""deploy/kamailio in front of two real Asterisks, called by SIPp: calls are spread, those that an
Asterisk does not take go to the other one, and every call stays where it began."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "kamailio"
CALLER = Path(__file__).with_name("caller.xml")
DIALPLAN = """
[from-test-extra]
[softphones]
exten => 700,1,Answer()
 same => n,Wait(30)
exten => 701,1,Goto(cordboard,s,1)
exten => 702,1,Hangup(17)
"""
PRETENDED = """{method} sip:anyone@127.0.0.4:{there} SIP/2.0\r
Via: SIP/2.0/UDP 127.0.0.3:{here};branch=z9hG4bK-{method}\r
Route: <sip:127.0.0.1:{proxy};lr;ftag=a>\r
From: <sip:a@127.0.0.3>;tag=a\r
To: <sip:b@127.0.0.4>;tag=b\r
Call-ID: pretended@127.0.0.3\r
CSeq: 2 {method}\r
Max-Forwards: 70\r
Content-Length: 0\r
\r
"""
pytestmark = [pytest.mark.asterisk, pytest.mark.asyncio(loop_scope="module")]


@dataclass
class Number:
    """The proxy, the Asterisks behind it, and SIPp."""

    folder: Path
    programs: Path
    port: int
    asterisks: tuple[AsteriskInstance, AsteriskInstance]
    proxy: asyncio.subprocess.Process

    @property
    def log(self) -> str:
        return (self.folder / "kamailio.log").read_text(errors="replace")

    async def call(self, extension: str = "700", calls: int = 1, talk: float = 0.1) -> bool:
        """Place calls with SIPp; True if all were answered, and ended by their BYE."""
        command = [str(self.programs / "sipp"), f"127.0.0.1:{self.port}", "-sf", str(CALLER)]
        command += ["-s", extension, "-m", str(calls), "-r", "10", "-d", str(int(talk * 1000))]
        command += ["-i", "127.0.0.1", "-p", str(free_port()), "-mp", str(free_port())]
        command += ["-nostdin", "-timeout", str(int(PATIENCE)), "-timeout_error"]
        sipp = await start_child(command, folder=self.folder, output=self.folder / "sipp.log")
        return await sipp.wait() == 0

    async def processed(self) -> list[int]:
        """Number of calls that each Asterisk has had."""
        said = [await asterisk.cli("core show calls") for asterisk in self.asterisks]
        return [int(re.findall(r"(\d+) calls? processed", text)[0]) for text in said]


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of Kamailio and SIPp. Missing, it is an error that says how to get them."""
    tool = ROOT / "scripts" / "install-kamailio"
    found = subprocess.run([tool, "--print"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)
    return Path(found.stdout.strip())


async def behind_the_proxy(asterisk: AsteriskInstance) -> None:
    """Let only the endpoint of pjsip-proxy.conf take callers."""
    path = asterisk.root / "etc" / "pjsip.conf"
    said = re.sub(r"\[caller-by-address\]\n(?:[a-z].*\n)+", "", path.read_text())
    ours = (FILES / "pjsip-proxy.conf").read_text().replace("10.0.0.30", "127.0.0.1")
    path.write_text(said + ours)
    await reload_endpoints(asterisk)


async def reload_endpoints(asterisk: AsteriskInstance) -> None:
    await asterisk.cli("module reload res_pjsip.so")
    await asterisk.cli("module reload res_pjsip_endpoint_identifier_ip.so")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def number(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Number]:
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    lines = DIALPLAN + (ROOT / "deploy" / "compose" / "asterisk" / "cordboard.conf").read_text()
    async with AsteriskInstance(dialplan=lines) as one, AsteriskInstance(dialplan=lines) as two:
        await behind_the_proxy(one)
        await behind_the_proxy(two)
        modules = next(programs.glob("usr/lib/*/kamailio/modules"))
        (folder / "kamailio.cfg").write_text((FILES / "kamailio.cfg").read_text())
        listed = (FILES / "dispatcher.list").read_text()
        for address, asterisk in (("10.0.0.21:5060", one), ("10.0.0.22:5060", two)):
            assert address in listed
            listed = listed.replace(address, f"127.0.0.1:{asterisk.sip_port}")
        (folder / "dispatcher.list").write_text(listed)
        local = (FILES / "local.cfg").read_text()
        local = re.sub(r"^listen=.*", f"listen=udp:127.0.0.1:{port}", local, flags=re.MULTILINE)
        local = re.sub(r'CALLERS ".*"', 'CALLERS "127.0.0.1/32"', local)
        local = local.replace("/etc/kamailio/dispatcher.list", str(folder / "dispatcher.list"))
        local += f'#!define MODULES "{modules}/"\n'
        local += "#!define PROBE_SECONDS 1\n#!define ANSWER_MS 5000\n"
        (folder / "local.cfg").write_text(local)
        command = [str(programs / "kamailio"), "-DD", "-E", "-f", str(folder / "kamailio.cfg")]
        command += ["-Y", str(folder), "-M", "8"]
        proxy = await start_child(command, folder=folder, output=folder / "kamailio.log")
        found = Number(folder, programs, port, (one, two), proxy)
        try:
            yield found
        finally:
            proxy.terminate()
            await asyncio.wait_for(proxy.wait(), PATIENCE)


async def kamcmd(number: Number, *words: str) -> str:
    """The operator's command."""
    command = [number.programs / "kamcmd", "-s", f"unix:{number.folder}/kamailio_ctl", *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()


async def spread(number: Number) -> None:
    """Call until both Asterisks have had a call since."""
    before = await number.processed()
    async with asyncio.timeout(PATIENCE):
        while True:
            assert await number.call(calls=2), number.log
            now = await number.processed()
            if all(new > old for new, old in zip(now, before, strict=True)):
                return


async def test_calls_are_spread_evenly_and_end_where_they_began(number: Number) -> None:
    await spread(number)  # both have answered a probe, or are taken for good
    for _ in range(3):  # a busy Asterisk answers no probe, and is left out for a moment
        before = await number.processed()
        assert await number.call(calls=12), number.log
        after = await number.processed()
        shares = [new - old for new, old in zip(after, before, strict=True)]
        if shares == [6, 6]:
            break
        await spread(number)
    assert shares == [6, 6]
    for asterisk in number.asterisks:
        await assert_line_clean(asterisk)


async def test_an_asterisk_without_engines_passes_its_caller_on(number: Number) -> None:
    """The deployment's own dialplan: no engine has room, so the answer is 503."""
    await spread(number)
    [one, two] = number.asterisks
    for asterisk, other in ((one, two), (two, one)):
        await other.cli("dialplan add extension 703,1,Answer into softphones")
        await other.cli("dialplan add extension 703,2,Wait(30) into softphones")
        await asterisk.cli("dialplan add extension 703,1,Goto(cordboard,s,1) into softphones")
        assert await number.call("703", calls=4), number.log
        for each in (asterisk, other):
            await each.cli("dialplan remove extension 703@softphones")
    asked = [2, 1]
    for _ in range(3):
        counts = [sum(await number.processed())]
        for extension in ("701", "702"):  # no Asterisk has an engine; busy
            assert not await number.call(extension)
            counts.append(sum(await number.processed()))
        asks = [new - old for old, new in itertools.pairwise(counts)]
        if asks == asked:
            break
        await spread(number)
    assert asks == asked, "both were asked; an answer, and not tried elsewhere"
    for asterisk in number.asterisks:
        await assert_line_clean(asterisk)


async def test_a_dead_asterisk_is_left_out_until_it_answers_again(number: Number) -> None:
    await spread(number)
    dead, alive = number.asterisks
    await dead.kill()
    before = await alive.cli("core show calls")
    assert await number.call(calls=4), number.log
    assert await alive.cli("core show calls") != before
    await dead.start()  # with the proxy's endpoint in its files
    await spread(number)


async def test_an_asterisk_that_does_not_know_the_proxy_passes_its_caller_on(
    number: Number,
) -> None:
    await spread(number)
    stranger = number.asterisks[0]
    path = stranger.root / "etc" / "pjsip.conf"
    known = path.read_text()
    path.write_text(known.replace("match = 127.0.0.1", "match = 10.9.9.9"))
    await reload_endpoints(stranger)
    before = await number.processed()
    assert await number.call(calls=4), number.log
    after = await number.processed()
    assert [new - old for new, old in zip(after, before, strict=True)] == [0, 4]
    path.write_text(known)
    await reload_endpoints(stranger)
    await spread(number)


async def test_an_operator_takes_one_out_and_puts_it_back(number: Number) -> None:
    await spread(number)
    target = f"sip:127.0.0.1:{number.asterisks[1].sip_port}"
    await kamcmd(number, "dispatcher.set_state", "dx", "1", target)
    before = await number.processed()
    assert await number.call(calls=3), number.log
    after = await number.processed()
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 0]
    await kamcmd(number, "dispatcher.set_state", "ap", "1", target)
    await spread(number)


async def test_strangers_may_not_call(number: Number) -> None:
    command = [str(number.programs / "sipp"), f"127.0.0.1:{number.port}", "-sf", str(CALLER)]
    command += ["-s", "700", "-m", "1", "-i", "127.0.0.3", "-p", str(free_port()), "-nostdin"]
    sipp = await start_child(command, folder=number.folder, output=number.folder / "sipp.log")
    assert await asyncio.wait_for(sipp.wait(), PATIENCE) != 0
    assert "127.0.0.3 may not call" in number.log


async def test_strangers_reach_no_address_by_a_request_that_pretends_to_be_of_a_call(
    number: Number,
) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as victim,
    ):
        for each, address in ((stranger, "127.0.0.3"), (victim, "127.0.0.4")):
            each.bind((address, 0))
            each.settimeout(1.0)
        here, there = stranger.getsockname()[1], victim.getsockname()[1]
        answer = b""
        async with asyncio.timeout(PATIENCE):
            while not answer:  # UDP may lose one: as every telephone, it sends again
                for method in ("ACK", "BYE"):
                    words = PRETENDED.format(
                        method=method, here=here, there=there, proxy=number.port
                    )
                    stranger.sendto(words.encode(), ("127.0.0.1", number.port))
                with contextlib.suppress(TimeoutError):
                    answer = await asyncio.to_thread(stranger.recv, 4096)
        assert answer.startswith(b"SIP/2.0 403 "), answer
        victim.setblocking(False)
        with pytest.raises(BlockingIOError):
            victim.recv(4096)
