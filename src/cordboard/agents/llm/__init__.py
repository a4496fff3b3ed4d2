"""The language-model brain: one conversation, one loop of tools, whatever the vendor's wire.

From the ground up: `messages` (the conversation), `sentences` (tokens to sentences), `wire` (the
door of a vendor's wire, without sockets), `http_model` (the HTTP shell that wires share),
`tool_loop` (one answer, with its tools), `brain`. The wires are in `cordboard.vendors`.
"""
