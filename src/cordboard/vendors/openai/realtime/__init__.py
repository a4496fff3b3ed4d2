"""OpenAI Realtime: its protocol (`protocol`), and what that is made of."""
