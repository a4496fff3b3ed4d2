"""An Asterisk that is there but slow to answer, and one that sends too much; without a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from uuid import UUID

import pytest
from pydantic import SecretStr

from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Offer
from cordboard.config.schema import Asterisk, AudioSocket
from cordboard.errors import AsteriskError, LineGone, MediaError
from cordboard.telephony.asterisk import audiosocket
from cordboard.telephony.asterisk.ari import AriState
from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.placement import Placement
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard.telephony.line_media import FLOOD_SECONDS
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.virtual_time import in_virtual_time, virtual_time

from .test_ari import Pbx, application, pbx, status

__all__ = ["pbx"]

STASIS = {"app_name": "Stasis", "app_data": "cordboard"}


async def test_a_hangup_without_an_answer_is_tried_again_until_it_is_done(pbx: Pbx) -> None:
    deletes = 0

    def delete(connection, request):
        nonlocal deletes
        deletes += 1
        return status(204)(connection, request) if deletes >= 3 else None

    pbx.answers |= {
        "applications/cordboard": application("1.0"),
        "channels": status(200, [{"id": "1.0", "state": "Up", "dialplan": STASIS}]),
        "bridges": status(200, []),
        "asterisk/info": status(200, {"status": {"startup_time": "now"}}),
        "channels/1.0/variable": status(404, {"message": "Provided variable was not found"}),
        "channels/1.0": delete,
    }
    offers: asyncio.Queue[Offer] = asyncio.Queue()
    server = AudioSocketServer(
        AudioSocket(port=0), Pacer(asyncio.get_running_loop()), offers.put_nowait
    )
    source = AsteriskSource(
        Asterisk(url=f"http://127.0.0.1:{pbx.port}", password=SecretStr("s3cret")),
        AudioSocketPath(server),
        offers.put_nowait,
        stranded_seconds=0.05,
    )
    source._ari._request_seconds = 0.3
    await source.start()
    try:
        offer = await asyncio.wait_for(offers.get(), PATIENCE)
        await offer.control.hangup()
        await offer.control.release()
        await until(lambda: not source._stranded and not source._tasks)
        assert deletes >= 3, "on a busy machine an answer may come too late"
        assert source.ready
    finally:
        await source.stop()


@in_virtual_time
async def test_engines_and_rooms_that_could_not_be_written_are_written_later() -> None:
    written: dict[str, str] = {}
    answers = iter((False, True, False, False, True))

    class BusyAsterisk:
        """What `Placement` needs of an `AriClient`."""

        state = AriState(connected=True)

        async def request(self, method: str, path: str, *, variable: str, value: str) -> None:
            if not next(answers):
                raise AsteriskError("no answer")
            written[variable] = value

    async with asyncio.TaskGroup() as tasks:
        placement = Placement(BusyAsterisk(), "cordboard", tasks.create_task)  # type: ignore[arg-type]
        placement.engines(["cordboard-a-1", "cordboard-b-2"])
        placement.room("cordboard-a-1", 5)
    assert written == {
        "CORDBOARD_ENGINES_cordboard": "cordboard-a-1,cordboard-b-2",
        "CORDBOARD_ROOM_cordboard-a-1": "5|,,",
    }


async def test_a_bridge_whose_removal_was_not_answered_is_removed_later(pbx: Pbx) -> None:
    deletes: list[str] = []

    def delete(connection, request):
        deletes.append(request["uri"])
        # On a busy machine an answer may come too late: then it is asked once more.
        return status(204)(connection, request) if len(deletes) >= 3 else None

    pbx.answers |= {
        "applications/cordboard": application("1.0"),
        "channels": status(200, [{"id": "1.0", "state": "Up", "dialplan": STASIS}]),
        "bridges": status(200, []),
        "asterisk/info": status(200, {"status": {"startup_time": "now"}}),
        "channels/1.0/variable": status(404, {"message": "Provided variable was not found"}),
        "channels/externalMedia": status(500, {"error": "Allocation failed"}),
    }
    offers: asyncio.Queue[Offer] = asyncio.Queue()
    server = AudioSocketServer(
        AudioSocket(port=0), Pacer(asyncio.get_running_loop()), offers.put_nowait
    )
    source = AsteriskSource(
        Asterisk(url=f"http://127.0.0.1:{pbx.port}", password=SecretStr("s3cret")),
        AudioSocketPath(server),
        offers.put_nowait,
        stranded_seconds=0.05,
    )
    source._ari._request_seconds = 0.3
    await source.start()
    try:
        offer = await asyncio.wait_for(offers.get(), PATIENCE)
        (line,) = source.lines
        pbx.answers[f"channels/{line.media_id}"] = status(404)
        pbx.answers[f"bridges/{line.bridge_id}"] = lambda connection, request: (
            delete(connection, request)
            if request["method"] == "DELETE"
            else status(200, {})(connection, request)
        )
        with pytest.raises(MediaError):
            await offer.media()
        await offer.control.release()
        assert not source.lines, "the call is let go all the same"
        await until(lambda: not source._stranded and not source._tasks)
        assert len(deletes) >= 3
    finally:
        await source.stop()


async def test_a_caller_who_cannot_be_offered_is_not_left_waiting(pbx: Pbx) -> None:
    """A mistake of ours must not be silence on the line until the caller hangs up."""
    deleted, errors = asyncio.Event(), []

    def delete(connection, request):
        deleted.set()
        return status(204)(connection, request)

    pbx.answers |= {
        "applications/cordboard": application("1.0"),
        "channels": status(200, [{"id": "1.0", "state": "Up", "dialplan": STASIS}]),
        "bridges": status(200, []),
        "asterisk/info": status(200, {"status": {"startup_time": "now"}}),
        "channels/1.0/variable": status(404, {"message": "Provided variable was not found"}),
        "channels/1.0": delete,
    }

    def wrong(offer: Offer) -> None:
        raise ZeroDivisionError("a bug")

    server = AudioSocketServer(AudioSocket(port=0), Pacer(asyncio.get_running_loop()), wrong)
    source = AsteriskSource(
        Asterisk(url=f"http://127.0.0.1:{pbx.port}", password=SecretStr("s3cret")),
        AudioSocketPath(server),
        wrong,
        on_internal_error=errors.append,
    )
    await source.start()
    try:
        await asyncio.wait_for(deleted.wait(), PATIENCE)
        await until(lambda: not source.lines and not source._tasks)
        assert errors == ["offer"]
        assert source.ready
    finally:
        await source.stop()


async def test_a_caller_whose_hangup_is_told_after_the_refused_answer_has_hung_up(pbx: Pbx) -> None:
    gone = {"id": "1.0", "state": "Down", "cause": 127}

    async def refuse(connection, request):
        await status(500, {"message": "Failed to answer channel"})(connection, request)
        for _ in range(50):  # turns of the event loop: the refusal is known before the hang-up
            await asyncio.sleep(0)
        await connection.send(json.dumps({"type": "ChannelDestroyed", "channel": gone}))

    pbx.answers |= {
        "applications/cordboard": application("1.0"),
        "channels": status(200, [{"id": "1.0", "state": "Ring", "dialplan": STASIS}]),
        "bridges": status(200, []),
        "asterisk/info": status(200, {"status": {"startup_time": "now"}}),
        "channels/1.0/variable": status(404, {"message": "Provided variable was not found"}),
        "channels/1.0/answer": refuse,
    }
    offers: asyncio.Queue[Offer] = asyncio.Queue()
    server = AudioSocketServer(
        AudioSocket(port=0), Pacer(asyncio.get_running_loop()), offers.put_nowait
    )
    source = AsteriskSource(
        Asterisk(url=f"http://127.0.0.1:{pbx.port}", password=SecretStr("s3cret")),
        AudioSocketPath(server),
        offers.put_nowait,
    )
    await source.start()
    try:
        offer = await asyncio.wait_for(offers.get(), PATIENCE)
        with pytest.raises(LineGone, match="caller_hangup"):
            await offer.media()
        await offer.control.release()
    finally:
        await source.stop()


class Owner:
    def connected(self, media: AudioSocketMedia) -> None:
        """Not of interest."""

    def identified(self, media: AudioSocketMedia, uuid: UUID) -> None:
        """Not of interest."""

    def disconnected(self, media: AudioSocketMedia) -> None:
        """Not of interest."""


def seconds_of_sound(seconds: int) -> Iterator[bytes]:
    for _ in range(50 * seconds):
        yield audiosocket.encode_audio(bytes(320))


@pytest.mark.parametrize("hold", [0, 200])
def test_a_flood_of_sound_is_cut_also_after_a_long_hold(hold: int) -> None:
    async def scenario() -> None:
        media = AudioSocketMedia(Owner(), Pacer(asyncio.get_running_loop()))
        heard: list[bytes] = []
        media.on_audio(heard.append)
        media.data_received(audiosocket.encode_uuid(UUID(int=1)))
        for frame in seconds_of_sound(20):  # in real time
            media.data_received(frame)
            await asyncio.sleep(0.02)
        await asyncio.sleep(hold)
        assert not media.problem
        heard.clear()
        for frame in seconds_of_sound(30):  # at once
            media.data_received(frame)
        assert media.problem == "sound comes faster than real time"
        assert len(heard) <= 50 * FLOOD_SECONDS

    with virtual_time() as loop:
        loop.run_until_complete(scenario())
