"""The global variables by which the dialplan finds the engine with most room for a caller.

`dialplan.dialplan` reads them; `APP` is `asterisk.app`:

    CORDBOARD_ENGINES_APP               the applications of the living engines: APP-a7-3f2a1c,...
    CORDBOARD_ROOM_APP-a7-3f2a1c        how many more calls that engine takes, and its labels:
                                        12|,gpu,eu,

An engine writes its own room, and 0 for an engine that is gone. Each engine writes the whole list
whenever its view of the cluster changes. So they need no agreement on a writer: the last writer has
the same view as the others in the end. Asterisk's database would need no list
(`DB_KEYS`), but ARI must not write to it (measured on 22.10.1: "Dangerous function DB write
blocked").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine

import structlog

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import AriClient

log = structlog.get_logger()

RETRY_SECONDS = 1.0
"""Until a write that failed is tried again: Asterisk may have been busy."""
LABEL = "CORDBOARD_LABEL"
"""Channel variable with the label that an engine for this caller needs."""


class Placement:
    """Writes the variables, one after the other; of each, the latest value counts."""

    def __init__(
        self,
        ari: AriClient,
        family: str,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`family`: the beginning of all applications."""
        self._ari = ari
        self._family = family
        self._spawn = spawn
        self._wanted: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._writing = False

    def room(self, app: str, free: int, labels: Collection[str] = ()) -> None:
        """Publish how many more calls an engine takes; 0: none. Returns at once."""
        room = f"{free}|,{','.join(labels)}," if free > 0 else ""
        self._set(f"CORDBOARD_ROOM_{app}", room)

    def engines(self, apps: Collection[str]) -> None:
        """Publish the list of the engines. Returns at once."""
        self._set(f"CORDBOARD_ENGINES_{self._family}", ",".join(sorted(apps)))

    def again(self) -> None:
        """Write everything again: Asterisk may have restarted."""
        self._written.clear()
        self._write_soon()

    def _set(self, name: str, value: str) -> None:
        self._wanted[name] = value
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._writing and self._ari.state.connected and self._wanted != self._written:
            self._writing = True
            self._spawn(self._publish())

    async def settle(self) -> None:
        """Write at once what has not been written yet."""
        await self._write()

    async def _publish(self) -> None:
        """Write what has changed, again and again while Asterisk is too busy to take it."""
        try:
            while not await self._write() and self._ari.state.connected:  # noqa: ASYNC110 - no event
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._writing = False

    async def _write(self) -> bool:
        """Return False after a failure."""
        try:
            while changed := self._wanted.items() - self._written.items():
                name, value = changed.pop()
                self._written.pop(name, None)  # until the answer is there: it may be done without
                await self._ari.request("POST", "asterisk/variable", variable=name, value=value)
                self._written[name] = value
                if not value:
                    self._forget(name)
        except AsteriskError as error:
            log.warning("placement_not_published", error=str(error))
            return False
        return True

    def _forget(self, name: str) -> None:
        """Forget a room that is 0: engines that are gone do not come back."""
        if self._wanted.get(name) == "":
            del self._wanted[name]
            self._written.pop(name, None)
