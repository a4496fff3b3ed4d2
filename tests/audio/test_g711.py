"""G.711 bit for bit: against fixed points of the standard and against the C reference."""

from __future__ import annotations

import warnings

import pytest

from cordboard.audio import g711

ALL_SAMPLES = b"".join(value.to_bytes(2, "little", signed=True) for value in range(-32768, 32768))
ALL_CODES = bytes(range(256))


@pytest.fixture(scope="module")
def reference():  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return pytest.importorskip("audioop", reason="audioop left the library in Python 3.13")


def test_every_sample_is_encoded_like_the_reference(reference) -> None:  # type: ignore[no-untyped-def]
    assert g711.linear_to_ulaw(ALL_SAMPLES) == reference.lin2ulaw(ALL_SAMPLES, 2)
    assert g711.linear_to_alaw(ALL_SAMPLES) == reference.lin2alaw(ALL_SAMPLES, 2)


def test_every_code_is_decoded_like_the_reference(reference) -> None:  # type: ignore[no-untyped-def]
    assert g711.ulaw_to_linear(ALL_CODES) == reference.ulaw2lin(ALL_CODES, 2)
    assert g711.alaw_to_linear(ALL_CODES) == reference.alaw2lin(ALL_CODES, 2)


@pytest.mark.parametrize(
    ("sample", "ulaw", "alaw"),
    [
        (0, 0xFF, 0xD5),
        (32767, 0x80, 0xAA),
        (-32768, 0x00, 0x2A),
        (-1, 0x7E, 0x55),
        (1000, 0xCE, 0xFA),
        (-1000, 0x4E, 0x7A),
    ],
)
def test_fixed_points(sample: int, ulaw: int, alaw: int) -> None:
    pcm = sample.to_bytes(2, "little", signed=True)
    assert g711.linear_to_ulaw(pcm)[0] == ulaw
    assert g711.linear_to_alaw(pcm)[0] == alaw


def test_decoding_and_encoding_again_keeps_every_a_law_code() -> None:
    assert g711.linear_to_alaw(g711.alaw_to_linear(ALL_CODES)) == ALL_CODES


def test_decoding_and_encoding_again_keeps_every_u_law_code_but_negative_zero() -> None:
    again = g711.linear_to_ulaw(g711.ulaw_to_linear(ALL_CODES))
    assert [code for code in ALL_CODES if again[code] != code] == [0x7F]
