"""From data to words for a voice."""
