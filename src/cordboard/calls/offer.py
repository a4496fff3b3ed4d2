"""The door between telephony and calls: an offer, its media and its line.

A source (Asterisk, a bare AudioSocket, a browser, a simulated caller) makes an `Offer`; the
exchange admits it. Above this door nobody knows which transport or PBX it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from cordboard.audio.format import SLIN_8K, AudioFormat


class Media(Protocol):
    """The two audio directions of a call. All methods but `close` are synchronous and cheap."""

    @property
    def format(self) -> AudioFormat:
        """The one format of both directions, e.g. slin at 8000 Hz."""
        ...

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        """Have each arriving frame (usually 20 ms) handed to `callback` on the event loop."""
        ...

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        """Have each key the caller presses (one of `0-9*#A-D`) handed to `callback`."""
        ...

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        """Have each 20 ms frame that goes to the caller handed to `callback` as it goes.

        Silence included, one frame for each 20 ms of the call: the recorder's second channel and
        the echo guard's reference. Where the PBX owns the clock, as near to it as is known.
        """
        ...

    def on_closed(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called once with a reason when the far side ends or the media dies.

        Not called for our own `close()`. Called at once if it has already happened.
        """
        ...

    def write(self, pcm: bytes) -> None:
        """Append audio to what the caller is going to hear. Any length; ignored once closed."""
        ...

    def mark(self, callback: Callable[[], None]) -> None:
        """Call back when all audio written before this mark has been sent to the caller.

        A mark before the first byte of a sentence so fires when its first frame is on the wire.
        Marks that a `flush` overtakes never fire.
        """
        ...

    def hold(self) -> None:
        """Fall silent at once and keep what is not yet heard. Harmless when held already."""
        ...

    def resume(self) -> None:
        """Go on at the very sample where `hold` stopped. Harmless when not held."""
        ...

    def flush(self) -> int:
        """Take back all that is not yet heard; returns the new `heard_ms`. Ends a hold."""
        ...

    @property
    def heard_ms(self) -> int:
        """Milliseconds of written audio that the caller has heard since the start."""
        ...

    @property
    def queued_ms(self) -> int:
        """Milliseconds of written audio that the caller has yet to hear."""
        ...

    async def close(self) -> None:
        """End both directions and free every resource. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class TransferTarget:
    """Where a blind transfer goes; built from `tools.transfer.destinations` in the YAML."""

    name: str
    type: Literal["extension", "queue", "dialplan"]
    target: str
    """Extension or queue name."""
    context: str
    """Dialplan context."""
    priority: int = 1


class LineControl(Protocol):
    """What can be done with the caller's line. Each raises a `LineError` when it cannot."""

    async def answer(self) -> None: ...

    async def hangup(self, cause: str = "normal") -> None:
        """End the line (`normal`, `busy`, `congestion`). A line that is gone is no error."""
        ...

    async def decline(self, status: str) -> None:
        """Give the caller back to the dialplan, unanswered if possible, and be done with the line.

        The dialplan goes on after its `Stasis(...)` with `CORDBOARD_STATUS` set to `status`
        (`busy`, `unavailable`) and treats the caller as the operator wishes.
        """
        ...

    async def transfer(self, target: TransferTarget) -> None:
        """Blind transfer. Returns when the PBX has taken the caller over."""
        ...

    async def dtmf(self, keys: str) -> None:
        """Send keys (`0-9*#A-D`, `w` = half a second's pause) to the caller's side."""
        ...

    async def variable(self, name: str) -> str | None:
        """The value of a channel variable; None when unset."""
        ...

    async def release(self) -> None:
        """Free what the source holds for this call (bridge, media channel). Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """One phone call, as a source hands it in."""

    call_id: str
    """A UUID of the engine's making, in its canonical text form."""
    source: str
    """`asterisk`, `audiosocket`, ..."""
    media: MediaOpener
    control: LineControl
    caller_number: str = ""
    caller_name: str = ""
    called_number: str = ""
    external_id: str = ""
    """The call's name on the telephone's side, if it has told one. Another call may have it too."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Channel variables the source knows: at least `AI_CONTEXT`, `AI_AGENT`, `AI_PROVIDER`."""


class MediaOpener(Protocol):
    """Opens the media of one offer."""

    async def __call__(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        """Connect and return the media, in the first of `formats` that the transport can carry.

        When it can carry none of them, in a format of its own (the call converts).

        Raises `MediaError` when it does not come in time, `LineGone` when the caller hung up.
        """
        ...
