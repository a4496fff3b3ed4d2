"""Brain `rules`: a small dialogue on sentence templates, matched by sound.

`RulesBrain` is the only public class; docs/offline-agent.md explains how to write rules. Inside,
from the bottom up: `numbers`, `words`, `phones` → `sound` (find expected words by sound),
`letters`, `dates` → `values` → `matching` (sentences), `harmless` (values without one) → `grammar`
(all of it compiled) → `doubts` (names that listening again may settle) → `dialogue` (the next
words) → `brain`.
"""

from cordboard.agents.rules.brain import RulesBrain

__all__ = ["RulesBrain"]
