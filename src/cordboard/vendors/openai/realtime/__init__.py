"""OpenAI Realtime: its protocol (`protocol`) and the protocol's parts."""
