"""ElevenLabs: agents, voices."""
