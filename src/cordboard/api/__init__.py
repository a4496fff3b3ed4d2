"""The HTTP port: health, metrics, administration. It contains no logic of the engine."""
