"""Announcements that must be heard, and the recording."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.calls.events.event import LedgerEvent


@dataclass(frozen=True, slots=True)
class AnnouncementHeard(LedgerEvent):
    """The caller has heard an announcement to its end: the mark behind its sound was reached. In a
    written conversation: its text was handed to the client's connection. That does not say that the
    client has read or shown it."""

    type = "announcement.heard"
    kind: str
    """`disclosure` (`contexts.*.disclosure`) or `consent` (`recording.consent`)."""
    text: str
    text_sha256: str
    """SHA-256 of the text as it was to be spoken: its version."""
    audio_sha256: str
    """SHA-256 of the sound that was sent, from the first sample of the greeting to the end of the
    sentence with the last word, in the format `audio`. Empty in a written conversation."""
    audio: str
    """Encoding and samples per second, such as `ulaw 8000`; `text` in a written conversation."""


@dataclass(frozen=True, slots=True)
class AnnouncementUnheard(LedgerEvent):
    """It is not proven that the caller has heard an announcement."""

    type = "announcement.unheard"
    kind: str
    reason: str
    """`cut`: the caller interrupted it, or it was taken back; `other_words`: the service spoke
    other words; `not_spoken`: the greeting or the call was over before; `machine`: an earlier proof
    is void, because a machine that had seemed to be a person has heard the announcement. In a
    written conversation `cut` says that the client left before the text was handed to its
    connection."""


@dataclass(frozen=True, slots=True)
class RecordingStarted(LedgerEvent):
    """The recording begins; the file begins at this moment."""

    type = "recording.started"
    path: str
    """Path of the file, relative to `calls.directory`."""
    format: str
    """`wav` or `wav_ulaw`; stereo, caller left, agent right."""
    rate: int
    """Samples per second."""


@dataclass(frozen=True, slots=True)
class RecordingDeclined(LedgerEvent):
    """The call was not recorded, because the caller did not press the key of consent, or has not
    heard the sentence of consent to its end."""

    type = "recording.declined"
    reason: str = "no_key"
    """`no_key` or `consent_not_heard`."""


@dataclass(frozen=True, slots=True)
class RecordingPaused(LedgerEvent):
    """The recording is paused: silence is recorded from now on; the file's clock continues."""

    type = "recording.paused"


@dataclass(frozen=True, slots=True)
class RecordingResumed(LedgerEvent):
    """The recording is resumed: sound is recorded again."""

    type = "recording.resumed"


@dataclass(frozen=True, slots=True)
class RecordingStopped(LedgerEvent):
    """The recording is over."""

    type = "recording.stopped"
    duration_ms: int
    dropped_ms: int
    """Duration that could not be written until now and is silence in the file."""
