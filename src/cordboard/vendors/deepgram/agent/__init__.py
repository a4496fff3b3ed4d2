"""Deepgram's Voice Agent: its protocol (`protocol`) and the protocol's parts."""
