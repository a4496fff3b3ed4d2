"""Audio on the wall clock: a caller's speech and hearing, timed to the sample.

A `Track` holds one direction as frames with the moment each was put on, or came off, the wire
(`time.monotonic()` seconds). Convention for both directions: sample `i` of a frame that passed the
wire at `t` counts as spoken or heard at `t + i / 8000`, so that an echo without delay measures
0 ms. A real phone adds its 20 ms of packetisation and its jitter buffer to every figure.

Frames are laid out as a phone with a small jitter buffer plays them: in one piece while they come
regularly, one after the other when they come in a bunch, a gap when they come too late; silence
that comes at its regular pace brings the playout back to the wire. Measurements never use a moment
before the arrival.

Written by one thread (`append`), read by others: reading copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cordboard.audio.levels import first_audible, last_audible
from cordboard.audio.sample_clock import SampleClock

Samples: TypeAlias = NDArray[np.int16]

RATE = 8000
FRAME_SAMPLES = 160
FRAME_SECONDS = FRAME_SAMPLES / RATE

SPEECH_LEVEL = 328
"""Absolute sample value that counts as speech: -40 dBFS."""

_JITTER = 0.005  # s; a frame that is early by less is on time
_EDGE = 0.15  # s; half of what divides two segments
_LEAD = 0.2  # s; of quiet around speech, for a recogniser
_LATE_TOLERANCE = 0.06  # s; a later frame leaves an audible gap, as in a 60 ms jitter buffer


@dataclass(frozen=True, slots=True)
class TrackFrame:
    """One frame of sound: when it passed the wire, and when its first sample is played."""

    passed_at: float
    played_at: float
    samples: Samples

    @property
    def audible_at(self) -> float:
        """Time at which the first sample is heard: on arrival, or later if it had to queue."""
        queued = self.played_at - self.passed_at > _JITTER
        return self.played_at if queued else self.passed_at


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of speech, in `time.monotonic()` seconds: first to last loud sample."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TurnLatency:
    """From the caller's last speech sample to the agent's first one."""

    caller_stopped_at: float
    agent_started_at: float

    @property
    def seconds(self) -> float:
        return self.agent_started_at - self.caller_stopped_at


class Track:
    """One direction of a call. `last_loud_at` is the moment of the last speech sample so far."""

    def __init__(self) -> None:
        self.first_loud_at: float | None = None
        self.last_loud_at: float | None = None
        self._frames: list[TrackFrame] = []
        self._played_until = float("-inf")
        self._loud_until = float("-inf")
        self._last_passed_at = float("-inf")

    def append(self, passed_at: float, samples: Samples) -> TrackFrame:
        """Place the next frame on the clock."""
        loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > SPEECH_LEVEL)
        if passed_at > self._played_until + _LATE_TOLERANCE:
            played_at = passed_at
        elif len(loud):
            played_at = self._played_until  # never cut speech short
        elif self._lags_for_no_reason(passed_at):
            played_at = max(passed_at, self._loud_until)
        else:
            played_at = self._played_until
        frame = TrackFrame(passed_at, played_at, samples)
        self._last_passed_at = passed_at
        self._played_until = played_at + len(samples) / RATE
        if len(loud):
            self._loud_until = self._played_until
            if self.first_loud_at is None:
                self.first_loud_at = frame.audible_at + float(loud[0]) / RATE
            self.last_loud_at = frame.audible_at + float(loud[-1]) / RATE
        self._frames.append(frame)
        return frame

    def _lags_for_no_reason(self, passed_at: float) -> bool:
        """True when the playout is behind the wire although frames arrive one by one, not in
        bunches."""
        behind = self._played_until - passed_at > _JITTER
        return behind and passed_at - self._last_passed_at > FRAME_SECONDS / 2

    @property
    def frames(self) -> list[TrackFrame]:
        return list(self._frames)

    @property
    def span(self) -> tuple[float, float] | None:
        """First and last moment of the track; None while it is empty."""
        if not self._frames:
            return None
        return self._frames[0].played_at, self._played_until

    def render(self, start: float, end: float) -> Samples:
        """The audio between two moments, with silence in gaps."""
        sound = np.zeros(max(0, round((end - start) * RATE)), np.int16)
        for frame in self.frames:
            first = round((frame.played_at - start) * RATE)
            skip = max(0, -first)
            part = frame.samples[skip : max(skip, len(sound) - first)]
            if len(part):
                sound[first + skip : first + skip + len(part)] = part
        return sound

    def utterances(self, since: float = float("-inf"), *, join: float = 0.6) -> list[Samples]:
        """The sound of each stretch of speech heard after `since`, with `_LEAD` around it.

        Frames follow each other in order of arrival, without the gaps that late frames leave on the
        clock. Pauses shorter than `join` seconds do not divide it.
        """
        frames = [frame.samples for frame in self.frames if frame.audible_at >= since - _LEAD]
        sound = np.concatenate(frames) if frames else np.zeros(0, np.int16)
        loud = np.flatnonzero(np.abs(sound.astype(np.int32)) > SPEECH_LEVEL)
        stretches = np.split(loud, np.flatnonzero(np.diff(loud) > join * RATE) + 1)
        edge = round(_LEAD * RATE)
        return [sound[max(0, s[0] - edge) : s[-1] + edge] for s in stretches if len(s)]

    def first_loud_after(self, moment: float) -> float | None:
        """Time of the first audible speech sample after `moment`; None if there is none.

        Looks only at the frames since then, so the call costs the event loop nothing.
        """
        if self.last_loud_at is None or self.last_loud_at <= moment:
            return None
        found: float | None = None
        for frame in reversed(self._frames):
            if frame.audible_at + len(frame.samples) / RATE <= moment:
                break
            loud = np.flatnonzero(np.abs(frame.samples.astype(np.int32)) > SPEECH_LEVEL)
            later = loud[frame.audible_at + loud / RATE > moment]
            if len(later):
                found = frame.audible_at + float(later[0]) / RATE
        return found

    def segments(self, *, join: float = 0.3, level: int = SPEECH_LEVEL) -> list[Segment]:
        """The stretches of speech; pauses shorter than `join` seconds do not divide them."""
        found: list[Segment] = []
        for frame in self.frames:
            loud = np.flatnonzero(np.abs(frame.samples.astype(np.int32)) > level)
            if not len(loud):
                continue
            start = frame.audible_at + float(loud[0]) / RATE
            end = frame.audible_at + float(loud[-1]) / RATE
            if found and start - found[-1].end < join:
                found[-1] = Segment(found[-1].start, end)
            else:
                found.append(Segment(start, end))
        return found

    def audible(self, segment: Segment, *, spoken: bool = False) -> Segment:
        """The stretch of speech in `segment` by the rule of the engine's ledger.

        `segments` divides the sound by its loud samples; this looks into the quieter beginning and
        end of one of them, no further than half way to a pause that divides (0.15 s).

        `spoken`: the track is what a microphone took, one sample after the other, however late its
        frames left. What is heard counts from when it came.
        """
        frames = [
            frame
            for frame in self.frames
            if segment.start - _EDGE < frame.audible_at + FRAME_SECONDS
            and frame.audible_at < segment.end + _EDGE
        ]
        if not frames:
            return segment
        sound = np.concatenate([frame.samples for frame in frames])
        first, last = first_audible(sound, RATE), last_audible(sound, RATE)
        if first is None or last is None:
            return segment
        if not spoken:
            return Segment(_moment(frames, first), _moment(frames, last - 1) + 1 / RATE)
        clock = SampleClock(RATE)
        for frame in frames:
            clock.take(len(frame.samples), frame.passed_at)
        return Segment(clock.time_of(first), clock.time_of(last))


def _moment(frames: list[TrackFrame], sample: int) -> float:
    """Time at which that sample of these joined frames was heard."""
    for frame in frames:
        if sample < len(frame.samples):
            return frame.audible_at + sample / RATE
        sample -= len(frame.samples)
    raise IndexError(sample)


def turn_latencies(caller: list[Segment], agent: list[Segment]) -> list[TurnLatency]:
    """Pair the end of each utterance of the caller with the agent's next onset.

    An utterance that the caller follows by another before the agent speaks is part of the same
    turn; one during which or at whose end the agent is speaking has no latency and is left out.
    """
    turns = []
    for index, said in enumerate(caller):
        next_start = caller[index + 1].start if index + 1 < len(caller) else float("inf")
        if any(heard.start <= said.end <= heard.end for heard in agent):
            continue
        onset = next((heard.start for heard in agent if heard.start > said.end), None)
        if onset is not None and onset < next_start:
            turns.append(TurnLatency(said.end, onset))
    return turns
