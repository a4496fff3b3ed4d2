"""One caller's line in Asterisk: its media, and its control over ARI.

`AsteriskLine` implements `calls.offer.LineControl` and opens the call's media. Besides the caller's
channel it owns a bridge and an ExternalMedia channel. Both ids are made of the call's id, so that
`source` recognises the leftovers of a crash as ours. Every event about these channels comes to
`handle`.

The media tells the call why a line or its media ended (`telephony.line_media.Ending`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol
from urllib.parse import quote
from uuid import UUID

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.offer import RINGBACK, GuestEvent, Media, PartyEvent, TransferTarget
from cordboard.errors import (
    AsteriskError,
    LineError,
    LineGone,
    MediaError,
    TransferFailed,
)
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Channel, Event
from cordboard.telephony.asterisk.caller_side import CallerSide
from cordboard.telephony.asterisk.guest import AsteriskGuest
from cordboard.telephony.asterisk.media_channel import open_media_channel
from cordboard.telephony.asterisk.media_path import LineMedia, MediaArrival, MediaPath
from cordboard.telephony.asterisk.second_leg import AsteriskLeg
from cordboard.telephony.asterisk.way_back import WayBack
from cordboard.telephony.line_media import IDLE_SECONDS, Ending

log = structlog.get_logger()

TRANSFER_SECONDS = 5.0
"""Timeout from the dialplan's 204 until the channel has left us; measured: a few ms."""
SAME_BREAK_SECONDS = 1.0
"""Time in which related events arrive, in either order: media and websocket break when Asterisk
dies; a request fails, and the caller has hung up."""
UNREACHABLE_IDLE_SECONDS = 15.0
"""Idle time after which Asterisk counts as hung while ARI is unreachable (its kernel continues to
acknowledge our frames). A phone on hold can be silent as long, but not both by chance."""
IN_DOUBT_SECONDS = 10.0
"""Longest time for which a call outlives its media while it is unknown whether it is still ours."""
ELSEWHERE_IDLE_SECONDS = 4 * 3_600.0
"""Idle time while the caller is on hold, with another party, or in the dialplan: the media, alone
in its bridge, gets nothing then."""


ADOPTED = "adopted"
"""Argument of a channel that another engine has moved to its application."""


def ringback_id(app: str, call_id: str) -> str:
    """Return the id of the playback that is a call's ringing tone."""
    return f"cordboard-{app}-{call_id}-ringback"


class Fellows(Protocol):
    """The other engines at the same Asterisk."""

    def may_have_replaced_us(self) -> bool:
        """True while it is unknown whether others have taken our calls."""

    async def have(self, channel_id: str) -> bool:
        """Return True if a channel that has left us is with another engine. Raises
        `AsteriskError`."""

    async def took(self, channel_id: str) -> bool:
        """Return True if another engine has a channel that was ours, though we may not have heard
        of it yet. Raises `AsteriskError`."""


class _Away:
    """A caller in the dialplan who may come back."""

    def __init__(self, *, by_refer: bool) -> None:
        """`by_refer`: the dialplan asks the caller's own telephone system to connect them."""
        self.by_refer = by_refer
        loop = asyncio.get_running_loop()
        self.left: asyncio.Future[None] = loop.create_future()
        self.back: asyncio.Future[str] = loop.create_future()
        """The status that the dialplan gives."""


class AsteriskLine:
    """The channel of one caller in our Stasis application."""

    def __init__(
        self,
        ari: AriClient,
        path: MediaPath,
        app: str,
        channel: Channel,
        call_id: UUID,
        on_released: Callable[[AsteriskLine], None],
        on_stranded: Callable[[str], None],
        on_channels: Callable[[AsteriskLine, Iterable[str]], None] = lambda line, ids: None,
        unreachable_seconds: float = UNREACHABLE_IDLE_SECONDS,
        same_break_seconds: float = SAME_BREAK_SECONDS,
        fellows: Fellows | None = None,
    ) -> None:
        """`on_stranded(path)` is called for what must be removed once Asterisk is reachable,
        `on_channels` with the ids of further channels whose events must come to this line.
        `fellows`: None if no other engine can take the caller."""
        self.call_id = call_id
        self.channel_id = channel.id
        self.media_id = f"cordboard-{app}-{call_id}-media"
        self.bridge_id = f"cordboard-{app}-{call_id}-bridge"
        self._ari = ari
        self._path = path
        self._app = app
        self._on_released = on_released
        self._on_stranded = on_stranded
        self._unreachable_seconds = unreachable_seconds
        self._same_break_seconds = same_break_seconds
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ending] = loop.create_future()
        self._media_joined = asyncio.Event()
        self._joined = asyncio.Event()
        self._media: LineMedia | None = None
        self._answered = channel.state == "Up"
        self._hanging_up = False
        self._is_elsewhere = False
        """The caller's own telephone system has connected them; the channel is a remnant."""
        self._sent_on = False
        """True once the caller is sent on for good: whichever engine has them then, this one too,
        has a new call."""
        self._opened = False
        self._releasing: asyncio.Task[None] | None = None
        self._on_channels = on_channels
        self._caller = (channel.caller_name, channel.caller_number)
        self._leg: AsteriskLeg | None = None
        self._guest: AsteriskGuest | None = None
        self._way_back = WayBack(ari, self.bridge_id, channel.id, self._belongs_here)
        self._parties = 0
        """Number of the phones that were called besides the caller's."""
        self._gone: Ending | None = None
        """The caller's end, while a consultation has yet to take it."""
        self._away: _Away | None = None
        self._music = ""
        """The music, or tone, that the caller hears in place of us."""
        self._ringback_id = ringback_id(app, str(call_id))
        self._holds = False
        """True while the caller's phone has us on hold."""
        self._verdict: asyncio.TimerHandle | None = None
        self._doubt_ends = math.inf
        """Loop time until which a loss of the media is not judged."""
        self.is_expected = False
        """True while the caller is still with the engine from which we take them over."""
        self._fellows = fellows
        self._asking: asyncio.Task[None] | None = None
        """Asks who has the caller that has left us."""
        self._judging: asyncio.Task[None] | None = None
        """Asks whether the caller is still here whose media were lost."""

    @property
    def ended(self) -> bool:
        """True once the caller's channel is no longer ours."""
        return self._ended.done()

    # Events

    def awaits_other(self, event: Event) -> bool:
        """True if a caller enters our application whom the dialplan has sent there, while they are
        expected from another engine: it has them no longer, and this is a call of its own."""
        channel = event.channel
        is_caller = channel is not None and channel.id == self.channel_id
        return self.is_expected and is_caller and event.body.get("args") != [ADOPTED]

    def handle(self, event: Event, channel_id: str) -> None:
        """Take an event about the caller's channel, the media channel, or a consultation's."""
        if channel_id == self.media_id:
            if event.type == "StasisStart":
                self._media_joined.set()
        elif channel_id != self.channel_id:
            party = next((each for each in self._others if channel_id in each.ids), None)
            if party is not None:
                party.handle(event)
            elif event.type == "StasisStart":  # of a party that has left the call
                self._on_stranded(f"channels/{channel_id}")
        elif event.type == "StasisStart":
            self.is_expected = False
            self._joined.set()
            self._come_back(event)
        elif event.type in ("ChannelHangupRequest", "ChannelDestroyed"):
            self.left("hangup" if self._hanging_up else "caller_hangup")
        elif event.type in ("ChannelHold", "ChannelUnhold"):
            self._holds = event.type == "ChannelHold"
            self._place_changed()
        elif event.type in ("ChannelLeftBridge", "ChannelEnteredBridge"):
            self._way_back.handle(event)
        elif event.type == "StasisEnd":
            self._leave_application()

    def _leave_application(self) -> None:
        """Note StasisEnd. A hang-up sends ChannelHangupRequest first; without it, the channel went
        elsewhere in the dialplan, by our own transfer, by an operator or another program; or
        another engine took it."""
        if self._away is not None and not self._away.left.done():
            self._away.left.set_result(None)
        elif self._hanging_up or self._sent_on or self._fellows is None:
            self.left("hangup" if self._hanging_up else "transferred")
        elif self._asking is None:
            asking = self._ask_who_has_them(self._fellows)
            self._asking = asyncio.create_task(asking, name=f"who-has-{self.call_id}")

    async def _ask_who_has_them(self, fellows: Fellows) -> None:
        """End the line of a caller who was moved: to another engine, or elsewhere."""
        try:
            self.left("handed_over" if await fellows.have(self.channel_id) else "transferred")
        except AsteriskError as error:
            if error.status:
                self.left("transferred")  # no effect if we were refused: the line has ended then

    def _come_back(self, event: Event) -> None:
        """Take a caller whom the dialplan hands back: `Stasis(app,return,KIND,STATUS)`."""
        arguments = event.body.get("args")
        words = [str(each) for each in arguments] if isinstance(arguments, list) else []
        away = self._away
        if away is None or not away.left.done() or away.back.done():
            return
        status = words[2] if len(words) > 2 and words[0] == "return" else ""
        if away.by_refer and status == "SUCCESS":
            # Connected elsewhere: over here, before the caller's telephone hangs this line up.
            self._is_elsewhere = True
            self.left("transferred")
        else:
            away.back.set_result(status)

    async def entered(self, timeout: float, ended: str, late: str) -> None:
        """Wait until the channel is in our application. Raises `LineGone(ended)` and
        `LineError(late)`."""
        joined = asyncio.ensure_future(self._joined.wait())
        try:
            await asyncio.wait(
                (joined, self._ended), timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            joined.cancel()
        if self._ended.done():
            raise LineGone(ended)
        if not self._joined.is_set():
            raise LineError(late)

    def key(self, channel_id: str, key: str) -> None:
        """Take a key (ChannelDtmfReceived). Asterisk also reports keys of the media channel, when
        its transport carries them: only those of the person who is with the agent count."""
        leg, guest = self._leg, self._guest
        if not key or self._media is None:
            return
        if guest is not None and channel_id == guest.channel_id:
            guest.key(key)
        elif leg is not None and channel_id == self.channel_id:
            leg.caller_key(key)
        elif channel_id == self.channel_id or (
            leg is not None and leg.with_agent and channel_id == leg.channel_id
        ):
            self._media.take_key(key)

    def left(self, reason: Ending) -> None:
        """Note that the caller's channel is no longer ours. A consultation ends first: the other
        party is still there."""
        if self._ended.done():
            return
        if self._leg is not None and reason != "fenced":
            if self._gone is None:
                self._gone = reason
                self._leg.caller_gone()
            return
        if self._is_away and reason != "fenced":
            reason = "transferred"  # it ended where we had sent it
        self._ended.set_result(reason)
        if self._media is not None:
            self._media.end(reason)

    def reachable(self, yes: bool) -> None:
        """Note that the ARI connection came or went."""
        if self._media is not None:
            with_us = self._is_with_agent and not self._holds
            seconds = IDLE_SECONDS if with_us else ELSEWHERE_IDLE_SECONDS
            self._media.idle_seconds = seconds if yes else self._unreachable_seconds
        if not yes and self._verdict is not None:
            self._judge_loss()

    def _place_changed(self) -> None:
        """Note that the caller goes to, or comes from, a hold or another party. Only an agent who
        has the caller can be put on hold."""
        self.reachable(self._ari.state.connected)
        if self._media is not None:
            self._media.caller_holds(self._holds and self._is_with_agent)

    @property
    def _is_with_agent(self) -> bool:
        return self._leg is None and self._away is None

    def _belongs_here(self) -> bool:
        """True while the caller is to be in the agent's bridge."""
        goes = self._hanging_up or self._sent_on or self._ended.done() or self._asking is not None
        return self._is_with_agent and not goes

    @property
    def _is_away(self) -> bool:
        """True while the caller is in the dialplan and may come back."""
        away = self._away
        return away is not None and away.left.done() and not away.back.done()

    def reconcile(
        self,
        present: Mapping[str, Channel],
        ours: frozenset[str],
        end: Ending,
        theirs: frozenset[str] = frozenset(),
    ) -> None:
        """Catch up after a break of the connection. `present`: the channels that exist; `ours`:
        those in our application; `theirs`: those with other engines; `end`: the reason if the
        caller's is gone."""
        # A return from hold may have been missed, and Asterisk does not show it afterwards.
        self._holds = False
        self._place_changed()
        away = self._away
        if self.channel_id in ours:
            self.is_expected = False
            self._joined.set()  # the event may have been missed
        if self.is_expected:
            return
        if self.channel_id not in present:
            self.left(end)
        elif self.channel_id in theirs:
            self.left("transferred" if self._sent_on else "handed_over")
        elif self.channel_id not in ours:
            if away is None:
                self.left("transferred")
            elif not away.left.done():
                away.left.set_result(None)
        elif away is not None and away.left.done() and not away.back.done():
            away.back.set_result("")
        for party in self._others:
            party.reconcile(present)

    def owns(self, key: str) -> bool:
        """True if this channel or bridge belongs to the call."""
        others = [each for party in self._others for each in party.ids]
        return key in (self.channel_id, self.media_id, self.bridge_id, *others)

    @property
    def _others(self) -> tuple[AsteriskLeg | AsteriskGuest, ...]:
        """The other parties of the call."""
        return tuple(each for each in (self._leg, self._guest) if each is not None)

    def _media_lost(self, problem: str) -> None:
        if not self._ari.state.connected:
            self._judge_loss()
        elif not self._ended.done():
            self._judge_loss_later()
        if problem:
            log.warning("media_lost", call_id=str(self.call_id), problem=problem)

    def _judge_loss_later(self) -> None:
        if self._verdict is not None:
            self._verdict.cancel()
        loop = asyncio.get_running_loop()
        self._verdict = loop.call_later(self._same_break_seconds, self._judge_loss)

    def _judge_loss(self) -> None:
        if self._ended.done():
            return  # the end of the line was reported
        if self._fellows is not None and self._fellows.may_have_replaced_us():
            now = asyncio.get_running_loop().time()
            self._doubt_ends = min(self._doubt_ends, now + IN_DOUBT_SECONDS)
            if now < self._doubt_ends:
                # Not a failure of the call, perhaps: who adopts it removes our media.
                self._judge_loss_later()
                return
        if self._fellows is not None and self._ari.state.connected:
            if self._judging is None:
                judging = self._judge_with(self._fellows)
                self._judging = asyncio.create_task(judging, name=f"judge-{self.call_id}")
        elif self._media is not None:
            self._media.end("media_lost" if self._ari.state.connected else "asterisk_lost")

    async def _judge_with(self, fellows: Fellows) -> None:
        """End the media that were lost, unless another engine has the caller: who takes them over
        removes our media, and the event may be late. Then their hang-up is not ours to send."""
        try:
            taken = await fellows.took(self.channel_id)
        except AsteriskError:
            self._judging = None
            self._judge_loss_later()  # once Asterisk answers, or the connection has broken
            return
        if taken:
            self.left("handed_over")
        elif self._media is not None:
            self._media.end("media_lost")

    # calls.offer.MediaOpener

    async def open_media(
        self,
        formats: Sequence[AudioFormat] = (SLIN_8K,),
        come: Callable[[], Awaitable[None]] | None = None,
    ) -> Media:
        """Answer, and connect the caller's audio with us. `come`, for a caller who is expected:
        returns once they are in our application and in the bridge. It is awaited when everything
        else is ready, so that they miss as little sound as possible.

        Raises LineGone when the caller has hung up; MediaError when Asterisk refuses or the media
        does not come within the path's time; what `come` raises. `release` clears up in every case.
        """
        media = await self._open_media(formats, with_caller=come is None)
        if come is not None:
            await come()
            try:
                await self.answer()
            except LineError as error:
                await self._end_is_told()
                if self._ended.done() and self._ended.result() == "caller_hangup":
                    raise LineGone("the caller has hung up") from error
                raise MediaError(f"no media: {error}") from error
        return media

    async def _open_media(self, formats: Sequence[AudioFormat], *, with_caller: bool) -> Media:
        if self._opened:
            raise MediaError("the media of this call has been opened before")
        self._opened = True
        arrival = await self._path.prepare(formats)
        seconds = self._path.connect_seconds
        connecting = asyncio.create_task(
            self._connect(arrival, with_caller=with_caller), name=f"media-{self.call_id}"
        )
        try:
            await asyncio.wait(
                (connecting, self._ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if connecting.done() and connecting.exception() is not None:
                await self._end_is_told()
            if connecting.done() and not (self._ended.done() and connecting.exception()):
                return connecting.result()
            if self._ended.done():
                why = self._ended.result()
                error = LineGone if why == "caller_hangup" else MediaError
                raise error(f"the caller's line ended: {why}")
            raise MediaError(f"the sound has not come within {seconds:g} s; {arrival.advice}")
        finally:
            if not connecting.done():
                connecting.cancel()
                await asyncio.wait((connecting,))
            if not connecting.cancelled():
                connecting.exception()  # retrieved: the caller's end, or the timeout, says more

    async def _end_is_told(self) -> None:
        """Wait for the end of the caller's channel, for a limited time: Asterisk may refuse to
        answer a caller who hung up before it reports the hang-up."""
        await asyncio.wait((self._ended,), timeout=self._same_break_seconds)

    async def _connect(self, arrival: MediaArrival, *, with_caller: bool) -> Media:
        """Send all requests at once: ARI handles those of one websocket in order."""
        try:
            async with asyncio.TaskGroup() as group:
                if with_caller:
                    group.create_task(self.answer())
                group.create_task(
                    self._ari.request(
                        "POST", f"bridges/{self.bridge_id}", type="mixing", name=self.bridge_id
                    )
                )
                group.create_task(self._create_media_channel(arrival))
                if with_caller:
                    group.create_task(self._enter(self.channel_id))
                self._media = await arrival.media()
        except ExceptionGroup as failures:
            raise MediaError(f"no media: {failures.exceptions[0]}") from failures
        finally:
            if self._media is None:
                arrival.give_up()
        self._media.claim(self._media_lost)
        self.reachable(self._ari.state.connected)
        if self._ended.done():
            self._media.end(self._ended.result())
        return self._media

    async def _enter(self, channel_id: str, **query: str) -> None:
        """Put the caller's channel or the media channel into the bridge."""
        path = f"bridges/{self.bridge_id}/addChannel"
        await self._ari.request("POST", path, channel=channel_id, **query)

    async def _create_media_channel(self, arrival: MediaArrival) -> None:
        joined = self._media_joined
        await open_media_channel(self._ari, self._app, self.media_id, arrival, joined)
        await self._enter(self.media_id)

    # calls.offer.LineControl

    async def answer(self) -> None:
        """Answer the caller, unless that has happened already."""
        if not self._answered:
            await self._command("answer")
            self._answered = True

    async def hangup(self, cause: str = "normal") -> None:
        """End the line; later, if Asterisk cannot be reached now. A caller who is away in the
        dialplan, or with another engine, stays there."""
        if self.is_expected:
            self.left("handed_over")
        if self._ended.done() or self._is_away:
            return
        self._hanging_up = True
        try:
            await self._ari.request("DELETE", f"channels/{self.channel_id}", reason=cause)
        except AsteriskError as error:
            if error.status == 0:
                self._on_stranded(f"channels/{self.channel_id}")
            elif error.status != 404:
                raise _line_error(error) from error

    async def decline(self, status: str) -> None:
        """Let the dialplan continue after `Stasis(...)`, with `CORDBOARD_STATUS` set."""
        if self.is_expected:
            self.left("handed_over")
            return
        try:
            await self._ari.request(
                "POST",
                f"channels/{self.channel_id}/variable",
                variable="CORDBOARD_STATUS",
                value=status,
            )
        except AsteriskError as error:
            raise _line_error(error) from error
        self._sent_on = True
        await self._command("continue")

    async def dtmf(self, keys: str) -> None:
        """Send keys; `w` pauses for half a second. Returns once Asterisk has begun."""
        await self._command("dtmf", dtmf=keys)

    async def music(self, music: str) -> None:
        """Music of the channel, not of the bridge: it replaces our sound for the caller, and we
        hear them without it. The tone is a playback, as `ring` has no effect in a bridge; no frame
        of the caller arrives meanwhile. (Measured on 22.10.1.)"""
        playing, self._music = self._music, music
        if playing == RINGBACK:
            await self._send("DELETE", f"playbacks/{self._ringback_id}")
        elif playing:
            await self._send("DELETE", f"channels/{self.channel_id}/moh")
        if music == RINGBACK:
            await self._command("play", media="tone:ring", playbackId=self._ringback_id)
        elif music:
            await self._command("moh", mohClass=music)

    async def transfer(self, target: TransferTarget, left: Callable[[], None]) -> str | None:
        """Send the caller on in the dialplan.

        A queue is an extension of its dialplan context with the queue's name (that runs `Queue()`).
        The target is looked up first, because Asterisk hangs up a channel sent to a place that does
        not exist. Returns when the channel has left, without the result in the dialplan; with
        `away_seconds` when the dialplan has handed it back.
        """
        exten, context, priority = target.target, target.context, target.priority
        if self._leg is not None:
            raise TransferFailed("a consultation is under way")
        try:
            exists = await self.variable(f"DIALPLAN_EXISTS({context},{exten},{priority})")
            if exists != "1":
                raise LineError(f"the dialplan has no {exten}@{context}:{priority}")
            if target.away_seconds:
                await self._expect_back(by_refer=target.type == "refer")
            self._sent_on = self._away is None
            await self._command(
                "continue", context=context, extension=exten, priority=str(priority)
            )
        except LineGone:
            raise
        except LineError as error:
            self._away, self._sent_on = None, False
            raise TransferFailed(f"transfer to {target.name!r}: {error}") from error
        if self._away is not None:
            return await self._wait_for_return(self._away, target, left)
        await asyncio.wait((self._ended,), timeout=TRANSFER_SECONDS)
        if not self._ended.done():
            self._sent_on = False
            raise TransferFailed(f"transfer to {target.name!r}: the caller is still here")
        if self._ended.result() != "transferred":
            raise LineGone(f"the line ended during the transfer: {self._ended.result()}")
        return None

    async def _expect_back(self, *, by_refer: bool) -> None:
        """Keep the call while the caller is in the dialplan, and learn of its end there."""
        self._away = _Away(by_refer=by_refer)
        self._place_changed()
        try:
            # The application changes when another engine takes over a call.
            for name, value in (("CALL", str(self.call_id)), ("APP", self._app)):
                await self._ari.request(
                    "POST",
                    f"channels/{self.channel_id}/variable",
                    variable=f"CORDBOARD_{name}",
                    value=value,
                )
            await self._ari.request(
                "POST",
                f"applications/{quote(self._app)}/subscription",
                eventSource=f"channel:{self.channel_id}",
            )
        except AsteriskError as error:
            raise _line_error(error) from error

    async def _wait_for_return(
        self, away: _Away, target: TransferTarget, left: Callable[[], None]
    ) -> str | None:
        first = asyncio.FIRST_COMPLETED
        try:
            await asyncio.wait(
                (away.left, self._ended), timeout=TRANSFER_SECONDS, return_when=first
            )
            if not away.left.done():
                if self._ended.done():
                    raise LineGone(f"the line ended during the transfer: {self._ended.result()}")
                raise TransferFailed(f"transfer to {target.name!r}: the caller is still here")
            left()
            await asyncio.wait(
                (away.back, self._ended), timeout=target.away_seconds, return_when=first
            )
            if not away.back.done():
                self.left("transferred")
                return None
            await self._enter(self.channel_id)
            return away.back.result()
        except AsteriskError as error:
            raise _line_error(error) from error
        finally:
            if not self._ended.done() and not self._is_away:
                self._away = None
                self._place_changed()

    def consult(self, target: TransferTarget, watch: Callable[[PartyEvent], None]) -> AsteriskLeg:
        """Prepare a consultation."""
        if self._ended.done():
            raise LineGone(f"the line has ended: {self._ended.result()}")
        if self._leg is not None or self._away is not None or self._media is None:
            raise LineError("the caller is not with the agent")
        self._parties += 1
        leg = self._leg = AsteriskLeg(self._side(), target, self._parties, watch)
        self._on_channels(self, (leg.channel_id, leg.snoop_id))
        self._place_changed()
        return leg

    def invite(self, target: TransferTarget, watch: Callable[[GuestEvent], None]) -> AsteriskGuest:
        """Prepare a third party."""
        if self._guest is not None:
            raise LineError("somebody else is joining the call, or has joined it")
        self._talks_in()
        self._parties += 1
        guest = AsteriskGuest(self._side(), target, self._parties, self._talks_in, watch)
        self._guest = guest
        self._on_channels(self, (guest.channel_id,))
        return guest

    def _talks_in(self) -> str:
        """Return the bridge in which the caller talks. Raises `LineError` if they do not."""
        if self._ended.done():
            raise LineGone(f"the line has ended: {self._ended.result()}")
        if self._leg is not None and self._leg.joined:
            return self._leg.hold_id
        if not self._is_with_agent or self._media is None:
            raise LineError("the caller talks with nobody at this moment")
        return self.bridge_id

    def _side(self) -> CallerSide:
        name, number = self._caller
        return CallerSide(
            self._ari,
            self._path,
            self._app,
            self.channel_id,
            self.bridge_id,
            f"cordboard-{self._app}-{self.call_id}",
            name,
            number,
            self._on_stranded,
            partial(self._on_channels, self),
            self._closed,
        )

    def _closed(self, party: object) -> None:
        """Note that a party is closed; the call learns of a caller who left in a consultation."""
        if self._guest is party:
            self._guest = None
        elif self._leg is party:
            self._leg = None
            self._place_changed()
            if self._gone is not None:
                self.left(self._gone)

    async def device_state(self, device: str) -> str:
        """Return the state of a device, e.g. `NOT_INUSE`. Raises `LineError` if it is unseen."""
        try:
            body = await self._ari.request("GET", f"deviceStates/{quote(device, safe='')}")
        except AsteriskError as error:
            raise LineError(str(error)) from error
        state = body.get("state") if isinstance(body, dict) else None
        if not isinstance(state, str):
            raise LineError(f"Asterisk gives no state of {device}")
        return state

    async def variable(self, name: str) -> str | None:
        """Return a channel variable or dialplan function, e.g. `CALLERID(dnid)`."""
        path = f"channels/{self.channel_id}/variable"
        try:
            body = await self._ari.request("GET", path, variable=name)
        except AsteriskError as error:
            # asterisk 22: "Provided variable was not found" or "Provided channel was not found".
            if error.status == 404 and "channel was not found" not in str(error).lower():
                return None
            raise _line_error(error) from error
        value = body.get("value") if isinstance(body, dict) else None
        return value if isinstance(value, str) else None

    async def release(self) -> None:
        """Remove bridge and media channel; a removal that fails is tried again later."""
        if self._releasing is None:
            # In a task of its own, so that a cancelled call leaves nothing half removed.
            self._releasing = asyncio.create_task(self._release(), name=f"release-{self.call_id}")
        await asyncio.shield(self._releasing)

    async def _release(self) -> None:
        self._way_back.close()
        if self._verdict is not None:
            self._verdict.cancel()
        for asking in (self._asking, self._judging):
            if asking is not None:
                asking.cancel()
        await asyncio.gather(*(party.close() for party in self._others))
        removals = []
        if self._opened:
            removals = [
                self._remove(f"channels/{self.media_id}"),
                self._remove(f"bridges/{self.bridge_id}"),
            ]
        if self._is_elsewhere:
            removals.append(self._remove(f"channels/{self.channel_id}"))
        if self._media is not None:
            removals.append(self._media.close())
        try:
            await asyncio.gather(*removals)
        finally:
            self._on_released(self)

    async def _remove(self, path: str) -> None:
        try:
            await self._ari.request("DELETE", path)
        except AsteriskError as error:
            if error.status == 0:
                self._on_stranded(path)  # perhaps it was done: the next try will show
            elif error.status != 404:
                log.warning("not_removed", call_id=str(self.call_id), error=str(error))

    async def _command(self, command: str, **query: str) -> None:
        await self._send("POST", f"channels/{self.channel_id}/{command}", **query)

    async def _send(self, method: str, path: str, **query: str) -> None:
        if self._ended.done():
            raise LineGone(f"the line has ended: {self._ended.result()}")
        try:
            await self._ari.request(method, path, **query)
        except AsteriskError as error:
            raise _line_error(error) from error


def _line_error(error: AsteriskError) -> LineError:
    """Return the error of the caller's line that Asterisk's refusal means."""
    return LineGone(str(error)) if error.status == 404 else LineError(str(error))
