"""What the caller has heard, counted to the sample."""

from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio.format import SLIN_8K
from cordboard.telephony.outgoing import OutgoingAudio

SILENT = bytes(320)


def tick(outgoing: OutgoingAudio) -> bytes:
    frame = outgoing.frame()
    outgoing.settle()
    return frame


def test_with_nothing_to_say_it_gives_silence_and_counts_nothing():
    outgoing = OutgoingAudio(SLIN_8K)
    assert [tick(outgoing) for _ in range(3)] == [SILENT] * 3
    assert (outgoing.heard_ms, outgoing.queued_ms) == (0, 0)


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=1000), st.none()), max_size=30))
def test_every_written_byte_comes_out_once_and_in_order(steps):
    """`None` is a tick; silence comes only where nothing was left to say."""
    outgoing, written, out = OutgoingAudio(SLIN_8K), b"", b""
    for step in [*steps, *[None] * 100]:
        if step is None:
            whole = outgoing.queued_ms * 16
            frame = tick(outgoing)
            assert len(frame) == 320
            have = (len(written) - len(out)) // 2 * 2
            out += frame[: min(320, have)]
            assert frame[min(320, have) :] == bytes(320 - min(320, have))
            assert whole >= len(frame[: min(320, have)])
        else:
            # Never zero bytes, so that silence that was filled in shows.
            step = bytes(byte | 1 for byte in step)
            outgoing.write(step)
            written += step
    assert out == written[: len(written) // 2 * 2]
    assert outgoing.heard_ms == len(out) // 16


def test_a_mark_before_a_sentence_fires_with_its_first_frame():
    outgoing, fired = OutgoingAudio(SLIN_8K), []
    outgoing.write(b"\1" * 640)
    outgoing.mark(lambda: fired.append("second sentence"))
    outgoing.write(b"\2" * 640)
    assert [len(fired) for _ in range(4) if tick(outgoing)] == [0, 0, 1, 1]


def test_a_mark_after_the_last_sentence_fires_with_its_last_frame():
    outgoing, fired = OutgoingAudio(SLIN_8K), []
    outgoing.write(b"\1" * 400)
    outgoing.mark(lambda: fired.append("end"))
    assert [len(fired) for _ in range(3) if tick(outgoing)] == [0, 1, 1]


def test_a_mark_in_silence_fires_with_the_next_frame():
    outgoing, fired = OutgoingAudio(SLIN_8K), []
    outgoing.mark(lambda: fired.append("now"))
    assert fired == []
    tick(outgoing)
    assert fired == ["now"]


def test_a_mark_set_by_a_mark_waits_for_its_own_turn():
    outgoing, fired = OutgoingAudio(SLIN_8K), []

    def first() -> None:
        outgoing.write(b"\1" * 320)
        outgoing.mark(lambda: fired.append("second"))

    outgoing.mark(first)
    tick(outgoing)
    assert fired == []
    tick(outgoing)
    assert fired == ["second"]


def test_a_flush_takes_back_what_is_not_heard_and_its_marks():
    outgoing, fired = OutgoingAudio(SLIN_8K), []
    outgoing.write(b"\1" * 3200)
    outgoing.mark(lambda: fired.append("never"))
    for _ in range(3):
        tick(outgoing)
    assert outgoing.queued_ms == 140
    assert outgoing.flush() == 60
    assert outgoing.queued_ms == 0
    assert [tick(outgoing) for _ in range(20)] == [SILENT] * 20
    assert fired == []
    outgoing.write(b"\2" * 320)
    tick(outgoing)
    assert outgoing.heard_ms == 80


def test_half_a_sample_waits_for_its_other_half_but_keeps_no_mark_waiting():
    outgoing, fired = OutgoingAudio(SLIN_8K), []
    outgoing.write(b"\1\1\2")
    outgoing.mark(lambda: fired.append("end"))
    assert tick(outgoing) == b"\1\1" + bytes(318)
    assert fired == ["end"]
    outgoing.write(b"\2")
    assert tick(outgoing) == b"\2\2" + bytes(318)
