"""A program: the telephony of one instance of an engine, in a process that can be killed.

    python talking_engine.py '{"url": ..., "password": ..., "instance": ..., "media": "rtp"}'

It answers each caller and plays a tone without end. What happens is printed as lines of JSON:
`ready`, `talking`, `ended` with the reason, `fenced`. Like a call of the engine it hangs up and
clears up when its media has ended.
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
import structlog
from pydantic import SecretStr

from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Offer
from cordboard.config.schema import Asterisk, AudioSocket, Rtp
from cordboard.errors import CordboardError
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.instance import Instance
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.rtp_path import RtpPath
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard.telephony.asterisk.websocket_path import WebsocketPath

RATE = 8_000
TONE = (6_000 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype("<i2").tobytes()


def tell(event: str, **facts: str) -> None:
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


async def talk(offer: Offer, channel: str) -> None:
    """Play the tone until the line has ended."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    try:
        media = await offer.media()
    except CordboardError as error:
        tell("ended", reason=str(error))
        return
    media.on_closed(ended.set_result)
    media.on_audio(lambda _: media.write(TONE) if media.queued_ms < 500 else None)
    media.write(TONE)
    tell("talking", call_id=offer.call_id, channel=channel, caller=offer.caller_number)
    reason = await ended
    try:
        await offer.control.hangup()
    except CordboardError as error:
        tell("refused", error=str(error))
    await media.close()
    await offer.control.release()
    tell("ended", reason=reason)


async def main(settings: dict[str, str]) -> None:
    loop = asyncio.get_running_loop()
    config = Asterisk(url=settings["url"], password=SecretStr(settings["password"]))
    own, pacer = Instance(config, settings["instance"]), Pacer(loop)
    tasks: set[asyncio.Task[None]] = set()
    server = AudioSocketServer(
        AudioSocket(port=0, connect_timeout_ms=30_000), pacer, lambda _: None
    )
    await server.start()
    paths: dict[str, MediaPath] = {
        "audiosocket": AudioSocketPath(server),
        "rtp": RtpPath(Rtp(), pacer),
        "websocket": WebsocketPath(own.config, pacer),
    }
    path = paths[settings["media"]]
    await path.start()

    def take(offer: Offer) -> None:
        [line] = [line for line in source.lines if line is offer.control]
        tasks.add(asyncio.create_task(talk(offer, line.channel_id)))

    fenced = asyncio.Event()
    source = AsteriskSource(own.config, path, take, instance=own, on_fenced=fenced.set)
    await source.start()
    assert await source.wait_ready(60)
    tell("ready")
    await fenced.wait()
    tell("fenced")
    await asyncio.wait(tasks)
    await source.stop()


structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
asyncio.run(main(json.loads(sys.argv[1])))
