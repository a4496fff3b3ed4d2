"""The admin port: one table of endpoints over accounts, calls and the engine."""
