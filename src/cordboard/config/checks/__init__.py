"""Checks of a configuration across its sections."""
