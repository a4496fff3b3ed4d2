"""Was that a yes or a no? The answers of callers in English; pure.

For questions before an action that cannot be undone, so an ambiguous answer is neither: "yes, but
at eight", "yes, no, wait", "I'm not sure". `read_yes_or_no` is used wherever a caller must answer
yes or no: by the call when the desk wants an approval, by brains for their own questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

YES_OR_NO_HINTS = ("Yes.", "Yes, please.", "No.", "No, thank you.", "Nope.", "Go ahead.")
"""Prompt for the recogniser while such a question waits for its answer."""
MOST_OTHER_WORDS = 6
"""A yes with more other words than this is more than a yes."""


class _Sense(Enum):
    YES = "yes"
    MURMUR = "murmur"
    """A yes as an answer; a backchannel over speech."""
    NO = "no"
    HALT = "halt"
    """`Stop`: a no by itself, but perhaps the action in question (`yes, stop it`)."""
    UNSURE = "unsure"
    """Takes a yes back, or makes it a yes to something else."""
    IDLE = "idle"
    OTHER = "other"


_PHRASES: Mapping[_Sense, tuple[str, ...]] = {
    _Sense.YES: (
        "yes", "yeah", "yep", "yup", "yah", "aye", "yes yes", "sure", "sure thing", "certainly",
        "absolutely", "definitely", "correct", "affirm", "affirmative", "exactly", "indeed",
        "of course", "by all means", "why not", "go ahead", "go for it", "go on", "proceed",
        "continue", "carry on", "please do", "do it", "do that", "do so", "i agree", "agreed",
        "confirm", "confirmed", "approve", "approved", "that is right", "that is correct",
        "that is fine", "that is good", "that is ok", "that is the one", "that would be great",
        "that would be good", "that would be nice", "that would be lovely", "that is great",
        "that is perfect", "that is lovely", "sounds good", "sounds great", "sounds fine",
        "sounds perfect", "sounds lovely", "spot on",
        "you may", "you can", "no problem go ahead", "i think so",
    ),
    _Sense.MURMUR: (
        "ok", "okay", "all right", "alright", "right", "fine", "good", "great", "perfect", "cool",
        "nice", "very good", "lovely", "wonderful", "brilliant", "excellent", "uh huh", "mm hmm",
        "mm hm", "m hm",
    ),
    _Sense.NO: (
        "no", "nope", "nah", "never", "negative", "not", "do not", "will not", "would not",
        "should not", "rather not", "better not", "no way", "no thanks", "no thank you",
        "of course not", "wrong", "incorrect", "never mind", "nevermind", "forget it",
        "forget about it", "forget that", "leave it", "changed my mind", "change my mind",
        "refuse", "certainly not", "absolutely not", "definitely not", "not correct",
        "not exactly", "please do not", "you may not", "you can not",
    ),
    _Sense.HALT: ("stop", "stop it", "stop that", "abort"),
    _Sense.UNSURE: (
        "but", "except", "instead", "unless", "if", "only", "although", "though", "however",
        "actually", "rather", "otherwise", "maybe", "perhaps", "possibly", "probably", "wait",
        "wait a moment", "wait a minute", "wait a second", "hold on", "hang on", "one moment",
        "one second", "one minute", "just a moment", "just a second", "let me think", "sorry",
        "pardon", "excuse me", "what", "which", "who", "when", "where", "how", "why", "change",
        "other", "another", "different", "not sure", "not so sure", "not quite sure",
        "not really sure", "not certain", "are you sure", "no idea", "do not know",
        "do not understand", "do not mind", "would not mind", "do not care", "do not worry",
        "do not remember", "do not hear", "do not get it", "not yet sure", "no matter", "can not",
        "could not", "did not", "have not", "is not it", "make it", "make that", "i guess",
        "i suppose", "no problem", "no worries", "uh uh", "nuh uh", "mm mm", "repeat", "again",
        "says", "said", "told", "yes and no", "or not", "yes or no", "is that", "is it", "are you",
        "do you", "did you",
    ),
    _Sense.IDLE: (
        "um", "uh", "uhm", "er", "erm", "ah", "oh", "well", "so", "hmm", "hm", "mm", "please",
        "thanks", "thank you", "very much", "now", "then", "just", "i", "it", "that", "that is",
        "i said", "is", "a", "the", "and",
        "sir", "madam", "ma'am", "you", "me", "hey", "hi", "hello",
    ),
}  # fmt: skip
_NUMBERS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred half quarter".split()
)
"""With a yes, these are other values than those in the question, as far as can be known."""
_CONTRACTIONS = {
    "don't": "do not", "won't": "will not", "wouldn't": "would not", "shouldn't": "should not",
    "can't": "can not", "cannot": "can not", "couldn't": "could not", "didn't": "did not",
    "haven't": "have not", "isn't": "is not", "that's": "that is", "let's": "let us",
    "i'd": "i would", "i'm": "i am", "i'll": "i will", "it's": "it is", "you're": "you are",
    "dont": "do not", "o.k": "ok",
}  # fmt: skip
_WORD = re.compile(r"[a-z]+(?:['.-][a-z]+)*|\d+|\?")
_NEGATIONS = frozenset(
    "not|do not|will not|would not|should not|never|please do not|you can not|you may not".split(
        "|"
    )
)
_DEEDS = frozenset(
    "go ahead|go for it|go on|proceed|continue|carry on|do it|do that|do so|confirm|approve".split(
        "|"
    )
)
"""After a negation these name the action that must not be done."""
_WHOLE_YES = frozenset({"please", "i do", "i would", "i am", "we do", "we would"})
"""A yes when it is the whole answer."""
_YES_HUM = re.compile(r"m+-?h+m+|u+h+-?h+u+h+")
_FOLD = str.maketrans({"\u2019": "'", "\u02bc": "'", "`": "'", "\u2013": "-"})


_SENSES = {text: sense for sense, texts in _PHRASES.items() for text in texts}
_LONGEST = max(len(text.split()) for text in _SENSES)


def read_yes_or_no(text: str) -> bool | None:
    """True for a yes, False for a no, None for neither or an ambiguous text."""
    senses = list(_senses(text))
    said = set(senses)
    if _Sense.NO in said:
        return None if _Sense.YES in said else False
    if _Sense.YES not in said and _Sense.HALT in said:
        return False
    others = senses.count(_Sense.OTHER)
    if _Sense.UNSURE in said:
        return None
    if _Sense.YES in said:
        return True if others <= MOST_OTHER_WORDS else None
    if _Sense.MURMUR in said:
        return None if others else True
    return True if " ".join(_words(text)) in _WHOLE_YES else None


def is_only_an_answer(text: str) -> bool:
    """True if it is a yes or a no and says nothing else."""
    return read_yes_or_no(text) is not None and not {_Sense.OTHER, _Sense.UNSURE} & {*_senses(text)}


def is_plain_answer(text: str) -> bool:
    """True if it is a yes or a no even over the question itself: "yes", but not "mm-hmm"."""
    answer = read_yes_or_no(text)
    return answer is False or (answer is True and _Sense.YES in _senses(text))


def _senses(text: str) -> Iterator[_Sense]:
    """Yield the sense of each phrase, the longest phrases first."""
    words = _words(text)
    place = 0
    before = ""
    while place < len(words):
        phrase, sense = _phrase_at(words, place)
        if before in _NEGATIONS and phrase in _DEEDS:
            sense = _Sense.OTHER
        yield sense
        place += phrase.count(" ") + 1
        before = phrase


def _phrase_at(words: Sequence[str], place: int) -> tuple[str, _Sense]:
    for end in range(min(place + _LONGEST, len(words)), place, -1):
        phrase = " ".join(words[place:end])
        if phrase in _SENSES:
            return phrase, _SENSES[phrase]
    word = words[place]
    if word == "?" or word.isdigit() or word in _NUMBERS:
        return word, _Sense.UNSURE
    return word, _Sense.MURMUR if _YES_HUM.fullmatch(word) else _Sense.OTHER


def _words(text: str) -> list[str]:
    """Split into lower-case words, contractions written out; `?` is a word, but not after `why
    not`."""
    words: list[str] = []
    for word in _WORD.findall(text.lower().translate(_FOLD)):
        if word == "?" and words[-2:] == ["why", "not"]:
            continue
        if _YES_HUM.fullmatch(word):
            words.append(word)
        elif word in _CONTRACTIONS:
            words += _CONTRACTIONS[word].split()
        else:
            words += re.split("[-.]", word)
    return words
