"""The dialplan that leads callers to the engine, as text for `extensions.conf`.

Each agent has a place of its own, `cordboard-<context>,s,1`, that an inbound route, a menu or a
queue can lead to, and a number for the phones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cordboard.config.schema import Config

FIRST_NUMBER = 700
"""The first number of agents that no route has a number for."""
PHONES = "from-internal"
"""Dialplan context of the phones. FreePBX has this name too, and includes `from-internal-custom` in
it (freepbx.org, "How to extend FreePBX with custom dialplan")."""

_NUMBER = re.compile(r"[0-9A-Za-z*#+_-]{1,80}")
"""Extensions that a dialplan takes; other texts must not become lines of it."""


def dialplan(
    contexts: Iterable[str],
    numbers: Mapping[str, str],
    app: str = "cordboard",
    phones: str = PHONES,
    *,
    shared: bool = False,
) -> str:
    """Return the dialplan of these contexts. `numbers`: dialled number → context, as in `routes`;
    those that no dialplan takes are left out. `phones`: the dialplan context of the numbers.
    `shared`: several engines take the calls, each of which has published its room."""
    lines = [f"[{phones}]"]
    lines += [
        f"exten => {number},1,Goto(cordboard-{name},s,1)"
        for number, name in numbers.items()
        if _NUMBER.fullmatch(number)
    ]
    if len(lines) == 1:
        lines.clear()
    for name in contexts:
        lines += [f"[cordboard-{name}]", f"exten => s,1,Set(AI_CONTEXT={name})"]
        lines.append(" same => n,Goto(cordboard,s,1)")
    way_in = _PLACING if shared else _ONE_ENGINE
    return "\n".join(lines) + way_in.replace("APP", app) + _CLOSED


_ONE_ENGINE = """
[cordboard]
exten => s,1,Stasis(APP)
 same => n,GotoIf($["${STASISSTATUS}" = "FAILED"]?closed)
 same => n,Hangup()
"""
_PLACING = """
[cordboard]
exten => s,1,Set(ROOM=)
 same => n,Set(ENGINES=${CORDBOARD_ENGINES_APP})
 same => n,While($["${SET(ENGINE=${SHIFT(ENGINES)})}" != ""])
 same => n,Set(SAYS=${CORDBOARD_ROOM_${ENGINE}})
 same => n,Set(FITS=$["${CORDBOARD_LABEL}" = "" | ${REGEX(",${CORDBOARD_LABEL}," ${SAYS})}])
 same => n,ExecIf($[${FITS} & 0${CUT(SAYS,|,1)} > 0]?Set(ROOM=${ROOM},${ENGINE}:-${CUT(SAYS,|,1)}))
 same => n,EndWhile
 same => n,GotoIf($["${ROOM}" = ""]?closed)
 same => n,Set(ENGINES=${SORT(${ROOM:1})})
 same => n(next),Set(ENGINE=${SHIFT(ENGINES)})
 same => n,GotoIf($["${ENGINE}" = ""]?closed)
 same => n,Set(CORDBOARD_STATUS=)
 same => n,Stasis(${ENGINE})
 same => n,GotoIf($["${STASISSTATUS}" = "FAILED" | "${CORDBOARD_STATUS}" != ""]?next)
 same => n,Hangup()
"""
"""Tries the engines that have room, the one with most of it first: see `placement`."""
_CLOSED = """ same => n(closed),Answer()
 same => n,Playback(vm-nobodyavail)
 same => n,Hangup()
"""


def dialplan_for(config: Config, *, freepbx: bool = False) -> str:
    """Return the dialplan of an installation: its contexts, with the numbers of `routes`; a context
    without one gets the next free number from `FIRST_NUMBER` on. `freepbx`: for its file
    `extensions_custom.conf`, whose `from-internal-custom` the phones' context includes."""
    numbers = dict(config.routes)
    free = FIRST_NUMBER
    for name in config.contexts:
        if name in config.routes.values():
            continue
        while str(free) in numbers:
            free += 1
        numbers[str(free)] = name
    app = config.asterisk.app if config.asterisk is not None else "cordboard"
    file = "extensions_custom.conf" if freepbx else "extensions.conf"
    phones = f"{PHONES}-custom" if freepbx else PHONES
    return f"; {file}\n" + dialplan(config.contexts, numbers, app, phones)
