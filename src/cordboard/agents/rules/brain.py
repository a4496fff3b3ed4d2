"""Brain `rules`: dialogues on sentence templates, offline and without a model.

    brain = RulesBrain(context.rules, today=date.today)
    dialogue = brain.open(session)

One brain serves all calls of a context. The tables are built at the first call for each toolbox
(callers may name its transfer destinations, and read-only tools run more readily) and kept; `warm`
builds them ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules.dialogue import RulesDialogue
from cordboard.agents.rules.grammar import Grammar, compile_grammar
from cordboard.config.rules import Rules
from cordboard.tools.payload import DEFAULT_LIMITS
from cordboard.tools.tool import ToolSpec

MOST_GRAMMARS = 4
"""Most toolboxes whose tables are kept: a context's tools come and go with their servers."""


class RulesBrain:
    """Implements `cordboard.agent_api.dialogue.Brain`."""

    payload = DEFAULT_LIMITS

    def __init__(self, rules: Rules | None, *, today: Callable[[], date]) -> None:
        self._rules = rules if rules is not None else Rules()
        self._today = today
        self._grammars: dict[str, Grammar] = {}

    def warm(self, toolbox: Sequence[ToolSpec], earlier: RulesBrain | None = None) -> None:
        """Build the tables for a toolbox (some tens of ms), so that no call waits for it.

        `earlier` is the brain that the same context had before a reload; its tables for the same
        rules are used again.
        """
        key = _key(self._rules, toolbox)
        if earlier is not None and earlier._rules == self._rules and key in earlier._grammars:
            self._grammars[key] = earlier._grammars[key]
        self._grammar(toolbox)

    def open(self, session: DialogueSession) -> RulesDialogue:
        grammar = self._grammar(session.toolbox)
        return RulesDialogue(self._rules, grammar, session, self._today)

    def _grammar(self, toolbox: Sequence[ToolSpec]) -> Grammar:
        key = _key(self._rules, toolbox)
        grammar = self._grammars.get(key)
        if grammar is None:
            grammar = self._grammars[key] = compile_grammar(self._rules, toolbox)
            for oldest in [*self._grammars][:-MOST_GRAMMARS]:
                self._grammars.pop(oldest, None)
        return grammar


def _key(rules: Rules, toolbox: Sequence[ToolSpec]) -> str:
    """Return the dependencies of the tables besides the rules: transfer destinations, and the
    effects of the rules' own tools."""
    transfers = [spec.parameters for spec in toolbox if spec.name == "transfer"]
    own = rules.tools()
    return repr((transfers, sorted((s.name, s.effects) for s in toolbox if s.name in own)))
