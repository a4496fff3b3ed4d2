"""OpenAI Realtime: its dialect (`dialect`), and what that is made of."""
