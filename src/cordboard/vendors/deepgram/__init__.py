"""Deepgram: Voice Agent, Listen, Flux, Speak."""
