"""`asterisk.codec`: what each transport makes of it, and that the configuration knows the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import pytest_asyncio
from pydantic import SecretStr

from cordboard.audio.format import SLIN_8K, SLIN_16K, ULAW_8K
from cordboard.audio.pacer import Pacer
from cordboard.config.schema import MEDIA_CODECS, Asterisk, AudioSocket, Rtp
from cordboard.errors import MediaError
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.rtp_path import RtpPath
from cordboard.telephony.asterisk.websocket_path import WebsocketPath

ALL = ("auto", "ulaw", "alaw", "slin", "slin16", "g722")
MakePath = Callable[[str], MediaPath]


async def _nobody(offer: object) -> None:
    raise AssertionError("no call comes here")


@pytest_asyncio.fixture
async def make_path() -> dict[str, MakePath]:
    pacer = Pacer(asyncio.get_running_loop())
    server = AudioSocketServer(AudioSocket(port=0), pacer, _nobody)

    def websocket(codec: str) -> MediaPath:
        return WebsocketPath(
            Asterisk.model_validate({"password": SecretStr("x"), "codec": codec}), pacer
        )

    return {
        "websocket": websocket,
        "audiosocket": lambda codec: AudioSocketPath(server, codec),
        "rtp": lambda codec: RtpPath(Rtp(), pacer, codec),
    }


async def _starts(path: MediaPath) -> bool:
    try:
        await path.start()
    except MediaError:
        return False
    await path.stop()
    return True


@pytest.mark.parametrize("media", ["websocket", "audiosocket", "rtp"])
async def test_the_configuration_accepts_what_the_transport_can_carry(media, make_path):
    usable = {codec for codec in ALL if await _starts(make_path[media](codec))}
    assert usable == {"auto", *MEDIA_CODECS[media]}


@pytest.mark.parametrize(
    ("codec", "wished", "gets"),
    [
        ("auto", [SLIN_16K, SLIN_8K], "slin16"),
        ("auto", [ULAW_8K, SLIN_16K], "slin16"),
        ("auto", [], "slin"),
        ("slin", [SLIN_16K, SLIN_8K], "slin"),
        ("slin16", [SLIN_8K], "slin16"),
        ("slin16", [], "slin16"),
    ],
)
async def test_audiosocket_carries_the_codec_of_the_file(codec, wished, gets, make_path):
    arrival = await make_path["audiosocket"](codec).prepare(wished)
    assert arrival.external_media["format"] == gets
    arrival.give_up()
