"""Searches for what the index does not have: words and beginnings of numbers of encrypted calls.

Candidates are the calls that pass all other filters. They are opened from the newest on, at most
`MOST_OPENED` for one page, with pauses: the page says how far it has looked, and the next one goes
on from there.
"""

from __future__ import annotations

import time
from pathlib import Path

from cordboard.history.call_files import read_ledger
from cordboard.history.ledger_rows import call_of
from cordboard.history.notes import NONE
from cordboard.history.query import CallQuery, CallRow, Term
from cordboard.privacy.sealed_file import Vault

MOST_OPENED = 200
"""Encrypted calls that are opened for one page: half a second with the pauses."""
_PAUSE = 0.001
"""Seconds after each call that was opened. Python's threads take turns each 5 ms, and the sound of
live calls is in another one."""


def opens(query: CallQuery) -> bool:
    """True if a query asks for what only the calls themselves can answer, if they are encrypted."""
    return bool(query.text.strip() or query.number_prefix)


def answers(query: CallQuery, row: CallRow, directory: Path, vault: Vault) -> bool:
    """Return True if an encrypted call, whose row was opened, has the words and the beginning of
    the number. False also for one that cannot be read. Blocks."""
    if not row.caller_number.startswith(query.number_prefix):
        return False
    if not query.terms:
        return True
    time.sleep(_PAUSE)
    try:
        call, _ = call_of(row.file, read_ledger(directory / row.file, vault), NONE)
    except OSError:
        return False  # erased meanwhile, or it is among the unreadable ones
    if call is None:
        return False
    said = {"caller": call.caller_words, "agent": call.agent_words}
    sides = [said[query.who]] if query.who else list(said.values())
    return all(any(_occurs(term, words) for words in sides) for term in query.terms)


def _occurs(term: Term, words: tuple[str, ...]) -> bool:
    wanted, last = term.words, len(term.words) - 1
    for at in range(len(words) - last):
        found = words[at : at + last + 1]
        if found == wanted:
            return True
        if term.begins and found[:last] == wanted[:last] and found[last].startswith(wanted[last]):
            return True
    return False
