"""Brains made of language models: one conversation, one loop of tools, four vendors' wires.

From the ground up: `model` (what a model is asked and answers), `messages` (the conversation),
`sentences` (tokens to sentences), `server_events` (the stream's framing) → `openai_chat`,
`openai_responses`, `anthropic`, `gemini` (one vendor's language each, without sockets) →
`http_model` (the shell that they share) → `tool_loop` (one answer, with its tools) → `brain`.
"""
