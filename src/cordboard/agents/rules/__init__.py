"""Brain `rules`: a small dialogue on sentence templates, matched by sound.

`RulesBrain` is all that others use; how to write rules: docs/offline-agent.md. Inside, from the
ground up: `numbers`, `words`, `phones` → `sound` (find expected words by sound), `letters`,
`dates` → `values` → `matching` (sentences), `harmless` (values without one) → `grammar` (all of it
compiled) → `doubts` (what another hearing may settle) → `dialogue` (what to say next) → `brain`.
"""

from cordboard.agents.rules.brain import RulesBrain

__all__ = ["RulesBrain"]
