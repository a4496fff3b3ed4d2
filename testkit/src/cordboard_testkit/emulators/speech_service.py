"""Shared part of the emulated voices by HTTP: a script, its faults, and audio in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from starlette.requests import Request
from starlette.routing import BaseRoute

from cordboard_testkit.emulators.http_service import Book, HttpService, Refused
from cordboard_testkit.emulators.script import Fault, Prompter, Script, When
from cordboard_testkit.emulators.speech import Beeper, Speaker

PIECE_MS = 100
_FOR_EVER = 3600.0
_BEFORE: tuple[When, ...] = ("connect", "answer")


class SpeechEmulator:
    """An emulated service; a context manager."""

    def __init__(
        self,
        script: Script | None,
        routes: Sequence[BaseRoute],
        speaker: Speaker | None,
        piece_seconds: float,
        port: int = 0,
    ) -> None:
        """`piece_seconds`: time from one piece of audio to the next."""
        self.prompter = Prompter(script or Script())
        self.book = Book()
        self.spoken: list[str] = []
        self.cut_off = 0
        """Number of answers that the client abandoned."""
        self._speaker = speaker or Beeper()
        self._piece_seconds = piece_seconds
        self._service = HttpService(routes, port=port)

    @property
    def url(self) -> str:
        """For `base_url`."""
        return self._service.origin

    @property
    def violations(self) -> list[str]:
        return self.book.violations

    async def __aenter__(self) -> Self:
        await self._service.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._service.__aexit__(*details)

    def _note(self, request: Request, body: Any) -> None:
        self.prompter.connections += 1
        query = dict(request.query_params)
        self.book.note(request.method, request.url.path, query, dict(request.headers), body)

    def _fault(self, request: Request) -> Fault | None:
        """Apply the script's fault before the answer. Raises `Refused`."""
        for when in _BEFORE:
            fault = self.prompter.fault(when)
            if fault is None:
                continue
            if fault.do == "refuse":
                raise Refused(int(fault.code or 500), "refused by the script")
            if fault.do == "error":
                raise self._error(fault)
            if fault.do == "drop":
                self._service.drop(request)
            return fault
        return None

    def _error(self, fault: Fault) -> Refused:
        """Return the service's error text of a fault."""
        return Refused(int(fault.code or 500), "refused by the script")

    async def _pieces(
        self, request: Request, sound: bytes, step: int, fault: Fault | None
    ) -> AsyncIterator[bytes]:
        whole = False
        try:
            if fault is not None and fault.do == "stall":
                await asyncio.sleep(_FOR_EVER)
            for at in range(0, len(sound), step):
                yield sound[at : at + step]
                await asyncio.sleep(self._piece_seconds)
                await self._break_off(request)
            whole = True
        finally:
            self.cut_off += not whole

    async def _break_off(self, request: Request) -> None:
        fault = self.prompter.fault("sound")
        if fault is None:
            return
        if fault.do == "stall":
            await asyncio.sleep(_FOR_EVER)
        self._service.drop(request)
