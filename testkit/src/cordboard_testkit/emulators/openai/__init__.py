"""OpenAI's text models, recognisers, voices and Realtime, emulated."""
