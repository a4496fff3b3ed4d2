"""OpenAI: Realtime, chat completions, responses, transcription, voices."""
