"""Alarms: conditions over calls and the engine's state, and who is told when they hold."""
