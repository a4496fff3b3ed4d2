"""ElevenLabs Agents: its dialect (`dialect`), and what that is made of."""
