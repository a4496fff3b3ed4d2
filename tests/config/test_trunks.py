"""Names of trunks, by dial strings and names of channels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.trunks import trunk_of_channel, trunk_of_endpoint


@pytest.mark.parametrize(
    ("endpoint", "trunk"),
    [
        ("PJSIP/+4722123456@acme", "PJSIP/acme"),
        ("PJSIP/acme/sip:+4722123456@pbx.example.com", "PJSIP/acme"),
        ("PJSIP/6001", "PJSIP/6001"),
        ("SIP/acme/22123456", "SIP/acme"),
        ("DAHDI/g1/22123456", "DAHDI/g1"),
        ("Local/22123456@outbound/n", "Local/outbound"),
        ("PJSIP/", ""),
        ("", ""),
        ("6001", ""),
    ],
)
def test_of_a_dial_string(endpoint: str, trunk: str) -> None:
    assert trunk_of_endpoint(endpoint) == trunk


@pytest.mark.parametrize(
    ("name", "trunk"),
    [
        ("PJSIP/acme-0000001f", "PJSIP/acme"),
        ("PJSIP/acme-oslo-0000001f", "PJSIP/acme-oslo"),
        ("DAHDI/i1/4722123456-1", "DAHDI/i1"),
        ("Local/100@from-queue-00000003;2", "Local/from-queue"),
        ("PJSIP", ""),
        ("", ""),
    ],
)
def test_of_a_channel(name: str, trunk: str) -> None:
    assert trunk_of_channel(name) == trunk


@given(st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True), st.integers(0, 2**32 - 1))
def test_a_channel_has_the_trunk_of_the_dial_string_that_made_it(endpoint: str, n: int) -> None:
    channel = trunk_of_channel(f"PJSIP/{endpoint}-{n:08x}")
    assert channel == trunk_of_endpoint(f"PJSIP/+4722123456@{endpoint}") == f"PJSIP/{endpoint}"
