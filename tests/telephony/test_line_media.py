"""The parts that all media of a line share."""

from __future__ import annotations

from collections.abc import Callable

from cordboard.audio.format import SLIN_8K
from cordboard.telephony.line_media import MESSAGES_PER_SECOND, ArrivalMeter, PacedMedia

FRAME = 0.02


class Media(PacedMedia):
    """Counts how often its sound was stopped."""

    def __init__(self) -> None:
        super().__init__(SLIN_8K)
        self.stopped = 0

    def claim(self, on_lost: Callable[[str], None]) -> None:
        self._on_lost = on_lost

    def close(self) -> None:
        self._begin_closing()

    def lose(self, problem: str) -> None:
        self._tell_lost(problem)

    def _stop_sound(self) -> None:
        self.stopped += 1
        self.flush()


def test_the_call_hears_of_the_end_once_and_also_when_it_listens_late() -> None:
    media, early, late = Media(), list[str](), list[str]()
    media.on_closed(early.append)
    media.end("caller_hangup")
    media.end("media_lost")
    media.on_closed(late.append)
    assert (early, late, media.stopped) == (["caller_hangup"], ["caller_hangup"], 1)


def test_nothing_is_played_or_marked_after_the_end() -> None:
    media, marks = Media(), list[int]()
    media.write(bytes(320))
    assert media.queued_ms == 20
    media.end("media_lost")
    media.write(bytes(320))
    media.mark(lambda: marks.append(1))
    assert (media.queued_ms, marks) == (0, [])


def test_a_media_that_the_call_closes_tells_it_nothing_more() -> None:
    media, told = Media(), list[str]()
    media.on_closed(told.append)
    media.claim(told.append)
    media.close()
    media.end("caller_hangup")
    media.lose("broken")
    assert (told, media.stopped) == ([], 0)


def test_a_loss_is_told_to_the_line_once() -> None:
    media, told = Media(), list[str]()
    media.claim(told.append)
    media.lose("broken")
    media.lose("broken again")
    assert told == ["broken"]


def test_sound_may_catch_up_with_so_many_seconds_and_a_silence_saves_up_none() -> None:
    meter = ArrivalMeter(0.0, flood_seconds=1.0)
    now = 100.0
    taken = sum(meter.takes_sound(FRAME, now) for _ in range(200))
    assert taken == 50
    assert not meter.takes_sound(FRAME, now)
    assert meter.takes_sound(FRAME, now + FRAME)
    assert not meter.takes_sound(FRAME, now + FRAME)


def test_a_flood_of_messages_is_one_within_a_second() -> None:
    meter = ArrivalMeter(0.0)
    assert meter.takes_messages(MESSAGES_PER_SECOND, 0.5)
    assert meter.takes_messages(2 * MESSAGES_PER_SECOND, 1.5)
    assert not meter.takes_messages(2 * MESSAGES_PER_SECOND + 1, 1.6)
    assert meter.takes_messages(2 * MESSAGES_PER_SECOND + 2, 2.6)
