"""Cordboard: the exchange for voice agents.

It plugs each phone call into one YAML context (who the agent is, which provider speaks, which
tools it may use) and keeps the conversation fast, honest and safe until the caller hangs up.
"""

from cordboard.version import __version__

__all__ = ["__version__"]
