"""Deepgram's Voice Agent: its protocol (`protocol`), and what that is made of."""
