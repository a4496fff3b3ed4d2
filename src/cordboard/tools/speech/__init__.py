"""From data to words that a voice can say."""
