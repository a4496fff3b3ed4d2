"""Voice activity detection: one model for all calls of the process.

``VoiceActivityBank`` holds the one model; each call opens a ``VoiceActivityStream`` and feeds its 8
kHz frames to it. Feeding is synchronous and costs a microsecond or two. Whole windows (256 samples,
32 ms) of all streams that arrive within ``GATHER`` seconds, or while the worker thread is busy,
pass the model together, in one batch, off the event loop; each result is returned on the loop as
``on_probability(probability, end_sample)``. A single window costs about 80 us of a core, one of
many about 23 us (and the hand-over to the thread is needed once per batch), which is why the bank
waits for more windows; it does not wait if all open streams have one.

Promises: no window of a stream is lost, repeated or reordered; a closed stream gets no more
results, even if its window is in the model at that moment; if the model fails, each stream
concerned is closed and its ``on_failed`` is called.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

log = structlog.get_logger()

RATE = 8000
WINDOW_SAMPLES = 256
"""Samples that Silero VAD processes at 8 kHz in one step."""
CONTEXT_SAMPLES = 32
"""Samples of the previous window put before each window; results are useless without them."""
STATE_SIZE = 128
GATHER = 0.002
"""Seconds that the first window of a batch waits for those of other streams. Measured with 50 calls
(`bench peers`): results come 4.7 ms (p95) after their last frame; with 5 ms it is 7.6 ms, and a
frame costs a quarter more."""

_WINDOW_BYTES = WINDOW_SAMPLES * 2
_CONTEXT_BYTES = CONTEXT_SAMPLES * 2

Floats = NDArray[np.float32]


class VoiceActivityModel(Protocol):
    """A recurrent model that judges one window of each of n streams."""

    def judge(self, windows: Floats, states: Floats) -> tuple[Floats, Floats]:
        """Convert windows [n, 288] in -1..1 and states [2, n, 128] to speech probabilities [n] and
        new states [2, n, 128]. Called from one worker thread at a time."""


class VoiceActivityStream:
    """Feeds one call's audio to the model. Opened by ``VoiceActivityBank.open``."""

    __slots__ = (
        "_bank",
        "_buffer",
        "_end_sample",
        "_fresh",
        "_on_failed",
        "_on_probability",
        "_row",
        "_waiting",
        "closed",
    )

    def __init__(
        self,
        bank: VoiceActivityBank,
        row: int,
        on_probability: Callable[[float, int], None],
        on_failed: Callable[[Exception], None] | None,
    ) -> None:
        self._bank = bank
        self._on_probability = on_probability
        self._on_failed = on_failed
        self._buffer = bytearray(_CONTEXT_BYTES)
        self._waiting: deque[bytes] = deque()
        self._row = row
        self._fresh = True
        self._end_sample = 0
        self.closed = False

    def feed(self, pcm: bytes) -> None:
        """Process the next s16 samples at 8 kHz, any whole number of them. Cheap; never blocks."""
        if self.closed:
            return
        buffer = self._buffer
        buffer += pcm
        if len(buffer) < _CONTEXT_BYTES + _WINDOW_BYTES:
            return
        while len(buffer) >= _CONTEXT_BYTES + _WINDOW_BYTES:
            self._waiting.append(bytes(buffer[: _CONTEXT_BYTES + _WINDOW_BYTES]))
            del buffer[:_WINDOW_BYTES]
        self._bank._wake(self)

    def close(self) -> None:
        """Close the stream: pending windows are dropped, and there are no more callbacks."""
        if self.closed:
            return
        self.closed = True
        self._waiting.clear()
        self._bank._forget(self)

    def _report(self, probabilities: Sequence[float]) -> None:
        for probability in probabilities:
            if self.closed:
                return
            self._end_sample += WINDOW_SAMPLES
            self._on_probability(probability, self._end_sample)

    def _fail(self, error: Exception) -> None:
        if self.closed:
            return
        self.close()
        if self._on_failed is not None:
            self._on_failed(error)


_Batch = list[tuple[VoiceActivityStream, list[bytes]]]
_Results = list[tuple[VoiceActivityStream, list[float]]]


class VoiceActivityBank:
    """The shared model, the worker thread's queue of one, and the open streams.

    The recurrent states of all streams are rows of one array, so that a batch's rows are read and
    written in one step. Only the worker thread accesses it; it clears a row before the first window
    of the row's next stream.

    ``executor`` runs one job at a time for this bank; give it a thread of its own so that speech
    recognition cannot delay it. The caller owns it and shuts it down after ``close``.
    """

    def __init__(
        self, model: VoiceActivityModel, executor: Executor, *, gather: float = GATHER
    ) -> None:
        self._model = model
        self._executor = executor
        self._gather = gather
        self._streams: set[VoiceActivityStream] = set()
        self._rows = 0
        self._free_rows: list[int] = []
        self._states: Floats = np.zeros((2, 8, STATE_SIZE), np.float32)
        self._pending: dict[VoiceActivityStream, None] = {}
        self._waiting_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._closed = False

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    @property
    def waiting_windows(self) -> int:
        """Windows fed but not yet handed to the worker thread, over all streams."""
        return sum(len(stream._waiting) for stream in self._pending)

    def open(
        self,
        on_probability: Callable[[float, int], None],
        on_failed: Callable[[Exception], None] | None = None,
    ) -> VoiceActivityStream:
        """Open a stream that starts at sample 0, in silence.

        ``on_probability(p, end_sample)`` is called on the event loop once per 256 samples, with the
        probability of speech in the window that ends just before ``end_sample``.
        """
        if self._closed:
            raise RuntimeError("the voice activity bank is closed")
        if not self._free_rows:
            self._free_rows.append(self._rows)
            self._rows += 1
        stream = self.make_stream(self._free_rows.pop(), on_probability, on_failed)
        self._streams.add(stream)
        return stream

    def make_stream(
        self,
        row: int,
        on_probability: Callable[[float, int], None],
        on_failed: Callable[[Exception], None] | None,
    ) -> VoiceActivityStream:
        """Make a stream with this row of the states; for banks with streams of their own."""
        return VoiceActivityStream(self, row, on_probability, on_failed)

    def close(self) -> None:
        """Close every stream. A batch that is in the model now is finished and its result
        dropped."""
        self._closed = True
        for stream in tuple(self._streams):
            stream.close()

    def _forget(self, stream: VoiceActivityStream) -> None:
        self._streams.discard(stream)
        self._free_rows.append(stream._row)
        self._pending.pop(stream, None)
        if not self._pending:
            self._stop_timer()

    def _wake(self, stream: VoiceActivityStream) -> None:
        if not self._pending:
            self._waiting_since = asyncio.get_running_loop().time()
        self._pending[stream] = None
        if not self._busy:
            self._start_soon()

    def _start_soon(self) -> None:
        """Start the batch now if every stream is in it, otherwise when the first has waited
        enough."""
        if len(self._pending) == len(self._streams):
            self._stop_timer()
            self._start_batch()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._waiting_since + self._gather, self._time_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_up(self) -> None:
        self._timer = None
        self._start_batch()

    def _start_batch(self) -> None:
        batch: _Batch = []
        for stream in self._pending:
            batch.append((stream, list(stream._waiting)))
            stream._waiting.clear()
        self._pending.clear()
        self._busy = True
        self._executor.submit(self._work, batch, asyncio.get_running_loop())

    def _work(self, batch: _Batch, loop: asyncio.AbstractEventLoop) -> None:
        """Judge the batch and post the results to the loop; runs in the worker thread."""
        results: _Results = []
        failure: Exception | None = None
        try:
            results = self._judge(batch)
        except Exception as error:  # noqa: BLE001 - thread border: reported to every stream
            failure = error
        try:
            loop.call_soon_threadsafe(self._deliver, batch, results, failure)
        except RuntimeError:
            log.debug("voice_activity_result_after_loop_closed")

    def _judge(self, batch: _Batch) -> _Results:
        """Judge round by round: the first window of each stream, then the second ones, and so
        on."""
        self._clear_fresh_rows(batch)
        results: _Results = [(stream, []) for stream, _ in batch]
        for turn in range(max(len(windows) for _, windows in batch)):
            members = [i for i, (_, windows) in enumerate(batch) if turn < len(windows)]
            joined = b"".join([batch[i][1][turn] for i in members])
            samples = np.frombuffer(joined, "<i2").astype(np.float32)
            samples *= 1 / 32768
            rows = [batch[i][0]._row for i in members]
            probabilities, states = self._model.judge(
                samples.reshape(len(members), CONTEXT_SAMPLES + WINDOW_SAMPLES),
                self._states.take(rows, axis=1),
            )
            self._states[:, rows] = states
            for i, probability in zip(members, probabilities.tolist(), strict=True):
                results[i][1].append(probability)
        return results

    def _clear_fresh_rows(self, batch: _Batch) -> None:
        highest = max(stream._row for stream, _ in batch)
        if highest >= self._states.shape[1]:
            grown = np.zeros((2, 2 * (highest + 1), STATE_SIZE), np.float32)
            grown[:, : self._states.shape[1]] = self._states
            self._states = grown
        for stream, _ in batch:
            if stream._fresh:
                self._states[:, stream._row] = 0
                stream._fresh = False

    def _deliver(self, batch: _Batch, results: _Results, failure: Exception | None) -> None:
        self._busy = False
        if self._pending:
            self._start_soon()
        if failure is not None:
            log.error("voice_activity_failed", streams=len(batch), exc_info=failure)
            for stream, _ in batch:
                stream._fail(failure)
        for stream, probabilities in results:
            try:
                stream._report(probabilities)
            except Exception as error:  # border: isolate the other calls
                log.exception("voice_activity_callback_failed", error=repr(error))
                stream._fail(error)
