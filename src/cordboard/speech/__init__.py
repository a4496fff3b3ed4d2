"""The caller's speech: audio input, user turns, recognition. Below both kinds of agent."""
