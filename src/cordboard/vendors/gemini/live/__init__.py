"""Gemini Live: its protocol (`protocol`), and what that is made of."""
