"""Starts and ends the recording of one call, and records that in its ledger.

`recording.enabled` of the context decides. The consent text is part of the greeting; with a consent
key, no sound is kept before the caller has pressed it. The file is beside the ledger and has the
ledger's name.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import structlog

from cordboard.audio.format import AudioFormat
from cordboard.audio.wav import WavHeader
from cordboard.calls import events
from cordboard.calls.dtmf import EARLY, TONE_BEFORE
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.recorder import Recorder
from cordboard.calls.recording.writer import RecordingFile, RecordingWriter
from cordboard.calls.resumption import NOT_RECORDED_YET, EarlierRecording
from cordboard.config.conversation import Recording

log = structlog.get_logger()

RecordingState = Literal["off", "asking", "on", "paused", "muted"]

INTERVAL = 1.0
"""Seconds between two pieces handed to the writer; a crash loses that much, plus what is held
back."""
KEYS_HOLD_BACK = EARLY + TONE_BEFORE
"""Seconds of sound held back if keys may turn out to be secret."""


class CallRecording:
    """The recording of one call; does nothing if the context does not record."""

    def __init__(
        self,
        settings: Recording,
        context_name: str,
        ledger: Ledger,
        directory: Path,
        writer: RecordingWriter,
        *,
        secret_keys: bool,
        earlier: EarlierRecording = NOT_RECORDED_YET,
    ) -> None:
        """`directory` is the base of the path in the ledger; `secret_keys` is True if a tool of
        this call may collect secret keys. `earlier`: what another engine has recorded of the
        call; the sound that follows is in a file of its own."""
        self._earlier = earlier
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
        self._unheard = False
        """Silence is recorded, because only a machine has heard the consent."""
        self._is_clip = False
        """True while only a message of the caller is recorded, in a call that is not recorded."""

    def begin_clip(self) -> bool:
        """Record a message of the caller. In a call whose context does not record, it has a file of
        its own. False if the caller is not recorded: paused, or without their consent."""
        if self._sound is None or self._recorder is not None:
            return self.state == "on"
        if self._settings.enabled:
            return False
        self._is_clip = True
        self._start()
        return True

    def end_clip(self) -> None:
        """End the file of a message; a recording of the call goes on."""
        if self._is_clip:
            self._is_clip = False
            self.stop()

    @property
    def position(self) -> tuple[str, int] | None:
        """The file, relative to `calls.directory`, and the ms in it at this moment; None if nothing
        is recorded."""
        if self._recorder is None or self._file is None:
            return None
        passed = self._loop.time() - self._recorder.started_at
        return str(self._file.path.relative_to(self._directory)), round(1000 * passed)

    @property
    def state(self) -> RecordingState:
        """State at this moment. `asking`: the caller may still consent;
        `muted`: the caller enters a secret."""
        if self._recorder is None:
            may_begin = self._file is None and self._sound is not None and self._settings.enabled
            return "asking" if may_begin else "off"
        if self._recorder.paused:
            return "paused"
        return "muted" if self._sound is not None and self._sound.secret else "on"

    def connect(self, sound: CallSound) -> None:
        """Connect the call's sound and start recording, unless a key has to be pressed first."""
        self._sound = sound
        settings = self._settings
        waits = settings.consent_key or settings.waits_for_consent
        if settings.enabled and (self._earlier.allowed or not waits):
            self._start()
            if self._earlier.paused:
                self.pause()

    def consent_heard(self) -> None:
        """Start recording: the caller has heard the sentence of consent to its end."""
        if self._recorder is None and self._file is None and self._sound is not None:
            self._start()
        elif self._unheard and self._recorder is not None:
            self._unheard = False
            self._recorder.resume(self._loop.time())
            self._ledger.record(events.RecordingResumed())

    def consent_void(self) -> None:
        """Record silence until the consent is heard again: a machine has heard it, no person."""
        if self._recorder is not None and not self._recorder.paused:
            self._unheard = True
            self._recorder.pause(self._loop.time())
            self._ledger.record(events.RecordingPaused())

    def consents(self, key: str) -> bool:
        """Return True, and start recording, if this key is the caller's consent."""
        if self._recorder is not None or not self._settings.enabled or self._sound is None:
            return False
        if not key or key != self._settings.consent_key:
            return False
        self._start()
        return True

    def pause(self) -> bool:
        """Record silence. False if the call is not being recorded."""
        paused = self._recorder is not None and self._recorder.paused
        if self._sound is not None:
            self._sound.pause()  # for those who listen, too
        if self._recorder is not None and not paused:
            self._ledger.record(events.RecordingPaused())
        return self._recorder is not None

    def resume(self) -> bool:
        """Record sound again. False if the call is not being recorded."""
        paused = self._recorder is not None and self._recorder.paused
        if self._sound is not None:
            self._sound.resume()
        if paused:
            self._ledger.record(events.RecordingResumed())
        return self._recorder is not None

    def stop(self) -> None:
        """End the recording and hand over the rest of the sound. Idempotent."""
        recorder, file = self._recorder, self._file
        if file is None and self._sound is not None and self._settings.enabled:
            self._sound = None
            reason = "no_key" if self._settings.consent_key else "consent_not_heard"
            self._ledger.record(events.RecordingDeclined(reason))
        if recorder is None or file is None or self._sound is None:
            return
        self._recorder = None
        if self._timer is not None:
            self._timer.cancel()
        self._sound.remove(recorder)
        now = self._loop.time()
        recorder.hand_over(now, last=True)
        self._writer.finish(file)
        dropped_ms = round(1000 * file.dropped / file.source.rate)
        length_ms = round(1000 * (now - recorder.started_at))
        self._ledger.record(events.RecordingStopped(length_ms, dropped_ms))

    def _start(self) -> None:
        assert self._sound is not None  # noqa: S101 - checked by its callers
        source = self._sound.format
        file = self._file = RecordingFile(
            self._path(), self._header(source), source, self._ledger.seal, self._writer.vault
        )
        recorder = self._recorder = Recorder(
            source,
            self._loop.time(),
            lambda left, right: self._writer.write(file, left, right),
            self._hold_back,
        )
        self._sound.add(recorder)
        recorder.resume(self._loop.time())  # a pause before it was for those who listen
        self._timer = self._loop.call_later(INTERVAL, self._hand_over)
        self._ledger.record(
            events.RecordingStarted(
                str(file.path.relative_to(self._directory)), self._settings.format, source.rate
            )
        )
        log.info("recording_started", path=str(file.path))

    def _path(self) -> Path:
        """Return a path beside the ledger; numbered, as a dialplan may give several calls one
        id, and as a call that began in another engine has files there."""
        path = self._ledger.path.with_suffix(".wav")
        number = 1
        # Checks a folder on a local disk, once per call: microseconds.
        while number <= self._earlier.files or path.exists():
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
