"""Models that run on this machine: Whisper, Hibari, Piper, GGUF."""
