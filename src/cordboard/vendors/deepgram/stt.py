"""Deepgram's streaming recogniser, `/v1/listen` (Nova).

The sound of the whole call goes through one connection. At a pause the service gets `Finalize`: the
text of the utterance arrives a moment later, and no more sound needs to be sent for that.
"""

from __future__ import annotations

from cordboard.agent_api.stt import ListenedCall, Listening, TurnVerdict
from cordboard.audio.vad import RATE
from cordboard.net.service_websocket import websocket_url
from cordboard.vendors.deepgram.config import DeepgramStt
from cordboard.vendors.deepgram.stt_results import REACH, Results
from cordboard.vendors.deepgram.stt_stream import DeepgramListening, ListenService

BASE_URL = "wss://api.deepgram.com"
PATIENCE = 1.2
"""Seconds within which requested text must be final. `Finalize` is not always answered."""


class ListenV1:
    """Implements `ListenWire`."""

    keep_alive = b'{"type":"KeepAlive"}'
    patience = PATIENCE
    tells_steadily = False

    def __init__(self) -> None:
        self._results = Results()
        self._answered_before = 0

    @property
    def covered(self) -> int:
        return self._results.covered

    @property
    def problem(self) -> str:
        return self._results.problem

    def connected(self, base: int) -> None:
        self._answered_before = self._results.answered
        self._results.connected(base)

    def read(self, message: bytes) -> bool:
        return self._results.read(message)

    def ask(self, end: int) -> bytes:
        return b"" if self._results.covered >= end - REACH else b'{"type":"Finalize"}'

    def is_answered(self, end: int, number: int) -> bool:
        if self._results.covered >= end - REACH:
            return True
        return 0 < number <= self._results.answered - self._answered_before

    def text(self, begin: int, end: int) -> tuple[str, float]:
        return self._results.text(begin, end)

    def take_verdict(self) -> TurnVerdict | None:
        return None


class DeepgramRecogniser:
    """Implements `CallRecogniser`."""

    judges_turns = False

    def __init__(self, settings: DeepgramStt, key: str) -> None:
        self._service = listen_service(settings, key)

    def open(self, call: ListenedCall) -> Listening:
        return DeepgramListening(self._service, ListenV1(), call)


def listen_service(settings: DeepgramStt, key: str) -> ListenService:
    """Return the connection's parameters."""
    query = [
        ("model", settings.model),
        ("language", settings.language),
        ("encoding", "linear16"),
        ("sample_rate", str(RATE)),
        ("channels", "1"),
        ("interim_results", "true"),
        ("smart_format", _flag(settings.smart_format)),
        ("punctuate", _flag(settings.punctuate)),
        ("endpointing", str(settings.endpointing or "false")),
    ]
    flags = ("numerals", "profanity_filter", "mip_opt_out")
    query += [(name, "true") for name in flags if getattr(settings, name)]
    query += [("keyterm", term) for term in settings.keyterms]
    query += further(settings.extra)
    return ListenService(
        provider=settings.type,
        model=settings.model,
        url=websocket_url(settings.base_url or BASE_URL, "/v1/listen"),
        query=tuple(query),
        headers=settings.request_headers(key),
        connect_seconds=settings.connect_timeout_ms / 1000,
    )


def further(extra: dict[str, object]) -> list[tuple[str, str]]:
    """Return settings under `extra:` as parts of a query; a list becomes several parameters of one
    name."""
    query: list[tuple[str, str]] = []
    for name, value in extra.items():
        several = value if isinstance(value, list) else [value]
        query += [(name, _flag(one) if isinstance(one, bool) else str(one)) for one in several]
    return query


def _flag(yes: bool) -> str:
    return "true" if yes else "false"
