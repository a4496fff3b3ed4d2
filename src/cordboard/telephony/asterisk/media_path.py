"""The door between an Asterisk line and the ways its sound can come: AudioSocket, websocket, RTP.

For every call the line asks the path of the configuration to `prepare` an arrival, creates the
ExternalMedia channel with the parameters that the arrival names, tells it Asterisk's answer
(`channel_made`) and waits for the media. A new transport implements the two protocols and
`LineMedia`; a descriptor (`telephony.asterisk.transport`) makes it known to `asterisk.media`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from cordboard.audio.format import AudioFormat
from cordboard.calls.offer import Media
from cordboard.observe.metrics import Metrics
from cordboard.telephony.line_media import Ending


class LineMedia(Media, Protocol):
    """`calls.offer.Media`, and what the line does with it."""

    idle_seconds: float
    """How long Asterisk may send nothing at all before the media counts as lost."""

    def claim(self, on_lost: Callable[[str], None]) -> None:
        """Take it for a call. `on_lost(problem)` hears when it is lost; it then calls `end`."""
        ...

    def end(self, reason: Ending) -> None:
        """Tell the call, once, that its media or line has ended; stop the sound both ways."""
        ...

    def take_key(self, key: str) -> None:
        """Hand a key to `on_dtmf` that the caller pressed, as ARI tells it (ChannelDtmfReceived).

        Every key of a call in our application comes here, whatever its transport. A transport that
        carries keys itself (AudioSocket) ignores it, so that no key is taken twice.
        """
        ...

    def abort(self) -> None:
        """Drop it at once, unused or broken."""
        ...


class MediaArrival(Protocol):
    """The media of one call on its way."""

    @property
    def external_media(self) -> Mapping[str, str]:
        """Parameters of `POST /channels/externalMedia`: external_host, encapsulation, transport,
        connection_type, format, data, transport_data as the transport needs them."""
        ...

    @property
    def advice(self) -> str:
        """What an operator should check when the media does not come, as half a sentence."""
        ...

    def channel_made(self, channel: Mapping[str, Any]) -> None:
        """Take Asterisk's answer to it (its `channelvars` tell addresses and connection ids)."""
        ...

    async def bridgeable(self) -> None:
        """Return when the channel that was made may be put into a bridge with the caller."""
        ...

    async def media(self) -> LineMedia:
        """The media, once it has come. Raises `MediaError` when it cannot come any more."""
        ...

    def give_up(self) -> None:
        """Nobody wants it any more: free everything; what has come or still comes is dropped.

        Not called once `media` has returned. Idempotent.
        """
        ...


@runtime_checkable
class MediaPath(Protocol):
    """One transport, for all calls of an engine."""

    @property
    def connect_seconds(self) -> float:
        """How long a call waits for its media."""
        ...

    @property
    def trouble(self) -> str:
        """Why no media could come now; empty when it can. For `/ready`."""
        ...

    def health(self) -> Mapping[str, Any]:
        """Return its part of `audio` in `/health`: what is open, what went wrong so far."""
        ...

    def report(self, metrics: Metrics) -> None:
        """Add to the metrics what was counted since the last time; called many times a second."""
        ...

    async def prepare(self, formats: Sequence[AudioFormat]) -> MediaArrival:
        """Get ready for the media of one call, in the first of `formats` it can carry.

        When it can carry none, in one of its own. Raises `MediaError` (no free port, say).
        """
        ...

    async def start(self) -> None:
        """Open what all calls share. Raises `ListenError`; `MediaError` for a codec of no use."""
        ...

    async def stop(self) -> None:
        """Close it, and what is left of calls."""
        ...
