"""Brains: the text side of a pipeline."""
