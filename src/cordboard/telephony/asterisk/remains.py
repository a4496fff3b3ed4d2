"""Removal of what engines that are gone left in Asterisk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping

import structlog

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import AriClient

log = structlog.get_logger()


async def holders(ari: AriClient) -> Mapping[str, set[str]]:
    """Return the Stasis applications of each channel that is in one, or is watched by one, also if
    its engine is gone.

    Nothing else shows who has a channel: the data of its dialplan name the application that it came
    to, also after a move (measured on 22.10.1). Raises `AsteriskError`.
    """
    held: dict[str, set[str]] = {}
    for application in await ari.request("GET", "applications"):
        for channel in application["channel_ids"]:
            held.setdefault(channel, set()).add(application["name"])
    return held


class Remains:
    """Removes channels and bridges that engines which are gone left in Asterisk.

    A bridge stays when its engine dies, and so does a media channel by RTP, also after the caller
    has hung up. One listing serves all removals that are asked for meanwhile.
    """

    def __init__(
        self,
        ari: AriClient,
        remove: Callable[[str], Coroutine[None, None, None]],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`remove(path)` removes a channel or bridge that may be gone already; it raises
        `AsteriskError` when Asterisk is away."""
        self._ari = ari
        self._remove = remove
        self._spawn = spawn
        self._prefixes: set[tuple[str, str]] = set()
        """Applications and beginnings of ids."""
        self._working = False

    def clear(self, app: str, call_id: str = "") -> None:
        """Remove what a call of a dead engine left, in time; without `call_id`, all that the engine
        left. Channels that are with another application stay."""
        self._prefixes.add((app, f"cordboard-{app}-{call_id}"))
        self.resume()

    def resume(self) -> None:
        """Go on with removals that failed because Asterisk was away."""
        if self._prefixes and not self._working and self._ari.state.connected:
            self._working = True
            self._spawn(self._work())

    async def _work(self) -> None:
        try:
            while self._prefixes:
                asked = frozenset(self._prefixes)
                channels, bridges, held = await asyncio.gather(
                    self._ari.request("GET", "channels"),
                    self._ari.request("GET", "bridges"),
                    holders(self._ari),
                )
                paths = {
                    f"{kind}/{each['id']}"
                    for kind, listed in (("channels", channels), ("bridges", bridges))
                    for each in listed
                    for app, prefix in asked
                    if each["id"].startswith(prefix) and held.get(each["id"], {app}) == {app}
                }
                await asyncio.gather(*map(self._remove, paths))
                self._prefixes -= asked
        except AsteriskError as error:
            log.warning("remains_not_removed", error=str(error))
        finally:
            self._working = False
