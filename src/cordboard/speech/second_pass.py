"""Listen again to a name in doubt before the caller is asked.

The recogniser writes words that it knows: "variance" for Vaernes, "House the wind" for "how's the
wind". The spoken words are often among its next best texts, and more often when it expects names
and nothing else. So where the brain is in doubt (`Doubter.doubt`) the same sound is decoded again,
primed with the names, into several texts; the brain interprets each one (`Doubter.meaning`). A
meaning is accepted if it is about as likely as the likeliest text and clearly likelier than any
other meaning. Otherwise the sound is decoded once more, primed with only the names that sound
alike. If that does not settle it either, the first text stands and the brain asks back.

A name that was recognised with certainty is decoded again only if it sounds almost like one that
the operator calls confusable ("New York", "Newark"): primed with both, the recogniser tells them
apart.

`settle` and `overheard` decide and are pure; `listen_again` is the shell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from cordboard.agent_api.dialogue import Dialogue, Doubter
from cordboard.agent_api.stt import Hypothesis, SpeechHints, Transcript

TOLERANCE = 1.5
"""Largest distance of a meaning below the likeliest text (natural logarithm). In 87 spoken
sentences with other places, or with nothing to look up, the nearest false meaning was at 4.1; of 27
questions in doubt 15 were right within it."""
TOLERANCE_AMONG_FEW = 1.3
"""`TOLERANCE` where only a few names were expected, which makes these likelier: "London Gatwick"
came as near to London as 1.8."""
AHEAD = 1.5
"""Smallest lead of the likeliest meaning over any other."""
AHEAD_OF_KNOWN = 0.3
"""Smallest lead of a confusable name over the known one. "Newark" written as New York: 0.4 to 3.6,
six times; New York and Arlanda: -1.7 and less, 23 times."""
WORTH_A_LOOK = 3.0
"""Texts less likely than this are not interpreted by the brain; they would add next to nothing."""


@dataclass(frozen=True, slots=True)
class Meant:
    """A hypothesis and its meaning; the meaning is empty when there is none, or no clear one."""

    hypothesis: Hypothesis
    meaning: str


def worth_a_look(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses near enough to the likeliest one."""
    best = max((hypothesis.likelihood for hypothesis in hypotheses), default=0.0)
    return [h for h in hypotheses if h.likelihood >= best - WORTH_A_LOOK]


def settle(heard: Sequence[Meant], tolerance: float) -> str | None:
    """Return the text to use; None when none is likely enough, or two meanings are.

    The weight of a meaning is the likelihood of all texts that have it.
    """
    if not heard:
        return None
    likeliest = max(each.hypothesis.likelihood for each in heard)
    weights: dict[str, float] = {}
    for each in heard:
        weight = exp(each.hypothesis.likelihood - likeliest)
        weights[each.meaning] = weights.get(each.meaning, 0.0) + weight
    weights.pop("", None)
    if not weights:
        return None
    best, *others = sorted(weights, key=weights.__getitem__, reverse=True)
    if log(weights[best]) < -tolerance:
        return None
    if others and log(weights[best] / weights[others[0]]) < AHEAD:
        return None
    texts = [each.hypothesis for each in heard if each.meaning == best]
    return max(texts, key=lambda hypothesis: hypothesis.likelihood).text


def overheard(hypotheses: Sequence[Hypothesis], others: Sequence[str]) -> str | None:
    """Return the likeliest text when it and the weight of all texts point to one of the
    `others`."""
    if not hypotheses:
        return None
    best = max(hypotheses, key=lambda hypothesis: hypothesis.likelihood)
    weights = {True: 0.0, False: 0.0}
    for hypothesis in hypotheses:
        named = any(other.lower() in hypothesis.text.lower() for other in others)
        weights[named] += exp(hypothesis.likelihood - best.likelihood)
    clear = weights[True] > exp(AHEAD_OF_KNOWN) * weights[False]
    return best.text if clear else None


async def listen_again(
    transcript: Transcript, dialogue: Dialogue, *, speculative: bool
) -> str | None:
    """Return the text that listening again settles on. None when there is no doubt, when the first
    text stands, or where recogniser or brain cannot listen again. Raises `RecogniserError`."""
    again = transcript.listen_again
    if again is None or not transcript.text or not isinstance(dialogue, Doubter):
        return None
    doubt = dialogue.doubt(transcript.text)
    if doubt is None:
        return None
    if doubt.others:
        names = (*doubt.names, *doubt.others)
        return overheard(await again(SpeechHints(names), speculative=speculative), doubt.others)
    rounds = ((doubt.names, TOLERANCE), (doubt.alike, TOLERANCE_AMONG_FEW))
    for names, tolerance in rounds:
        if not names:
            continue
        hypotheses = await again(SpeechHints(names), speculative=speculative)
        heard = []
        for hypothesis in worth_a_look(hypotheses):
            heard.append(Meant(hypothesis, dialogue.meaning(hypothesis.text, doubt)))
            await asyncio.sleep(0)  # each meaning takes some milliseconds of the event loop
        if settled := settle(heard, tolerance):
            return settled
    return None
