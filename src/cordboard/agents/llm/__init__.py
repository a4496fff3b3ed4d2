"""The language-model brain: one conversation and one tool loop, for all vendors.

From the bottom up: `messages` (the conversation), `sentences` (tokens to sentences), `wire` (the
interface of a vendor's wire, without sockets), `http_model` (the HTTP shell that wires share),
`tool_loop` (one answer, with its tools), `brain`. The wires are in `cordboard.vendors`.
"""
