"""Deepgram's Voice Agent: its dialect (`dialect`), and what that is made of."""
