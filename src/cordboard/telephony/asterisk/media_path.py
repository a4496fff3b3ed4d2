"""The door between an Asterisk line and its audio transports: AudioSocket, websocket, RTP.

For every call the line has the configured path `prepare` an arrival, creates the ExternalMedia
channel with the arrival's parameters, hands it Asterisk's answer (`channel_made`) and waits for the
media. A new transport implements the two protocols and `LineMedia`; a descriptor
(`telephony.asterisk.transport`) makes it known to `asterisk.media`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from cordboard.audio.format import AudioFormat
from cordboard.calls.offer import Media
from cordboard.observe.metrics import Metrics
from cordboard.telephony.line_media import Ending


class LineMedia(Media, Protocol):
    """`calls.offer.Media`, and the operations of the line."""

    idle_seconds: float
    """Time for which Asterisk may send nothing at all before the media counts as lost."""

    def claim(self, on_lost: Callable[[str], None]) -> None:
        """Take it for a call. `on_lost(problem)` is called when it is lost, and calls `end`."""

    def end(self, reason: Ending) -> None:
        """Report to the call, once, that its media or line has ended; stop the sound both ways."""

    def take_key(self, key: str) -> None:
        """Hand a key that the caller pressed, from ARI (ChannelDtmfReceived), to `on_dtmf`.

        Every key of a call in our application comes here, with each transport. A transport that
        carries keys itself (AudioSocket) ignores it, so that no key is taken twice.
        """

    def caller_holds(self, on: bool) -> None:
        """Report to the call that the caller has put it on hold, or is back."""

    def abort(self) -> None:
        """Drop the media at once, unused or broken."""


class MediaArrival(Protocol):
    """Pending media of one call."""

    @property
    def external_media(self) -> Mapping[str, str]:
        """Parameters of `POST /channels/externalMedia`: external_host, encapsulation, transport,
        connection_type, format, data, transport_data as the transport needs them."""

    @property
    def advice(self) -> str:
        """Half a sentence: what an operator should check when the media does not come."""

    def channel_made(self, channel: Mapping[str, Any]) -> None:
        """Take Asterisk's answer (its `channelvars` hold addresses and connection ids)."""

    async def bridgeable(self) -> None:
        """Return when the new channel may be put into a bridge with the caller."""

    async def media(self) -> LineMedia:
        """Wait for the media and return it. Raises `MediaError` when it can no longer come."""

    def give_up(self) -> None:
        """Free everything; media that has come or still comes is dropped.

        Not called once `media` has returned. Idempotent.
        """


@runtime_checkable
class MediaPath(Protocol):
    """One transport, for all calls of an engine."""

    @property
    def connect_seconds(self) -> float:
        """Time for which a call waits for its media."""

    @property
    def trouble(self) -> str:
        """Reason why no media could come now; empty when it can. For `/ready`."""

    def health(self) -> Mapping[str, Any]:
        """Return this path's part of `audio` in `/health`: what is open, and errors so far."""

    def report(self, metrics: Metrics) -> None:
        """Add the counts since the last report to the metrics; called many times a second."""

    async def prepare(self, formats: Sequence[AudioFormat]) -> MediaArrival:
        """Get ready for the media of one call, in the first of `formats` that it can carry.

        If it can carry none, it takes a format of its own. Raises `MediaError` (no free port, say).
        """

    async def start(self) -> None:
        """Open the shared parts. Raises `ListenError`; `MediaError` for an unusable codec."""

    async def stop(self) -> None:
        """Close the shared parts, and the remains of calls."""
