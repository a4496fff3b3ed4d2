from __future__ import annotations

import pytest
from pydantic import SecretStr

from cordboard.api.token_check import BearerGate

GATE = BearerGate(lambda: SecretStr("pässword-1"))
RIGHT = "Bearer " + "pässword-1".encode().decode("latin-1")


def status(gate: BearerGate, *headers: str) -> int | None:
    refusal = gate.refusal(headers)
    return refusal.status if refusal is not None else None


@pytest.mark.parametrize("header", [RIGHT, RIGHT.replace("Bearer", "bearer"), RIGHT + "  "])
def test_the_token_opens(header: str) -> None:
    assert status(GATE, header) is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        RIGHT[:-1],
        RIGHT + "x",
        RIGHT.removeprefix("Bearer "),
        RIGHT.replace("Bearer", "Basic"),
        "Bearer \udcff",
        "Bearer " + "x" * 100_000,
    ],
)
def test_anything_else_does_not(header: str) -> None:
    assert status(GATE, header) == 401


def test_two_tokens_are_none_even_when_both_are_right() -> None:
    assert status(GATE, RIGHT, RIGHT) == 401


@pytest.mark.parametrize("token", [None, SecretStr("")])
def test_without_a_token_nobody_passes_not_even_with_an_empty_one(token: SecretStr | None) -> None:
    assert status(BearerGate(lambda: token)) == 403
    assert status(BearerGate(lambda: token), "Bearer ") == 403


def test_a_refusal_never_shows_the_token() -> None:
    refusals = [GATE.refusal(headers) for headers in ((), ("Bearer no",), (RIGHT[:-1],))]
    assert not any("ssword" in repr(refusal) for refusal in refusals)


def test_a_token_that_is_changed_counts_from_the_next_request_on() -> None:
    tokens = iter([SecretStr("old"), SecretStr("new")])
    gate = BearerGate(lambda: next(tokens))
    assert status(gate, "Bearer old") is None
    assert status(gate, "Bearer old") == 401
