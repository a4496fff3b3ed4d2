"""Recognisers: from a caller's utterance to its text."""
