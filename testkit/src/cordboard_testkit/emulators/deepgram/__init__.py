"""Deepgram's recognisers, voices and voice agent, emulated."""
