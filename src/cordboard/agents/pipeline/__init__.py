"""An agent made of three parts: recogniser (STT), brain, voice (TTS)."""
