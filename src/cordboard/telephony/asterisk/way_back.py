"""The caller's way back to the agent's bridge, when something else takes them out of it.

An engine that is to get the caller, and fails in that moment; an operator at the console; a defect
of Asterisk: each would leave the caller in silence, with their call up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari_messages import Event

log = structlog.get_logger()

OUTSIDE_SECONDS = 0.5
"""Time for which a caller may be outside. A move elsewhere, or a hang-up, takes a few ms."""


class WayBack:
    """Watches whether one caller is in the agent's bridge."""

    def __init__(
        self, bridge: str, belongs: Callable[[], bool], enter: Callable[[], Awaitable[None]]
    ) -> None:
        """`belongs()`: the caller is to be in this bridge now. `enter()` puts them there; raises
        `AsteriskError`."""
        self._bridge = bridge
        self._belongs = belongs
        self._enter = enter
        self._timer: asyncio.TimerHandle | None = None
        self._returning: asyncio.Task[None] | None = None

    def handle(self, event: Event) -> None:
        """Take ChannelLeftBridge and ChannelEnteredBridge of the caller's channel, of any
        bridge."""
        bridge = event.body.get("bridge")
        if not isinstance(bridge, dict) or bridge.get("id") != self._bridge:
            return
        self._forget()
        if event.type == "ChannelLeftBridge":
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(OUTSIDE_SECONDS, self._bring_back)

    def close(self) -> None:
        """Bring the caller back no more."""
        self._forget()
        if self._returning is not None:
            self._returning.cancel()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _bring_back(self) -> None:
        self._timer = None
        if self._belongs():
            self._returning = asyncio.create_task(self._return(), name=f"back to {self._bridge}")

    async def _return(self) -> None:
        log.warning("caller_outside_bridge", bridge=self._bridge)
        try:
            await self._enter()
        except AsteriskError as error:  # they have gone, as other events show
            log.warning("caller_not_brought_back", bridge=self._bridge, error=str(error))
