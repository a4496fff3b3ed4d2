"""Brain `rules`: dialogues on sentence templates, offline and without a model.

    brain = RulesBrain(context.rules, today=date.today)
    dialogue = brain.open(session)

One brain serves all calls of a context. The tables are built at the first call for each toolbox
(its transfer destinations are part of what callers may say) and kept; `warm` builds them ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from cordboard.agents.pipeline.brain.base import DialogueSession
from cordboard.agents.pipeline.brain.rules.dialogue import RulesDialogue
from cordboard.agents.pipeline.brain.rules.grammar import Grammar, compile_grammar
from cordboard.config.rules import Rules
from cordboard.tools.tool import ToolSpec


class RulesBrain:
    """Implements `cordboard.agents.pipeline.brain.base.Brain`."""

    def __init__(self, rules: Rules | None, *, today: Callable[[], date]) -> None:
        self._rules = rules if rules is not None else Rules()
        self._today = today
        self._grammars: dict[str, Grammar] = {}

    def warm(self, toolbox: Sequence[ToolSpec]) -> None:
        """Build the tables for a toolbox (some tens of ms), so that no call waits for it."""
        self._grammar(toolbox)

    def open(self, session: DialogueSession) -> RulesDialogue:
        grammar = self._grammar(session.toolbox)
        return RulesDialogue(self._rules, grammar, session, self._today)

    def _grammar(self, toolbox: Sequence[ToolSpec]) -> Grammar:
        key = repr([spec.parameters for spec in toolbox if spec.name == "transfer"])
        if key not in self._grammars:
            self._grammars[key] = compile_grammar(self._rules, toolbox)
        return self._grammars[key]
