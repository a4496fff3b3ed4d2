"""An agent that replaces a failed agent by the next of its chain, within one call."""
