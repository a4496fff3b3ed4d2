"""Deepgram Flux, `/v2/listen`: a recogniser that follows the conversation.

It sends the text of the caller's turn as it grows, and reports when the turn may be over,
continues, or is over. With `end_of_turn: service` that verdict counts
(`CallRecogniser.judges_turns`).
"""

from __future__ import annotations

from cordboard.agent_api.stt import ListenedCall, Listening, TurnVerdict
from cordboard.audio.vad import RATE
from cordboard.net.service_websocket import websocket_url
from cordboard.vendors.deepgram.config import DeepgramFluxStt
from cordboard.vendors.deepgram.flux_turns import SETTLED_REACH, FluxTurns
from cordboard.vendors.deepgram.stt import BASE_URL, further
from cordboard.vendors.deepgram.stt_results import REACH
from cordboard.vendors.deepgram.stt_stream import DeepgramListening, ListenService

PATIENCE = 0.8
"""Seconds within which text must arrive: it comes for every 0.25 s of sound."""


class ListenV2:
    """Implements `ListenWire`."""

    keep_alive = b""
    patience = PATIENCE
    tells_steadily = True

    def __init__(self) -> None:
        self._turns = FluxTurns()

    @property
    def covered(self) -> int:
        """Sample before which sound need not be kept for a new connection: the start of the current
        turn."""
        return self._turns.settled

    @property
    def problem(self) -> str:
        return self._turns.problem

    def connected(self, base: int) -> None:
        self._turns.connected(base)

    def read(self, message: bytes) -> bool:
        return self._turns.read(message)

    def ask(self, end: int) -> bytes:
        return b""

    def is_answered(self, end: int, number: int) -> bool:
        turns = self._turns
        return turns.covered >= end - REACH or turns.settled >= end - SETTLED_REACH

    def text(self, begin: int, end: int) -> tuple[str, float]:
        return self._turns.text(begin, end)

    def take_verdict(self) -> TurnVerdict | None:
        return self._turns.verdict


class DeepgramFluxRecogniser:
    """Implements `CallRecogniser`."""

    def __init__(self, settings: DeepgramFluxStt, key: str) -> None:
        self._service = flux_service(settings, key)
        self.judges_turns = settings.end_of_turn == "service"

    def open(self, call: ListenedCall) -> Listening:
        return DeepgramListening(self._service, ListenV2(), call)


def flux_service(settings: DeepgramFluxStt, key: str) -> ListenService:
    """Return the connection's parameters."""
    query = [
        ("model", settings.model),
        ("encoding", "linear16"),
        ("sample_rate", str(RATE)),
    ]
    for name in ("eot_threshold", "eager_eot_threshold", "eot_timeout_ms"):
        value = getattr(settings, name)
        if value is not None:
            query.append((name, str(value)))
    if settings.mip_opt_out:
        query.append(("mip_opt_out", "true"))
    query += [("keyterm", term) for term in settings.keyterms]
    query += [("language_hint", hint) for hint in settings.language_hints]
    query += further(settings.extra)
    return ListenService(
        provider=settings.type,
        model=settings.model,
        url=websocket_url(settings.base_url or BASE_URL, "/v2/listen"),
        query=tuple(query),
        headers=settings.request_headers(key),
        connect_seconds=settings.connect_timeout_ms / 1000,
    )
