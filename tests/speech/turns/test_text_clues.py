import pytest

from cordboard.agent_api.stt import Transcript
from cordboard.speech.turns.interruption import judge_words
from cordboard.speech.turns.text_clues import TextClue, clue_of, is_murmur


@pytest.mark.parametrize(
    "text",
    ["Mm-hmm.", "Mhm", "Uh-huh.", "Mm-huh.", "Hmm.", "Okay.", "Okay, okay.", "Yeah.", "I see.",
     "Right, I see.", "Oh, all right.", "Sure.", "Got it!"],
)  # fmt: skip
def test_what_listeners_murmur(text: str) -> None:
    assert is_murmur(text)
    assert clue_of(text, complete=False) is TextClue.MURMUR


@pytest.mark.parametrize(
    "text",
    ["", "No.", "Stop!", "Okay, but what about Oslo?", "Yeah, stop please.", "I see nothing.",
     "Hello?", "Him.", "Home.", "Ohio.", "Got it wrong."],
)  # fmt: skip
def test_what_is_more_than_a_murmur(text: str) -> None:
    assert not is_murmur(text)


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("", TextClue.NOTHING),
        ("...", TextClue.NOTHING),
        ("My number is 479", TextClue.DICTATION),
        ("My code is 4", TextClue.DICTATION),
        ("4 7 9", TextClue.DICTATION),
        ("555-867", TextClue.DICTATION),
        ("E N", TextClue.DICTATION),
        ("Kilo Juliett", TextClue.DICTATION),
        ("It is spelled S M", TextClue.DICTATION),
        ("555-867-5309", TextClue.WORDS),
        ("I would like room 12.", TextClue.WORDS),
        ("Two.", TextClue.ONE_WORD),
        ("Bergen.", TextClue.ONE_WORD),
        ("What's the weather for", TextClue.DANGLING),
        ("There are more than.", TextClue.DANGLING),
        ("I would like to,", TextClue.DANGLING),
        ("Hold on while I...", TextClue.DANGLING),
        ("What is this for?", TextClue.WORDS),
        ("My booking number.", TextClue.DANGLING),
        ("My flight was unexpectedly", TextClue.DANGLING),
        ("I need it quickly.", TextClue.WORDS),
        ("The flight number", TextClue.DANGLING),
        ("What is my booking number", TextClue.WORDS),
        ("I want a plan A.", TextClue.DANGLING),
        ("The weather in Oslo, please.", TextClue.WORDS),
    ],
)
def test_what_the_words_of_a_pause_tell(text: str, clue: TextClue) -> None:
    assert clue_of(text, complete=False) is clue


def test_a_whole_answer_counts_when_it_is_short_or_dictated() -> None:
    assert clue_of("Yes.", complete=True) is TextClue.COMPLETE
    assert clue_of("K J F K", complete=True) is TextClue.COMPLETE
    assert clue_of("My number is 4791234567", complete=True) is TextClue.COMPLETE
    longer = clue_of("What is the weather in Oslo", complete=True)
    assert longer is TextClue.WORDS, "a longer one may have a tail"


def heard(text: str, confidence: float) -> Transcript:
    return Transcript(text, 0.1, confidence, 90.0)


def test_words_over_the_agent_count_from_a_confidence_that_falls_with_their_length() -> None:
    assert judge_words(heard("Stop.", 0.5), 250, complete=False) == (TextClue.ONE_WORD, True)
    assert judge_words(heard("I have a.", 0.35), 250, complete=False)[1] is False
    assert judge_words(heard("In the end.", 0.35), 700, complete=False)[1]


def test_a_word_is_sure_from_a_certain_confidence() -> None:
    assert judge_words(heard("No.", 0.3), 250, complete=False) == (TextClue.ONE_WORD, False)
    assert judge_words(heard("No.", 0.5), 250, complete=False) == (TextClue.ONE_WORD, True)
    assert judge_words(heard("No.", 0.3), 250, complete=True)[0] is TextClue.COMPLETE


def test_yeah_is_an_answer_when_one_is_awaited() -> None:
    assert judge_words(heard("Yeah.", 0.5), 250, complete=False) == (TextClue.MURMUR, True)
    assert judge_words(heard("Yeah.", 0.5), 250, complete=True) == (TextClue.COMPLETE, True)


def test_what_began_as_a_murmur_stays_one_unless_it_surely_goes_on() -> None:
    hum = heard("I'm home.", 0.4)
    assert judge_words(hum, 450, complete=False, murmured=True) == (TextClue.MURMUR, False)
    more = heard("Okay, but what about Oslo?", 0.45)
    assert judge_words(more, 450, complete=False, murmured=True) == (TextClue.WORDS, True)
    assert judge_words(heard("I", 0.5), 250, complete=False) == (TextClue.BEGINNING, True)
