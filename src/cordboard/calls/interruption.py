"""A voice over the agent's: its speech is held, and resumed or taken back.

The agent classifies the voice; this module holds the speech, measures the times and records them.
If the agent does not decide, the speech is resumed after `UNDECIDED_AFTER`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.playout import Playout
from cordboard.observe.conversation_metrics import Verdict
from cordboard.observe.metrics import Metrics

UNDECIDED_AFTER = 1.3
"""Seconds after which held speech is resumed; agents decide within 0.64 s, and with any
`overlap_doubt_ms` within 0.93."""
_VERDICTS: tuple[Verdict, ...] = ("backchannel", "noise", "echo", "key", "undecided")


@dataclass(frozen=True, slots=True)
class _Hold:
    onset_at: float
    held_at: float


class Interruption:
    """The overlaps of one call. All times are loop times in seconds."""

    def __init__(self, playout: Playout, ledger: Ledger, metrics: Metrics) -> None:
        self._loop = asyncio.get_running_loop()
        self._playout = playout
        self._ledger = ledger
        self._metrics = metrics
        self._hold: _Hold | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._caller_onset: float | None = None
        """Loop time at which the caller began under our voice, for agents that interrupt without a
        hold."""

    def caller_started(self, at: float) -> None:
        """Note that the caller began to speak."""
        self._caller_onset = at if self._playout.speaking else None

    def begin(self, at: float, onset_at: float) -> None:
        """Hold our speech, if there is any."""
        if self._hold is not None or not self._playout.speaking:
            return
        self._playout.hold()
        self._hold = _Hold(onset_at, at)
        reaction = max(0.0, at - onset_at)
        self._ledger.record(events.Held(self._ledger.ms(onset_at), round(reaction * 1000)), at)
        self._metrics.conversations.barge_in_reaction(reaction)
        self._limit = self._loop.call_later(
            UNDECIDED_AFTER, lambda: self.dismiss(self._loop.time(), "undecided")
        )

    def dismiss(self, at: float, why: str) -> None:
        """Resume at the very sample: it was not an interruption. Without effect when nothing is
        held."""
        hold = self._release()
        if hold is None:
            return
        self._playout.resume()
        self._ledger.record(events.Resumed(why, round((at - hold.held_at) * 1000)), at)
        verdict: Verdict = next((word for word in _VERDICTS if word == why), "undecided")
        self._metrics.conversations.resumed(verdict, at - hold.held_at)

    def interrupt(self, at: float, tell: Callable[[str, int, int], None]) -> None:
        """Take back the unheard sound, if there is any, and pass the heard part to `tell`, the
        agent's `Agent.interrupted`."""
        hold, onset = self._release(), self._caller_onset
        self._caller_onset = None
        if not self._playout.speaking:
            return
        reaction = decision = 0.0
        if hold is not None:
            reaction, decision = hold.held_at - hold.onset_at, at - hold.onset_at
        elif onset is not None:
            reaction = decision = at - onset
            self._metrics.conversations.barge_in_reaction(max(0.0, reaction))
        cuts = self._playout.flush()
        for cut in cuts:
            self._ledger.record(
                events.BargedIn(
                    cut.turn,
                    cut.heard,
                    cut.heard_ms,
                    max(0, round(reaction * 1000)),
                    max(0, round(decision * 1000)),
                ),
                at,
            )
        self._metrics.conversations.overlap("interruption")
        heard = " ".join(cut.answer for cut in cuts if cut.answer)
        tell(heard, sum(cut.agent_ms for cut in cuts), cuts[0].turn if cuts else 0)

    def close(self) -> None:
        """Close: the call is over."""
        self._release()

    def _release(self) -> _Hold | None:
        hold, self._hold = self._hold, None
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        return hold
