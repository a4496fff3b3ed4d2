"""What the page has played is heard, to the sample; nothing that it claims goes beyond that."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cordboard.audio.format import ULAW_8K
from cordboard.telephony.browser.messages import Played
from cordboard.telephony.browser.playout import STUCK_SECONDS, PagePlayout

FRAME = ULAW_8K.frame_bytes


@dataclass
class Page:
    """A page's queue, with its orders in order."""

    orders: list[tuple[str, int]] = field(default_factory=list)
    sound: bytearray = field(default_factory=bytearray)
    flushes: int = 0

    def send_sound(self, at_ms: int, sound: bytes) -> None:
        self.orders.append(("sound", at_ms))
        self.sound += sound

    def send_mark(self, name: int) -> None:
        self.orders.append(("mark", name))

    def send_flush(self, flush: int) -> None:
        self.orders.append(("flush", flush))
        self.sound.clear()

    def send_hold(self) -> None:
        self.orders.append(("hold", 0))

    def send_resume(self) -> None:
        self.orders.append(("resume", 0))


def made() -> tuple[Page, PagePlayout]:
    page = Page()
    return page, PagePlayout(ULAW_8K, page, 0.0)


def report(ms: float, *, playing: bool = True, flush: int = 0) -> Played:
    return Played(flush=flush, ms=ms, playing=playing, queued_ms=0, underruns=0)


def test_nothing_is_heard_before_the_page_reports_it_and_the_clock_counts_only_so_far() -> None:
    _, playout = made()
    playout.write(bytes(8_000), 0.0)
    assert (playout.heard_ms(3.0), playout.queued_ms(3.0)) == (0, 1_000)
    assert playout.played(report(100), 1.0) == ""
    assert playout.heard_ms(1.0) == 100
    assert playout.heard_ms(1.06) == 160, "between two reports the clock counts"
    assert playout.heard_ms(9.0) == 300, "a page that falls silent is not believed to play on"
    assert playout.played(report(1_000, playing=False), 9.0) == ""
    assert (playout.heard_ms(20.0), playout.queued_ms(20.0)) == (1_000, 0)


def test_a_held_sentence_is_taken_back_at_the_exact_sample_where_the_page_stopped() -> None:
    page, playout = made()
    playout.write(bytes(8_000), 0.0)
    playout.played(report(200), 1.0)
    playout.hold(1.05)
    assert playout.heard_ms(1.09) == 250, "the estimate of the hold, until the page reports"
    playout.played(report(243.375, playing=False), 1.1)
    assert playout.heard_ms(1.5) == 243
    assert playout.flush(1.5) == 243
    assert playout.queued_ms(1.5) == 0
    assert page.orders[-2:] == [("hold", 0), ("flush", 1)]
    playout.write(bytes(1_600), 2.0)
    playout.played(report(240, playing=False), 2.0)  # was on its way when the flush was sent
    assert playout.heard_ms(2.0) == 243
    playout.played(report(20, flush=1), 2.1)
    assert playout.heard_ms(2.1) == 263, "the new count begins where the old one was cut"


def test_after_a_resume_the_clock_waits_for_the_page() -> None:
    page, playout = made()
    playout.write(bytes(8_000), 0.0)
    playout.played(report(100), 1.0)
    playout.hold(1.0)
    playout.played(report(100, playing=False), 1.01)
    playout.resume(2.0)
    assert page.orders[-1] == ("resume", 0)
    assert playout.heard_ms(2.1) == 100
    playout.played(report(100), 2.125)
    assert playout.heard_ms(2.1875) == 162


def test_marks_stand_between_the_very_samples_and_fire_when_the_page_reaches_them() -> None:
    page, playout = made()
    fired: list[str] = []
    playout.mark(lambda: fired.append("start"), 0.0)
    playout.write(bytes(FRAME + 40), 0.0)
    playout.mark(lambda: fired.append("middle"), 0.0)
    playout.write(bytes(FRAME), 0.0)
    playout.mark(lambda: fired.append("end"), 0.0)
    assert page.orders == [
        ("mark", 1), ("sound", 0), ("sound", 20), ("mark", 2), ("sound", 25), ("mark", 3),
    ]  # fmt: skip
    assert playout.mark_done(2, 0.5) == ""
    assert fired == ["start", "middle"]
    assert playout.heard_ms(0.5) == 25
    playout.flush(0.6)
    assert playout.mark_done(3, 0.7) == "", "of a flushed mark"
    assert fired == ["start", "middle"]


def test_an_incomplete_frame_waits_for_the_rest_and_is_sent_without_it_in_the_end() -> None:
    page, playout = made()
    playout.write(bytes(100), 0.0)
    playout.tick(0.02)
    assert page.orders == []
    playout.tick(0.04)
    assert bytes(page.sound) == bytes(100)
    assert playout.played(report(12.5, playing=False), 0.1) == ""
    assert playout.queued_ms(0.1) == 0


def test_the_page_never_has_more_than_five_seconds_and_gets_the_rest_as_it_plays() -> None:
    page, playout = made()
    playout.write(bytes(8_000 * 20), 0.0)
    assert len(page.sound) == 8_000 * 5
    playout.played(report(1_000, playing=False), 1.0)
    assert len(page.sound) == 8_000 * 6
    assert playout.queued_ms(1.0) == 19_000


def test_reports_that_cannot_be_true_are_named() -> None:
    _, playout = made()
    playout.write(bytes(800), 0.0)
    assert "and 100 ms sent" in playout.played(report(101), 0.1)
    assert playout.played(report(60), 0.1) == ""
    assert "after 60 ms" in playout.played(report(59), 0.2)
    assert "flush 1" in playout.played(report(0, flush=1), 0.2)
    assert "mark 1" in playout.mark_done(1, 0.2)
    assert playout.heard_ms(0.1) == 60


def test_a_page_that_plays_nothing_of_its_sound_is_stuck_and_a_held_one_is_not() -> None:
    _, playout = made()
    assert not playout.stuck(100.0)
    playout.write(bytes(8_000), 100.0)
    assert not playout.stuck(100.0 + STUCK_SECONDS)
    assert playout.stuck(100.1 + STUCK_SECONDS)
    playout.hold(100.0)
    assert not playout.stuck(200.0)
    playout.resume(200.0)
    assert not playout.stuck(200.0 + STUCK_SECONDS)
    assert playout.stuck(200.1 + STUCK_SECONDS)


def test_the_recorder_gets_what_was_heard_and_silence_else() -> None:
    _, playout = made()
    spoken = bytes(range(160)) * 3 + bytes(range(80))
    playout.write(spoken, 0.0)
    playout.tick(0.05)
    shown: list[bytes] = []
    playout.show(0.05, 1, shown.append)
    for tick in range(1, 5):
        playout.played(report(min(20.0 * tick, 70.0)), tick / 50)
        playout.show(tick / 50, 1, shown.append)
    silence = ULAW_8K.silence()
    assert shown[0] == silence
    assert b"".join(shown[1:]) == spoken + silence[:80]


@given(st.lists(st.floats(0, 400), min_size=1, max_size=20))
def test_whatever_the_page_claims_no_more_is_heard_than_was_sent(claims: list[float]) -> None:
    _, playout = made()
    playout.write(bytes(1_600), 0.0)
    for at, ms in enumerate(claims):
        playout.played(report(ms), at / 10)
        assert 0 <= playout.heard_ms(at / 10 + 0.3) <= 200
        assert playout.heard_ms(at / 10) + playout.queued_ms(at / 10) in (200, 201)


class CallOnAPage(RuleBasedStateMachine):
    """An honest page with a slow network: the engine never claims more than the page has played."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.page, self.playout = made()
        self.played = 0
        """Bytes of the present count."""
        self.total = 0
        self.held = False

    @rule(size=st.integers(1, 900))
    def write(self, size: int) -> None:
        self.playout.write(bytes(size), self.now)

    @rule(ms=st.integers(1, 300))
    def play(self, ms: int) -> None:
        self.now += ms / 1000
        self.playout.tick(self.now)
        if not self.held:
            self.played = min(len(self.page.sound), self.played + ms * 8)
        self.tell()

    def tell(self) -> None:
        on = not self.held and self.played < len(self.page.sound)
        told = report(self.played / 8, playing=on, flush=self.page.flushes)
        assert self.playout.played(told, self.now) == ""

    @rule()
    def hold(self) -> None:
        self.playout.hold(self.now)
        self.held = True
        self.tell()

    @rule()
    def resume(self) -> None:
        self.playout.resume(self.now)
        self.held = False
        self.tell()

    @rule()
    def flush(self) -> None:
        heard = self.playout.flush(self.now)
        self.total += self.played
        assert heard == self.total // 8
        self.played, self.held = 0, False
        self.page.flushes += 1

    @invariant()
    def heard_is_played(self) -> None:
        assert self.playout.heard_ms(self.now) == (self.total + self.played) // 8


TestCallOnAPage = CallOnAPage.TestCase
