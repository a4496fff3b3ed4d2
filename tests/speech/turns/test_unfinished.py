import pytest

from cordboard.speech.turns.text_clues import is_unfinished


@pytest.mark.parametrize(
    "text",
    ["What's the weather for", "I would like the ATIS at", "My name is", "Transfer me to the..."],
)
def test_a_dangling_word_means_the_caller_goes_on(text: str) -> None:
    assert is_unfinished(text)


@pytest.mark.parametrize(
    "text",
    ["", "Yes.", "Goodbye.", "What's the weather for Bergen?", "What is this for?", "Kilo Juliett"],
)
def test_finished_texts(text: str) -> None:
    assert not is_unfinished(text)
