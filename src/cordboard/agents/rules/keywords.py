"""What somebody wants who puts it in no sentence of the rules: a value and a word of the trade.

"I'm picking somebody up at Arlanda, is it snowing there?" fits no template. But one aerodrome was
clearly heard, and `snowing` is among the `keywords` of the intent that needs an aerodrome. That is
enough, unless something speaks against it: a second value, a denial, the past, an unknown name
beside it ("London Gatwick") or where something is ("in Gothenburg"). Then the value is only a guess
or nothing at all. An intent without `keywords` is never found in this way. Where a look-up is
harmless, less is needed: `harmless`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from cordboard.agents.rules.clauses import (
    AFTER_PLACES,
    follows_preposition,
    is_denied,
    is_past,
    is_request,
    split_clauses,
)
from cordboard.agents.rules.values import Judged, Span, judge
from cordboard.agents.rules.words import FUNCTION_WORDS, Token, plain_sentence
from cordboard.config.rules import Intent
from cordboard.config.sentences import MAX_WORDINGS, Wording, read_sentence
from cordboard.tools.tool import Effects, ToolSpec

MOST_LOOSE_WORDS = 3
"""Without a keyword, a value that was asked for may have so many unexplained words around it and
is still worth a question."""

MOST_OTHERS = 2
"""Unexplained words in a clause that has both a keyword and the value; with more it is a guess."""
MOST_WORDINGS = 16 * MAX_WORDINGS
"""What the configuration has let pass may grow here: `(what's|how's)` becomes two words each."""
_LENGTH_BONUS = 0.05
"""What a word more in a value is worth in likeness."""


@dataclass(frozen=True)
class Keywords:
    """How one intent is found without its sentences."""

    intent: str
    slot: str
    list: str
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    """What shows that something else is wanted."""
    harmless: bool = False
    """Acting on it needlessly costs the caller some seconds and nothing else."""
    sole: bool = False
    """No other intent of the context takes a value of the list."""

    def says_otherwise(self, tokens: Sequence[Token]) -> bool:
        """Whether one of the `unless` words was said."""
        text = "".join(f"{token.text} " for token in tokens)
        return self.unless is not None and self.unless.search(text) is not None

    def places(self, tokens: Sequence[Token]) -> frozenset[int]:
        """The words that are keywords, or parts of one."""
        text = "".join(f"{token.text} " for token in tokens)
        return frozenset(
            place
            for match in self.pattern.finditer(text)
            for place in range(text.count(" ", 0, match.start()), text.count(" ", 0, match.end()))
        )


def _any_of(wordings: Iterable[Wording]) -> re.Pattern[str]:
    """What finds any of the wordings, which have words only, in an utterance's words."""
    patterns = sorted({_pattern(wording) for wording in wordings}, key=len, reverse=True)
    return re.compile(rf"(?<![^ ])(?:{'|'.join(patterns)})")


def compile_keywords(
    intents: Mapping[str, Intent],
    slots: Mapping[str, Mapping[str, str]],
    pieces: Mapping[str, str],
    toolbox: Sequence[ToolSpec],
) -> Iterator[Keywords]:
    """The rules of the intents that have keywords. `slots`: intent → slot → list; `pieces`: what
    `<name>` stands for."""

    def pattern(texts: Sequence[str]) -> re.Pattern[str]:
        return _any_of(
            wording
            for text in texts
            for wording in read_sentence(plain_sentence(text), pieces, most=MOST_WORDINGS)
        )

    for name, intent in intents.items():
        if intent.keywords:
            ((slot, list_name),) = slots[name].items()
            users = [user for user, found in slots.items() if list_name in found.values()]
            yield Keywords(
                name,
                slot,
                list_name,
                pattern(intent.keywords),
                unless=pattern(intent.unless) if intent.unless else None,
                harmless=is_harmless(intent, toolbox),
                sole=users == [name],
            )


def is_harmless(intent: Intent, toolbox: Sequence[ToolSpec]) -> bool:
    """Whether doing it needlessly costs nothing but time: as the operator says, else where its tool
    only reads."""
    if intent.confirm is not None or intent.transfer is not None or intent.hang_up:
        return False
    if intent.harmless is not None:
        return intent.harmless
    effects = {spec.name: spec.effects for spec in toolbox}
    return intent.tool is None or effects.get(intent.tool) is Effects.READ_ONLY


def _pattern(wording: Wording) -> str:
    pattern = ""
    for position in wording:
        words = "|".join(map(re.escape, position.words))
        pattern += f"(?:(?:{words}) )?" if position.optional else f"(?:{words}) "
    return pattern


def find_value(
    tokens: Sequence[Token],
    spans: Collection[Span],
    keywords: Set[int],
    known: Collection[str],
    *,
    asked_for: bool = False,
) -> tuple[Judged, Span] | None:
    """The one value of a list that an utterance is about, and where it stands.

    None when it is about none, or several. `keywords` are the places of words that show
    what is wanted; without one the value counts only as a guess, and only where it was `asked_for`.
    `known` are the context's own words.
    """
    if is_past(tokens):
        return None
    heard = sorted(
        (span for span in spans if span.value is not None),
        key=lambda span: (span.cost > span.limit, is_loose(tokens, span), rank(span)),
    )
    if not heard or is_denied(tokens, heard[0].start):
        return None
    chosen = heard[0]
    sure = chosen.cost <= chosen.limit and not is_loose(tokens, chosen)
    if sure and any(is_another(tokens, span, chosen) for span in heard):
        return None
    if not keywords:
        words = [token for token in tokens if token.is_content]
        loose = len(words) - sum(t.is_content for t in tokens[chosen.start : chosen.end])
        if not asked_for or not sure or loose > MOST_LOOSE_WORDS:
            return None
    about = keywords | set(range(chosen.start, chosen.end))
    stated = not is_request(tokens, about) or _clause_is_full(tokens, chosen, keywords, known)
    crowded = not keywords or not sure or stated or _is_crowded(tokens, chosen, keywords, known)
    return judge(chosen, heard, crowded=crowded), chosen


def _clause_is_full(
    tokens: Sequence[Token], chosen: Span, keywords: Set[int], known: Collection[str]
) -> bool:
    """Whether the clause with the value is about much else besides."""
    for start, end in split_clauses(tokens):
        if start <= chosen.start < end:
            others = [
                place
                for place in range(start, end)
                if tokens[place].is_content
                and tokens[place].text not in known
                and place not in keywords
                and not chosen.start <= place < chosen.end
            ]
            return bool(keywords & set(range(start, end))) and len(others) > MOST_OTHERS
    return False


def rank(span: Span) -> float:
    """Longer ones first, exact ones before near ones."""
    return span.cost - _LENGTH_BONUS * (span.end - span.start)


def is_loose(tokens: Sequence[Token], span: Span) -> bool:
    """Only like the value, and partly made of little words: "land in" for London."""
    little = any(token.text in FUNCTION_WORDS for token in tokens[span.start : span.end])
    return span.cost > 0 and little


def is_another(tokens: Sequence[Token], span: Span, chosen: Span) -> bool:
    """Whether a second value was clearly named elsewhere."""
    return (
        span.value != chosen.value
        and (span.end <= chosen.start or span.start >= chosen.end)
        and span.cost <= span.limit
        and not is_loose(tokens, span)
    )


def _is_crowded(
    tokens: Sequence[Token], chosen: Span, keywords: Set[int], known: Collection[str]
) -> bool:
    """Whether some word may be the name of something else that is meant.

    Right beside the value any unknown word may be ("London Gatwick"), elsewhere a name after `in`,
    `at`, `to`.
    """
    for place, token in enumerate(tokens):
        if chosen.start <= place < chosen.end or place in keywords:
            continue
        if not token.is_content or token.text in known:
            continue
        before = place + 1 == chosen.start and _joined(token, tokens[chosen.start])
        after = place == chosen.end and _joined(token, token) and token.text not in AFTER_PLACES
        if before or after or (token.name_like and follows_preposition(tokens, place)):
            return True
    return False


def _joined(unknown: Token, second: Token) -> bool:
    """Whether an unknown word beside the value belongs to it; a comma parts only what is no name
    ("New York, La Guardia")."""
    return unknown.name_like or not second.after_stop
