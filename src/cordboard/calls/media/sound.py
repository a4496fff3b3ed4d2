"""Distributes the sound of one call to its listeners: agent, recorder, echo guard.

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


class SoundRecorder(Protocol):
    """A recorder of both directions. Times are loop times."""

    @property
    def started_at(self) -> float: ...

    def hear_caller(self, pcm: bytes, at: float) -> None: ...

    def hear_agent(self, pcm: bytes, at: float) -> None: ...

    def mute(self, since: float, until: float | None) -> None:
        """Record silence of the caller in this stretch; None: until `unmute`."""

    def unmute(self, at: float) -> None: ...


class CallSound:
    """Both directions of one call. Implements `calls.dtmf.Ears`."""

    def __init__(self, media: Media) -> None:
        self._loop = asyncio.get_running_loop()
        self._media = media
        self._silence = media.format.silence()
        self._listener: Frames | None = None
        self._deaf = False
        self._secret = False
        self._hearing_again: asyncio.TimerHandle | None = None
        self._watchers: tuple[Frames, ...] = ()
        self._recorder: SoundRecorder | None = None

    @property
    def format(self) -> AudioFormat:
        """The format of both directions."""
        return self._media.format

    def listen(self, listener: Frames) -> None:
        """Set the listener for the caller's sound: the agent."""
        self._listener = listener
        self._connect_caller()

    def deafen(self) -> None:
        """Give the agent silence from now on: the call is ending and must not be interrupted."""
        self._deaf = True
        self._connect_caller()

    def watch(self, watcher: Frames) -> None:
        """Also pass each frame sent to the caller to `watcher` (`Media.on_sent`)."""
        self._watchers += (watcher,)
        self._connect_agent()

    def record(self, recorder: SoundRecorder | None) -> None:
        """Pass both directions to a recorder; None ends it."""
        self._recorder = recorder
        self._connect_caller()
        self._connect_agent()
        if recorder is not None and self._secret:
            recorder.mute(recorder.started_at, None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._hearing_again is not None:
            self._hearing_again.cancel()

    # calls.dtmf.Ears

    def mute(self, since: float, until: float) -> None:
        if self._recorder is not None:
            self._recorder.mute(since, until)

    def secret_begins(self, since: float) -> None:
        self.close()
        if self._recorder is not None:
            self._recorder.mute(since, None)
        self._secret = True
        self._connect_caller()

    def secret_ends(self, at: float) -> None:
        if self._recorder is not None:
            self._recorder.unmute(at)
        self._hearing_again = self._loop.call_at(at, self._hear_again)

    def _hear_again(self) -> None:
        self._secret = False
        self._connect_caller()

    # The callbacks for frames.

    def _connect_caller(self) -> None:
        listener, recorder, silence = self._listener, self._recorder, self._silence
        time = self._loop.time
        if listener is not None and (self._deaf or self._secret):
            heard = listener

            def listener(_: bytes) -> None:
                heard(silence)

        if recorder is None:
            if listener is not None:
                self._media.on_audio(listener)
            return
        keep = recorder.hear_caller
        if listener is None:
            self._media.on_audio(lambda frame: keep(frame, time()))
            return
        hear = listener

        def both(frame: bytes) -> None:
            keep(frame, time())
            hear(frame)

        self._media.on_audio(both)

    def _connect_agent(self) -> None:
        watchers, recorder = self._watchers, self._recorder
        if recorder is not None:
            keep, time = recorder.hear_agent, self._loop.time
            watchers = (*watchers, lambda frame: keep(frame, time()))
        if len(watchers) == 1:
            self._media.on_sent(watchers[0])
            return

        def all_of_them(frame: bytes) -> None:
            for watcher in watchers:
                watcher(frame)

        self._media.on_sent(all_of_them)
