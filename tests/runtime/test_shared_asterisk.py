"""The doors of two engines at one real Asterisk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from cordboard.calls.offer import Offer
from cordboard.config.schema import Config
from cordboard.errors import LineUnsupported
from cordboard.observe.metrics import Metrics
from cordboard.runtime.doors import Doors, Sharing
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone

DIALPLAN = """[from-test-extra]
exten => first,1,Stasis(cordboard-a-000001)
 same => n,Hangup()
"""


class Desk:
    """Takes the offers of one engine."""

    def __init__(self) -> None:
        self.offers: asyncio.Queue[Offer] = asyncio.Queue()
        self.fenced = asyncio.Event()

    async def next(self) -> Offer:
        return await asyncio.wait_for(self.offers.get(), PATIENCE)


@contextlib.asynccontextmanager
async def doors(asterisk: AsteriskInstance, instance: str, media: str) -> AsyncIterator[tuple]:
    desk = Desk()
    section = {"url": asterisk.ari_url, "password": asterisk.ari_password, "media": media}
    audiosocket = {"port": 0, "connect_timeout_ms": 30_000}
    config = Config.model_validate(
        {"contexts": {"demo": {}}, "asterisk": section, "audiosocket": audiosocket}
    )
    sharing = Sharing(instance, on_fenced=desk.fenced.set)
    opened = Doors(config, desk.offers.put_nowait, lambda _: None, Metrics(), sharing)
    await opened.open()
    try:
        assert await opened.line_ready(PATIENCE)
        yield opened, desk
    finally:
        await opened.close()


@pytest.mark.asterisk
@pytest.mark.parametrize("media", ["audiosocket", "websocket"])
async def test_one_engine_takes_over_the_caller_of_another(media: str) -> None:
    async with (
        AsteriskInstance(dialplan=DIALPLAN) as asterisk,
        doors(asterisk, "a-000001", media) as (first, desk),
        doors(asterisk, "b-000002", media) as (second, other_desk),
        SipPhone() as phone,
    ):
        call = await phone.call(asterisk.sip_uri("first"))
        offer = await desk.next()
        kept = first.asterisk.shared.record(offer)
        opened = await offer.media()
        ended = asyncio.get_running_loop().create_future()
        opened.on_closed(ended.set_result)
        await call.answered()
        await second.asterisk.shared.fence("a-000001")
        await second.asterisk.adopt(kept)
        assert await asyncio.wait_for(ended, PATIENCE) == "fenced"
        await asyncio.wait_for(desk.fenced.wait(), PATIENCE)
        assert not first.ari_state().ready
        await opened.close()
        await offer.control.release()
        again = await other_desk.next()
        assert again.call_id == offer.call_id
        media_again = await again.media()
        media_again.write(bytes(range(256)) * 200)
        await call.hear_speech()
        await again.control.hangup()
        assert (await call.ended()).by == "them"
        await media_again.close()
        await again.control.release()
        await assert_line_clean(asterisk)


async def test_an_engine_without_asterisk_names_it() -> None:
    config = Config.model_validate({"contexts": {"demo": {}}, "audiosocket": {"port": 0}})
    opened = Doors(config, lambda _: None, lambda _: None, Metrics(), Sharing("a-000001"))
    await opened.open()
    with pytest.raises(LineUnsupported, match="no Asterisk"):
        opened.asterisk  # noqa: B018 - raises
    await opened.close()
