"""The HTTP face: health and metrics. No logic of its own."""
