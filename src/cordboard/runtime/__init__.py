"""The running engine: start, stop, reload, administration, overload."""
