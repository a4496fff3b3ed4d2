"""`SipPhone`: a SIP telephone for tests. Places and answers calls on UDP, G.711 u-law, no password.

    async with SipPhone("alice") as phone:
        call = await phone.call(asterisk.sip_uri("ctx-demo"), headers={"X-AI-Provider": "local"})
        await call.answered()
        await call.hear_speech()
        call.say(question)
        stopped = await call.said()
        print(await call.hear_speech(after=stopped) - stopped)
        call.hangup()

One phone can hold any number of calls at once. It never registers: give its `address` to
`AsteriskInstance(phones={"6001": phone.address})` to have it called.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping

from cordboard.errors import KitError, MalformedPacket
from cordboard_testkit.media_thread import MediaThread, MediaUser
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip.call import PhoneCall, PhoneServices
from cordboard_testkit.sip.dialog import Dialog, respond
from cordboard_testkit.sip.incoming import IncomingCall
from cordboard_testkit.sip.message import (
    SipMessage,
    SipRequest,
    SipResponse,
    parse_message,
)
from cordboard_testkit.sip.outgoing import OutgoingCall

_TRACE_LENGTH = 1000


class SipPhone(asyncio.DatagramProtocol, MediaUser):
    """A telephone. Share one `media` thread among the phones of a test that has many.

    `answers` false: an incoming call rings until `answer()` is called on it. `ring_seconds`: how
    long an answering phone rings. `follows_transfers`: True if a REFER is obeyed.
    """

    def __init__(
        self,
        user: str = "caller",
        *,
        answers: bool = True,
        ring_seconds: float = 0.0,
        follows_transfers: bool = True,
        media: MediaThread | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        MediaUser.__init__(self, media)
        self.user = user
        self.answers = answers
        self.ring_seconds = ring_seconds
        self.follows_transfers = follows_transfers
        self.calls: dict[str, PhoneCall] = {}
        """Every call of this phone by Call-ID, ended ones too."""
        self.trace: deque[tuple[float, str]] = deque(maxlen=_TRACE_LENGTH)
        """The latest SIP messages, `>` sent and `<` received, with their times."""
        self._host, self._port = host, port
        self._transport: asyncio.DatagramTransport | None = None
        self._incoming: asyncio.Queue[IncomingCall] = asyncio.Queue()

    # -- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the SIP port (a free one if none was named)."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=(self._host, self._port)
        )
        self._transport = transport
        self._port = transport.get_extra_info("sockname")[1]
        self._start_media()

    async def close(self) -> None:
        """Leave every call and close the port. Idempotent."""
        for call in self.calls.values():
            call.abandon()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
            await self._stop_media()
        await asyncio.sleep(0)  # the transport closes its socket in the next round of the loop

    @property
    def address(self) -> tuple[str, int]:
        """This phone's SIP address; known once started."""
        return self._host, self._port

    # -- calls -------------------------------------------------------------------------------

    async def call(
        self,
        uri: str,
        *,
        headers: Mapping[str, str] | None = None,
        caller_name: str = "Test Caller",
        caller_number: str = "",
    ) -> OutgoingCall:
        """Dial. Returns at once; wait with `answered()`."""
        return self._dial(uri, (headers or {}).items(), caller_name, caller_number)

    async def incoming(self, timeout: float = PATIENCE) -> IncomingCall:
        """Wait for the next call to this phone. Raises `TimeoutError`."""
        return await asyncio.wait_for(self._incoming.get(), timeout)

    def _dial(
        self,
        uri: str,
        headers: Iterable[tuple[str, str]] = (),
        caller_name: str = "Test Caller",
        caller_number: str = "",
    ) -> OutgoingCall:
        dialog = Dialog.outgoing(uri, self.address, self.user, caller_name, caller_number)
        call = OutgoingCall(self._services(), dialog, headers)
        self.calls[dialog.call_id] = call
        call.place()
        return call

    def _services(self) -> PhoneServices:
        return PhoneServices(
            self.address, self._send, self._dial, self._media, self.follows_transfers
        )

    # -- SIP ---------------------------------------------------------------------------------

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not data.strip():  # a keep-alive (RFC 5626)
            return
        self._note("<", data)
        try:
            message = parse_message(data)
            if isinstance(message, SipResponse):
                call = self.calls.get(message.headers.get("call-id"))
                if call is not None:
                    call.take_response(message)
            else:
                self._take_request(message, addr)
        except MalformedPacket as problem:
            self._note("!", str(problem).encode())

    def _take_request(self, request: SipRequest, source: tuple[str, int]) -> None:
        call = self.calls.get(request.headers.get("call-id"))
        if call is not None:
            call.take_request(request)
        elif request.method == "INVITE":
            self._ring(request, source)
        elif request.method == "OPTIONS":
            self._send(respond(request, 200, "OK"), source)
        elif request.method != "ACK":
            self._send(respond(request, 481, "Call Does Not Exist"), source)

    def _ring(self, invite: SipRequest, source: tuple[str, int]) -> None:
        try:
            call = IncomingCall(self._services(), invite, source, self.user)
        except MalformedPacket:
            self._send(respond(invite, 488, "Not Acceptable Here"), source)
            raise
        self.calls[call.dialog.call_id] = call
        call.ring(self.ring_seconds if self.answers else None)
        self._incoming.put_nowait(call)

    def _send(self, message: SipMessage, peer: tuple[str, int]) -> None:
        if self._transport is None:
            raise KitError("the phone is not started")
        data = message.to_bytes()
        self._note(">", data)
        self._transport.sendto(data, peer)

    def _note(self, direction: str, data: bytes) -> None:
        self.trace.append((time.monotonic(), f"{direction} {data.decode(errors='replace')}"))
