"""The HTTP face: health, metrics, administration. No logic of its own."""
