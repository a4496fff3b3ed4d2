"""Alarms: conditions over calls and the engine's state, and notices when they hold."""
