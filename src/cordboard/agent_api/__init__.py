"""The doors of the talking side: agent, recogniser, voice, dialogue, language model."""
