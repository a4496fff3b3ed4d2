"""The interfaces of the talking side: agent, recogniser, voice, dialogue, language model."""
