"""One line without an Asterisk: what is left when its media comes to nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from cordboard.calls.offer import TransferTarget
from cordboard.errors import LineGone, MediaError
from cordboard.telephony.asterisk.ari import AriState
from cordboard.telephony.asterisk.ari_messages import Channel, Event
from cordboard.telephony.asterisk.control import AsteriskLine
from cordboard_testkit.patience import until


class SlowAri:
    """Answers no request."""

    state = AriState(connected=True, registered=True)

    async def request(self, *_: object, **__: object) -> None:
        await asyncio.Event().wait()


class BrokenArrival:
    """Media that does not come, and that answers the end of waiting with an error of its own."""

    advice = "check the network"
    external_media: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        self.awaited = asyncio.Event()

    async def media(self) -> None:
        self.awaited.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise MediaError("the connection broke") from None

    def give_up(self) -> None:
        pass


class Path:
    """Of one such arrival."""

    def __init__(self, connect_seconds: float) -> None:
        self.connect_seconds = connect_seconds
        self.arrival = BrokenArrival()

    async def prepare(self, *_: object) -> BrokenArrival:
        return self.arrival


@pytest.mark.parametrize(
    ("hangs_up", "error"), [(True, LineGone), (False, MediaError)], ids=["hang-up", "too slow"]
)
async def test_a_failure_of_media_that_nobody_waits_for_is_not_reported_by_the_loop(
    hangs_up: bool, error: type[Exception]
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
    path = Path(connect_seconds=30 if hangs_up else 0.01)
    line = AsteriskLine(
        SlowAri(),  # type: ignore[arg-type]
        path,  # type: ignore[arg-type]
        "cordboard",
        Channel("1.0"),
        uuid4(),
        on_released=lambda _: None,
        on_stranded=lambda _: None,
    )
    opening = asyncio.create_task(line.open_media())
    await path.arrival.awaited.wait()
    if hangs_up:
        line.left("caller_hangup")
    with pytest.raises(error):
        await opening
    del opening
    await asyncio.sleep(0)  # the step in which it woke us still holds it
    gc.collect()
    assert reported == []


class WillingAri:
    """Grants every request, and keeps them."""

    state = AriState(connected=True, registered=True)

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, **_: object) -> dict[str, str]:
        self.requests.append((method, path))
        return {"value": "1"}


@pytest.mark.parametrize(
    ("kind", "status", "returned"),
    [
        ("refer", "SUCCESS", None),
        ("refer", "FAILURE", "FAILURE"),
        ("voicemail", "SUCCESS", "SUCCESS"),
    ],
)
async def test_a_caller_connected_elsewhere_is_transferred_though_their_phone_hangs_up_at_once(
    kind: Any, status: str, returned: str | None
) -> None:
    """A telephone ends its call as soon as it is connected elsewhere: that is no caller who hangs
    up, whichever event comes first."""
    ari, released = WillingAri(), asyncio.Event()
    line = AsteriskLine(
        ari,  # type: ignore[arg-type]
        Path(connect_seconds=30),  # type: ignore[arg-type]
        "cordboard",
        Channel("1.0"),
        uuid4(),
        on_released=lambda _: released.set(),
        on_stranded=lambda _: None,
    )
    target = TransferTarget("office", kind, "office", "refers", away_seconds=60)
    left = asyncio.Event()
    sending = asyncio.create_task(line.transfer(target, left.set))
    await until(lambda: ("POST", "channels/1.0/continue") in ari.requests)
    line.handle(Event("StasisEnd"), "1.0")
    await left.wait()
    line.handle(Event("StasisStart", body={"args": ["return", kind, status]}), "1.0")
    if returned is None:
        line.handle(Event("ChannelDestroyed"), "1.0")  # before the transfer has its turn
    assert await sending == returned
    assert line.ended is (returned is None)
    await line.release()
    assert released.is_set()
    assert (("DELETE", "channels/1.0") in ari.requests) is (returned is None), "nothing is left"
