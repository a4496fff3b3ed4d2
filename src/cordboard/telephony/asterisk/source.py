"""The calls of one Asterisk, as offers.

A caller who reaches `Stasis(cordboard)` in the dialplan becomes an `Offer`: caller, number, the
channel variables that choose the context, and a line (`control`) that opens media and hangs up or
transfers. The source keeps the ARI connection up for the life of the engine and leaves nothing
behind in Asterisk: after each (re)connect it compares Asterisk's channels and bridges with the
live calls (`_reconcile`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.offer import CallTest, Media, Offer
from cordboard.calls.outbound_order import OutboundCall, OutboundOrder, OutboundResult
from cordboard.config.schema import Asterisk
from cordboard.config.trunks import trunk_of_channel
from cordboard.errors import AsteriskError, LineError, LineGone, LineUnsupported, MediaError
from cordboard.telephony.asterisk.ari import AriClient, AriState
from cordboard.telephony.asterisk.ari_messages import Channel, Event, one_line
from cordboard.telephony.asterisk.control import (
    SAME_BREAK_SECONDS,
    UNREACHABLE_IDLE_SECONDS,
    AsteriskLine,
)
from cordboard.telephony.asterisk.instance import Instance
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.outbound_line import OutboundLine
from cordboard.telephony.asterisk.shared import KeptCall, SharedAsterisk
from cordboard.telephony.dialled import Dialled
from cordboard.telephony.line_media import Ending

log = structlog.get_logger()

CHOOSING_VARIABLES = ("AI_CONTEXT", "AI_AGENT", "AI_PROVIDER")
_DIALLED = "CALLERID(dnid)"
_STOP_SECONDS = 2.0
ANSWER_SECONDS = 30
"""Time for which an extension that `dial` calls may ring."""
REPLACED = "other engines have replaced this one"
MOVE_SECONDS = 5.0
"""Longest time until a channel that is moved here enters our application; measured: 1.5 ms."""
STRANDED_SECONDS = 2.0
"""Pause before an unconfirmed hang-up is tried again."""


class AsteriskSource:
    """Source of the calls of one Asterisk."""

    def __init__(
        self,
        config: Asterisk,
        path: MediaPath,
        on_offer: Callable[[Offer], None],
        *,
        variables: Collection[str] = (),
        stranded_seconds: float = STRANDED_SECONDS,
        unreachable_seconds: float = UNREACHABLE_IDLE_SECONDS,
        same_break_seconds: float = SAME_BREAK_SECONDS,
        on_reached: Callable[[], None] = lambda: None,
        on_internal_error: Callable[[str], None] = lambda _: None,
        instance: Instance | None = None,
        in_doubt: Callable[[], bool] = lambda: False,
        on_fenced: Callable[[], None] = lambda: None,
    ) -> None:
        """`variables`: channel variables that contexts declare, read for every call.

        `on_offer` must return at once; the call lives elsewhere. `on_reached` is called after each
        connect.

        With `instance`, other engines may share the Asterisk and take over calls; `config` is the
        instance's. `in_doubt` says whether they may have done so already. `on_fenced` is called
        once, when they have removed this instance's user: all calls have ended here then, without
        a request, and nothing is sent any more.
        """
        self._app = config.app
        self._transport = config.media
        self._path = path
        self._on_offer = on_offer
        self._on_reached = on_reached
        self._on_internal_error = on_internal_error
        self.read_variables(variables)
        self._ari = AriClient(
            config,
            self._handle,
            self._reconcile,
            self._disconnected,
            before_connect=None if instance is None else self._make_user,
            on_refused=self._refused,
            on_internal_error=on_internal_error,
        )
        self._shared: SharedAsterisk | None = None
        if instance is not None:
            self._shared = SharedAsterisk(self._ari, instance, in_doubt, self._remove, self._spawn)
        self._on_fenced = on_fenced
        self._fenced = False
        self._lines: dict[str, AsteriskLine] = {}
        """Lines by the caller's channel id and by the media channel's."""
        self._stranded: set[str] = set()
        """Paths of channels and bridges whose removal failed: Asterisk was away, or gave no
        answer."""
        self._stranded_seconds = stranded_seconds
        self._unreachable_seconds = unreachable_seconds
        self._same_break_seconds = same_break_seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        """Set while connected and caught up."""
        self._asterisk_started = ""
        prefix = rf"cordboard-{re.escape(config.app)}-[0-9a-f-]{{36}}"
        self._made_here = re.compile(
            rf"{prefix}-(media|bridge|dialled|outbound|(hold|snoop)[0-9]+"
            r"|(leg|guest)[0-9]+(-(aside|whisper|room)[0-9]+)?)"
        )
        """Ids of the channels and bridges that lines make. Neither a caller nor a dialplan can
        choose a channel's id: only ARI users with write access and AMI's Originate can."""
        self._of_a_test = re.compile(rf"{prefix}-caller")
        """Ids of the channels that `dial` sends into the dialplan."""
        self._dialled: dict[str, str] = {}
        """Ids of the calls that `dial` expects here, by the channel that was dialled."""

    async def start(self) -> None:
        """Begin connecting. Returns at once; `state` shows when the connection is up."""
        self._running = asyncio.create_task(self._ari.run(), name="ari")

    async def stop(self) -> None:
        """End the remaining calls, and disconnect."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                if self._shared is not None and not self._fenced:
                    self._shared.publish_room(0)
                    await self._shared.placement.settle()
                await asyncio.gather(*(self._dismiss(line) for line in self.lines))
        tasks = {*self._tasks, self._running} - {None}
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)
        self._running = None
        if self._shared is not None and not self._fenced:
            with contextlib.suppress(TimeoutError, AsteriskError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._shared.instance.remove()

    @property
    def leaves_something(self) -> bool:
        """True if Asterisk may still have callers, channels or the user of this engine, one of
        several. After `stop`: Asterisk was not reached."""
        return self._shared is not None and (self._shared.instance.made or bool(self._stranded))

    def read_variables(self, names: Collection[str]) -> None:
        """Replace the channel variables that are read for every call."""
        self._names = tuple(dict.fromkeys((*CHOOSING_VARIABLES, *names)))

    @property
    def state(self) -> AriState:
        """State of the connection, for `/ready` and `/health`."""
        return self._ari.state

    @property
    def ready(self) -> bool:
        """True if calls can come in."""
        return self._ari.state.ready

    async def wait_ready(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True if calls can come in."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._connected.wait()
        return self._connected.is_set()

    @property
    def lines(self) -> tuple[AsteriskLine, ...]:
        """Lines that are not released yet."""
        return tuple(dict.fromkeys(self._lines.values()))

    # Calls from here

    async def dial(self, dialled: Dialled) -> AsteriskLine:
        """Call an extension of the dialplan, and return the line once it has answered.

        A Local channel has two ends: the one that enters the dialplan is a caller like any other,
        marked as a test if the engine answers it; the other one is the returned line. Raises
        `LineError`; then, and when this is cancelled, nothing of the call is left.
        """
        call_id = uuid4()
        prefix = f"cordboard-{self._app}-{call_id}"
        line = self._line(Channel(f"{prefix}-dialled", state="Up"), call_id)
        self._dialled[line.channel_id] = dialled.call_id
        try:
            try:
                await self._ari.request(
                    "POST",
                    "channels",
                    {"variables": dict(dialled.variables)},
                    endpoint=f"Local/{dialled.extension}/n",
                    app=self._app,
                    channelId=line.channel_id,
                    otherChannelId=f"{prefix}-caller",
                    callerId=f'"{dialled.name}" <{dialled.number}>',
                    timeout=str(ANSWER_SECONDS),
                )
            except AsteriskError as error:
                raise LineError(f"Asterisk cannot call {dialled.extension}: {error}") from error
            await line.entered(
                ANSWER_SECONDS + 5,
                "the extension has not answered, or does not exist",
                f"the extension has not answered within {ANSWER_SECONDS + 5} s",
            )
        except BaseException:
            self._spawn(self._dismiss(line))
            raise
        return line

    def place(self, order: OutboundOrder, finished: Callable[[OutboundResult], None]) -> None:
        """Offer a call that is to be placed. Returns at once; the call creates and dials it."""
        line = OutboundLine(
            self._ari,
            self._path,
            self._app,
            order,
            self._released,
            self._strand,
            self._watch,
            self._unreachable_seconds,
            self._same_break_seconds,
            self._shared,
        )
        self._lines[line.channel_id] = self._lines[line.media_id] = line
        self._on_offer(
            Offer(
                call_id=order.call_id,
                source="asterisk",
                media=line.open_media,
                control=line,
                caller_number=order.number,
                called_number=order.caller_id,
                variables={**order.variables, "AI_CONTEXT": order.context},
                transport=self._transport,
                outbound=OutboundCall(order, line.dial, finished),
                trunk=order.trunk,
            )
        )

    # Other engines at the same Asterisk

    @property
    def shared(self) -> SharedAsterisk:
        """The other engines. Raises `LineUnsupported` if the source was made without them."""
        if self._shared is None:
            raise LineUnsupported("this engine shares its Asterisk with no other")
        return self._shared

    async def adopt(
        self,
        kept: KeptCall,
        *,
        at_once: bool = True,
        complete: Callable[[Offer], Offer] = lambda offer: offer,
        agree: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take the caller of another instance, and offer the call again, under its id.

        Only one engine may do so; and if the instance is gone, only after `shared.fence`: Asterisk
        lets everybody move everything. `at_once=False`, for an instance that hands the call over:
        the caller comes when the offer's media are open and `agree` has returned, and stays there
        if it raises, or if the media are never opened. `complete` adds to the offer what
        else is known of the call.

        Raises `LineGone` if the caller has hung up or is elsewhere, so that there is nothing to
        adopt; `CallerEngaged` while they talk with a person whom the engine had called: try again
        when they may have parted; `LineError` if Asterisk has not moved them. They are unharmed.
        """
        try:
            if (former := self._lines.get(kept.channel_id)) is not None:
                if former.ended or str(former.call_id) == kept.call_id:
                    raise LineError("not adopted: the caller is in a call here")
                raise LineGone("the caller is in another call here")
            channel = await self.shared.find(kept)
        except LineGone:
            self.shared.clear(kept.instance, kept.call_id)
            raise
        except AsteriskError as error:
            raise LineError(f"not adopted: {error}") from error
        line = self._line(channel, UUID(kept.call_id))
        line.is_expected = True
        if at_once:
            await self._take(line, kept)

        async def come() -> None:
            if agree is not None:
                await agree()
            try:
                await self._take(line, kept, line.bridge_id)
            except LineGone:
                raise
            except LineError as error:
                raise MediaError(str(error)) from error

        async def open_media(formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
            return await line.open_media(formats, come if line.is_expected else None)

        self._on_offer(complete(kept.offer(line, open_media, self._transport)))

    async def _take(self, line: AsteriskLine, kept: KeptCall, bridge: str = "") -> None:
        """Move a caller to our application, and into this bridge. Raises `LineError`."""
        try:
            await self.shared.move_here(kept, bridge)
            await line.entered(
                MOVE_SECONDS,
                "the caller has left",
                "not adopted: Asterisk has not moved the caller",
            )
        except LineGone:
            self.shared.clear(kept.instance, kept.call_id)
            raise
        except AsteriskError as error:
            if line.is_expected:  # else they have come: only the answer is missing
                raise LineError(f"not adopted: {error}") from error
        finally:
            if line.is_expected:
                self._released(line)
        log.warning("call_adopted", call_id=kept.call_id, instance=kept.instance)
        self.shared.clear(kept.instance, kept.call_id)

    async def _make_user(self) -> None:
        """Make our user before a connect, if need be."""
        if not await self.shared.make_user():
            self.fence()
            raise AsteriskError(REPLACED)

    def _refused(self) -> None:
        """Note that Asterisk refuses our user on an open connection: it is gone since."""
        if self._shared is not None:
            self.fence()

    def drop(self, call_id: str) -> None:
        """End a call here that another engine has, without touching its caller."""
        for line in self.lines:
            if str(line.call_id) == call_id:
                line.left("handed_over")

    def fence(self) -> None:
        """End everything here without a request: others have our calls. Idempotent."""
        if self._fenced:
            return
        self._fenced = True
        log.error("fenced", app=self._app)
        self._ari.silence(REPLACED)
        for line in self.lines:
            line.left("fenced")
        self._on_fenced()

    # Events

    def _handle(self, event: Event) -> None:
        channel = event.channel
        if channel is None:
            if event.type == "Dial":
                self._dial_progress(event)
            return
        line = self._lines.get(channel.id)
        if event.type == "StasisStart" and (line is None or line.ended or line.awaits_other(event)):
            # An ended line: the caller left us and is back, before the old call was released.
            if not self._made_here.fullmatch(channel.id):
                self._incoming(channel)
            elif "-leg" in channel.id or "-guest" in channel.id:  # the party has left the call
                self._strand(f"channels/{channel.id}")
        elif line is not None and event.type == "ChannelDtmfReceived":
            digit = event.body.get("digit")
            line.key(channel.id, digit if isinstance(digit, str) else "")
        elif line is not None:
            line.handle(event, channel.id)

    def _dial_progress(self, event: Event) -> None:
        """Take the progress of a channel that we dial: the media channel has its own."""
        peer = event.body.get("peer")
        channel_id = str(peer.get("id", "")) if isinstance(peer, dict) else ""
        line = self._lines.get(channel_id)
        if line is not None and channel_id == line.channel_id:
            line.handle(event, channel_id)

    def _disconnected(self) -> None:
        """Calls continue, because their audio does not pass here; `_reconcile` catches up."""
        self._connected.clear()
        for line in self.lines:
            line.reachable(False)

    def _incoming(self, channel: Channel) -> None:
        self._spawn(self._offer(self._line(channel, uuid4()), channel))

    def _line(self, channel: Channel, call_id: UUID) -> AsteriskLine:
        line = AsteriskLine(
            self._ari,
            self._path,
            self._app,
            channel,
            call_id,
            on_released=self._released,
            on_stranded=self._strand,
            on_channels=self._watch,
            unreachable_seconds=self._unreachable_seconds,
            same_break_seconds=self._same_break_seconds,
            fellows=self._shared,
        )
        self._lines[channel.id] = self._lines[line.media_id] = line
        return line

    def _watch(self, line: AsteriskLine, ids: Iterable[str]) -> None:
        self._lines.update(dict.fromkeys(ids, line))

    async def _offer(self, line: AsteriskLine, channel: Channel) -> None:
        """Offer a caller. A task border."""
        try:
            await self._hand_in(line, channel)
        except Exception as error:  # task border: the caller must not be left waiting
            log.exception("offer_failed", channel=channel.id, error=repr(error))
            self._on_internal_error("offer")
            await self._dismiss(line, "congestion")

    async def _hand_in(self, line: AsteriskLine, channel: Channel) -> None:
        """Request the variables, all at once, and hand the call in."""
        names = (*self._names, _DIALLED)
        try:
            values = await asyncio.gather(*(line.variable(name) for name in names))
        except LineGone:
            log.info("caller_gone_before_offer", channel=channel.id)
            self._released(line)
            return
        except LineError as error:
            log.error("offer_failed", channel=channel.id, error=str(error))
            if self._ari.state.connected:
                await self._dismiss(line, "congestion")
            else:
                self._released(line)  # not lost: `_reconcile` finds the channel again
            return
        if line.ended:
            self._released(line)
            return
        variables = {name: value for name, value in zip(names, values, strict=True) if value}
        dialled = one_line(variables.pop(_DIALLED, "")) or channel.exten
        other_end = channel.id.removesuffix("caller") + "dialled"
        self._on_offer(
            Offer(
                # Once: the same channel may come back while its first call still ends.
                call_id=self._dialled.pop(other_end, str(line.call_id)),
                source="asterisk",
                media=line.open_media,
                control=line,
                caller_number=channel.caller_number,
                caller_name=channel.caller_name,
                called_number=dialled,
                variables=variables,
                test=CallTest() if self._of_a_test.fullmatch(channel.id) else None,
                transport=self._transport,
                trunk=trunk_of_channel(channel.name),
            )
        )

    def _released(self, line: AsteriskLine) -> None:
        self._dialled.pop(line.channel_id, None)
        for key in [key for key, each in self._lines.items() if each is line]:
            del self._lines[key]

    def _strand(self, path: str) -> None:
        """Remove the path later: after the next connect, or soon while connected."""
        if path not in self._stranded:
            self._stranded.add(path)
            if self._ari.state.connected:
                self._spawn(self._remove_again(path))

    async def _remove_again(self, path: str) -> None:
        while self._ari.state.connected and path in self._stranded:
            await asyncio.sleep(self._stranded_seconds)
            with contextlib.suppress(AsteriskError):
                await self._remove(path)
                self._stranded.discard(path)

    # After each connect

    async def _reconcile(self) -> None:
        """Bring Asterisk's state and the live calls into agreement.

        Calls whose channel is gone end; channels and bridges of ours that no call owns are removed;
        callers in our application without a call (we were away or restarted) are offered.
        """
        self._on_reached()
        # Snapshots from before the requests: newer lines are not missing in the answers.
        lines, stranded = self.lines, frozenset(self._stranded)
        # Only this answer shows which channels are ours: a channel's `app_data` comes from the
        # dialplan and stays the same when the channel moves to another application or to ours.
        application, channels, bridges, info = await asyncio.gather(
            self._ari.request("GET", f"applications/{quote(self._app)}"),
            self._ari.request("GET", "channels"),
            self._ari.request("GET", "bridges"),
            self._ari.request("GET", "asterisk/info", only="status"),
        )
        ours = frozenset(application["channel_ids"])
        theirs: frozenset[str] = frozenset()
        if self._shared is not None:
            theirs = await self._shared.channels(ours, bridges)
            ours -= theirs
        present = {channel.id: channel for channel in map(Channel.read, channels)}
        started = str(info["status"]["startup_time"])
        restarted = self._asterisk_started not in ("", started)
        self._asterisk_started = started
        for line in lines:
            end: Ending = "asterisk_lost" if restarted else "caller_hangup"
            line.reconcile(present, ours, end, theirs)
        removable = (
            present.keys() - theirs
        )  # a caller whom we wanted to hang up may have been taken
        await asyncio.gather(
            *(self._remove(f"channels/{key}") for key in present if self._orphan(key)),
            *(self._remove_bridge(each) for each in bridges if self._orphan(each["id"])),
            *(self._remove(f"channels/{k}") for k in removable if f"channels/{k}" in stranded),
        )
        self._stranded -= stranded
        for channel in present.values():
            if (
                channel.id in ours
                and channel.application == "Stasis"  # and not merely watched by our application
                and channel.id not in self._lines
                and f"channels/{channel.id}" not in stranded
                and not self._made_here.fullmatch(channel.id)
            ):
                log.warning("caller_adopted", channel=channel.id)
                self._incoming(channel)
        if self._shared is not None:
            self._shared.remains.resume()
            self._shared.placement.again()
        self._connected.set()

    def _orphan(self, key: str) -> bool:
        """Return True if we made this channel or bridge and no live call owns it."""
        if not self._made_here.fullmatch(key):
            return False
        return not any(line.owns(key) for line in self.lines)

    async def _remove_bridge(self, bridge: Mapping[str, Any]) -> None:
        """Remove a bridge of ours, its callers first: see `SharedAsterisk.move_here`."""
        path = f"bridges/{bridge['id']}"
        for channel in bridge["channels"]:
            if not self._made_here.fullmatch(channel):
                with contextlib.suppress(AsteriskError):  # they have hung up, or it breaks again
                    await self._ari.request("POST", f"{path}/removeChannel", channel=channel)
        await self._remove(path)

    async def _remove(self, path: str) -> None:
        try:
            await self._ari.request("DELETE", path)
            log.warning("orphan_removed", path=path)
        except AsteriskError as error:
            if error.status == 0:
                raise
            if error.status != 404:
                log.error("orphan_not_removed", path=path, error=str(error))

    async def _dismiss(self, line: AsteriskLine, cause: str = "normal") -> None:
        try:
            await line.hangup(cause)
        except LineError as error:
            log.warning("hangup_failed", call_id=str(line.call_id), error=str(error))
        line.left("hangup")
        await line.release()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """End an offer's task: its border for errors."""
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("offer_failed", error=repr(failure), exc_info=failure)
