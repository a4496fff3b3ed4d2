"""ElevenLabs' agents and voices, emulated."""
