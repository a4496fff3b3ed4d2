"""Sources of calls, and the media of their lines."""
