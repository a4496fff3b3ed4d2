"""Whether, from when and to which file one call is recorded, and what its ledger says of that.

`recording.enabled` of the context decides. The words of consent are part of the greeting; with a
consent key nothing is kept before the caller has pressed it. The file stands beside the ledger,
with the ledger's name.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from cordboard.audio.format import AudioFormat
from cordboard.audio.wav_header import WavHeader
from cordboard.calls import events
from cordboard.calls.dtmf import EARLY, TONE_BEFORE
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.recorder import Recorder
from cordboard.calls.recording.writer import RecordingFile, RecordingWriter
from cordboard.config.conversation import Recording

log = structlog.get_logger()

INTERVAL = 1.0
"""Seconds between two pieces that are handed to the writer: so much a crash loses, and what is
held back."""
KEYS_HOLD_BACK = EARLY + TONE_BEFORE
"""So much sound is held back where keys may turn out to be secret, in seconds."""


def opening(recording: Recording, greeting: str) -> str:
    """The greeting with the words of consent before it."""
    consent = recording.consent if recording.enabled else ""
    return " ".join(part for part in (consent, greeting) if part)


class CallRecording:
    """The recording of one call; does nothing where the context does not record."""

    def __init__(
        self,
        settings: Recording,
        context_name: str,
        ledger: Ledger,
        directory: Path,
        writer: RecordingWriter,
        *,
        secret_keys: bool,
    ) -> None:
        """`directory`: what the path in the ledger is relative to; `secret_keys`: a tool of this
        call may collect some."""
        self._settings = settings
        self._context_name = context_name
        self._ledger = ledger
        self._directory = directory
        self._writer = writer
        self._hold_back = KEYS_HOLD_BACK if secret_keys else 0.0
        self._loop = asyncio.get_running_loop()
        self._sound: CallSound | None = None
        self._recorder: Recorder | None = None
        self._file: RecordingFile | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connect(self, sound: CallSound) -> None:
        """The call has sound. It is recorded from now on, unless a key has to be pressed first."""
        self._sound = sound
        if self._settings.enabled and not self._settings.consent_key:
            self._start()

    def consents(self, key: str) -> bool:
        """Whether this key is the caller's consent. If so, recording has begun."""
        if self._recorder is not None or not self._settings.enabled or self._sound is None:
            return False
        if not key or key != self._settings.consent_key:
            return False
        self._start()
        return True

    def pause(self) -> bool:
        """Record silence. False when the call is not being recorded."""
        if self._recorder is None:
            return False
        if not self._recorder.paused:
            self._recorder.pause(self._loop.time())
            self._ledger.record(events.RecordingPaused())
        return True

    def resume(self) -> bool:
        """Record sound again. False when the call is not being recorded."""
        if self._recorder is None:
            return False
        if self._recorder.paused:
            self._recorder.resume(self._loop.time())
            self._ledger.record(events.RecordingResumed())
        return True

    def stop(self) -> None:
        """The call is over: what is left goes to the file. Idempotent."""
        recorder, file = self._recorder, self._file
        if recorder is None or file is None or self._sound is None:
            return
        self._recorder = None
        if self._timer is not None:
            self._timer.cancel()
        self._sound.record(None)
        now = self._loop.time()
        recorder.hand_over(now, last=True)
        self._writer.finish(file)
        dropped_ms = round(1000 * file.dropped / file.source.rate)
        length_ms = round(1000 * (now - recorder.started_at))
        self._ledger.record(events.RecordingStopped(length_ms, dropped_ms))

    def _start(self) -> None:
        assert self._sound is not None  # noqa: S101 - its callers have looked
        source = self._sound.format
        file = self._file = RecordingFile(self._path(), self._header(source), source)
        recorder = self._recorder = Recorder(
            source,
            self._loop.time(),
            lambda left, right: self._writer.write(file, left, right),
            self._hold_back,
        )
        self._sound.record(recorder)
        self._timer = self._loop.call_later(INTERVAL, self._hand_over)
        self._ledger.record(
            events.RecordingStarted(
                str(file.path.relative_to(self._directory)), self._settings.format, source.rate
            )
        )
        log.info("recording_started", path=str(file.path))

    def _path(self) -> Path:
        """Beside the ledger. A dialplan may give all its calls one id: then with a number."""
        path = self._ledger.path.with_suffix(".wav")
        number = 1
        while path.exists():  # a look at one folder of a local disk, once a call: microseconds
            number += 1
            path = self._ledger.path.with_name(f"{self._ledger.path.stem}-{number}.wav")
        return path

    def _header(self, source: AudioFormat) -> WavHeader:
        comment = {
            "call_id": self._ledger.path.stem,
            "context": self._context_name,
            "day": self._ledger.path.parent.name,
            "keep_days": self._settings.keep_days,
        }
        return WavHeader(
            "ulaw" if self._settings.format == "wav_ulaw" else "slin", source.rate, comment
        )

    def _hand_over(self) -> None:
        if self._recorder is not None:
            self._timer = self._loop.call_later(INTERVAL, self._hand_over)
            self._recorder.hand_over(self._loop.time())
