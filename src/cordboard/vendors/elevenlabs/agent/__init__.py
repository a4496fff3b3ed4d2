"""ElevenLabs Agents: its protocol (`protocol`), and what that is made of."""
