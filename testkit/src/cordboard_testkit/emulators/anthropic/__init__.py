"""Anthropic's text models, emulated."""
