"""Voices: from a sentence to its sound."""
