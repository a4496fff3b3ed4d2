"""Gemini Live: its protocol (`protocol`) and the protocol's parts."""
