"""A browser as a source of calls, and its audio."""
