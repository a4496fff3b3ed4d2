"""OpenAI Live (GPT-Live): a model that listens and speaks at the same time."""
