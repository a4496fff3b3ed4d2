"""When a caller is taken to wait, though the service does not say that they have finished."""

from __future__ import annotations

import pytest

from cordboard.agents.realtime.unanswered_speech import AGAIN, NOTICED, UNTOLD, UnansweredSpeech
from cordboard.audio.format import SLIN_8K
from cordboard.audio.voice_trace import VoiceTrace
from cordboard_testkit.fake_pipeline import silence, speech


class Line:
    """A caller's line, frame by frame."""

    def __init__(self) -> None:
        self.now = 100.0
        self._trace = VoiceTrace(SLIN_8K)
        self.patience = UnansweredSpeech(self._trace)
        self.hear(silence(3000))

    def hear(self, sound: bytes, *, alone: bool = True) -> float:
        """When it ended."""
        for at in range(0, len(sound), 320):
            self.now += 0.02
            if self._trace.hear(sound[at : at + 320], self.now):
                self.patience.voice_heard(alone=alone)
        return self.now

    def waits(self, seconds: float, noticed_at: float | None = None) -> list[float]:
        """After how much of that time the caller is found to wait."""
        began, found = self.now, []
        while self.now < began + seconds:
            self.hear(silence(100))
            if self.patience.waits_since(self.now, noticed_at) is not None:
                found.append(round(self.now - began, 1))
        return found


@pytest.mark.parametrize("noticed", [False, True])
def test_words_whose_end_nobody_tells_are_found_twice(noticed: bool) -> None:
    line = Line()
    began = line.now
    line.hear(speech(1500))
    waits = line.waits(30, began if noticed else None)
    assert waits == [pytest.approx(UNTOLD, abs=0.1), pytest.approx(UNTOLD + AGAIN, abs=0.1)]


def test_a_service_that_notices_late_has_a_moment_to_go_on() -> None:
    line = Line()
    line.hear(speech(1500))
    line.hear(silence(3500))
    assert line.waits(2.4, line.now)[0] == pytest.approx(NOTICED, abs=0.15)


def test_a_click_is_no_word_and_what_is_said_over_the_agent_is_none_either() -> None:
    line = Line()
    line.hear(speech(200))
    assert line.waits(20) == []
    line.hear(speech(1000), alone=False)
    assert line.waits(20) == []


def test_a_pause_is_told_of_again_when_the_caller_has_gone_on() -> None:
    line = Line()
    began = line.now
    line.hear(speech(1500))
    assert len(line.waits(6, began)) == 1
    line.hear(speech(1500))
    assert line.waits(6, began) == [pytest.approx(UNTOLD, abs=0.1)]


def test_what_the_service_never_notices_is_told_of_once_until_it_wakes_up() -> None:
    line = Line()
    for _ in range(3):
        line.hear(speech(500))
        line.waits(8)
    line.hear(speech(500))
    assert line.waits(8) == []
    line.patience.service_noticed()
    line.hear(speech(500))
    assert len(line.waits(8)) == 1
