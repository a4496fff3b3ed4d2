"""Brain `rules`: a small dialogue on sentence templates, matched by sound.

`RulesBrain` is all that others use; how to write rules: docs/offline-agent.md. Inside, from the
ground up: `numbers`, `words`, `phones` → `sound` (find expected words by sound), `letters`,
`dates` → `values` → `matching` (sentences) → `grammar` (all of it compiled) → `dialogue` (what to
say next) → `brain`.
"""

from cordboard.agents.pipeline.brain.rules.brain import RulesBrain

__all__ = ["RulesBrain"]
