"""Sentence templates: the small language in which a context's rules say what callers say.

    (what is|tell me) [the] (atis|weather) (for|at) {aerodrome}

`(a|b)` one of, `[a]` may be left out, `{list}` a value of a list, `{list:slot}` the same kept under
another name, `<words>` a named piece written once under `words:`. It is the core of the template
language of Home Assistant's hassil, read here by ourselves so that a configuration can be checked
without any extra installed.

`read_sentence` turns a template into its wordings: flat rows of positions. A choice between single
words stays one position, so the number of wordings stays small; it is limited all the same.
Pure text work: no clocks, no files. Raises `SentenceError` (a ValueError) that quotes the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_WORDINGS = 256
MAX_DEPTH = 12

_TOKEN = re.compile(r"\s*([()\[\]|]|\{[^{}]*\}|<[^<>]*>|[^\s()\[\]|{}<>]+|[{}<>])")
_SLOT = re.compile(r"\{([a-z][a-z0-9_]*)(?::([a-z][a-z0-9_]*))?\}")
_PIECE = re.compile(r"<([a-z][a-z0-9_]*)>")


class SentenceError(ValueError):
    """A sentence template that cannot be read; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Position:
    """One place of a wording: one of some words, or a value of a list."""

    words: tuple[str, ...] = ()
    list: str = ""
    """Name of the list whose value stands here; empty when words stand here."""
    slot: str = ""
    """Name under which the value is kept."""
    optional: bool = False


Wording = tuple[Position, ...]


def read_sentence(
    text: str, pieces: Mapping[str, str] | None = None, *, most: int = MAX_WORDINGS
) -> tuple[Wording, ...]:
    """Read a template into its wordings, without repeats, in the order of the text.

    More than `most` wordings are refused.
    """
    reader = _Reader(text, dict(pieces or {}), most)
    wordings = tuple(dict.fromkeys(reader.read()))
    if any(all(position.optional for position in wording) for wording in wordings):
        raise SentenceError(f"sentence {text!r}: could be empty; some word must always be there")
    return wordings


class _Reader:
    """A recursive-descent reader over the tokens of one template."""

    def __init__(self, text: str, pieces: dict[str, str], most: int, depth: int = 0) -> None:
        self._text = text
        self._most = most
        self._pieces = pieces
        self._depth = depth
        self._tokens: list[str] = [match.group(1) for match in _TOKEN.finditer(text)]
        self._next = 0

    def read(self) -> list[Wording]:
        if self._depth > MAX_DEPTH:
            raise SentenceError(
                f"sentence {self._text!r}: <pieces> refer to each other in a circle"
            )
        wordings = self._choice("")
        if self._next < len(self._tokens):
            raise self._error(f"{self._tokens[self._next]!r} closes nothing")
        return wordings

    def _error(self, why: str) -> SentenceError:
        return SentenceError(f"sentence {self._text!r}: {why}")

    def _choice(self, closer: str) -> list[Wording]:
        """Read alternatives up to `closer` (not consumed)."""
        branches = [self._sequence(closer)]
        while self._next < len(self._tokens) and self._tokens[self._next] == "|":
            self._next += 1
            branches.append(self._sequence(closer))
        if any(branch == [()] for branch in branches):
            where = f"before {closer!r}" if closer else "in it"
            raise self._error(
                f"an alternative {where} is empty (use [..] for what may be left out)"
            )
        return self._limited(list(_merged(branches)))

    def _sequence(self, closer: str) -> list[Wording]:
        wordings: list[Wording] = [()]
        while self._next < len(self._tokens):
            piece = self._tokens[self._next]
            if piece in ("|", ")", "]"):
                if piece not in ("|", closer):
                    raise self._error(f"{piece!r} closes nothing")
                break
            self._next += 1
            part = self._part(piece)
            wordings = self._limited([head + tail for head in wordings for tail in part])
        return wordings

    def _part(self, piece: str) -> list[Wording]:
        if piece in ("(", "["):
            return self._group(piece)
        if piece[0] == "{":
            return [(self._slot(piece),)]
        if piece[0] == "<":
            return self._piece(piece)
        if piece in ("}", ">"):
            raise self._error(f"{piece!r} closes nothing")
        return [(Position(words=(piece,)),)]

    def _group(self, opener: str) -> list[Wording]:
        closer = ")" if opener == "(" else "]"
        inner = self._choice(closer)
        if self._next >= len(self._tokens):
            raise self._error(f"{opener!r} is never closed")
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
            raise self._error(f"{token!r} is not {{list}} or {{list:slot}} (lower-case names)")
        return Position(list=match.group(1), slot=match.group(2) or match.group(1))

    def _piece(self, name: str) -> list[Wording]:
        match = _PIECE.fullmatch(name)
        if match is None:
            raise self._error(f"{name!r} is not <name> (lower-case)")
        if match.group(1) not in self._pieces:
            raise self._error(f"{name} is not among `words`")
        piece = self._pieces[match.group(1)]
        return _Reader(piece, self._pieces, self._most, self._depth + 1).read()

    def _limited(self, wordings: list[Wording]) -> list[Wording]:
        if len(wordings) > self._most:
            raise self._error(f"more than {self._most} wordings; write it as several sentences")
        return wordings


def _merged(branches: list[list[Wording]]) -> Iterator[Wording]:
    """All branches, with those of one required plain word brought together in one position."""
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
