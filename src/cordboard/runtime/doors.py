"""The doors of an engine: the sources of calls, and the clock of their audio.

Calls by ARI come from an `AsteriskSource`, with their audio by one `MediaPath`. Calls without ARI
come by the AudioSocket port, calls from browsers by the admin port. Host, port and Asterisk stay as
at the start of the engine; allowed peers, and whether the AudioSocket port is open, follow each
reload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog

from cordboard.api.app import ComponentState
from cordboard.audio.pacer import Pacer
from cordboard.calls.call_registry import ATTESTATION
from cordboard.calls.offer import Offer
from cordboard.calls.outbound_order import OutboundOrder, OutboundResult
from cordboard.config.schema import Asterisk, Config
from cordboard.errors import LineError, LineUnsupported, ListenError
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.audiosocket_path import AudioSocketPath
from cordboard.telephony.asterisk.audiosocket_peers import AllowedPeers
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer
from cordboard.telephony.asterisk.instance import Instance
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.asterisk.placement import LABEL
from cordboard.telephony.asterisk.rtp_path import RtpPath
from cordboard.telephony.asterisk.source import AsteriskSource
from cordboard.telephony.asterisk.transport import plugin_path
from cordboard.telephony.asterisk.websocket_path import WebsocketPath
from cordboard.telephony.browser.source import BrowserCalls, TakeTest
from cordboard.telephony.dialled import Dialled, DialledLine
from cordboard.telephony.scripted_caller import ScriptedCaller

log = structlog.get_logger()

NO_WAY_IN = "no calls can come: the file has neither `asterisk` nor `audiosocket.context`"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How an engine shares its Asterisk with others."""

    instance: str
    """Name of this instance, fresh at each start."""
    in_doubt: Callable[[], bool] = lambda: False
    """True while others may have taken our calls."""
    on_fenced: Callable[[], None] = lambda: None
    """Called once, when others have removed this instance's ARI user: its calls have ended."""


class Doors:
    """All doors of one engine. Use once: `open`, then `close`."""

    def __init__(
        self,
        config: Config,
        on_offer: Callable[[Offer], None],
        on_test: TakeTest,
        metrics: Metrics,
        sharing: Sharing | None = None,
    ) -> None:
        """`on_offer` takes each call by telephone, `on_test` those of browsers and test
        calls; both must return at once. `sharing`: None if this engine is the only one."""
        self._begun_with = config
        self._sharing = sharing
        self._config = config
        """The configuration in force."""
        self._on_offer = on_offer
        self._on_test = on_test
        self._metrics = metrics
        loop = asyncio.get_running_loop()
        self._pacer = Pacer(loop, on_internal_error=metrics.internal_error)
        self._late_ticks_reported = 0
        self.audiosocket = AudioSocketServer(
            config.audiosocket,
            self._pacer,
            on_offer,
            peers=AllowedPeers(config.audiosocket.peers(config.asterisk)),
            on_turned_away=metrics.media.audiosocket_turned_away,
        )
        self.browser = BrowserCalls(self._pacer, on_test, self._dial)
        self._media_path: MediaPath | None = None
        self._source: AsteriskSource | None = None
        self._following: set[asyncio.Task[None]] = set()
        """Tasks that open or close the AudioSocket port after a reload."""
        self._stack = AsyncExitStack()

    @property
    def has_ari(self) -> bool:
        """True if calls come by ARI, among other ways."""
        return self._begun_with.asterisk is not None

    async def open(self) -> None:
        """Open all doors. Raises `ListenError`; `MediaError` for an unusable codec."""
        self._stack.push_async_callback(self.audiosocket.stop)
        await self.audiosocket.listen(self._needs_audiosocket)
        asterisk, instance, sharing = self._begun_with.asterisk, None, self._sharing or Sharing("")
        if asterisk is None:
            return
        if self._sharing is not None:
            instance = Instance(asterisk, sharing.instance)
            asterisk = instance.config
        self._media_path = self._choose_media_path(asterisk)
        await self._media_path.start()
        self._stack.push_async_callback(self._media_path.stop)
        self._source = AsteriskSource(
            asterisk,
            self._media_path,
            self._on_offer,
            variables=channel_variables(self._config),
            on_reached=self.audiosocket.asterisk_reached,
            on_internal_error=self._metrics.internal_error,
            instance=instance,
            in_doubt=sharing.in_doubt,
            on_fenced=sharing.on_fenced,
        )
        await self._source.start()
        self._stack.push_async_callback(self._source.stop)

    @property
    def asterisk(self) -> AsteriskSource:
        """The calls of Asterisk, once open. Raises `LineUnsupported` without one."""
        if self._source is None:
            raise LineUnsupported("this engine has no Asterisk (`asterisk` in the configuration)")
        return self._source

    async def close(self) -> None:
        """Close the doors in reverse order."""
        await self.browser.close()
        await self._stack.aclose()

    def call_from_inside(self, context: str, words: bytes) -> str:
        """Place a test call to a context; return its id. `words`: what the caller says, as for
        `telephony.scripted_caller.ScriptedCaller`."""
        offer = ScriptedCaller(self._pacer, words).offer(context)
        self._on_test(offer)
        return offer.call_id

    async def _dial(self, dialled: Dialled) -> DialledLine:
        """Have Asterisk call an extension. Raises `LineError`."""
        return await self.asterisk.dial(dialled)

    def place(self, order: OutboundOrder, finished: Callable[[OutboundResult], None]) -> None:
        """Place a call through Asterisk. Returns at once. Raises `LineError`."""
        if not self.asterisk.ready:
            raise LineError("Asterisk cannot be reached now")
        self.asterisk.place(order, finished)

    async def line_ready(self, timeout: float) -> bool:
        """Wait until calls can come in; return True at once without an Asterisk to wait for."""
        return self._source is None or await self._source.wait_ready(timeout)

    def use(self, config: Config) -> None:
        """Apply another configuration from now on."""
        self._config = config
        peers = config.audiosocket.peers(self._begun_with.asterisk)
        self.audiosocket.use(config.audiosocket, peers)
        following = asyncio.create_task(self._follow(), name="audiosocket port")
        self._following.add(following)
        following.add_done_callback(self._following.discard)
        if self._source is not None:
            self._source.read_variables(channel_variables(config))

    async def settled(self) -> None:
        """Wait until the AudioSocket port is open or closed as the last reload requires."""
        await asyncio.gather(*self._following)

    async def _follow(self) -> None:
        """Open or close the port as the configuration in force requires. A task border."""
        try:
            await self.audiosocket.listen(self._needs_audiosocket)
        except ListenError as error:
            log.error("audiosocket_not_opened", error=str(error))

    @property
    def _needs_audiosocket(self) -> bool:
        """True if calls can come by the AudioSocket port; else it is shut."""
        asterisk = self._begun_with.asterisk
        by_ari = asterisk is not None and asterisk.media == "audiosocket"
        return by_ari or self._config.audiosocket.context is not None

    def _choose_media_path(self, asterisk: Asterisk) -> MediaPath:
        if asterisk.media == "rtp":
            return RtpPath(self._begun_with.rtp, self._pacer, asterisk.codec)
        if asterisk.media == "websocket":
            return WebsocketPath(asterisk, self._pacer)
        if asterisk.media == "audiosocket":
            return AudioSocketPath(self.audiosocket, asterisk.codec)
        return plugin_path(asterisk, self._pacer)

    # For `/ready`, `/health` and `/metrics`.

    def media_state(self) -> ComponentState:
        """State of the calls' audio."""
        asterisk, path = self._begun_with.asterisk, self._media_path
        shut = self._needs_audiosocket and not self.audiosocket.listening
        by_port = asterisk is None or asterisk.media == "audiosocket"
        trouble = path.trouble if path is not None else ""
        if trouble and not (shut and by_port):
            return ComponentState(False, trouble, public=True)
        if shut:  # callers by ARI whose audio comes another way can still be answered
            return ComponentState(False, self.audiosocket.trouble, by_port, public=True)
        no_way_in = NO_WAY_IN if asterisk is None and not self._needs_audiosocket else ""
        return ComponentState(True, no_way_in, public=True)

    def ari_state(self) -> ComponentState:
        """State of the connection to Asterisk. Only with `has_ari`."""
        if self._source is None:
            return ComponentState(False, "not connected yet", public=True)
        state = self._source.state
        return ComponentState(state.ready, state.last_error, public=True)

    def health(self) -> Mapping[str, Any]:
        """Return the doors' part of `/health`: `audio`."""
        return {
            "late_ticks": self._pacer.late_ticks,
            "skipped_ticks": self._pacer.skipped_ticks,
            "connections": self.audiosocket.connections,
            "turned_away": dict(self.audiosocket.turned_away),
            "faults": dict(self.audiosocket.faults),
            "browser_calls": len(self.browser),
            "browser_faults": dict(self.browser.counts),
            **(self._media_path.health() if self._media_path is not None else {}),
        }

    def report(self) -> None:
        """Add the counts since the last report to the metrics."""
        late = self._pacer.late_ticks + self._pacer.skipped_ticks
        self._metrics.media.ticks_late(late - self._late_ticks_reported)
        self._late_ticks_reported = late
        if self._media_path is not None:
            self._media_path.report(self._metrics)


def channel_variables(config: Config) -> frozenset[str]:
    """Return the channel variables that any context, the firewall, or the cluster may
    use."""
    names = {name for context in config.contexts.values() for name in context.variables}
    places = (place.split(".") for place in config.firewall.places)
    names.update(parts[1] for parts in places if parts[0] == "variables")
    if config.firewall.incoming.attestation is not None:
        names.add(ATTESTATION)
    if config.cluster is not None:
        names.add(LABEL)
    return frozenset(names)
