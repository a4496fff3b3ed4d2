"""Many callers at once: sipp (Debian: sip-tester), or our own SIP phones where it is missing.

sipp's callers speak a u-law recording over and over and cannot hear. Our own phones need more
processor time, on the machine that also runs the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import sys
from pathlib import Path

from bench.engine_process import ROOT
from cordboard.audio import g711
from cordboard.errors import KitError
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port, free_port_range
from cordboard_testkit.timeline import Samples

HOST = "127.0.0.1"
MISSING = "sipp is missing (Debian: apt-get install sip-tester); our own SIP phones call instead"

_SDP = """v=0
o=load 1 1 IN IP4 [local_ip]
s=-
c=IN IP4 [media_ip]
t=0 0
m=audio [rtpstream_audio_port] RTP/AVP 0
a=rtpmap:0 PCMU/8000
a=ptime:20
"""


def _request(method: str, number: int, to_tag: str, headers: str = "", body: str = "") -> str:
    retransmit = "" if method == "ACK" else ' retrans="500"'
    return f"""<send{retransmit}><![CDATA[
{method} sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:load[call_number]@[local_ip]:[local_port]>;tag=[pid]t[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>{to_tag}
Call-ID: [call_id]
CSeq: {number} {method}
Contact: <sip:load@[local_ip]:[local_port]>
Max-Forwards: 70
{headers}Content-Length: {"[len]" if body else "0"}

{body}]]></send>
"""


def scenario(sound: str) -> str:
    """Call, speak the file for the time of `-d`, hang up."""
    tag = "[peer_tag_param]"
    ringing = "".join(f'<recv response="{code}" optional="true"/>' for code in (100, 180, 183))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<scenario name="a caller who speaks for the whole call">
{_request("INVITE", 1, "", "Content-Type: application/sdp" + chr(10), _SDP)}
{ringing}<recv response="200"/>
{_request("ACK", 1, tag)}
<nop><action><exec rtp_stream="{sound},-1,0"/></action></nop>
<pause/>
{_request("BYE", 2, tag)}
<recv response="200"/>
</scenario>
"""


class Crowd:
    """A process that places the calls. Use `call`."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path) -> None:
        self._process = process
        self._output = output

    @property
    def pid(self) -> int:
        return self._process.pid

    async def done(self, timeout: float) -> int:
        """0 when every call went to its end, else sipp's or the phones' exit status."""
        async with asyncio.timeout(timeout):
            return await self._process.wait()

    async def stop(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()

    def failed(self) -> int:
        """Number of failed calls, as the callers counted; at least 1 if that cannot be read."""
        found = re.findall(r"Failed call\s*\|[^|]*\|\s*(\d+)", self._output.read_text())
        return int(found[-1]) if found else max(1, self._process.returncode or 0)

    def says(self) -> str:
        return self._output.read_text(errors="replace")[-1500:]


def has_sipp() -> bool:
    return shutil.which("sipp") is not None


async def call(
    port: int, extension: str, *, calls: int, at_once: int, a_second: float, seconds: float,
    sound: Samples, folder: Path,
) -> Crowd:  # fmt: skip
    """Place `calls` calls of `seconds` each to Asterisk's SIP port. Raises `KitError`."""
    speech = folder / "speech.ulaw"
    speech.write_bytes(g711.linear_to_ulaw(sound.astype("<i2").tobytes()))
    output = folder / f"callers-{free_port()}.txt"
    if not has_sipp():
        command = [sys.executable, "-m", "bench.load.phones", f"sip:{extension}@{HOST}:{port}"]
        command += [str(calls), str(at_once), str(a_second), str(seconds), str(speech)]
        return Crowd(await start_child(command, folder=ROOT, output=output), output)
    (folder / "caller.xml").write_text(scenario(speech.name))
    media = free_port_range(4 * at_once + 8)[0]
    command = ["sipp", f"{HOST}:{port}", "-sf", "caller.xml", "-s", extension, "-i", HOST]
    command += ["-p", str(free_port()), "-mp", str(media), "-nostdin", "-m", str(calls)]
    command += [
        "-trace_err",
        "-l",
        str(at_once),
        "-r",
        f"{a_second:g}",
        "-d",
        f"{seconds * 1000:.0f}",
    ]
    process = await start_child(command, folder=folder, output=output)
    await asyncio.sleep(0.2)
    if process.returncode is not None:
        raise KitError(f"sipp ended at once: {output.read_text(errors='replace')[-500:]}")
    return Crowd(process, output)
