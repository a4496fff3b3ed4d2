"""Distributes the sound of one call: to agent, recording, echo guard, and people who listen.

`Media` has one callback per direction. If only one listener needs a direction, that listener is the
callback itself, and no code of this module runs per frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from cordboard.audio.format import AudioFormat
from cordboard.calls.offer import Media

Frames = Callable[[bytes], None]


def _ignore(_: bytes) -> None:
    """Do nothing with a frame."""


class SoundRecorder(Protocol):
    """A recorder of both directions. Times are loop times."""

    @property
    def started_at(self) -> float: ...

    def hear_caller(self, pcm: bytes, at: float) -> None: ...

    def hear_agent(self, pcm: bytes, at: float) -> None: ...

    def mute(self, since: float, until: float | None) -> None:
        """Record silence of the caller in this stretch; None: until `unmute`."""

    def unmute(self, at: float) -> None: ...

    def pause(self, at: float) -> None:
        """Record silence of both sides from `at` on."""

    def resume(self, at: float) -> None: ...


class CallSound:
    """Both directions of one call. Implements `calls.dtmf.Ears`."""

    def __init__(self, media: Media) -> None:
        self._loop = asyncio.get_running_loop()
        self._media = media
        self._silence = media.format.silence()
        self._listener: Frames | None = None
        self._deaf = False
        self._suspended = False
        self._on_hold = False
        self._secret = False
        self._hearing_again: asyncio.TimerHandle | None = None
        self._watchers: tuple[Frames, ...] = ()
        self._recorders: tuple[SoundRecorder, ...] = ()
        self._paused = False
        self._muted_until: float | None = 0.0
        """Loop time until which recorders that are added get silence; None: a secret goes on."""

    @property
    def format(self) -> AudioFormat:
        """The format of both directions."""
        return self._media.format

    @property
    def secret(self) -> bool:
        """True while a secret is being entered, which recorders and agent do not get."""
        return self._secret

    def listen(self, listener: Frames) -> None:
        """Set the listener for the caller's sound: the agent."""
        self._listener = listener
        self._connect_caller()
        if self._on_hold:
            self._connect_agent()

    def deafen(self) -> None:
        """Give the agent silence from now on: the call is ending and must not be interrupted."""
        self._deaf = True
        self._connect_caller()

    def suspend(self, on: bool) -> None:
        """Give the agent silence for a while: others talk, and are only recorded."""
        if on is not self._suspended:
            self._suspended = on
            self._connect_caller()

    def caller_holds(self, on: bool) -> None:
        """Give the agent silence while the caller has it on hold: what arrives is the music of the
        other side. The sent frames are its clock, since often no frame arrives."""
        if on is not self._on_hold:
            self._on_hold = on
            self._connect_caller()
            self._connect_agent()

    def watch(self, watcher: Frames) -> None:
        """Also pass each frame sent to the caller to `watcher` (`Media.on_sent`)."""
        self._watchers += (watcher,)
        self._connect_agent()

    def add(self, recorder: SoundRecorder) -> None:
        """Pass both directions to a recorder too: the recording, or a person who listens."""
        self._recorders += (recorder,)
        self._connect_caller()
        self._connect_agent()
        if self._muted_until is None or self._muted_until > recorder.started_at:
            recorder.mute(recorder.started_at, self._muted_until)
        if self._paused:
            recorder.pause(recorder.started_at)

    def remove(self, recorder: SoundRecorder) -> None:
        """Pass nothing more to a recorder."""
        self._recorders = tuple(each for each in self._recorders if each is not recorder)
        self._connect_caller()
        self._connect_agent()

    def pause(self) -> None:
        """Give the recorders silence of both sides, those to come too, until `resume`."""
        self._paused = True
        for recorder in self._recorders:
            recorder.pause(self._loop.time())

    def resume(self) -> None:
        """Give the recorders sound again."""
        self._paused = False
        for recorder in self._recorders:
            recorder.resume(self._loop.time())

    def close(self) -> None:
        """Cancel the timer."""
        if self._hearing_again is not None:
            self._hearing_again.cancel()

    # calls.dtmf.Ears

    def mute(self, since: float, until: float) -> None:
        for recorder in self._recorders:
            recorder.mute(since, until)
        if self._muted_until is not None:
            self._muted_until = max(self._muted_until, until)

    def secret_begins(self, since: float) -> None:
        self.close()
        for recorder in self._recorders:
            recorder.mute(since, None)
        self._secret, self._muted_until = True, None
        self._connect_caller()

    def secret_ends(self, at: float) -> None:
        for recorder in self._recorders:
            recorder.unmute(at)
        self._muted_until = at
        self._hearing_again = self._loop.call_at(at, self._hear_again)

    def _hear_again(self) -> None:
        self._secret = False
        self._connect_caller()

    # The callbacks for frames.

    def _connect_caller(self) -> None:
        listener, silence = self._listener, self._silence
        time = self._loop.time
        if self._on_hold:
            listener = None
        elif listener is not None and (self._deaf or self._suspended or self._secret):
            heard = listener

            def listener(_: bytes) -> None:
                heard(silence)

        keepers = tuple(recorder.hear_caller for recorder in self._recorders)
        hear = listener or _ignore
        if not keepers:
            self._media.on_audio(hear)
            return

        def all_of_them(frame: bytes) -> None:
            now = time()
            for keep in keepers:
                keep(frame, now)
            hear(frame)

        self._media.on_audio(all_of_them)

    def _connect_agent(self) -> None:
        watchers, time = self._watchers, self._loop.time
        if self._on_hold and (hear := self._listener) is not None:
            silence = self._silence
            watchers = (*watchers, lambda _: hear(silence))
        keepers = tuple(recorder.hear_agent for recorder in self._recorders)
        if len(watchers) == 1 and not keepers:
            self._media.on_sent(watchers[0])
            return

        def all_of_them(frame: bytes) -> None:
            for watcher in watchers:
                watcher(frame)
            for keep in keepers:
                keep(frame, time())

        self._media.on_sent(all_of_them)
