"""Brain `rules`: a small dialogue on sentence templates, matched by sound.

`RulesBrain` is the only public class; docs/offline-agent.md explains how to write rules. Inside,
from the bottom up: `numbers`, `words`, `phones` → `sound` (find expected words by sound),
`letters`, `dates` → `values` → `filling` (slots), `matching` (scores) → `grammar`
(all of it compiled) → `listening` (hints, and names in doubt) → `dialogue` (the next
words) → `brain`.
"""

from cordboard.agents.rules.brain import RulesBrain

__all__ = ["RulesBrain"]
