"""Sentence templates: the small language in which a context's rules describe callers' words.

    (what is|tell me) [the] (atis|weather) (for|at) {aerodrome}

`(a|b)` one of, `[a]` optional, `{list}` a value of a list, `{list:slot}` the same kept under
another name, `<words>` a named piece written once under `words:`. It is the core of the template
language of Home Assistant's hassil, parsed here by our own code so that a configuration can be
checked without any extra installed.

`read_sentence` turns a template into its wordings: flat rows of positions. A choice between single
words stays one position, so the number of wordings stays small. It is limited all the same, and so
are the length and depth of a template, its positions and the work for all templates of a file
(`Effort`): any text is read quickly or refused.
Pure text work: no clocks, no files. Raises `SentenceError` (a ValueError) that quotes the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_WORDINGS = 256
"""Wordings of a template, and positions of a wording."""
MAX_DEPTH = 24
"""Nesting of brackets and pieces."""
MAX_LENGTH = 8
"""Characters of a template or piece, for each of the wordings it may have."""
MAX_EFFORT = 3_000_000
"""Characters read and positions made for all templates together. A template of 256 wordings with 10
positions each costs about 20,000."""

_EFFORT_OF_A_READING = 100
_LONGEST_SHOWN = 200
_TOKEN = re.compile(r"\s*([()\[\]|]|\{[^{}]*\}|<[^<>]*>|[^\s()\[\]|{}<>]+|[{}<>])")
_SLOT = re.compile(r"\{([a-z][a-z0-9_]*)(?::([a-z][a-z0-9_]*))?\}")
_PIECE = re.compile(r"<([a-z][a-z0-9_]*)>")


class SentenceError(ValueError):
    """A sentence template that cannot be read; the text names the template and the reason."""


class Effort:
    """Remaining work for reading templates; those of one file share one."""

    def __init__(self, left: int = MAX_EFFORT) -> None:
        self._left = left

    def spend(self, amount: int) -> None:
        """Raise `SentenceError` when none is left."""
        self._left -= amount
        if self._left < 0:
            raise SentenceError("the sentences of the file have too many wordings in all")


@dataclass(frozen=True, slots=True)
class Position:
    """One position of a wording: one of some words, or a value of a list."""

    words: tuple[str, ...] = ()
    list: str = ""
    """Name of the list whose value belongs here; empty for words."""
    slot: str = ""
    """Name under which the value is kept."""
    optional: bool = False


Wording = tuple[Position, ...]


def read_sentence(
    text: str,
    pieces: Mapping[str, str] | None = None,
    *,
    most: int = MAX_WORDINGS,
    effort: Effort | None = None,
) -> tuple[Wording, ...]:
    """Read a template into its wordings, without repeats, in the order of the text.

    More than `most` wordings are refused.
    """
    reader = _Reader(text, pieces or {}, most, effort or Effort())
    wordings = tuple(dict.fromkeys(reader.read()))
    if any(all(position.optional for position in wording) for wording in wordings):
        raise reader.error("could be empty; some word must always be there")
    return wordings


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "...")


class _Reader:
    """A recursive-descent reader over the tokens of one template."""

    def __init__(
        self,
        text: str,
        pieces: Mapping[str, str],
        most: int,
        effort: Effort,
        depth: int = 0,
        within: tuple[str, ...] = (),
    ) -> None:
        """`within`: the names of the surrounding pieces, and its own."""
        self._text = text
        self._most = most
        self._pieces = pieces
        self._effort = effort
        self._depth = depth
        self._within = within
        self._next = 0
        if len(text) > most * MAX_LENGTH:
            raise self.error(f"longer than {most * MAX_LENGTH:,} characters")
        effort.spend(len(text) + _EFFORT_OF_A_READING)
        self._tokens: list[str] = [match.group(1) for match in _TOKEN.finditer(text)]

    def read(self) -> list[Wording]:
        wordings = self._choice("")
        if self._next < len(self._tokens):
            raise self.error(f"{self._tokens[self._next]!r} closes nothing")
        return wordings

    def error(self, why: str) -> SentenceError:
        """Return an error about this template."""
        return SentenceError(f"sentence {_shown(self._text)}: {why}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(f"brackets and <pieces> are nested more than {MAX_DEPTH} deep")

    def _choice(self, closer: str) -> list[Wording]:
        """Read alternatives up to `closer` (not consumed)."""
        branches = [self._sequence(closer)]
        while self._next < len(self._tokens) and self._tokens[self._next] == "|":
            self._next += 1
            branches.append(self._sequence(closer))
        if any(branch == [()] for branch in branches):
            where = f"before {closer!r}" if closer else "in it"
            raise self.error(f"an alternative {where} is empty (use [..] for what may be left out)")
        merged = list(_merged(branches))
        self._limit(len(merged))
        self._effort.spend(sum(len(position.words) for w in merged for position in w))
        return merged

    def _sequence(self, closer: str) -> list[Wording]:
        wordings: list[Wording] = [()]
        while self._next < len(self._tokens):
            piece = self._tokens[self._next]
            if piece in ("|", ")", "]"):
                if piece not in ("|", closer):
                    raise self.error(f"{piece!r} closes nothing")
                break
            self._next += 1
            part = self._part(piece)
            self._limit(len(wordings) * len(part))
            wordings = [head + tail for head in wordings for tail in part]
            self._effort.spend(sum(map(len, wordings)))
            if max(map(len, wordings)) > self._most:
                raise self.error(f"a wording of more than {self._most} words")
        return wordings

    def _part(self, piece: str) -> list[Wording]:
        if piece in ("(", "["):
            return self._group(piece)
        if piece[0] == "{":
            return [(self._slot(piece),)]
        if piece[0] == "<":
            return self._piece(piece)
        if piece in ("}", ">"):
            raise self.error(f"{piece!r} closes nothing")
        return [(Position(words=(piece,)),)]

    def _group(self, opener: str) -> list[Wording]:
        closer = ")" if opener == "(" else "]"
        self._deeper()
        inner = self._choice(closer)
        self._depth -= 1
        if self._next >= len(self._tokens):
            raise self.error(f"{opener!r} is never closed")
        self._next += 1
        if opener == "(":
            return inner
        single = [w for w in inner if len(w) == 1]
        longer = [w for w in inner if len(w) > 1]
        optional: list[Wording] = [
            (Position(w[0].words, w[0].list, w[0].slot, optional=True),) for w in single
        ]
        return optional + longer if optional else [*longer, ()]

    def _slot(self, token: str) -> Position:
        match = _SLOT.fullmatch(token)
        if match is None:
            raise self.error(f"{token!r} is not {{list}} or {{list:slot}} (lower-case names)")
        return Position(list=match.group(1), slot=match.group(2) or match.group(1))

    def _piece(self, name: str) -> list[Wording]:
        match = _PIECE.fullmatch(name)
        if match is None:
            raise self.error(f"{name!r} is not <name> (lower-case)")
        if match.group(1) not in self._pieces:
            raise self.error(f"{name} is not among `words`")
        within = (*self._within, match.group(1))
        if match.group(1) in self._within:
            circle = " → ".join(f"<{other}>" for other in within)
            raise self.error(f"<pieces> refer to each other in a circle: {circle}")
        self._deeper()
        piece = _Reader(
            self._pieces[match.group(1)],
            self._pieces,
            self._most,
            self._effort,
            self._depth,
            within,
        )
        self._depth -= 1
        return piece.read()

    def _limit(self, wordings: int) -> None:
        if wordings > self._most:
            raise self.error(f"more than {self._most} wordings; write it as several sentences")


def _merged(branches: list[list[Wording]]) -> Iterator[Wording]:
    """Yield all branches; those of one required plain word are merged into one position."""
    words: list[str] = []
    others: list[Wording] = []
    for wording in (wording for branch in branches for wording in branch):
        if len(wording) == 1 and wording[0].words and not wording[0].optional:
            words.extend(wording[0].words)
        else:
            others.append(wording)
    if words:
        yield (Position(words=tuple(dict.fromkeys(words))),)
    yield from others
